"""The running vertices of a continuous pipeline: the data that has reached each, and its part of pending checkpoints.

This is pure bookkeeping. A vertex takes the steps of `protocol.subtask.steps` for all its subtasks together, because
they run in the same jobs.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidegate.dataflow.batch_size import BatchSize
from tidegate.dataflow.elements import Aligned, Data
from tidegate.dataflow.execution_plan import ExecutionPlan
from tidegate.dataflow.in_flight import exchanged
from tidegate.dataflow.operator_chains import Execution, OperatorChain
from tidegate.dataflow.reports import ROWS_LATE, Report
from tidegate.pipeline.vertices import KeyedVertex, SinkVertex, SourceVertex, StepVertex
from tidegate.protocol.barriers.messages import StopMode
from tidegate.protocol.facts.records import Acknowledgement, HandleKind, Snapshot, StateHandle, SubtaskId
from tidegate.protocol.steps.snapshot import SnapshotTask
from tidegate.protocol.subtask.steps import SubtaskSteps

MicroBatch = dict[str, list[Data]]  # by vertex name of the origin


def append(batch: MicroBatch, origin: str, data: Iterable[Data]) -> None:
    batch.setdefault(origin, []).extend(data)


def size_of(batch: MicroBatch) -> int:
    """Return the bytes of a micro-batch."""
    return sum(item.bytes for data in batch.values() for item in data)


#: The number of aborted checkpoints that a vertex remembers because their barriers may still arrive. More than can be
#: pending.
REMEMBERED = 16


def remembering() -> SubtaskSteps:
    return SubtaskSteps(REMEMBERED)


@dataclass(eq=False)
class RunningSource:
    """All splits of a source. `taken` are their acknowledgements for each checkpoint that has not ended."""

    vertex: SourceVertex
    steps: SubtaskSteps = field(default_factory=remembering)
    taken: dict[int, list[Acknowledgement]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.vertex.name

    def subtasks(self) -> list[SubtaskId]:
        """Return one subtask per split, in order."""
        return [SubtaskId(self.vertex.operator_id, split) for split in range(self.vertex.source.num_splits())]

    def discard(self, checkpoint_id: int) -> None:
        """Drop the snapshot for a checkpoint, which does not count."""
        self.taken.pop(checkpoint_id, None)

    def aborted(self, checkpoint_id: int) -> None:
        self.discard(checkpoint_id)

    def completed(self, checkpoint_id: int) -> None:
        self.taken = {id_: taken for id_, taken in self.taken.items() if id_ > checkpoint_id}


@dataclass(frozen=True, slots=True, eq=False)
class PendingSnapshot:
    """A snapshot in progress: the state of the subtasks at the barrier, and the execution that stages output.

    `execution` holds the data since the last barrier. For each older pending checkpoint that may not complete, `longer`
    has an execution that also holds its data. See `protocol.continuous.overlap`.
    """

    plan: ExecutionPlan
    execution: Execution
    longer: tuple[Execution, ...] = ()
    bounds: tuple[int, ...] = ()

    def versions(self) -> Iterator[tuple[Execution, tuple[int, int | None] | None]]:
        """Yield all executions, with the latest completed checkpoints that each may follow; None for any."""
        for execution, first, below in zip(self.longer, (0, *self.bounds), self.bounds, strict=False):
            yield execution, (first, below)
        if self.has_own_work:
            yield self.execution, (self.bounds[-1], None) if self.bounds else None

    @property
    def has_work(self) -> bool:
        """Whether anything is to be staged."""
        return bool(self.plan.pending(self.execution.chain)) and bool(self.longer or self.has_own_work)

    @property
    def has_own_work(self) -> bool:
        """Whether anything that arrived since the last barrier is to be staged."""
        lacking = (self.plan.to_restage(self.execution, sink) for sink in self.execution.chain.sinks)
        return self.execution.has_input or any(lacking)

    def files(self) -> Iterator[StateHandle]:
        """Yield all files that it may read until it is written."""
        for execution in (*self.longer[:1], self.execution):  # the longest contains all
            yield from exchanged(data for arrived in execution.arrived.values() for data in arrived)
        for snapshot in self.plan.restored.values():
            yield from snapshot.handles


@dataclass(eq=False)
class Epoch:
    """The events at a vertex between two barriers: the rows that an appending sink holds, the subtasks whose state has
    changed, and the numbers of rows received and sent."""

    held: MicroBatch = field(default_factory=dict)
    stale: set[int] = field(default_factory=set)
    rows: Counter[tuple[int, str]] = field(default_factory=Counter)

    def follow(self, before: "Epoch") -> None:
        """Take over the previous epoch, because there is no longer a checkpoint between the two."""
        self.held = {
            origin: before.held.get(origin, []) + self.held.get(origin, [])
            for origin in dict.fromkeys((*before.held, *self.held))
        }
        self.stale |= before.stale
        self.rows += before.rows


@dataclass(eq=False)
class RunningChain:
    """A step, a keyed operator with the sinks that show its state, or a sink by itself.

    By id of a checkpoint that has not ended: its `pending` snapshot until it is acknowledged, how its barriers were
    `aligned`, the `trouble` that kept it from being written, the acknowledgements `taken`, and the `epochs` that its
    barrier ended. The present epoch is `now`. Together the epochs hold the data of no completed checkpoint. `shown` is
    the operator's part of the latest completed checkpoint.
    """

    chain: OperatorChain
    size: BatchSize
    steps: SubtaskSteps = field(default_factory=remembering)
    pending: dict[int, PendingSnapshot] = field(default_factory=dict)
    aligned: dict[int, Aligned] = field(default_factory=dict)
    trouble: dict[int, str] = field(default_factory=dict)
    taken: dict[int, list[Acknowledgement]] = field(default_factory=dict)
    epochs: dict[int, Epoch] = field(default_factory=dict)
    now: Epoch = field(default_factory=Epoch)
    closed: int | None = None  # the watermark up to which windows have been emitted
    gone: int | None = None  # the time up to which windows have left the state
    shown: dict[SubtaskId, Snapshot] = field(default_factory=dict)

    @property
    def vertex(self) -> StepVertex | KeyedVertex | SinkVertex:
        return self.chain.vertex

    @property
    def name(self) -> str:
        return self.vertex.name

    @property
    def origins(self) -> set[str]:
        """The vertices whose data arrives here."""
        return {channel.origin for channel in self.chain.gate.channels}

    def ended_with(self, checkpoint_id: int) -> StopMode | None:
        """Return why no data follows a checkpoint's barrier here, if that is known before the barrier is sent on."""
        aligned = self.aligned.get(checkpoint_id)
        return None if aligned is None else aligned.ended

    def is_asked(self, task: SnapshotTask) -> bool:
        """Return whether a checkpoint waits for any of its subtasks. It does not wait for finished ones."""
        return any(subtask.operator_id in self.chain.operator_ids for subtask in task.attempts)

    def waiting(self) -> list[Data]:
        """Return all data on its way to the chain, and the data that the chain holds."""
        held = [data for epoch in (*self.epochs.values(), self.now) for batch in epoch.held.values() for data in batch]
        return self.chain.gate.waiting() + held

    def hold(self, batch: MicroBatch) -> None:
        """Keep the data that reached a sink for the next checkpoint."""
        for origin, data in batch.items():
            append(self.now.held, origin, data)

    def ran(self, reports: Sequence[Report]) -> None:
        """Record the reports of a micro-batch."""
        for report in reports:
            self.now.stale.add(report.subtask_index)
            self.chain.watermarks.late += report.metrics.get(ROWS_LATE, 0)
            self.now.rows[report.subtask_index, "rows_in"] += report.metrics.get("rows_in", 0)
            self.now.rows[report.subtask_index, "rows_out"] += report.metrics.get("rows_out", 0)

    def take(self, plan: ExecutionPlan) -> PendingSnapshot:
        """Freeze the contents of the snapshot. Later data belongs to a later one."""
        marks, own = self.chain.watermarks, self.now
        bounds = tuple(id_ for id_, epoch in self.epochs.items() if any(epoch.held.values()))
        longer = tuple(self._staging([*(self.epochs[id_] for id_ in bounds[at:]), own]) for at in range(len(bounds)))
        execution = self._staging([own])
        execution.watermarks, execution.late, execution.gone = dict(marks.known), marks.late, self.gone
        for index in sorted({index for index, _ in own.rows}):
            metrics = {name: own.rows[index, name] for name in ("rows_in", "rows_out")}
            report = Report(self.vertex.operator_id, index, (), {"sync_duration": 0, "async_duration": 0} | metrics)
            execution.reports[SubtaskId(self.vertex.operator_id, index)] = report
        self.pending[plan.checkpoint_id] = pending = PendingSnapshot(plan, execution, longer, bounds)
        self.epochs[plan.checkpoint_id], self.now = own, Epoch()
        return pending

    def _staging(self, epochs: Iterable[Epoch]) -> Execution:
        held: MicroBatch = {}
        for epoch in epochs:
            for origin, data in epoch.held.items():
                append(held, origin, data)
        return Execution(self.chain, held)

    def as_of_barrier(self, snapshots: dict[SubtaskId, Snapshot]) -> dict[SubtaskId, Snapshot]:
        """Return the snapshots that the subtasks start from, without staged rows that are no longer current."""
        return snapshots | self._tables(snapshots, [*self.epochs.values(), self.now])

    def _tables(self, snapshots: Mapping[SubtaskId, Snapshot], epochs: Iterable[Epoch]) -> dict[SubtaskId, Snapshot]:
        """Return the snapshots of the sinks, without staged rows that have changed in these epochs."""
        stale, sinks = set[int]().union(*(epoch.stale for epoch in epochs)), {s.operator_id for s in self.chain.sinks}
        tables = {id_: known for id_, known in snapshots.items() if id_.operator_id in sinks}
        for id_ in [id_ for id_ in tables if id_.subtask_index in stale]:
            rest = tuple(handle for handle in tables[id_].handles if handle.kind is not HandleKind.STAGED)
            tables[id_] = replace(tables[id_], handles=rest)
        return tables

    def before(self, checkpoint_id: int) -> Mapping[SubtaskId, Snapshot]:
        """Return the state that sinks of upserts have when a checkpoint completes. It is unknown while older ones are
        pending; then it is empty, and they receive all rows."""
        return {} if self._has_older(checkpoint_id) else self.shown

    def depends_on_older(self, checkpoint_id: int) -> bool:
        """Return whether a snapshot can only be written once older checkpoints have ended: a sink that may have no way
        to remove rows has to know which keys it has."""
        return self._has_older(checkpoint_id) and self.pending[checkpoint_id].plan.must_know(self.chain)

    def renew(self, checkpoint_id: int, present: Mapping[SubtaskId, Snapshot]) -> None:
        """Use what the sinks have by now for a snapshot that has waited. `present` has their snapshots as of the latest
        completed checkpoint."""
        plan = self.pending[checkpoint_id].plan
        tables = self._tables(present, (epoch for id_, epoch in self.epochs.items() if id_ <= checkpoint_id))
        plan = replace(plan, restored={**plan.restored, **tables}, before=self.before(checkpoint_id))
        self.pending[checkpoint_id] = replace(self.pending[checkpoint_id], plan=plan)

    def _has_older(self, checkpoint_id: int) -> bool:
        return any(id_ < checkpoint_id for id_ in self.epochs)

    def show(self, snapshots: Mapping[SubtaskId, Snapshot]) -> None:
        """Record the operator's part of a completed checkpoint."""
        own = self.vertex.operator_id
        self.shown = self.shown | {id_: taken for id_, taken in snapshots.items() if id_.operator_id == own}

    def discard(self, checkpoint_id: int) -> None:
        """Drop the snapshot for a checkpoint, which does not count."""
        for known in (self.pending, self.aligned, self.taken):
            known.pop(checkpoint_id, None)

    def aborted(self, checkpoint_id: int) -> None:
        """Move the data before the checkpoint's barrier to the next checkpoint (protocol.md section 16)."""
        self.discard(checkpoint_id)
        self.trouble.pop(checkpoint_id, None)
        if (epoch := self.epochs.pop(checkpoint_id, None)) is not None:
            later = (known for id_, known in self.epochs.items() if id_ > checkpoint_id)
            next(later, self.now).follow(epoch)

    def completed(self, checkpoint_id: int) -> None:
        """Drop the epochs and acknowledgements up to a completed checkpoint. A pending write for an older one is
        dropped when that is reported to have ended."""
        for known in (self.taken, self.epochs):
            for id_ in [id_ for id_ in known if id_ <= checkpoint_id]:
                del known[id_]


RunningVertex = RunningSource | RunningChain


def is_sink(running: RunningChain) -> bool:
    return isinstance(running.vertex, SinkVertex)
