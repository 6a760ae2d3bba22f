"""The plan of an execution: the subtasks to run, the state they start from, and the names under which they write."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from tidegate.dataflow.operator_chains import Execution, OperatorChain
from tidegate.dataflow.reports import Report
from tidegate.dataflow.staging import Had, Staging
from tidegate.pipeline.derivations import derivation_of
from tidegate.pipeline.graph import Graph
from tidegate.pipeline.sink_inputs import takes_upserts
from tidegate.pipeline.vertices import KeyedVertex, SinkVertex, StepVertex
from tidegate.ports import PlacedSink, RewindableSink, SinkInput
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
    was_merged_since,
)
from tidegate.protocol.steps.sink_marks import SinkMark
from tidegate.protocol.steps.snapshot import SnapshotTask


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """The plan of one execution of a chain.

    `attempts` belong to the subtasks to run. Each starts from its snapshot in `restored` and writes `below` this
    directory on checkpoint storage. Every subtask and every retry tests for expiry `at` one time, in microseconds: see
    `protocol.schema.expiry`. Staging takes up to `at_once` slots of the cluster; None for one per subtask. Sinks of
    upserts have the state of `before`; None for that of `restored`.
    """

    checkpoint_id: int
    parallelism: int
    attempts: Mapping[SubtaskId, int]
    restored: Mapping[SubtaskId, Snapshot]
    below: str
    at: int = 0
    at_once: int | None = None
    before: Mapping[SubtaskId, Snapshot] | None = None

    def pending(self, chain: OperatorChain) -> list[int]:
        """Return the subtasks with something still to acknowledge."""
        ids = chain.operator_ids
        return [i for i in range(self.parallelism) if any(SubtaskId(id_, i) in self.attempts for id_ in ids)]

    def prefixes(self, vertex: StepVertex | KeyedVertex) -> dict[int, str]:
        """Return the prefix of file names of each subtask."""
        subtasks = (SubtaskId(vertex.operator_id, index) for index in range(self.parallelism))
        return {subtask.subtask_index: write_prefix(self.below, subtask, self._attempt) for subtask in subtasks}

    def runs(self, vertex: KeyedVertex, index: int) -> tuple[StateHandle, ...]:
        """Return the runs of a subtask as of the latest completed checkpoint."""
        return self.carried(SubtaskId(vertex.operator_id, index), HandleKind.RUN)

    @property
    def slots(self) -> int:
        return self.parallelism if self.at_once is None else self.at_once

    @property
    def moment(self) -> Moment:
        return Moment(self.checkpoint_id, self.at)

    def all_runs(self, vertex: KeyedVertex) -> list[StateHandle]:
        """Return the runs of all subtasks of an operator."""
        return [run for index in range(self.parallelism) for run in self.runs(vertex, index)]

    def staging(self, sink: SinkVertex, vertex: StepVertex | KeyedVertex | SinkVertex | None = None) -> Staging:
        """Return how a sink stages rows, in the tasks of `vertex` if it is chained to that."""
        attempts = dict.fromkeys(range(self.parallelism), self._attempt)
        current = sink.sink.input is SinkInput.CURRENT
        staging = Staging(sink.operator_id, sink.sink.writer(), current, attempts, identity_of(sink))
        if not takes_upserts(vertex, sink):
            return staging
        had = self.had(sink, vertex)
        return replace(staging, upserts=True, had=had, base={} if had else self.base(sink, vertex))

    def to_restage(self, execution: Execution, sink: SinkVertex) -> list[int]:
        """Return the subtasks whose state a sink of current rows or of upserts lacks. The sink is new or writes
        elsewhere now, the parallelism has changed, or some of its rows may have expired."""
        vertex = execution.chain.vertex
        if not isinstance(vertex, KeyedVertex):
            return []
        if takes_upserts(vertex, sink):
            lacking = self._to_upsert(sink, vertex)
        elif sink.sink.input is SinkInput.CURRENT:
            lacking = self._to_replace(sink, vertex)
        else:
            return []
        subtasks = {index: SubtaskId(sink.operator_id, index) for index in self.pending(execution.chain)}
        waited_for = {index for index, id_ in subtasks.items() if id_ in self.attempts and id_ not in execution.reports}
        return [index for index in lacking if index in waited_for]

    def _to_replace(self, sink: SinkVertex, vertex: KeyedVertex) -> list[int]:
        horizon, current = self.horizon(vertex)
        return [
            index
            for index in range(self.parallelism)
            if (runs := self.runs(vertex, index)) and not self._shows(sink, index, current, runs, horizon)
        ]

    def _to_upsert(self, sink: SinkVertex, vertex: KeyedVertex) -> list[int]:
        """Return the subtasks that a sink of upserts lacks. A sink without rows gets all subtasks with rows, and at
        least one, unless the pipeline begins: otherwise no file would record that there are none."""
        if not (had := self.had(sink, vertex)):
            begins = not any(id_.operator_id in (sink.operator_id, vertex.operator_id) for id_ in self.restored)
            return [i for i in range(self.parallelism) if self.runs(vertex, i) or (i == 0 and not begins)]
        horizon, current = self.horizon(vertex)
        return [
            index
            for index, held in had.items()
            if not _are_same(self.runs(vertex, index), held.runs)
            or may_expire_between(current, held.runs, held.horizon, horizon)
        ]

    def had(self, sink: SinkVertex, vertex: KeyedVertex) -> dict[int, Had]:
        """Return the state of each subtask as a sink of upserts has it. Empty if the sink lacks the state of any
        subtask, or if its rows can no longer be determined."""
        before, identity = self.restored if self.before is None else self.before, identity_of(sink)
        states = {}
        for index in range(self.parallelism):
            mark = SinkMark.of(self.restored.get(SubtaskId(sink.operator_id, index)))
            state = before.get(SubtaskId(vertex.operator_id, index))
            if mark is None or state is None or not mark.is_of(identity, vertex.operator_id, self.parallelism):
                return {}
            states[index] = Had(_runs_of(state), mark.horizon)
        merged = ((run, held.horizon) for held in states.values() for run in held.runs)
        if newest_recorded([run for held in states.values() for run in held.runs]) is None:
            return states
        return {} if any(was_merged_since(run, horizon) for run, horizon in merged) else states

    def base(self, sink: SinkVertex, vertex: KeyedVertex) -> dict[int, Had]:
        """Return the state of each subtask as of the latest checkpoint, with all expired rows that it still holds, for
        a sink that lacks rows. Empty for a sink that can empty its table."""
        if _can_be_emptied(sink):
            return {}
        before = self.restored if self.before is None else self.before
        snapshots = {index: before.get(SubtaskId(vertex.operator_id, index)) for index in range(self.parallelism)}
        return {index: Had(_runs_of(snapshot), None) for index, snapshot in snapshots.items() if snapshot is not None}

    def must_know(self, chain: OperatorChain) -> bool:
        """Return whether a sink can only be given the differences from the checkpoint before: it shows the state of the
        chain, and may have no way to remove rows that no change names."""
        return any(takes_upserts(chain.vertex, sink) and not _can_be_emptied(sink) for sink in chain.sinks)

    def marked(self, sink: SinkVertex, vertex: KeyedVertex, reports: Mapping[SubtaskId, Report]) -> dict[int, SinkMark]:
        """Return the mark of each subtask: the state that a sink of upserts has with this checkpoint. Subtasks with
        nothing staged are unchanged, and none of their rows expires up to now."""
        horizon, had = self.horizon(vertex)[0], self.had(sink, vertex)
        marks = {}
        for index in range(self.parallelism):
            subtask = SubtaskId(sink.operator_id, index)
            report, before = reports.get(subtask), SinkMark.of(self.restored.get(subtask)) if had else None
            fields: dict[str, Any] = {"layout": None if before is None else before.layout, "horizon": horizon}
            fields |= {} if report is None or report.mark is None else report.mark
            marks[index] = SinkMark(identity_of(sink), vertex.operator_id, self.parallelism, **fields)
        return marks

    def horizon(self, vertex: KeyedVertex) -> tuple[int | None, RecordedTtl | None]:
        """Return the time up to which rows of the state have expired, and the time to live recorded in its runs."""
        current = newest_recorded(runs := self.all_runs(vertex))
        return recorded_horizon(current, runs, self.moment), current

    def _shows(
        self,
        sink: SinkVertex,
        index: int,
        current: RecordedTtl | None,
        runs: Sequence[StateHandle],
        horizon: int | None,
    ) -> bool:
        """Return whether a sink has exactly the current rows of a subtask that received no rows."""
        staged = self.staged_before(sink, index)
        return bool(staged) and not may_expire_between(current, runs, staged[0].details.get(HORIZON), horizon)

    def staged_before(self, sink: SinkVertex, index: int) -> tuple[StateHandle, ...]:
        """Return all current rows of a subtask as the sink has them; none if they were staged for another place or
        mode."""
        carried = self.carried(SubtaskId(sink.operator_id, index), HandleKind.STAGED)
        return tuple(handle for handle in carried if handle.details.get("sink") == identity_of(sink))

    def carried(self, subtask: SubtaskId, kind: HandleKind) -> tuple[StateHandle, ...]:
        """Return the handles of one kind that a subtask starts from."""
        restored = self.restored.get(subtask, Snapshot())
        return tuple(handle for handle in restored.handles if handle.kind is kind)

    @property
    def _attempt(self) -> int:
        return max(self.attempts.values(), default=0)


def _can_be_emptied(sink: SinkVertex) -> bool:
    """Whether a sink can remove rows that no change names, as one must that goes back with a restore."""
    return isinstance(sink.sink, RewindableSink)


def _runs_of(snapshot: Snapshot) -> tuple[StateHandle, ...]:
    return tuple(handle for handle in snapshot.handles if handle.kind is HandleKind.RUN)


def _are_same(runs: Sequence[StateHandle], others: Sequence[StateHandle]) -> bool:
    return [run.view for run in runs] == [run.view for run in others]


def plan_snapshot(graph: Graph, task: SnapshotTask) -> ExecutionPlan:
    """Return the plan for the subtasks that a checkpoint still waits for."""
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
    """Return a short hash of a sink's kind, place and derived columns."""
    identity = {**sink.sink.describe(), **derivation_of(sink)}
    if isinstance(sink.sink, PlacedSink) and sink.sink.place is not None:
        identity = {**identity, "place": sink.sink.place}
    return sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
