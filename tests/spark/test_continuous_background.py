"""What a continuous region does beside its rounds: sinks stage for a snapshot, and runs are merged. Here it begins and
ends when the test says so."""

from pathlib import Path

import pytest
from continuous_checkpoints import Running
from executors import Later
from pyspark.sql import SparkSession
from tallies import EXACTLY_ONCE, UNALIGNED, check_tally, payments, seen_in, tally

from tidegate import CheckpointConfig
from tidegate.protocol.facts.records import HandleKind, SubtaskId

pytestmark = pytest.mark.spark


def work_off(background: Later) -> None:
    while background.jobs:
        background.work()


@pytest.mark.parametrize("checkpoints", [EXACTLY_ONCE, UNALIGNED], ids=["aligned", "unaligned"])
def test_rows_flow_while_sinks_stage_and_belong_to_the_next_checkpoint(
    checkpoints: CheckpointConfig, spark: SparkSession, tmp_path: Path
) -> None:
    source, background = payments(), Later()
    running = Running(tally(source, tmp_path / "tables", checkpoints), spark, tmp_path, background=background)
    source.put(0, ("ann", 1), ("bob", 2))
    running.until_idle()
    running.begin()
    running.until_idle()
    assert running.acknowledged.keys() == {SubtaskId("rows", 0), SubtaskId("rows", 1)}
    first = source.all()
    source.put(1, ("ann", 3), ("cyd", 4))
    running.until_idle()
    assert running.running._state.snapshots[SubtaskId("totals", 0)].handles
    work_off(background)
    running.until_acknowledged()
    running.complete()
    check_tally(first, tmp_path / "tables")
    running.begin()
    running.until_idle()
    work_off(background)
    running.until_acknowledged()
    running.complete()
    check_tally(source.all(), tmp_path / "tables")


def test_what_is_staged_for_an_aborted_checkpoint_when_it_is_too_late_counts_for_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    source, background = payments(), Later()
    running = Running(tally(source, tmp_path / "tables"), spark, tmp_path, background=background)
    source.put(0, ("ann", 1))
    running.until_idle()
    running.begin()
    running.until_idle()
    running.abort()
    assert background.jobs
    source.put(0, ("bob", 2))
    running.until_idle()
    running.begin()
    running.until_idle()
    work_off(background)
    running.until_acknowledged()
    staged = [h for ack in running.acknowledged.values() for h in ack.snapshot.handles if h.kind is HandleKind.STAGED]
    assert {handle.created_by for handle in staged} == {2}
    running.complete()
    check_tally(source.all(), tmp_path / "tables")
    assert not running.declined


def test_a_region_that_dies_while_its_sinks_stage_shows_each_row_once(spark: SparkSession, tmp_path: Path) -> None:
    source, background = payments(), Later()
    running = Running(tally(source, tmp_path / "tables"), spark, tmp_path, background=background)
    source.put(0, ("ann", 1), ("bob", 2))
    running.until_idle()
    running.begin()
    running.until_idle()
    background.work()
    running.restart()
    assert background.jobs, "one sink has staged, and others have not"
    assert not seen_in(tmp_path / "tables")
    work_off(background)  # the dead one's thread
    running.until_idle()
    running.begin()
    running.until_idle()
    work_off(background)
    running.until_acknowledged()
    running.complete()
    check_tally(source.all(), tmp_path / "tables")
