"""`SparkContinuousRegion`: a pipeline's operators as they run on and on, micro-batch by micro-batch, on one Spark session.

Each round polls the sources, lets the gates release what may be processed, runs it, and carries out what the barriers in
between ask for. Segments and barriers, gates, stations and Spark jobs are those of a scheduled run; what differs is that
much follows behind a barrier, so that how barriers are handled matters (protocol.md sections 10 to 12).
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import assert_never
from uuid import uuid4

from tidegate.clock import SystemClock
from tidegate.pipeline import KeyedVertex
from tidegate.ports import Declined, Round, Segment, SourceContext
from tidegate.protocol import subtask_messages as steps
from tidegate.protocol.barrier_options import choose_barrier_options
from tidegate.protocol.barriers import Barrier, Cancel, EndOfData, EndOfPartition, Marker, StopMode
from tidegate.protocol.errors import CheckpointDeclinedError, CheckpointError
from tidegate.protocol.finished import choose_triggered, finished_operators
from tidegate.protocol.records import (
    Acknowledgement,
    CheckpointKind,
    CompactedRun,
    HandleKind,
    Snapshot,
    SubtaskId,
    SubtaskMetrics,
)
from tidegate.protocol.snapshot import SnapshotTask
from tidegate.spark.compaction import compact_runs
from tidegate.spark.cut import milliseconds_between, write_prefix
from tidegate.spark.failures import as_checkpoint_error
from tidegate.spark.gate import Aborted, Aligned, Data, Exchange, Released, SnapshotDue, milliseconds
from tidegate.spark.in_flight import exchanged, with_in_flight
from tidegate.spark.live_state import LiveState
from tidegate.spark.operators import Operators
from tidegate.spark.posts import Batch, OperatorPost, Post, SourcePost, append, is_appending
from tidegate.spark.region import SparkRegion
from tidegate.spark.reports import Report
from tidegate.spark.stations import Answers, Station, build_stations, channel_of, put_back

#: Bytes of input that one operator takes at a time, unless a single segment is larger.
MAX_BATCH_BYTES = 64 << 20

#: As many batches may wait in a channel before its split is polled again.
_BATCHES_AHEAD = 4


class SparkContinuousRegion:
    """Implements `ports.ContinuousRegion`: one attempt at running a pipeline continuously. Not thread-safe, but for `SparkRegion.frame`.

    `attempt` must be the pipeline's alone, and `restored` as of its latest completed checkpoint. Whatever a method raises:
    this attempt is over, and the next one goes on from the latest completed checkpoint.
    """

    def __init__(
        self,
        region: SparkRegion,
        directory: str,
        attempt: int,
        restored: Mapping[SubtaskId, Snapshot],
        max_batch_bytes: int = MAX_BATCH_BYTES,
    ) -> None:
        graph = region.graph
        self._region = region
        self._graph = graph
        self._attempt = attempt
        self._max_batch_bytes = max_batch_bytes
        self._state = LiveState(region.storage, directory, restored)
        self._sources = [SourcePost(vertex) for vertex in graph.sources]
        stations = build_stations(graph, [sink for sink in graph.sinks if is_appending(sink)])
        self._operators = [OperatorPost(station) for station in stations]
        self._task: SnapshotTask | None = None  # of the checkpoint that was begun last
        self._last_begun = max((h.created_by for snapshot in restored.values() for h in snapshot.handles), default=0)
        self._acknowledgements: list[Acknowledgement] = []
        self._declined: list[Declined] = []
        self._clock = SystemClock()
        self._since = self._clock.now(), monotonic()
        self._posts: tuple[Post, ...] = (*self._sources, *self._operators)
        for post in self._posts:
            post.steps.step(steps.Started())
        self._put_back()
        self._finished: set[SubtaskId] = set()  # as of the latest completed checkpoint
        self._close({subtask for subtask, snapshot in restored.items() if snapshot.finished})

    def _put_back(self) -> None:
        """In-flight data of an unaligned checkpoint, before anything else; from here on it is in a channel again."""
        for post in self._operators:
            put_back(post.station, self._state.snapshots, self._graph.pipeline.name)
            first = SubtaskId(post.vertex.operator_id, 0)
            if first in self._state.snapshots:
                self._state.snapshots[first] = replace(self._state.snapshots[first], position=None)

    # -- from the coordinator

    def begin(self, task: SnapshotTask) -> None:
        """See `ports.ContinuousRegion`."""
        self._task, self._last_begun = task, task.checkpoint_id
        gates = self._graph.pipeline.checkpoints.gate_options()
        options = choose_barrier_options(gates, task.kind is not CheckpointKind.CHECKPOINT)
        if task.stop is not None:
            self._end_data(task.stop)
        for source in self._sources:
            if any(subtask in task.attempts for subtask in source.subtasks()):
                self._step(source, steps.Begin(task.checkpoint_id, options, task.stop is not None))
        for post in self._operators:
            if post.is_asked(task) and choose_triggered([post.vertex.operator_id], self._done(), self._graph.upstreams):
                while self._drain(post):  # every end that was said is known before (protocol.md section 13), and
                    pass  # what an unaligned checkpoint left in flight has been processed
                post.station.gate.signal(Barrier(task.checkpoint_id, 0, options, milliseconds(task.triggered_at)))

    def _end_data(self, mode: StopMode) -> None:
        """No source emits any more: it stops first, then takes its snapshot (protocol.md section 18)."""
        for source in self._sources:
            for split in source.channels():
                if not self._is_read(SubtaskId(source.vertex.operator_id, split)):
                    self._signal(channel_of(source.name, split), lambda index: EndOfData(index, mode))

    def completed(self, checkpoint_id: int) -> None:
        """See `ports.ContinuousRegion`; what was merged or consumed by now is deleted."""
        taken = [acknowledgement for post in self._posts for acknowledgement in post.taken]
        for post in self._posts:
            self._step(post, steps.NotifyComplete(checkpoint_id))
        self._close({acknowledgement.subtask for acknowledgement in taken if acknowledgement.snapshot.finished})
        self._compact(checkpoint_id)
        self._delete_unused()

    def aborted(self, checkpoint_id: int, latest_completed: int) -> None:
        """See `ports.ContinuousRegion`."""
        for post in self._posts:
            self._step(post, steps.NotifyAborted(checkpoint_id, latest_completed))
        self._acknowledgements = []
        self._delete_unused()

    def _close(self, subtasks: set[SubtaskId]) -> None:
        """What has finished sends no barriers any more."""
        before = self._done()
        for source in self._sources:
            for split in source.channels():
                if SubtaskId(source.vertex.operator_id, split) in subtasks - self._finished:
                    self._signal(channel_of(source.name, split), EndOfPartition)
        self._finished |= subtasks
        for vertex in self._graph.keyed:
            if vertex.operator_id in self._done() - before:
                self._signal(channel_of(vertex.name), EndOfPartition)

    def _done(self) -> frozenset[str]:
        """The operators and sources that have finished."""
        return finished_operators(self._graph.plan, {id_: Snapshot(finished=True) for id_ in self._finished})

    # -- one round

    def advance(self) -> Round:
        """See `ports.ContinuousRegion`. Raises `CheckpointError`s."""
        arrived, behind = self._poll()
        idle = not arrived
        for post in self._operators:
            idle = not self._drain(post) and idle
        idle = idle and not self._acknowledgements
        result = Round(self._acknowledgements, self._declined, idle, behind, self._has_ended())
        self._acknowledgements, self._declined = [], []
        return result

    def _poll(self) -> tuple[bool, bool]:
        """Whether anything has arrived, and whether some split is behind: it has more, or its channels are full."""
        arrived = behind = False
        for post in self._sources:
            for split in post.channels():
                if self._is_stopping() or self._is_read(SubtaskId(post.vertex.operator_id, split)):
                    continue
                if not self._has_room(channel_of(post.name, split)):
                    behind = True
                    continue
                segment = self._poll_split(post, split)
                arrived = arrived or segment is not None
                behind = post.vertex.is_behind(split, segment) or behind
        return arrived, behind

    def _poll_split(self, post: SourcePost, split: int) -> Segment | None:
        subtask = SubtaskId(post.vertex.operator_id, split)
        prefix = f"{write_prefix(self._state.directory, subtask, self._attempt)}-{uuid4().hex}"
        context = SourceContext(self._region.storage, self._last_begun + 1, prefix)
        segment, snapshot = post.vertex.source.poll(split, self._state.snapshots.get(subtask), context)
        self._state.moved(subtask, snapshot)
        if segment is not None:
            self._feed(channel_of(post.name, split), segment)
        if snapshot.finished:
            self._signal(channel_of(post.name, split), lambda index: EndOfData(index, StopMode.DRAIN))
        return segment

    def _is_stopping(self) -> bool:
        return self._task is not None and self._task.stop is not None

    def _is_read(self, split: SubtaskId) -> bool:
        """Whether a split has been read to its end."""
        return self._state.snapshots.get(split, Snapshot()).finished

    def _has_ended(self) -> bool:
        splits = [subtask for source in self._sources for subtask in source.subtasks()]
        goes_on = self._graph.pipeline.checkpoints.checkpoints_after_tasks_finish
        to_finish = set(self._graph.subtasks if goes_on else splits)
        return all(map(self._is_read, splits)) and not to_finish <= self._finished

    def _has_room(self, channel: str) -> bool:
        limit = _BATCHES_AHEAD * self._max_batch_bytes
        gates = [post.station.gate for post in self._operators if channel in post.station.gate.channels]
        return all(gate.queued_bytes(gate.channels.index(channel)) < limit for gate in gates)

    def _feed(self, channel: str, data: Data) -> None:
        for post in self._operators:
            gate = post.station.gate
            if channel in gate.channels:
                gate.offer(gate.channels.index(channel), data)

    def _signal(self, channel: str, make: Callable[[int], Marker]) -> None:
        for post in self._operators:
            gate = post.station.gate
            if channel in gate.channels:
                gate.signal(make(gate.channels.index(channel)))

    def _drain(self, post: OperatorPost) -> bool:
        """Whether anything happened."""
        gate, batch, outputs = post.station.gate, Batch(), post.station.gate.drain(self._max_batch_bytes)
        for output in outputs:
            match output:
                case Released():
                    append(batch, gate.channels[output.channel].partition("/")[0], [output.data])
                case SnapshotDue():
                    self._process(post, batch)
                    batch = Batch()
                    if output.checkpoint_id < self._last_begun:  # more were given up than the steps remember
                        self._step(post, steps.NotifyAborted(output.checkpoint_id))
                    self._step(post, steps.Begin(output.checkpoint_id, output.options, self._is_stopping()))
                case Aligned():
                    post.aligned = output
                    self._step(post, steps.CaptureEnded(output.checkpoint_id))
                case Aborted():
                    post.trouble = ""
                    self._step(post, steps.AlignmentAborted(output.abort.checkpoint_id, output.abort.reason))
                case _:
                    assert_never(output)
        self._process(post, batch)
        return bool(outputs)

    # -- micro-batches

    def _process(self, post: OperatorPost, batch: Batch) -> None:
        if not batch:
            return
        if not isinstance(post.vertex, KeyedVertex):
            post.hold(batch)
            return
        everybody = {
            SubtaskId(post.vertex.operator_id, i): self._attempt for i in range(self._graph.pipeline.parallelism)
        }
        now = self._clock.now()
        task = SnapshotTask(self._last_begun + 1, now, everybody, self._state.snapshots, {})
        answers = Answers(self._graph, task, self._region.place, self._state.directory)
        station = Station(post.vertex, (), post.station.gate, post.station.exchanges, batch)
        reports = self._run(station, answers)
        self._state.ran(reports)
        post.changed(report.subtask_index for report in reports)
        handles = [h for r in sorted(reports, key=lambda r: r.subtask_index) for h in r.handles]
        if sent := tuple(handle for handle in handles if handle.kind is HandleKind.EXCHANGE):
            self._feed(channel_of(post.name), Exchange(sent))

    def _run(self, station: Station, answers: Answers) -> list[Report]:
        reports: list[Report] = []
        streams = self._region.streams
        try:
            Operators(self._graph, streams, answers).run(station, reports.extend)
        except Exception as error:
            kind = "operator" if isinstance(station.vertex, KeyedVertex) else "sink"
            where = f"{kind} {station.vertex.name!r} of pipeline {self._graph.pipeline.name!r}"
            raise (streams.explain(error, station.arrived) or as_checkpoint_error(error, where)) from error
        return reports

    # -- steps of a snapshot

    def _step(self, post: Post, event: steps.Event) -> None:
        effects = deque(post.steps.step(event))
        while effects:
            effects.extendleft(reversed(self._carry_out(post, effects.popleft())))

    def _carry_out(self, post: Post, effect: steps.Effect) -> list[steps.Effect]:
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
                self._declined.append(Declined(effect.checkpoint_id, effect.reason, self._why(post, effect)))
            case steps.BroadcastCancel():
                self._broadcast(post, effect)
            case steps.AbortCapture() | steps.DiscardSnapshot():
                if isinstance(post, OperatorPost):
                    post.discard()
            case steps.TellComplete():
                if self._task is not None and effect.checkpoint_id == self._task.checkpoint_id:
                    self._tell_complete(post)  # else what is repeated is known, and `taken` is of the one given up
            case steps.TellAborted() | steps.TellSubsumed():
                pass  # what was staged goes with the next checkpoint (protocol.md section 16)
            case steps.Finish():
                pass
            case steps.Fail():
                raise CheckpointDeclinedError(
                    f"{post.name} of pipeline {self._graph.pipeline.name} was to stop with savepoint {effect.checkpoint_id}, "
                    "which was aborted; it cannot go on without it. Committed data and the latest completed checkpoint are "
                    "untouched; start the pipeline again."
                )
            case _:
                assert_never(effect)
        return []

    def _broadcast(self, post: Post, effect: steps.BroadcastBarrier | steps.BroadcastCancel) -> None:
        names, ended = [post.name], None
        if isinstance(post, OperatorPost):
            if post.vertex.operator_id in self._done():
                return  # it is asked for its tables only: downstream its channel has been closed
            if post.aligned is not None and post.aligned.checkpoint_id == effect.checkpoint_id:
                ended = post.aligned.ended
        else:
            open_ = [s for s in post.channels() if SubtaskId(post.vertex.operator_id, s) not in self._finished]
            names = [channel_of(post.name, split) for split in open_]
        assert self._task is not None
        triggered_at = milliseconds(self._task.triggered_at)

        def make(index: int) -> Marker:
            if isinstance(effect, steps.BroadcastCancel):
                return Cancel(effect.checkpoint_id, index)
            return Barrier(effect.checkpoint_id, index, effect.options, triggered_at)

        for name in names:
            if ended is not None and isinstance(effect, steps.BroadcastBarrier):
                self._signal(name, partial(EndOfData, mode=ended))
            self._signal(name, make)

    def _snapshot(self, post: Post, checkpoint_id: int) -> list[steps.Effect]:
        """Fix what belongs to it, then stage what sinks show of it."""
        if isinstance(post, SourcePost):
            post.taken = self._positions(post)
            events = steps.StepDone(checkpoint_id), steps.CaptureEnded(checkpoint_id), steps.WriteEnded(checkpoint_id)
            return [effect for event in events for effect in post.steps.step(event)]
        assert self._task is not None
        task = replace(self._task, restored=post.as_of_barrier(self._state.snapshots))
        post.take(task, Answers(self._graph, task, self._region.place))
        assert post.taking is not None
        effects = post.steps.step(steps.StepDone(checkpoint_id))
        try:
            for report in self._run(post.taking.station, post.taking.answers):
                post.taking.station.reports[SubtaskId(report.operator_id, report.subtask_index)] = report
        except CheckpointError as error:
            post.trouble = str(error)
            return [*effects, *post.steps.step(steps.WriteFailed(checkpoint_id, error.reason))]
        return [*effects, *post.steps.step(steps.WriteEnded(checkpoint_id))]

    def _why(self, post: Post, decline: steps.Decline) -> str:
        trouble = post.trouble if isinstance(post, OperatorPost) else ""
        what = f"{post.name} of pipeline {self._graph.pipeline.name} declined checkpoint {decline.checkpoint_id}"
        return f"{what}. {trouble or decline.reason.sentence} Committed data and the latest checkpoint are untouched."

    def _positions(self, post: SourcePost) -> list[Acknowledgement]:
        assert self._task is not None
        task, result = self._task, []
        delay = milliseconds_between(task.triggered_at, self._clock.now())
        metrics = SubtaskMetrics(delay, 0, 0, 0, 0, 0)
        for split in post.channels():
            subtask = SubtaskId(post.vertex.operator_id, split)
            if subtask in task.attempts:
                snapshot = self._state.snapshots.get(subtask, Snapshot())
                if task.stop is StopMode.DRAIN:  # it stops here for ever, whatever lies behind
                    snapshot = replace(snapshot, finished=True)
                result.append(Acknowledgement(subtask, task.attempts[subtask], snapshot, metrics))
        return result

    def _acknowledge(self, post: Post, checkpoint_id: int) -> None:
        if isinstance(post, OperatorPost):
            post.taken = self._answers_of(post)
        post.taken = [self._state.acknowledged(checkpoint_id, acknowledgement) for acknowledgement in post.taken]
        self._acknowledgements += post.taken

    def _answers_of(self, post: OperatorPost) -> list[Acknowledgement]:
        assert post.taking is not None
        assert post.aligned is not None
        answers, station = post.taking.answers, post.taking.station
        station.aligned = post.aligned
        wall, began = self._since
        first_barrier = wall + timedelta(seconds=post.aligned.first_barrier - began)
        assert self._task is not None
        delay = milliseconds_between(self._task.triggered_at, first_barrier)
        taken = answers.acknowledgements(station, answers.pending(station), delay)
        first = SubtaskId(post.vertex.operator_id, 0)
        channels = station.gate.channels
        captured = self._state.dated(self._task.checkpoint_id, post.aligned.captured)
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

    # -- housekeeping

    def _compact(self, checkpoint_id: int) -> None:
        """Merge runs, where there are too many."""
        region, state = self._region, self._state
        compacted: list[CompactedRun] = compact_runs(
            self._graph, region.streams, region.place, checkpoint_id + 1, state.snapshots, state.directory
        )
        state.compacted(compacted)

    def _delete_unused(self) -> None:
        waiting = [data for post in self._operators for data in post.station.gate.waiting()]
        held = [data for post in self._operators for batch in post.held.values() for data in batch]
        self._state.delete_unused(exchanged([*waiting, *held]))
