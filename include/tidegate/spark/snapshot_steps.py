"""Carries out the steps of a snapshot at the posts of a continuous region: protocol.md section 12, as decided in
`protocol.subtask_steps`.
"""

from collections import deque
from dataclasses import replace
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import assert_never

from tidegate.clock import SystemClock
from tidegate.pipeline.graph import Graph
from tidegate.ports import Declined
from tidegate.protocol import subtask_messages as steps
from tidegate.protocol.barriers import Barrier, Cancel, EndOfData, Marker
from tidegate.protocol.errors import CheckpointDeclinedError, CheckpointError
from tidegate.protocol.records import Acknowledgement, SubtaskId
from tidegate.protocol.sentences import reassured
from tidegate.protocol.snapshot import SnapshotTask
from tidegate.spark.channels import Channels
from tidegate.spark.cut import milliseconds_between
from tidegate.spark.gate import milliseconds
from tidegate.spark.in_flight import with_in_flight
from tidegate.spark.inputs import Inputs
from tidegate.spark.live_state import LiveState
from tidegate.spark.place import Place
from tidegate.spark.posts import OperatorPost, Post, SourcePost
from tidegate.spark.region_jobs import RegionJobs
from tidegate.spark.stations import Answers, channel_of


class SnapshotSteps:
    """What comes of the steps is collected in `acknowledgements` and `declined`, for whoever takes it from there."""

    def __init__(
        self, graph: Graph, jobs: RegionJobs, place: Place, channels: Channels, inputs: Inputs, state: LiveState
    ) -> None:
        self.acknowledgements: list[Acknowledgement] = []
        self.declined: list[Declined] = []
        self.task: SnapshotTask | None = None  # of the checkpoint that was begun last
        self._graph = graph
        self._jobs = jobs
        self._place = place
        self._channels = channels
        self._inputs = inputs
        self._state = state
        self._clock = SystemClock()
        self._since = self._clock.now(), monotonic()

    def step(self, post: Post, event: steps.Event) -> None:
        """Tell a post of an event, and do what it asks for, in order."""
        effects = deque(post.steps.step(event))
        while effects:
            effects.extendleft(reversed(self._carry_out(post, effects.popleft())))

    def _carry_out(self, post: Post, effect: steps.Effect) -> list[steps.Effect]:
        """Returns the effects that follow, to be carried out before any others."""
        match effect:
            case steps.Prepare():  # nothing is held back in front of a barrier
                return post.steps.step(steps.StepDone(effect.checkpoint_id))
            case steps.BroadcastBarrier():
                self._broadcast(post, effect)
                return post.steps.step(steps.StepDone(effect.checkpoint_id))
            case steps.SnapshotOperators():
                return self._snapshot(post, effect.checkpoint_id)
            case steps.Acknowledge():
                self._acknowledge(post, effect.checkpoint_id)
            case steps.Decline():
                self.declined.append(Declined(effect.checkpoint_id, effect.reason, self._why(post, effect)))
            case steps.BroadcastCancel():
                self._broadcast(post, effect)
            case steps.AbortCapture() | steps.DiscardSnapshot():
                post.discard()
            case steps.TellComplete():
                if self.task is not None and effect.checkpoint_id == self.task.checkpoint_id:
                    self._tell_complete(post)  # else what is repeated is known, and `taken` is of the one given up
            case steps.TellAborted() | steps.TellSubsumed() | steps.Finish():
                pass  # what was staged goes with the next checkpoint (protocol.md section 16)
            case steps.Fail():
                raise CheckpointDeclinedError(
                    f"{post.name} of pipeline {self._graph.pipeline.name} was to stop with savepoint {effect.checkpoint_id}, "
                    "which was aborted; it cannot go on without it. Committed data and the latest completed checkpoint are "
                    "untouched; start the pipeline again."
                )
            case _:
                assert_never(effect)
        return []

    @property
    def _current(self) -> SnapshotTask:
        assert self.task is not None
        return self.task

    def _broadcast(self, post: Post, effect: steps.BroadcastBarrier | steps.BroadcastCancel) -> None:
        triggered_at = milliseconds(self._current.triggered_at)

        def make(index: int) -> Marker:
            if isinstance(effect, steps.BroadcastCancel):
                return Cancel(effect.checkpoint_id, index)
            return Barrier(effect.checkpoint_id, index, effect.options, triggered_at)

        ended = post.ended_with(effect.checkpoint_id) if isinstance(post, OperatorPost) else None
        for name in self._open_channels(post):
            if ended is not None and isinstance(effect, steps.BroadcastBarrier):
                self._channels.signal(name, partial(EndOfData, mode=ended))
            self._channels.signal(name, make)

    def _open_channels(self, post: Post) -> list[str]:
        """Those downstream. What is not asked any more, or only for its tables, has sent its end instead."""
        asked = self._current.attempts
        if isinstance(post, SourcePost):
            return [channel_of(post.name, split) for split, subtask in enumerate(post.subtasks()) if subtask in asked]
        return [post.name] if any(subtask.operator_id == post.vertex.operator_id for subtask in asked) else []

    def _snapshot(self, post: Post, checkpoint_id: int) -> list[steps.Effect]:
        """Fix what belongs to it, then stage what sinks show of it."""
        if isinstance(post, SourcePost):
            post.taken = self._inputs.positions(post, self._current, self._clock.now())
            events = steps.StepDone(checkpoint_id), steps.CaptureEnded(checkpoint_id), steps.WriteEnded(checkpoint_id)
            return [effect for event in events for effect in post.steps.step(event)]
        task = replace(self._current, restored=post.as_of_barrier(self._state.snapshots))
        taking = post.take(Answers(self._graph, task, self._place))
        effects = post.steps.step(steps.StepDone(checkpoint_id))
        try:
            for report in self._jobs.run(taking.station, taking.answers):
                taking.station.reports[SubtaskId(report.operator_id, report.subtask_index)] = report
        except CheckpointError as error:
            post.trouble = str(error)
            return [*effects, *post.steps.step(steps.WriteFailed(checkpoint_id, error.reason))]
        return [*effects, *post.steps.step(steps.WriteEnded(checkpoint_id))]

    def _why(self, post: Post, decline: steps.Decline) -> str:
        trouble = post.trouble if isinstance(post, OperatorPost) else ""
        what = f"{post.name} of pipeline {self._graph.pipeline.name} declined checkpoint {decline.checkpoint_id}"
        return f"{what}. {reassured(trouble or decline.reason.sentence)}"

    def _acknowledge(self, post: Post, checkpoint_id: int) -> None:
        if isinstance(post, OperatorPost):
            post.taken = self._answers_of(post)
        post.taken = [self._state.acknowledged(checkpoint_id, acknowledgement) for acknowledgement in post.taken]
        self.acknowledgements += post.taken

    def _answers_of(self, post: OperatorPost) -> list[Acknowledgement]:
        assert post.taking is not None
        assert post.aligned is not None
        answers, station = post.taking.answers, post.taking.station
        station.aligned = post.aligned
        wall, began = self._since
        first_barrier = wall + timedelta(seconds=post.aligned.first_barrier - began)
        delay = milliseconds_between(self._current.triggered_at, first_barrier)
        taken = answers.acknowledgements(station, answers.pending(station), delay)
        first = SubtaskId(post.vertex.operator_id, 0)
        channels = station.gate.channels
        captured = self._state.dated(self._current.checkpoint_id, post.aligned.captured)
        return [
            replace(ack, snapshot=with_in_flight(ack.snapshot, channels, captured)) if ack.subtask == first else ack
            for ack in taken
        ]

    def _tell_complete(self, post: Post) -> None:
        self._state.completed(post.taken)
        if not isinstance(post, OperatorPost) or not post.taken:
            return
        tables = {sink.operator_id for sink in post.station.fused}
        for acknowledgement in post.taken:
            if acknowledgement.subtask.operator_id in tables:
                self._state.snapshots[acknowledgement.subtask] = acknowledgement.snapshot
        post.completed()
