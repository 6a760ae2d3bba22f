"""The steps of a snapshot at the vertices of a continuous pipeline (protocol.md section 12), as decided in
`protocol.subtask.steps`."""

from collections import deque
from collections.abc import Iterable
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import assert_never

from tidegate.dataflow.channel import ChannelName
from tidegate.dataflow.driver_base import DriverBase, barrier
from tidegate.dataflow.execution_plan import plan_snapshot
from tidegate.dataflow.in_flight import with_in_flight
from tidegate.dataflow.live_state import LiveState
from tidegate.dataflow.polled_sources import PolledSources
from tidegate.dataflow.running import (
    REMEMBERED,
    PendingSnapshot,
    RunningChain,
    RunningSource,
    RunningVertex,
)
from tidegate.dataflow.snapshot_writes import SnapshotWrites
from tidegate.dataflow.source_snapshots import milliseconds_between
from tidegate.dataflow.subtask_snapshots import acknowledgements
from tidegate.ports import Declined
from tidegate.protocol.barriers.messages import Cancel, EndOfData, Marker
from tidegate.protocol.facts.errors import CheckpointDeclinedError
from tidegate.protocol.facts.records import Acknowledgement, SubtaskId
from tidegate.protocol.steps.snapshot import SnapshotTask
from tidegate.protocol.subtask import messages as steps
from tidegate.protocol.text.sentences import reassured


