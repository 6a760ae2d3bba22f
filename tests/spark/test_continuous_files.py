"""The files of a continuous region: what is merged, what is deleted, when a file was written, and what is measured."""

from pathlib import Path

import pytest
from continuous_checkpoints import Running
from pyspark.sql import SparkSession
from sizes import later
from spark_checkpoints import Landing
from tallies import EXACTLY_ONCE, PAYMENTS, UNALIGNED, check_tally, payments, tally

from tidegate import CheckpointConfig, FileSource
from tidegate.dataflow.run_merging import BATCHES
from tidegate.protocol.facts.records import HandleKind, StateHandle, SubtaskId
from tidegate.state.compaction import MIN_RUNS

pytestmark = pytest.mark.spark


def handles_of(running: Running, kind: HandleKind | None = None) -> list[StateHandle]:
    handles = [handle for ack in running.acknowledged.values() for handle in ack.snapshot.handles]
    return [handle for handle in handles if kind in (None, handle.kind)]


def needed(running: Running) -> set[str]:
    """What the latest completed checkpoint, live state, and data that is held or on its way refer to."""
    region = running.running
    handles = handles_of(running)
    handles += [handle for snapshot in region._state.snapshots.values() for handle in snapshot.handles]
    data = [item for chain in region._chains for item in chain.waiting()]
    handles += [handle for item in data for handle in getattr(item, "handles", ())]
    return {handle.path for handle in handles if handle.kind is not HandleKind.STAGED}


def test_a_round_without_a_poll_processes_what_was_taken_in_before_and_nothing_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    landing = Landing(tmp_path / "landing")
    source = FileSource(str(landing.path), format="parquet", schema=PAYMENTS)
    running = Running(tally(source, tmp_path / "tables", EXACTLY_ONCE, parallelism=1), spark, tmp_path)
    landing.put(customer=["ann"], amount=[1])
    assert running.running.advance(polls=False).idle
    running.poll()
    landing.put(customer=["bob"], amount=[2])
    assert not running.running.advance(polls=False).idle
    assert running.running.advance(polls=False).idle
    assert not running.running.advance().idle


