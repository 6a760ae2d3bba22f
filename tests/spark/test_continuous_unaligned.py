"""Data in flight: what an unaligned checkpoint of a continuous region records, and what a later run makes of it."""

from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from continuous_checkpoints import Running, restored_by
from listed import Listed
from pyspark.sql import DataFrame, SparkSession
from spark_checkpoints import Checkpoints
from tallies import (
    NOTES,
    TIMED,
    UNALIGNED,
    chain,
    check_chain,
    check_tally,
    payments,
    tally,
)

from tidegate import CheckpointConfig, ParquetSink, Pipeline
from tidegate.dataflow.elements import Exchange
from tidegate.dataflow.in_flight import in_flight_of
from tidegate.pipeline.graph import compile_graph
from tidegate.protocol.facts.errors import StateSchemaError
from tidegate.protocol.facts.records import HandleKind, SubtaskId
from tidegate.protocol.steps.finished import plan_checkpoint

pytestmark = pytest.mark.spark


def flooded(running: Running, rounds: int = 2) -> None:
    """More is polled than was processed: the rest waits in the channels."""
    for _ in range(rounds):
        running.poll()


def overtaken(root: Path, spark: SparkSession, closed: bool = False) -> tuple[Running, Listed]:
    """A completed checkpoint with segments in flight to the operator and to the sink of rows."""
    source = payments()
    source.closed = {0, 1} if closed else set()
    pipeline = tally(source, root / "tables", UNALIGNED)
    running = Running(pipeline, spark, root, max_batch_bytes=3)
    source.put(0, *(("ann", number) for number in range(6)))
    source.put(1, *(("bob", number) for number in range(6)))
    flooded(running)
    running.round()
    running.take()
    return running, source


def in_flight(running: Running) -> dict[str, list[str]]:
    """The channels from which data was captured, by operator."""
    return {
        subtask.operator_id: [str(channel) for channel, _ in in_flight_of(snapshot)]
        for subtask, snapshot in running.completed.items()
        if in_flight_of(snapshot)
    }


def test_segments_in_flight_are_recorded_in_order_and_put_back(spark: SparkSession, tmp_path: Path) -> None:
    running, source = overtaken(tmp_path, spark)
    captured = in_flight_of(running.completed[SubtaskId("totals", 0)])
    assert [(str(channel), data.bytes) for channel, data in captured] == [("rows/0", 3), ("rows/1", 3), ("rows/1", 3)]
    assert in_flight(running).keys() == {"totals", "seen-sink"}
    metrics = {subtask: ack.metrics for subtask, ack in running.acknowledged.items()}
    assert sum(metrics[SubtaskId("totals", index)].persisted_bytes for index in (0, 1)) == 9
    assert metrics[SubtaskId("current-sink", 0)].persisted_bytes == 0
    running.restart()
    source.put(1, ("ann", 10))
    running.until_idle()
    running.take()
    assert in_flight(running) == {}
    check_tally(source.all(), tmp_path / "tables")


def test_data_in_flight_is_put_back_again_as_long_as_it_is_in_flight(spark: SparkSession, tmp_path: Path) -> None:
    running, source = overtaken(tmp_path, spark)
    before = in_flight(running)
    running.restart()
    running.take()
    assert in_flight(running) == before
    running.restart()
    running.until_idle()
    running.take()
    check_tally(source.all(), tmp_path / "tables")


@pytest.mark.parametrize("parallelism", [1, 3])
def test_data_in_flight_survives_a_change_of_parallelism(parallelism: int, spark: SparkSession, tmp_path: Path) -> None:
    running, source = overtaken(tmp_path, spark)
    running.change(tally(source, tmp_path / "tables", UNALIGNED, parallelism))
    running.until_idle()
    running.take()
    check_tally(source.all(), tmp_path / "tables")


def test_a_scheduled_run_processes_what_a_continuous_one_left_in_flight(spark: SparkSession, tmp_path: Path) -> None:
    running, source = overtaken(tmp_path, spark)
    pipeline = tally(source, tmp_path / "tables", UNALIGNED, parallelism=3)
    restored = restored_by(running.graph, compile_graph(pipeline), running.completed)
    scheduled = Checkpoints(pipeline, spark, tmp_path, restored, checkpoint_id=running.checkpoint_id)
    source.put(0, ("cyd", 1))
    source.step = 100
    scheduled.take()
    for sink in ("log", "current", "seen"):
        scheduled.commit(sink)
    assert not any(snapshot.position and "in_flight" in snapshot.position for snapshot in scheduled.completed.values())
    check_tally(source.all(), tmp_path / "tables")


def test_a_scheduled_run_processes_what_is_left_in_flight_of_a_source_that_has_finished(
    spark: SparkSession, tmp_path: Path
) -> None:
    running, source = overtaken(tmp_path, spark, closed=True)
    assert running.completed[SubtaskId("rows", 0)].finished
    scheduled = Checkpoints(running.pipeline, spark, tmp_path, running.completed, checkpoint_id=running.checkpoint_id)
    plan = plan_checkpoint(scheduled.graph.subtasks, running.completed, scheduled.graph.showing_state)
    scheduled.trigger()
    scheduled.acknowledged = {ack.subtask: ack for ack in plan.acknowledgements()}
    scheduled.attempt_once()
    for sink in ("log", "current", "seen"):
        scheduled.commit(sink)
    assert all(ack.snapshot.finished for ack in scheduled.acknowledged.values())
    check_tally(source.all(), tmp_path / "tables")


