"""Checkpoints of a continuous region that are aborted: by the coordinator, by a gate,
or because a sink cannot stage."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from continuous_checkpoints import Running
from listed import Listed
from pyspark.sql import SparkSession
from sizes import later
from tallies import EXACTLY_ONCE, UNALIGNED, check_tally, payments, seen_in, tally

from tidegate import CheckpointConfig, Pipeline, sum_
from tidegate.protocol.facts.errors import CheckpointError
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import HandleKind, SubtaskId

pytestmark = pytest.mark.spark


def begun(running: Running) -> None:
    running.begin()


def half_way(running: Running) -> None:
    running.begin()
    running.round()


def acknowledged(running: Running) -> None:
    running.begin()
    running.until_acknowledged()


@pytest.mark.parametrize(
    ("until", "checkpoints"),
    [
        pytest.param(begun, EXACTLY_ONCE, id="begun-aligned"),
        pytest.param(half_way, UNALIGNED, id="half_way-unaligned"),
        pytest.param(acknowledged, EXACTLY_ONCE, id="acknowledged-aligned"),
        later(begun, UNALIGNED, id="begun-unaligned"),
        later(half_way, EXACTLY_ONCE, id="half_way-aligned"),
        later(acknowledged, UNALIGNED, id="acknowledged-unaligned"),
    ],
)
def test_an_aborted_checkpoint_loses_nothing_and_doubles_nothing(
    until: Callable[[Running], None], checkpoints: CheckpointConfig, spark: SparkSession, tmp_path: Path
) -> None:
    """In a run that was restored before: the abort names the checkpoint it was restored from,
    and repeats its completion."""
    source = payments()
    running = Running(tally(source, tmp_path / "tables", checkpoints), spark, tmp_path, max_batch_bytes=3)
    source.put(0, ("ann", 1), ("bob", 2))
    running.until_idle()
    running.take()
    running.restart()
    source.put(0, ("ann", 3), ("cyd", 4), ("ann", 5), ("dot", 6))
    source.put(1, ("bob", 7), (None, 8))
    running.round()
    until(running)
    running.abort()
    source.put(1, ("ann", 9))
    running.until_idle()
    running.take()
    check_tally(source.all(), tmp_path / "tables")
    running.restart()
    running.until_idle()
    running.take()
    check_tally(source.all(), tmp_path / "tables")
    assert not running.declined or all(declined.checkpoint_id == 2 for declined in running.declined)


def test_what_an_aborted_checkpoint_named_is_used_and_named_by_the_next_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = payments()
    running = Running(tally(source, tmp_path / "tables"), spark, tmp_path)
    source.put(0, ("ann", 1))
    running.until_idle()
    acknowledged(running)
    runs = [h for ack in running.acknowledged.values() for h in ack.snapshot.handles if h.kind is HandleKind.RUN]
    assert [run.created_by for run in runs] == [1]
    running.abort()
    acknowledged(running)
    again = [h for ack in running.acknowledged.values() for h in ack.snapshot.handles if h.kind is HandleKind.RUN]
    assert [(run.path, run.created_by) for run in again] == [(runs[0].path, 2)]
    running.complete()
    check_tally(source.all(), tmp_path / "tables")


def test_barriers_of_several_aborted_checkpoints_in_one_channel_are_all_swallowed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The operator is behind: the barriers of all three wait in its channel when the third is begun."""
    source = payments(splits=1)
    running = Running(tally(source, tmp_path / "tables"), spark, tmp_path, max_batch_bytes=9)
    for number in range(3):
        source.put(0, ("ann", number), ("bob", number))
        running.poll()
        running.begin()
        if number < 2:
            running.abort()
    running.until_acknowledged()
    running.complete()
    check_tally(source.all(), tmp_path / "tables")
    running.restart()
    running.until_idle()
    running.take()
    check_tally(source.all(), tmp_path / "tables")


def overrun(running: Running, source: Listed) -> None:
    """A checkpoint during which more arrives behind the barrier of one split than was allowed,
    while the other is behind."""
    source.put(0, *(("ann", number) for number in range(8)))
    for _ in range(4):
        running.poll()
    running.begin()
    source.put(1, *(("bob", number) for number in range(4)))
    for _ in range(4):
        running.round()


