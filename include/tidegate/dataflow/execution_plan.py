"""How the subtasks of a chain run: which of them, from which state, and under which names they write."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from tidegate.dataflow.operator_chains import Execution, OperatorChain
from tidegate.dataflow.staging import Staging
from tidegate.pipeline.graph import Graph
from tidegate.pipeline.vertices import KeyedVertex, SinkVertex, StepVertex
from tidegate.ports import PlacedSink, SinkInput
from tidegate.protocol.facts.paths import directory, write_prefix
from tidegate.protocol.facts.records import HandleKind, Snapshot, StateHandle, SubtaskId
from tidegate.protocol.schema.expiry import (
    HORIZON,
    Moment,
    RecordedTtl,
    may_expire_between,
    microseconds,
    newest_recorded,
    recorded_horizon,
)
from tidegate.protocol.steps.snapshot import SnapshotTask


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """`attempts` are of the subtasks to run. `restored` is what each starts from. They write `below` this directory on
    checkpoint storage. Whether state has expired is judged `at` one time, in microseconds, by every subtask and every
    retry: see `protocol.schema.expiry`. What is staged takes up to `at_once` slots of the cluster; None for as many as
    there are subtasks."""

    checkpoint_id: int
    parallelism: int
    attempts: Mapping[SubtaskId, int]
    restored: Mapping[SubtaskId, Snapshot]
    below: str
    at: int = 0
    at_once: int | None = None

    def pending(self, chain: OperatorChain) -> list[int]:
        """Subtasks with something still to acknowledge."""
        ids = chain.operator_ids
        return [i for i in range(self.parallelism) if any(SubtaskId(id_, i) in self.attempts for id_ in ids)]

    def prefixes(self, vertex: StepVertex | KeyedVertex) -> dict[int, str]:
        """By subtask, the prefix of its file names."""
        subtasks = (SubtaskId(vertex.operator_id, index) for index in range(self.parallelism))
        return {subtask.subtask_index: write_prefix(self.below, subtask, self._attempt) for subtask in subtasks}

    def runs(self, vertex: KeyedVertex, index: int) -> tuple[StateHandle, ...]:
        """The state of a subtask as of the latest completed checkpoint."""
        return self.carried(SubtaskId(vertex.operator_id, index), HandleKind.RUN)

    @property
    def slots(self) -> int:
        return self.parallelism if self.at_once is None else self.at_once

    @property
    def moment(self) -> Moment:
        return Moment(self.checkpoint_id, self.at)

    def all_runs(self, vertex: KeyedVertex) -> list[StateHandle]:
        """The state of all its subtasks."""
        return [run for index in range(self.parallelism) for run in self.runs(vertex, index)]

    def staging(self, sink: SinkVertex) -> Staging:
        attempts = dict.fromkeys(range(self.parallelism), self._attempt)
        current = sink.sink.input is SinkInput.CURRENT
        return Staging(sink.operator_id, sink.sink.writer(), current, attempts, identity_of(sink))

    def to_restage(self, execution: Execution, sink: SinkVertex) -> list[int]:
        """Subtasks whose state a sink of current rows lacks: the sink is new or writes elsewhere now, the parallelism
        changed, or some of the rows that it has may have expired."""
        vertex = execution.chain.vertex
        if sink.sink.input is not SinkInput.CURRENT or not isinstance(vertex, KeyedVertex):
            return []
        ids = {index: SubtaskId(sink.operator_id, index) for index in self.pending(execution.chain)}
        current = newest_recorded(runs := self.all_runs(vertex))
        horizon = recorded_horizon(current, runs, self.moment)
        return [
            index
            for index, subtask in ids.items()
            if subtask in self.attempts
            and subtask not in execution.reports
            and self.runs(vertex, index)
            and not self._shows(sink, index, current, self.runs(vertex, index), horizon)
        ]

    def _shows(
        self,
        sink: SinkVertex,
        index: int,
        current: RecordedTtl | None,
        runs: Sequence[StateHandle],
        horizon: int | None,
    ) -> bool:
        """Whether a sink has exactly the current rows of a subtask to which nothing came."""
        staged = self.staged_before(sink, index)
        return bool(staged) and not may_expire_between(current, runs, staged[0].details.get(HORIZON), horizon)

    def staged_before(self, sink: SinkVertex, index: int) -> tuple[StateHandle, ...]:
        """All current rows of a subtask as the sink has them; none if they were staged for another place or mode."""
        carried = self.carried(SubtaskId(sink.operator_id, index), HandleKind.STAGED)
        return tuple(handle for handle in carried if handle.details.get("sink") == identity_of(sink))

    def carried(self, subtask: SubtaskId, kind: HandleKind) -> tuple[StateHandle, ...]:
        """The handles of one kind that a subtask starts from."""
        restored = self.restored.get(subtask, Snapshot())
        return tuple(handle for handle in restored.handles if handle.kind is kind)

    @property
    def _attempt(self) -> int:
        return max(self.attempts.values(), default=0)


def plan_snapshot(graph: Graph, task: SnapshotTask) -> ExecutionPlan:
    """The plan for the subtasks that a checkpoint still waits for."""
    below = directory(graph.pipeline.name, task.checkpoint_id)
    return ExecutionPlan(
        task.checkpoint_id,
        graph.pipeline.parallelism,
        task.attempts,
        task.restored,
        below,
        microseconds(task.triggered_at),
    )


def identity_of(sink: SinkVertex) -> str:
    """A short hash of what a sink is and where it writes."""
    said = sink.sink.describe()
    if isinstance(sink.sink, PlacedSink) and sink.sink.place is not None:
        said = {**said, "place": sink.sink.place}
    return sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]
