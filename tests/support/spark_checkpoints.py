"""Plays the coordinator to a real Spark region: takes checkpoints one after another and keeps in memory what counts."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from commits import commit
from pyspark.sql import SparkSession
from records import T0
from records import completed as completed_record

from tidegate.clock import SystemClock
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.graph import compile_graph
from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.records import (
    Acknowledgement,
    AcknowledgeResult,
    CheckpointRecord,
    HandleKind,
    Snapshot,
    StateHandle,
    SubtaskId,
    SubtaskRecord,
)
from tidegate.protocol.steps.snapshot import SnapshotTask
from tidegate.settings import Settings
from tidegate.spark.region import SparkRegion
from tidegate.state.storage import ArrowCheckpointStorage


@dataclass
class Checkpoints:
    """Takes checkpoints of a pipeline on a session, keeping in memory what the store would keep."""

    pipeline: Pipeline
    session: SparkSession
    root: Path
    completed: dict[SubtaskId, Snapshot] = field(default_factory=dict)
    acknowledged: dict[SubtaskId, Acknowledgement] = field(default_factory=dict)
    calls: list[list[SubtaskId]] = field(default_factory=list)
    checkpoint_id: int = 0
    attempt: int = 0
    clock: Any = field(default_factory=SystemClock)
    triggered_at: datetime = T0

    def __post_init__(self) -> None:
        self.graph = compile_graph(self.pipeline)
        self.storage = ArrowCheckpointStorage(str(self.root / "checkpoints"))
        settings = Settings(self.root, self.storage.url, str(self.root / "cache"), self.root / "docs")
        self.region = SparkRegion(self.graph, self.session, self.storage, self.clock, settings)

    def trigger(self) -> None:
        self.checkpoint_id += 1
        self.attempt = 0
        self.acknowledged = {}
        self.triggered_at = self.clock.now()

    def attempt_once(self, refuse: Callable[[SubtaskId], AcknowledgeResult | None] = lambda _: None) -> None:
        """One attempt at the current checkpoint; `refuse` may answer an acknowledgement instead of recording it."""
        self.attempt += 1
        self.calls = []

        def acknowledge(acks: Sequence[Acknowledgement]) -> Mapping[SubtaskId, AcknowledgeResult]:
            self.calls.append([ack.subtask for ack in acks])
            answers = {}
            for ack in acks:
                assert ack.attempt == self.attempt
                answers[ack.subtask] = refuse(ack.subtask) or AcknowledgeResult.SUCCESS
                if answers[ack.subtask] is AcknowledgeResult.SUCCESS:
                    assert ack.subtask not in self.acknowledged
                    self.acknowledged[ack.subtask] = ack
            return answers

        self.region.snapshot(self.task(), acknowledge)

    def task(self) -> SnapshotTask:
        return SnapshotTask(
            checkpoint_id=self.checkpoint_id,
            triggered_at=self.triggered_at,
            attempts={id_: self.attempt for id_ in self.graph.subtasks if id_ not in self.acknowledged},
            restored=self.completed,
            acknowledged={id_: ack.snapshot for id_, ack in self.acknowledged.items()},
        )

    def complete(self) -> None:
        assert set(self.acknowledged) == set(self.graph.subtasks)
        self.completed = {
            id_: Snapshot(
                tuple(h for h in ack.snapshot.handles if h.kind is not HandleKind.EXCHANGE), ack.snapshot.position
            )
            for id_, ack in self.acknowledged.items()
        }

    def take(self) -> None:
        """A whole checkpoint."""
        self.trigger()
        self.attempt_once()
        self.complete()

    def records(self) -> dict[SubtaskId, SubtaskRecord]:
        return {
            id_: SubtaskRecord(id_, ack.attempt, datetime.now(UTC), ack.snapshot, ack.metrics)
            for id_, ack in self.acknowledged.items()
        }

    def record(self) -> CheckpointRecord:
        return completed_record(self.checkpoint_id, triggered_at=self.triggered_at)

    def frame(self, target: str) -> Any:
        return self.region.frame(Target.parse(target), self.records(), self.record())

    def rows(self, target: str) -> list[tuple[Any, ...]]:
        """What a verdict on `target` would be about, sorted."""
        frame = self.frame(target)
        return [] if frame is None else in_order(frame.collect())

    def staged(self, sink: str) -> list[StateHandle]:
        ids = sorted(id_ for id_ in self.acknowledged if id_.operator_id == f"{sink}-sink")
        return [handle for id_ in ids for handle in self.acknowledged[id_].snapshot.handles]

    def commit(self, sink: str) -> None:
        commit(self.graph.sink(sink).sink, self.checkpoint_id, self.staged(sink))


def in_order(rows: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Rows of any session sorted by their text, nulls included."""
    return sorted((tuple(row) for row in rows), key=repr)


@dataclass
class Landing:
    """A directory into which Parquet files arrive, each a moment after the other."""

    path: Path
    arrived: int = 0

    def put(self, **columns: Any) -> Path:
        """One file; a column is a list or a `pyarrow.Array`."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.arrived += 1
        target = self.path / f"{self.arrived:04}.parquet"
        pq.write_table(pa.table(columns), self.path / "_writing")
        os.utime(self.path / "_writing", ns=(self.arrived * 10**9, self.arrived * 10**9))
        os.replace(self.path / "_writing", target)
        return target

    def all(self, spark: SparkSession) -> Any:
        return spark.read.parquet(str(self.path))