class SnapshotSteps:
    """The executor of snapshot steps. It collects results in `acknowledgements`, by checkpoint, and `declined`, for the
    driver to take."""

    def __init__(self, base: DriverBase, sources: PolledSources, state: LiveState, background: Executor) -> None:
        self.acknowledgements: dict[int, list[Acknowledgement]] = {}
        self.declined: list[Declined] = []
        self._tasks: dict[int, SnapshotTask] = {}  # tasks of the latest checkpoints
        self._base = base
        self._parts = base.parts
        self._channels = base.channels
        self._sources = sources
        self._state = state
        self._writes = SnapshotWrites(base.parts.jobs, background)
        self._waiting: list[tuple[RunningChain, PendingSnapshot]] = []  # for older checkpoints to end

    def begin(self, task: SnapshotTask) -> None:
        """Prepare for the steps of a checkpoint."""
        self._tasks[task.checkpoint_id] = task
        for old in sorted(self._tasks)[:-REMEMBERED]:
            del self._tasks[old]

    def task(self, checkpoint_id: int) -> SnapshotTask:
        """Return the task of a checkpoint whose markers are on their way, even if it has ended."""
        return self._tasks[checkpoint_id if checkpoint_id in self._tasks else min(self._tasks)]

    @property
    def is_writing(self) -> bool:
        return bool(self._writes or self._waiting)

    def being_written(self) -> list[PendingSnapshot]:
        """Return the snapshots being written, including those that no longer count."""
        return self._writes.under_way()

    def take_written(self) -> None:
        """Continue the snapshots that have been written since, and start those that need not wait any more."""
        for vertex, event in self._writes.ended():
            self.step(vertex, event)
        waiting, self._waiting = self._waiting, []
        for vertex, pending in waiting:
            if vertex.pending.get(id_ := pending.plan.checkpoint_id) is pending:  # else it was discarded
                vertex.renew(id_, self._state.snapshots)
                self._carry_out_all(vertex, self._write(vertex, id_))

    def step(self, vertex: RunningVertex, event: steps.SubtaskEvent) -> None:
        """Pass an event to a vertex, and carry out its effects in order."""
        self._carry_out_all(vertex, vertex.steps.step(event))

    def _carry_out_all(self, vertex: RunningVertex, following: Iterable[steps.Effect]) -> None:
        effects = deque(following)
        while effects:
            effects.extendleft(reversed(self._carry_out(vertex, effects.popleft())))

    def _carry_out(self, vertex: RunningVertex, effect: steps.Effect) -> list[steps.Effect]:
        """Carry out an effect. Return the effects that follow, to be carried out before any others."""
        match effect:
            case steps.Prepare():  # no data is held back in front of a barrier
                return vertex.steps.step(steps.StepDone(effect.checkpoint_id))
            case steps.BroadcastBarrier():
                self._broadcast(vertex, effect)
                return vertex.steps.step(steps.StepDone(effect.checkpoint_id))
            case steps.SnapshotOperators():
                return self._snapshot(vertex, effect.checkpoint_id)
            case steps.Acknowledge():
                self._acknowledge(vertex, effect.checkpoint_id)
            case steps.Decline():
                self.declined.append(Declined(effect.checkpoint_id, effect.reason, self._why(vertex, effect)))
            case steps.BroadcastCancel():
                self._broadcast(vertex, effect)
            case steps.AbortCapture() | steps.DiscardSnapshot():
                vertex.discard(effect.checkpoint_id)
            case steps.ForwardComplete():
                self._notify_complete(vertex, effect.checkpoint_id)
            case steps.ForwardAborted() | steps.ForwardSubsumed() | steps.Finish():
                pass  # staged data goes with the next checkpoint (protocol.md section 16)
            case steps.Fail():
                raise CheckpointDeclinedError(
                    f"{vertex.name} of pipeline {self._parts.graph.pipeline.name} was to stop with savepoint "
                    f"{effect.checkpoint_id}, which was aborted, and cannot continue without it. Committed data and "
                    "the latest completed checkpoint are untouched; start the pipeline again."
                )
            case _:
                assert_never(effect)
        return []

    def _broadcast(self, vertex: RunningVertex, effect: steps.BroadcastBarrier | steps.BroadcastCancel) -> None:
        def make(index: int) -> Marker:
            if isinstance(effect, steps.BroadcastCancel):
                return Cancel(effect.checkpoint_id, index)
            return barrier(self.task(effect.checkpoint_id), effect.options, index)

        ended = vertex.ended_with(effect.checkpoint_id) if isinstance(vertex, RunningChain) else None
        for name in self._open_channels(vertex, effect.checkpoint_id):
            if ended is not None and isinstance(effect, steps.BroadcastBarrier):
                self._channels.signal(name, partial(EndOfData, mode=ended))
            self._channels.signal(name, make)

    def _open_channels(self, vertex: RunningVertex, checkpoint_id: int) -> list[ChannelName]:
        """Return the channels downstream. A vertex that the checkpoint does not wait for, or only for its tables, has
        sent its end."""
        waited_for = self.task(checkpoint_id).attempts
        if isinstance(vertex, RunningSource):
            subtasks = enumerate(vertex.subtasks())
            return [ChannelName(vertex.name, split) for split, subtask in subtasks if subtask in waited_for]
        is_open = any(subtask.operator_id == vertex.vertex.operator_id for subtask in waited_for)
        return [ChannelName(vertex.name)] if is_open else []

    def _snapshot(self, vertex: RunningVertex, checkpoint_id: int) -> list[steps.Effect]:
        """Freeze the contents of the snapshot, and start to stage the rows for sinks in the background."""
        if isinstance(vertex, RunningSource):
            task, now = self.task(checkpoint_id), self._parts.clock.now()
            vertex.taken[checkpoint_id] = self._sources.positions(vertex, task, now)
            events = steps.StepDone(checkpoint_id), steps.CaptureEnded(checkpoint_id), steps.WriteEnded(checkpoint_id)
            return [effect for event in events for effect in vertex.steps.step(event)]
        task = replace(self.task(checkpoint_id), restored=vertex.as_of_barrier(self._state.as_of(checkpoint_id)))
        plan = plan_snapshot(self._parts.graph, task)
        at_once = max(1, plan.parallelism // 2)  # micro-batches take the others
        vertex.take(replace(plan, at_once=at_once, before=vertex.before(checkpoint_id)))
        return [*vertex.steps.step(steps.StepDone(checkpoint_id)), *self._write(vertex, checkpoint_id)]

    def _write(self, vertex: RunningChain, checkpoint_id: int) -> list[steps.Effect]:
        """Start to write what the snapshot consists of, unless it depends on checkpoints that have not ended."""
        pending = vertex.pending[checkpoint_id]
        if vertex.depends_on_older(checkpoint_id):
            self._waiting.append((vertex, pending))
            return []
        if pending.has_work:
            self._writes.start(vertex, pending)
            return []
        return vertex.steps.step(steps.WriteEnded(checkpoint_id))

    def _why(self, vertex: RunningVertex, decline: steps.Decline) -> str:
        trouble = vertex.trouble.pop(decline.checkpoint_id, "") if isinstance(vertex, RunningChain) else ""
        what = (
            f"{vertex.name} of pipeline {self._parts.graph.pipeline.name} declined checkpoint {decline.checkpoint_id}"
        )
        return f"{what}. {reassured(trouble or decline.reason.sentence)}"

    def _acknowledge(self, vertex: RunningVertex, checkpoint_id: int) -> None:
        if isinstance(vertex, RunningChain):
            vertex.taken[checkpoint_id] = self._acknowledgements_of(vertex, checkpoint_id)
        vertex.taken[checkpoint_id] = [
            self._state.acknowledged(checkpoint_id, acknowledgement) for acknowledgement in vertex.taken[checkpoint_id]
        ]
        self.acknowledgements.setdefault(checkpoint_id, []).extend(vertex.taken[checkpoint_id])

    def _acknowledgements_of(self, vertex: RunningChain, checkpoint_id: int) -> list[Acknowledgement]:
        pending, aligned = vertex.pending.pop(checkpoint_id), vertex.aligned.pop(checkpoint_id)
        plan, execution = pending.plan, pending.execution
        execution.aligned = aligned
        first_barrier = self._base.began.wall_time(aligned.first_barrier)
        delay = milliseconds_between(self.task(checkpoint_id).triggered_at, first_barrier)
        taken = acknowledgements(plan, execution, plan.pending(vertex.chain), delay)
        first = SubtaskId(vertex.vertex.operator_id, 0)
        channels = vertex.chain.gate.channels
        captured = self._state.dated(checkpoint_id, aligned.captured)
        return [
            replace(ack, snapshot=with_in_flight(ack.snapshot, channels, captured)) if ack.subtask == first else ack
            for ack in taken
        ]

    def _notify_complete(self, vertex: RunningVertex, checkpoint_id: int) -> None:
        taken = vertex.taken.get(checkpoint_id, [])
        self._state.completed(taken)
        tables = {sink.operator_id for sink in vertex.chain.sinks} if isinstance(vertex, RunningChain) else set()
        for acknowledgement in taken:
            if acknowledgement.subtask.operator_id in tables:
                self._state.snapshots[acknowledgement.subtask] = acknowledgement.snapshot
        if isinstance(vertex, RunningChain):
            vertex.show({ack.subtask: ack.snapshot for ack in taken})
        vertex.completed(checkpoint_id)