@pytest.mark.parametrize("checkpoints", [later(EXACTLY_ONCE, id="aligned"), pytest.param(UNALIGNED, id="unaligned")])
def test_many_micro_batches_leave_few_runs_and_only_the_files_that_somebody_needs(
    checkpoints: CheckpointConfig, spark: SparkSession, tmp_path: Path
) -> None:
    """Merged runs, consumed exchanges and lists of files that were read are deleted; the store deletes what older
    checkpoints named and the latest does not."""
    landing = Landing(tmp_path / "landing")
    source = FileSource(str(landing.path), format="parquet", schema=PAYMENTS, max_files_per_checkpoint=1)
    running = Running(tally(source, tmp_path / "tables", checkpoints, parallelism=1), spark, tmp_path)
    rows: list[tuple[str, int]] = []

    def deliver() -> None:
        rows.append(("ann" if len(rows) % 2 else "bob", len(rows)))
        landing.put(customer=[rows[-1][0]], amount=[rows[-1][1]])
        running.round()

    named: set[str] = set()
    runs = []
    for rounds in (MIN_RUNS // 2, MIN_RUNS // 2, 1):
        for _ in range(rounds):
            deliver()
        running.begin()
        running.until_acknowledged()
        deliver()
        before, named = named, {handle.path for handle in handles_of(running)}
        runs.append(len(handles_of(running, HandleKind.RUN)))
        running.complete()
        running.round()  # takes what was merged beside it
        running.storage.delete(sorted(before - named))
        stored = {path for path in running.storage.list(running.pipeline.name) if "/_" not in path}
        assert stored == needed(running)
    assert runs == [4, 9, 2]
    running.restart()
    rows.append(("cyd", 5))
    landing.put(customer=["cyd"], amount=[5])
    deliver()
    assert [(lag.pending, lag.unit, lag.bytes > 0) for lag in running.lag] == [(2, "files", True)]
    running.until_idle()
    assert [lag.pending for lag in running.lag] == [0]
    running.take()
    check_tally(rows, tmp_path / "tables")


def test_runs_are_merged_and_files_deleted_although_no_checkpoint_is_taken(spark: SparkSession, tmp_path: Path) -> None:
    source = payments(splits=1)
    running = Running(tally(source, tmp_path / "tables", parallelism=1), spark, tmp_path)
    runs = []
    for number in range(2 * BATCHES + 2):
        source.put(0, ("ann" if number % 2 else "bob", number))
        running.until_idle()
        snapshot = running.running._state.snapshots[SubtaskId("totals", 0)]
        runs.append(len([handle for handle in snapshot.handles if handle.kind is HandleKind.RUN]))
    assert max(runs) <= BATCHES
    assert runs[-1] < MIN_RUNS
    assert set(running.storage.list(running.pipeline.name)) == needed(running)
    running.take()
    check_tally(source.all(), tmp_path / "tables")


def test_each_file_counts_as_written_by_the_first_completed_checkpoint_that_has_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = payments(splits=1)
    running = Running(tally(source, tmp_path / "tables", parallelism=1), spark, tmp_path)
    sizes, seen = {}, {}
    for number in range(3):
        source.put(0, ("ann", number))
        running.until_idle()
        running.begin()
        running.until_acknowledged()
        if number == 1:
            running.abort()
            continue
        id_ = running.checkpoint_id
        sizes[id_] = sum(ack.snapshot.checkpointed_size(id_) for ack in running.acknowledged.values())
        seen |= {handle.path: handle for handle in handles_of(running) if handle.path not in seen}
        running.complete()
        if number == 0:
            running.restart()
    assert [h.created_by for h in handles_of(running, HandleKind.RUN)] == [1, 3, 3]
    assert sum(sizes.values()) == sum(handle.bytes for handle in seen.values())


def test_an_alignment_is_measured_from_the_first_barrier_to_the_last(spark: SparkSession, tmp_path: Path) -> None:
    """The rows of a split that is behind are processed while the other one waits."""
    source = payments()
    running = Running(tally(source, tmp_path / "tables", parallelism=2), spark, tmp_path, max_batch_bytes=3)
    source.put(0, *(("ann", number) for number in range(9)))
    for _ in range(3):
        running.poll()
    running.take()
    metrics = {subtask: ack.metrics for subtask, ack in running.acknowledged.items()}
    totals = [metrics[SubtaskId("totals", index)] for index in (0, 1)]
    assert sum(each.processed_bytes for each in totals) == 6
    assert all(each.alignment_duration >= 0 for each in totals)
    assert max(each.alignment_duration for each in totals) > 0
    for subtask in running.graph.subtasks:
        each = metrics[subtask]
        assert 0 <= each.start_delay < 60_000
        assert each.persisted_bytes == 0
        if subtask.operator_id == "rows":
            assert (each.alignment_duration, each.processed_bytes) == (0, 0)


def test_what_was_persisted_in_flight_is_counted_once(spark: SparkSession, tmp_path: Path) -> None:
    source = payments()
    running = Running(tally(source, tmp_path / "tables", UNALIGNED), spark, tmp_path, max_batch_bytes=3)
    source.put(0, *(("ann", number) for number in range(9)))
    for _ in range(3):
        running.poll()
    running.take()
    persisted: dict[str, int] = {}
    for subtask, ack in running.acknowledged.items():
        persisted[subtask.operator_id] = persisted.get(subtask.operator_id, 0) + ack.metrics.persisted_bytes
    assert persisted == {"rows": 0, "totals": 9, "log-sink": 0, "current-sink": 0, "seen-sink": 9}


def test_rows_are_counted_from_one_completed_checkpoint_to_the_next(spark: SparkSession, tmp_path: Path) -> None:
    source = payments()
    running = Running(tally(source, tmp_path / "tables"), spark, tmp_path, max_batch_bytes=2)

    def rows_of_totals() -> tuple[int, int]:
        metrics = [running.acknowledged[SubtaskId("totals", index)].metrics for index in (0, 1)]
        return sum(each.rows_in for each in metrics), sum(each.rows_out for each in metrics)

    source.put(0, *(("ann", number) for number in range(4)))
    running.until_idle()
    running.begin()
    running.until_acknowledged()
    assert rows_of_totals()[0] == 4
    running.abort()
    source.put(0, ("bob", 1))
    running.until_idle()
    running.take()
    assert rows_of_totals()[0] == 5
    assert 2 <= rows_of_totals()[1] <= 5, "a row for each key that a micro-batch changed"
    running.take()
    assert rows_of_totals() == (0, 0)
