"""How a continuous region comes to its end: sources that have been read, and savepoints to stop with."""

from pathlib import Path
from typing import Any

import pytest
from continuous_checkpoints import Running
from listed import Listed
from pyspark.sql import SparkSession
from sizes import later
from spark_checkpoints import Landing
from tallies import (
    EXACTLY_ONCE,
    NOTES,
    PAYMENTS,
    UNALIGNED,
    chain,
    check_chain,
    check_tally,
    current_in,
    payments,
    seen_in,
    tally,
)

from tidegate import CheckpointConfig, FileSource, ParquetSink, Pipeline, count
from tidegate.protocol.barriers.messages import StopMode
from tidegate.protocol.facts.errors import CheckpointDeclinedError
from tidegate.protocol.facts.records import SubtaskId

pytestmark = pytest.mark.spark


def unfinished(running: Running) -> list[SubtaskId]:
    return [subtask for subtask, snapshot in running.completed.items() if not snapshot.finished]


def test_the_checkpoint_after_the_last_row_finishes_everything_and_nothing_is_read_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One split ends before the other, one source before the other; operators behind operators end with them."""
    rows, notes = payments(), Listed(NOTES)
    running = Running(chain(rows, notes, tmp_path / "tables"), spark, tmp_path, max_batch_bytes=9)
    rows.put(0, ("ann", 1), ("bob", 2))
    rows.put(1, ("ann", 3))
    notes.put(0, ("ann", "first"))
    rows.closed.add(0)
    running.until_idle()
    assert not running.ended
    running.take()
    assert SubtaskId("rows", 0) not in unfinished(running)
    assert {subtask.operator_id for subtask in unfinished(running)} >= {"rows", "notes", "totals", "accounts"}
    rows.put(1, ("cyd", 4))
    notes.closed.add(0)
    running.until_idle()
    running.take()
    running.restart()
    rows.put(1, ("ann", 5))
    rows.closed.add(1)
    running.until_idle()
    assert running.ended
    running.take()
    assert unfinished(running) == []
    running.round()
    assert not running.ended
    check_chain(rows.all(), notes.all(), tmp_path / "tables")
    polls = rows.polls + notes.polls
    running.restart()
    running.until_idle()
    assert rows.polls + notes.polls == polls
    assert not running.ended


def test_data_that_an_unaligned_checkpoint_left_in_flight_is_not_lost_when_its_source_has_finished(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The operator is asked for the next checkpoint directly, as nobody is left to send it a barrier."""
    source = payments(splits=1)
    source.put(0, *(("ann", number) for number in range(9)))
    source.closed.add(0)
    running = Running(tally(source, tmp_path / "tables", UNALIGNED), spark, tmp_path, max_batch_bytes=3)
    while source.polls < 3:
        running.poll()
    running.take()
    assert running.acknowledged[SubtaskId("totals", 0)].metrics.persisted_bytes == 9
    checkpoints = 1
    while unfinished(running):
        running.take()
        checkpoints += 1
        assert checkpoints < 5
    check_tally(source.all(), tmp_path / "tables")


def test_data_that_was_put_back_after_its_source_had_finished_is_not_lost(spark: SparkSession, tmp_path: Path) -> None:
    source = payments(splits=1)
    source.put(0, *(("ann", number) for number in range(9)))
    source.closed.add(0)
    running = Running(tally(source, tmp_path / "tables", UNALIGNED), spark, tmp_path, max_batch_bytes=3)
    while source.polls < 3:
        running.poll()
    running.take()
    running.restart()
    while unfinished(running):
        running.take()
        running.round()
        assert running.ended == bool(unfinished(running))
    check_tally(source.all(), tmp_path / "tables")


def two_ends(bounded: Listed, endless: Listed, tables: Path, name: str = "current") -> Pipeline:
    """An operator that finishes early in front of one that also reads a source without end."""
    pipeline = Pipeline("ends", parallelism=1)
    first = pipeline.source("bounded", bounded)
    second = pipeline.source("endless", endless)
    totals = first.key_by("customer").aggregate("totals", n=count())
    totals.sink("current", ParquetSink(str(tables / name), mode="latest"))

    @pipeline.keyed("both", inputs=[totals, second], key=["customer"], state="customer string, n bigint")
    def both(left: Any, right: Any, state: Any) -> Any:
        from pyspark.sql import functions as F

        rows = right.selectExpr("customer", "1L as n")
        together = state.unionByName(left.select("customer", "n")).unionByName(rows)
        return together.groupBy("customer").agg(F.sum("n").alias("n"))

    return pipeline


