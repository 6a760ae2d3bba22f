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
from tidegate.coordination.continuous_run import ContinuousRun
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.pipeline.graph import compile_graph
from tidegate.ports import CheckpointStore, Validator
from tidegate.protocol.lifecycle import COMMITTED, Phase
from tidegate.protocol.pipelines import PipelineStatus
from tidegate.protocol.records import CheckpointKind, CheckpointRecord, SubtaskId, SubtaskRecord, Verdict
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
    """The real validator, which the first checkpoint has to wait for until the second one has all its snapshots."""

    def __init__(self, validator: Validator, store: CheckpointStore, meanwhile: Event) -> None:
        self._validator, self._store, self._meanwhile = validator, store, meanwhile
        self.was_second: CheckpointRecord | None = None

    def validate(
        self, checkpoint: CheckpointRecord, subtasks: Mapping[SubtaskId, SubtaskRecord], settled: Sequence[Verdict] = ()
    ) -> Sequence[Verdict]:
        if checkpoint.checkpoint_id == 1:
            self._meanwhile.set()
            clock = SystemClock()
            since = clock.monotonic()
            while self.was_second is None and clock.monotonic() - since < LONG:
                second = self._store.checkpoint("tally", 2)
                self.was_second = second if second is not None and second.phase is Phase.ACKNOWLEDGED else None
                clock.sleep(0.05)
        return self._validator.validate(checkpoint, subtasks, settled)


def test_a_slow_suite_delays_no_barrier(spark: SparkSession, store: CheckpointStore, tmp_path: Path) -> None:
    source, meanwhile = payments(), Event()
    graph = compile_graph(pipeline := judged(source, tmp_path / "tables"))
    storage = ArrowCheckpointStorage(str(tmp_path / "checkpoints"))
    settings = Settings(tmp_path, storage.url, str(tmp_path / "cache"), tmp_path / "docs")
    region = SparkRegion(graph, spark, storage, SystemClock(), settings)
    validator = Slow(open_validator(graph, lambda: region, settings), store, meanwhile)
    coordinator = CheckpointCoordinator(pipeline, store, storage, SystemClock())
    run = ContinuousRun(coordinator, store, region.run, validator, SystemClock(), Random())
    ended: list[PipelineStatus] = []
    stopping = Event()
    thread = Thread(target=lambda: ended.append(run.run(stopping.is_set).status))
    source.put(0, ("ann", 1), ("bob", 2))
    thread.start()
    try:
        assert meanwhile.wait(LONG)
        source.put(1, ("ann", 3), ("cyd", 4))  # while the first one is judged
        while validator.was_second is None and thread.is_alive():
            SystemClock().sleep(0.05)
        beside = CheckpointCoordinator(pipeline, store, storage, SystemClock())
        beside.trigger("stop", kind=CheckpointKind.SYNC_SAVEPOINT)
        thread.join(LONG)
    finally:
        stopping.set()
        thread.join(LONG)
    assert ended == [PipelineStatus.FINISHED]
    first, second = store.checkpoint("tally", 1), validator.was_second
    assert first is not None
    assert second is not None, "the second barrier has waited for the suite of the first checkpoint"
    assert second.triggered_at < (first.validated_at or first.failed_at)
    assert any(each.status in COMMITTED for each in store.history("tally", 9))
    check_tally(source.all(), tmp_path / "tables")
    assert seen_in(tmp_path / "tables")