def exchanging(root: Path, spark: SparkSession) -> tuple[Running, Listed, Listed]:
    """A completed checkpoint with rows of one operator in flight to another, which had still more to do."""
    rows, notes = payments(splits=1), Listed(NOTES, step=100)
    running = Running(chain(rows, notes, root / "tables", UNALIGNED), spark, root, max_batch_bytes=3)
    rows.put(0, ("ann", 1), ("bob", 2), ("ann", 3))
    notes.put(0, *(("ann", f"note {number}") for number in range(9)))
    flooded(running, rounds=1)
    totals = running.running._chains[0]
    assert totals.name == "totals"
    running.running._drain(totals)  # what it sends waits at the others
    return running, rows, notes


def test_rows_between_operators_are_recorded_as_files_and_put_back(spark: SparkSession, tmp_path: Path) -> None:
    running, rows, notes = exchanging(tmp_path, spark)
    running.take()
    assert in_flight(running).keys() == {"accounts", "widest", "log-sink", "often-sink", "seen-sink"}
    held = running.completed[SubtaskId("accounts", 0)]
    assert {str(channel) for channel, _ in in_flight_of(held)} == {"totals", "notes/0"}
    named = [h for h in running.acknowledged[SubtaskId("accounts", 0)].snapshot.handles if h.kind is HandleKind.CHANNEL]
    assert named
    assert all(running.storage.read(handle.path) for handle in named)
    running.restart()
    rows.put(0, ("ann", 4))
    running.until_idle()
    running.take()
    check_chain(rows.all(), notes.all(), tmp_path / "tables")


def test_rows_in_flight_between_operators_go_on_in_the_run_that_recorded_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    running, rows, notes = exchanging(tmp_path, spark)
    running.take()
    rows.put(0, ("ann", 4))
    running.until_idle()
    running.take()
    check_chain(rows.all(), notes.all(), tmp_path / "tables")


def test_a_file_in_flight_counts_as_written_by_the_first_checkpoint_that_has_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    running, _, _ = exchanging(tmp_path, spark)
    running.begin()
    running.abort()
    running.take()
    recorded = in_flight_of(running.completed[SubtaskId("widest", 0)])
    files = [handle for _, data in recorded if isinstance(data, Exchange) for handle in data.handles]
    assert {handle.created_by for handle in files} == {2}
    running.restart()
    running.take()
    again = [h for ack in running.acknowledged.values() for h in ack.snapshot.handles if h.kind is HandleKind.CHANNEL]
    assert {handle.created_by for handle in again} == {2}


@pytest.mark.parametrize("checkpoints", [UNALIGNED, TIMED], ids=["unaligned", "timed"])
def test_a_savepoint_is_aligned_and_holds_nothing_in_flight(
    checkpoints: CheckpointConfig, spark: SparkSession, tmp_path: Path
) -> None:
    source = payments()
    running = Running(tally(source, tmp_path / "tables", checkpoints), spark, tmp_path, max_batch_bytes=3)
    source.put(0, *(("ann", number) for number in range(9)))
    source.put(1, ("bob", 1))
    flooded(running)
    running.take(savepoint=True)
    assert in_flight(running) == {}
    assert {ack.metrics.persisted_bytes for ack in running.acknowledged.values()} == {0}
    running.restart()
    running.until_idle()
    running.take()
    check_tally(source.all(), tmp_path / "tables")


def remembering(rows: Listed, notes: Listed, tables: Path, with_notes: bool) -> Pipeline:
    pipeline = Pipeline("remembering", parallelism=1, checkpoints=UNALIGNED)
    paid, noted = pipeline.source("rows", rows), pipeline.source("notes", notes)
    inputs = [paid, noted] if with_notes else [paid]

    @pipeline.keyed("known", inputs=inputs, key=["customer"], state="customer string")
    def known(*batches_and_state: Any) -> Any:
        return reduce(DataFrame.unionAll, [batch.select("customer") for batch in batches_and_state]).distinct()

    noted.sink("notes", ParquetSink(str(tables / "notes")))
    return pipeline


def test_an_input_whose_channel_holds_data_in_flight_cannot_be_removed(spark: SparkSession, tmp_path: Path) -> None:
    rows, notes = payments(splits=1), Listed(NOTES)
    running = Running(remembering(rows, notes, tmp_path, True), spark, tmp_path, max_batch_bytes=1)
    notes.put(0, ("ann", "late"))
    flooded(running, rounds=1)
    running.take()
    with pytest.raises(StateSchemaError, match=r"holds in-flight data from notes/0 to known.*take a savepoint"):
        running.change(remembering(rows, notes, tmp_path, False))
    running.change(remembering(rows, notes, tmp_path, True))
    running.take(savepoint=True)
    running.change(remembering(rows, notes, tmp_path, False))
    running.take()
    assert running.rows("state:known") == [("ann",)]