def test_more_behind_a_barrier_than_the_limit_gives_the_checkpoint_up_and_the_next_one_completes(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = payments(step=2)
    limited = CheckpointConfig(alignment_limit=3)
    running = Running(tally(source, tmp_path / "tables", limited, 1), spark, tmp_path, max_batch_bytes=2)
    overrun(running, source)
    assert {(d.checkpoint_id, d.reason) for d in running.declined[:1]} == {(1, FailureReason.ALIGNMENT_LIMIT_EXCEEDED)}
    assert re.search("totals of pipeline tally declined checkpoint 1.*untouched", running.declined[0].message)
    assert running.acknowledged.keys() == {SubtaskId("rows", 0), SubtaskId("rows", 1)}
    running.abort()
    running.until_idle()
    running.take()
    check_tally(source.all(), tmp_path / "tables")


@pytest.mark.parametrize("table", ["seen", "current"])
def test_a_sink_that_cannot_stage_declines_saying_why_and_a_later_checkpoint_completes(
    table: str, spark: SparkSession, tmp_path: Path
) -> None:
    source = payments()
    running = Running(tally(source, tmp_path / "tables"), spark, tmp_path)
    source.put(0, ("ann", 1), ("bob", 2))
    running.until_idle()
    obstacle = tmp_path / "tables" / table / "_staging"
    obstacle.parent.mkdir(parents=True)
    obstacle.write_text("in the way")
    running.begin()
    running.until_idle()
    (declined,) = running.declined
    assert declined.checkpoint_id == 1
    assert "could not be staged" in declined.message
    assert str(obstacle.parent) in declined.message
    assert "untouched" in declined.message
    obstacle.unlink()
    running.abort()
    source.put(1, ("ann", 3))
    running.until_idle()
    running.take()
    assert len(running.declined) == 1
    check_tally(source.all(), tmp_path / "tables")


def test_a_gate_that_aborts_does_not_repeat_what_an_earlier_checkpoint_failed_of(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = payments(step=2)
    limited = CheckpointConfig(alignment_limit=3)
    running = Running(tally(source, tmp_path / "tables", limited, 1), spark, tmp_path, max_batch_bytes=2)
    source.put(0, ("ann", 1), ("bob", 2))
    running.until_idle()
    obstacle = tmp_path / "tables" / "seen" / "_staging"
    obstacle.parent.mkdir(parents=True)
    obstacle.write_text("in the way")
    running.begin()
    running.until_idle()
    obstacle.unlink()
    running.abort()
    running.declined.clear()
    overrun(running, source)
    assert FailureReason.ALIGNMENT_LIMIT_EXCEEDED in {declined.reason for declined in running.declined}
    assert not any("could not be staged" in declined.message for declined in running.declined)
    running.abort()
    running.until_idle()
    running.take()
    check_tally(source.all(), tmp_path / "tables")


def test_a_micro_batch_that_fails_names_the_operator_and_leaves_what_is_committed(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = payments()
    healthy = tally(source, tmp_path / "tables")
    running = Running(healthy, spark, tmp_path)
    source.put(0, ("ann", 2**62))
    running.until_idle()
    running.take()
    source.put(1, ("ann", 2**62))
    with pytest.raises(CheckpointError, match=r"'total' of operator totals.*no longer fits"):
        running.until_idle()
    assert sum(seen_in(tmp_path / "tables").values()) == 1


def test_a_function_that_fails_on_an_executor_names_its_operator(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = Pipeline("failing", parallelism=1)
    source = payments(splits=1)
    rows = pipeline.source("rows", source).transform(
        lambda df: df.selectExpr("customer", "1 div (amount - 1) as amount")
    )
    rows.key_by("customer").aggregate("broken", n=sum_("amount"))
    running = Running(pipeline, spark, tmp_path)
    source.put(0, ("ann", 1))
    with pytest.raises(CheckpointError, match=r"operator 'broken' of pipeline 'failing'.*DIVIDE_BY_ZERO"):
        running.until_idle()
