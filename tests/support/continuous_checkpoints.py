"""Plays the coordinator to a continuous region: keeps in memory what a store would keep,
and can kill and restart it."""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from commits import commit
from executors import Inline
from pyspark.sql import SparkSession
from records import T0
from records import completed as completed_record

from tidegate.clock import SystemClock
from tidegate.dataflow.continuous_driver import ContinuousDriver
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.graph import Graph, compile_graph
from tidegate.protocol.barriers.messages import StopMode
from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.records import (
    Acknowledgement,
    CheckpointKind,
    HandleKind,
    Snapshot,
    SubtaskId,
    SubtaskRecord,
)
from tidegate.protocol.observing.lag import SourceLag
from tidegate.protocol.steps.finished import plan_checkpoint
from tidegate.protocol.steps.notify import committables
from tidegate.protocol.steps.restored_snapshots import restore_snapshots
from tidegate.protocol.steps.snapshot import SnapshotTask
from tidegate.settings import Settings
from tidegate.spark.region import SparkRegion
from tidegate.state.storage import ArrowCheckpointStorage


@dataclass
class Running:
    """A pipeline that runs continuously on a session."""

    pipeline: Pipeline
    session: SparkSession
    root: Path
    max_batch_bytes: int = 1
    completed: dict[SubtaskId, Snapshot] = field(default_factory=dict)
    acknowledged: dict[SubtaskId, Acknowledgement] = field(default_factory=dict)
    declined: list[Any] = field(default_factory=list)
    latest: int = -1
    checkpoint_id: int = 0
    attempt: int = 0
    ended: bool = False
    lag: Sequence[SourceLag] = ()
    clock: Any = field(default_factory=SystemClock)
    triggered_at: datetime = T0
    background: Executor = field(default_factory=Inline)

    def __post_init__(self) -> None:
        self.graph = compile_graph(self.pipeline)
        self.storage = ArrowCheckpointStorage(str(self.root / "checkpoints"))
        settings = Settings(self.root, self.storage.url, str(self.root / "cache"), self.root / "docs")
        self.region = SparkRegion(self.graph, self.session, self.storage, self.clock, settings)
        self.restart()

    def restart(self) -> None:
        """What was running is gone without a word; the next attempt goes on from the latest completed checkpoint."""
        self.attempt += 1
        directory = f"{self.pipeline.name}/shared/{self.attempt}"
        self.running = ContinuousDriver(
            self.region.parts, directory, self.attempt, self.completed, self.background, self.max_batch_bytes
        )

    def round(self) -> bool:
        """Whether anything happened."""
        result = self.running.advance()
        for acknowledgement in result.acknowledgements.get(self.checkpoint_id, ()):
            assert acknowledgement.subtask not in self.acknowledged, f"{acknowledgement.subtask} answers twice"
            self.acknowledged[acknowledgement.subtask] = acknowledgement
        self.declined += result.declined
        self.ended, self.lag = result.ended, result.lag
        return not result.idle

    def poll(self) -> None:
        """What has arrived waits in the channels."""
        self.running._polled.poll(self.checkpoint_id + 1, self.running._at_a_time)

    def until_idle(self) -> None:
        while self.round():
            pass

    def begin(self, savepoint: bool = False, stop: StopMode | None = None) -> None:
        self.checkpoint_id += 1
        plan = plan_checkpoint(self.graph.subtasks, self.completed, self.graph.showing_state)
        self.acknowledged = {ack.subtask: ack for ack in plan.acknowledgements()}
        kind = CheckpointKind.SAVEPOINT if savepoint else CheckpointKind.CHECKPOINT
        kind = kind if stop is None else CheckpointKind.SYNC_SAVEPOINT
        attempts = dict.fromkeys(plan.wait, 1)
        self.triggered_at = self.clock.now()
        self.running.begin(SnapshotTask(self.checkpoint_id, self.triggered_at, attempts, {}, {}, kind, stop))

    def until_acknowledged(self, rounds: int = 100) -> None:
        for _ in range(rounds):
            if self.acknowledged.keys() == set(self.graph.subtasks):
                return
            self.round()
        raise AssertionError(f"only {sorted(self.acknowledged)} acknowledged")

    def complete(self) -> None:
        """The checkpoint is recorded as the latest, its sinks commit, and the region hears of it."""
        self.latest = self.checkpoint_id
        self.completed = {key: _carried(ack.snapshot) for key, ack in self.acknowledged.items()}
        for sink in self.graph.sinks:
            commit(sink.sink, self.checkpoint_id, committables(self.records(), sink.operator_id))
        self.running.completed(self.checkpoint_id)

    def abort(self) -> None:
        """The checkpoint is aborted, and what it staged is deleted at once."""
        self.running.aborted(self.checkpoint_id, self.latest)
        for sink in self.graph.sinks:
            sink.sink.discard(sink.sink.staged_paths(self.checkpoint_id))
        self.storage.delete(self.storage.list(f"{self.pipeline.name}/chk-{self.checkpoint_id}"))

    def change(self, pipeline: Pipeline) -> None:
        """Go on with another definition of the pipeline, as of the latest completed checkpoint."""
        self.completed = restored_by(self.graph, compile_graph(pipeline), self.completed)
        self.pipeline = pipeline
        self.__post_init__()

    def take(self, savepoint: bool = False, stop: StopMode | None = None) -> None:
        """A whole checkpoint."""
        self.begin(savepoint, stop)
        self.until_acknowledged()
        self.complete()

    def records(self) -> Mapping[SubtaskId, SubtaskRecord]:
        return {
            key: SubtaskRecord(key, ack.attempt, datetime.now(UTC), ack.snapshot, ack.metrics)
            for key, ack in self.acknowledged.items()
        }

    def rows(self, target: str) -> list[tuple[Any, ...]]:
        """What a verdict on `target` would be about, sorted."""
        record = completed_record(self.checkpoint_id, triggered_at=self.triggered_at)
        frame = self.region.frame(Target.parse(target), self.records(), record)
        return [] if frame is None else sorted((tuple(row) for row in frame.collect()), key=repr)


def _carried(snapshot: Snapshot) -> Snapshot:
    """As it comes back from a database."""
    handles = tuple(handle for handle in snapshot.handles if handle.kind is not HandleKind.EXCHANGE)
    return Snapshot(handles, json.loads(json.dumps(snapshot.position)), snapshot.finished)


def restored_by(before: Graph, after: Graph, completed: Mapping[SubtaskId, Snapshot]) -> dict[SubtaskId, Snapshot]:
    """What the subtasks of another definition start from."""
    return restore_snapshots(completed_record(operators=before.plan), completed, after.plan, (), False)
