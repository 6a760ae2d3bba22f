"""The running vertices of a continuous pipeline: what has reached each, and its part of the checkpoint in progress.

Pure bookkeeping. A vertex takes the steps of `protocol.subtask.steps` for all its subtasks together, because they run
in the same jobs.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from tidegate.dataflow.batch_size import BatchSize
from tidegate.dataflow.elements import Aligned, Data
from tidegate.dataflow.execution_plan import ExecutionPlan
from tidegate.dataflow.operator_chains import Execution, OperatorChain
from tidegate.dataflow.reports import ROWS_LATE, Report
from tidegate.pipeline.definition import KeyedVertex, SinkVertex, StepVertex
from tidegate.pipeline.vertices import SourceVertex
from tidegate.ports import SinkInput
from tidegate.protocol.barriers.messages import StopMode
from tidegate.protocol.records import Acknowledgement, HandleKind, Snapshot, SubtaskId
from tidegate.protocol.snapshot import SnapshotTask
from tidegate.protocol.subtask.steps import SubtaskSteps

MicroBatch = dict[str, list[Data]]  # by vertex name of the origin


def append(batch: MicroBatch, origin: str, data: Iterable[Data]) -> None:
    batch.setdefault(origin, []).extend(data)


def size_of(batch: MicroBatch) -> int:
    """Its bytes."""
    return sum(item.bytes for data in batch.values() for item in data)


@dataclass(eq=False)
class RunningSource:
    """All splits of a source. `taken`: what they acknowledge for the latest snapshot."""

    vertex: SourceVertex
    steps: SubtaskSteps = field(default_factory=SubtaskSteps)
    taken: list[Acknowledgement] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.vertex.name

    def subtasks(self) -> list[SubtaskId]:
        """One per split, in order."""
        return [SubtaskId(self.vertex.operator_id, split) for split in range(self.vertex.source.num_splits())]

    def discard(self) -> None:
        """Drop the latest snapshot: it does not count."""
        self.taken = []


@dataclass(frozen=True, slots=True, eq=False)
class PendingSnapshot:
    """The snapshot in progress: what the subtasks hold as of the barrier, and the execution that stages output."""

    plan: ExecutionPlan
    execution: Execution

    @property
    def has_work(self) -> bool:
        """Whether anything is to be staged."""
        if not self.plan.pending(self.execution.chain):
            return False
        lacking = (self.plan.to_restage(self.execution, sink) for sink in self.execution.chain.sinks)
        return self.execution.has_input or any(lacking)


@dataclass(eq=False)
class RunningChain:
    """A step, a keyed operator with the tables of its current rows, or a sink by itself.

    An appending sink holds what reached it until a checkpoint has completed with it. A subtask is `stale` in the tables
    if its state has changed since the latest completed checkpoint. `rows` counts rows in and out since then. Fields
    that end in `_since` start at the latest snapshot.
    """

    chain: OperatorChain
    size: BatchSize
    steps: SubtaskSteps = field(default_factory=SubtaskSteps)
    pending: PendingSnapshot | None = None
    aligned: Aligned | None = None
    trouble: str = ""  # why the latest snapshot could not be written
    taken: list[Acknowledgement] = field(default_factory=list)
    held: MicroBatch = field(default_factory=dict)
    held_since: MicroBatch = field(default_factory=dict)
    closed: int | None = None  # the watermark up to which windows have been emitted
    stale: set[int] = field(default_factory=set)
    stale_since: set[int] = field(default_factory=set)
    rows: Counter[tuple[int, str]] = field(default_factory=Counter)
    rows_since: Counter[tuple[int, str]] = field(default_factory=Counter)

    @property
    def vertex(self) -> StepVertex | KeyedVertex | SinkVertex:
        return self.chain.vertex

    @property
    def name(self) -> str:
        return self.vertex.name

    @property
    def origins(self) -> set[str]:
        """The vertices whose data comes here."""
        return {channel.origin for channel in self.chain.gate.channels}

    def ended_with(self, checkpoint_id: int) -> StopMode | None:
        """Why no data follows a checkpoint's barrier here, if that is known before the barrier goes on."""
        aligned = self.aligned
        return aligned.ended if aligned is not None and aligned.checkpoint_id == checkpoint_id else None

    def is_asked(self, task: SnapshotTask) -> bool:
        """Whether a checkpoint waits for any of its subtasks. It does not wait for finished ones."""
        return any(subtask.operator_id in self.chain.operator_ids for subtask in task.attempts)

    def waiting(self) -> list[Data]:
        """All data on its way to the chain, and what the chain holds."""
        return self.chain.gate.waiting() + [data for batch in self.held.values() for data in batch]

    def hold(self, batch: MicroBatch) -> None:
        """Keep what reached a sink for the next checkpoint."""
        for origin, data in batch.items():
            append(self.held, origin, data)
            append(self.held_since, origin, data)

    def ran(self, reports: Sequence[Report]) -> None:
        """Record a micro-batch."""
        for report in reports:
            self.stale.add(report.subtask_index)
            self.stale_since.add(report.subtask_index)
            self.chain.watermarks.late += report.metrics.get(ROWS_LATE, 0)
            for rows in (self.rows, self.rows_since):
                rows[report.subtask_index, "rows_in"] += report.metrics.get("rows_in", 0)
                rows[report.subtask_index, "rows_out"] += report.metrics.get("rows_out", 0)

    def take(self, plan: ExecutionPlan) -> PendingSnapshot:
        """Freeze what belongs to the snapshot. What comes from now on belongs to a later one."""
        marks = self.chain.watermarks
        held = {origin: list(data) for origin, data in self.held.items()}
        execution = Execution(self.chain, held, watermarks=dict(marks.known), late=marks.late)
        for index in sorted({index for index, _ in self.rows}):
            metrics = {name: self.rows[index, name] for name in ("rows_in", "rows_out")}
            report = Report(self.vertex.operator_id, index, (), {"sync_duration": 0, "async_duration": 0} | metrics)
            execution.reports[SubtaskId(self.vertex.operator_id, index)] = report
        self.pending = pending = PendingSnapshot(plan, execution)
        self.held_since, self.stale_since, self.rows_since = {}, set(), Counter()
        self.taken, self.trouble = [], ""
        return pending

    def as_of_barrier(self, snapshots: dict[SubtaskId, Snapshot]) -> dict[SubtaskId, Snapshot]:
        """What the subtasks start from, without staged rows that are no longer current."""
        result = dict(snapshots)
        for sink in self.chain.sinks:
            for index in self.stale:
                if known := result.get(SubtaskId(sink.operator_id, index)):
                    rest = tuple(handle for handle in known.handles if handle.kind is not HandleKind.STAGED)
                    result[SubtaskId(sink.operator_id, index)] = replace(known, handles=rest)
        return result

    def discard(self) -> None:
        """Drop the snapshot: it does not count, and what it held goes with the next one."""
        self.pending, self.taken = None, []

    def completed(self) -> None:
        """The latest snapshot is part of a completed checkpoint."""
        self.held, self.stale, self.rows = self.held_since, self.stale_since, self.rows_since
        self.held_since, self.stale_since, self.rows_since = {}, set(), Counter()
        self.discard()


RunningVertex = RunningSource | RunningChain


def is_sink(running: RunningChain) -> bool:
    return isinstance(running.vertex, SinkVertex)


def is_appending(sink: SinkVertex) -> bool:
    return sink.sink.input is SinkInput.CHANGES
