"""Two checkpoints of a continuous run at once, on Spark and Postgres: a slow suite delays no barrier, and every row is
visible once."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tallies import check_tally, payments, seen_in

from tidegate import CheckpointConfig, ParquetSink, Pipeline, count, expect, suite, sum_
from tidegate.assembly import Settings, open_validator
from tidegate.clock import SystemClock
from tidegate.coordination.continuous.continuous_run import ContinuousRun
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.pipeline.graph import compile_graph
from tidegate.ports import CheckpointStore, Validator
from tidegate.protocol.facts.lifecycle import COMMITTED, Phase, Status
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord, SubtaskId, SubtaskRecord, Verdict
from tidegate.spark.region import SparkRegion
from tidegate.state.storage import ArrowCheckpointStorage

pytestmark = pytest.mark.spark

LONG = 240  # seconds; nothing here takes that long


def judged(source: Any, tables: Path) -> Pipeline:
    """`tallies.tally` with a rule."""
    checkpoints = CheckpointConfig(max_concurrent=2, interval="500 ms", retained=99)
    pipeline = Pipeline("tally", parallelism=2, max_parallelism=16, checkpoints=checkpoints)
    rows = pipeline.source("rows", source)
    totals = rows.key_by("customer").aggregate("totals", n=count(), total=sum_("amount"))
    totals.sink("log", ParquetSink(str(tables / "log")))
    totals.sink("current", ParquetSink(str(tables / "current"), mode="latest"))
    known = suite("known", expect("expect_column_values_to_not_be_null", column="customer"))
    rows.sink("seen", ParquetSink(str(tables / "seen")), expect=known)
    return pipeline


class Slow:
    """The real validator, but one checkpoint is held until the next one has all its snapshots.

    It holds the first checkpoint that is judged while no older one is in progress. That need not be checkpoint 1: on a
    slow machine, checkpoint 2 may be judged first and subsume it. While both are in progress no third one begins."""

    def __init__(self, validator: Validator, store: CheckpointStore, meanwhile: Event) -> None:
        self._validator, self._store, self._meanwhile = validator, store, meanwhile
        self.held: int | None = None
        self.was_next: CheckpointRecord | None = None

    def validate(
        self, checkpoint: CheckpointRecord, subtasks: Mapping[SubtaskId, SubtaskRecord], settled: Sequence[Verdict] = ()
    ) -> Sequence[Verdict]:
        if self.held is None and not self._has_older(checkpoint.checkpoint_id):
            self.held = checkpoint.checkpoint_id
            self._meanwhile.set()
            clock = SystemClock()
            since = clock.monotonic()
            while self.was_next is None and clock.monotonic() - since < LONG:
                following = self._store.checkpoint("tally", self.held + 1)
                if following is not None and following.phase is Phase.ACKNOWLEDGED:
                    self.was_next = following
                clock.sleep(0.05)
        return self._validator.validate(checkpoint, subtasks, settled)

    def _has_older(self, checkpoint_id: int) -> bool:
        known = self._store.history("tally", 9)
        return any(each.checkpoint_id < checkpoint_id and each.status is Status.IN_PROGRESS for each in known)


def test_a_slow_suite_delays_no_barrier(spark: SparkSession, store: CheckpointStore, tmp_path: Path) -> None:
    source, meanwhile = payments(), Event()
    graph = compile_graph(pipeline := judged(source, tmp_path / "tables"))
    storage = ArrowCheckpointStorage(str(tmp_path / "checkpoints"))
    settings = Settings(tmp_path, storage.url, str(tmp_path / "cache"), tmp_path / "docs")
    region = SparkRegion(graph, spark, storage, SystemClock(), settings)
    validator = Slow(open_validator(graph, lambda: region, settings), store, meanwhile)
    coordinator = CheckpointCoordinator(pipeline, store, storage, SystemClock())
    run = ContinuousRun(coordinator, region.run, validator, Random())
    ended: list[PipelineStatus] = []
    stopping = Event()
    thread = Thread(target=lambda: ended.append(run.run(stopping.is_set).status))
    source.put(0, ("ann", 1), ("bob", 2))
    thread.start()
    try:
        assert meanwhile.wait(LONG)
        source.put(1, ("ann", 3), ("cyd", 4))  # while the first one is judged
        while validator.was_next is None and thread.is_alive():
            SystemClock().sleep(0.05)
        other = CheckpointCoordinator(pipeline, store, storage, SystemClock())
        other.trigger("stop", kind=CheckpointKind.SYNC_SAVEPOINT)
        thread.join(LONG)
    finally:
        stopping.set()
        thread.join(LONG)
    assert ended == [PipelineStatus.FINISHED]
    assert validator.held is not None
    held, following = store.checkpoint("tally", validator.held), validator.was_next
    assert held is not None
    assert following is not None, "the next barrier has waited for the suite of the checkpoint before"
    assert following.triggered_at < (held.validated_at or held.failed_at)
    assert any(each.status in COMMITTED for each in store.history("tally", 9))
    check_tally(source.all(), tmp_path / "tables")
    assert seen_in(tmp_path / "tables")