def test_the_table_of_a_finished_operator_is_staged_again_elsewhere_without_a_barrier_of_its_own_downstream(
    spark: SparkSession, tmp_path: Path
) -> None:
    bounded, endless = payments(splits=1), payments(splits=1, step=1)
    tables = tmp_path / "tables"
    running = Running(two_ends(bounded, endless, tables), spark, tmp_path)
    bounded.put(0, ("ann", 1), ("bob", 2))
    bounded.closed.add(0)
    running.until_idle()
    running.take()
    assert running.completed[SubtaskId("totals", 0)].finished
    assert not running.completed[SubtaskId("both", 0)].finished
    running.change(two_ends(bounded, endless, tables, "elsewhere"))
    endless.put(0, *(("ann", number) for number in range(4)))
    for _ in range(3):
        running.poll()
    running.take()
    assert current_in(tables, "elsewhere") == [("ann", 1), ("bob", 1)]
    running.restart()
    running.until_idle()
    running.take()
    assert running.rows("state:both") == [("ann", 5), ("bob", 1)]


def files_tally(landing: Landing, tables: Path) -> Pipeline:
    return tally(FileSource(str(landing.path), format="parquet", schema=PAYMENTS, splits=2, end_marker="_DONE"), tables)


def test_files_with_an_end_marker_are_read_once_and_then_finished(spark: SparkSession, tmp_path: Path) -> None:
    landing = Landing(tmp_path / "landing")
    running = Running(files_tally(landing, tmp_path / "tables"), spark, tmp_path)
    landing.put(customer=["ann", None], amount=[1, 2])
    running.until_idle()
    running.take()
    running.restart()
    landing.put(customer=["ann"], amount=[3])
    (landing.path / "_DONE").touch()
    running.until_idle()
    running.take()
    assert unfinished(running) == []
    running.restart()
    landing.put(customer=["too late"], amount=[4])
    running.until_idle()
    check_tally([("ann", 1), (None, 2), ("ann", 3)], tmp_path / "tables")


@pytest.mark.parametrize(
    ("mode", "checkpoints"),
    [
        pytest.param(StopMode.SUSPEND, UNALIGNED, id="suspend-unaligned"),
        pytest.param(StopMode.DRAIN, EXACTLY_ONCE, id="drain-aligned"),
        later(StopMode.SUSPEND, EXACTLY_ONCE, id="suspend-aligned"),
        later(StopMode.DRAIN, UNALIGNED, id="drain-unaligned"),
    ],
)
def test_a_savepoint_to_stop_with_holds_all_that_was_polled_before_it_and_nothing_else(
    mode: StopMode, checkpoints: CheckpointConfig, spark: SparkSession, tmp_path: Path
) -> None:
    rows, notes = payments(), Listed(NOTES)
    running = Running(chain(rows, notes, tmp_path / "tables", checkpoints), spark, tmp_path, max_batch_bytes=3)
    rows.put(0, *(("ann", number) for number in range(7)))
    rows.put(1, ("bob", 1))
    notes.put(0, ("ann", "noted"))
    for _ in range(2):
        running.poll()
    running.begin(stop=mode)
    polled = {s: running.running._state.snapshots[SubtaskId("rows", s)].position["offset"] for s in (0, 1)}
    rows.put(1, ("cyd", 2))
    running.until_acknowledged()
    assert {ack.metrics.persisted_bytes for ack in running.acknowledged.values()} == {0}
    assert (unfinished_after(running) == []) is (mode is StopMode.DRAIN)
    running.complete()
    before = [row for split in (0, 1) for row in rows.rows[split][: polled[split]]]
    assert len(before) == 7
    check_chain(before, notes.all(), tmp_path / "tables")
    polls = rows.polls
    running.until_idle()
    assert rows.polls == polls
    if mode is StopMode.SUSPEND:
        running.restart()
        running.until_idle()
        running.take()
        check_chain(rows.all(), notes.all(), tmp_path / "tables")


def unfinished_after(running: Running) -> list[SubtaskId]:
    return [subtask for subtask, ack in running.acknowledged.items() if not ack.snapshot.finished]


def test_a_region_whose_savepoint_to_stop_with_is_aborted_cannot_go_on(spark: SparkSession, tmp_path: Path) -> None:
    source = payments()
    running = Running(tally(source, tmp_path / "tables"), spark, tmp_path)
    source.put(0, ("ann", 1))
    running.begin(stop=StopMode.SUSPEND)
    with pytest.raises(CheckpointDeclinedError, match=r"to stop with savepoint 1.*start the pipeline again"):
        running.abort()
    running.restart()
    running.until_idle()
    running.take()
    check_tally(source.all(), tmp_path / "tables")
    assert sum(seen_in(tmp_path / "tables").values()) == 1
