"""`SparkContinuousRegion`: a pipeline's operators as they run on and on, micro-batch by micro-batch, on one Spark session.

Each round polls the sources, lets the gates release what may be processed, runs it, and carries out what the barriers in
between ask for. Segments and barriers, gates, stations and Spark jobs are those of a scheduled run; what differs is that
much follows behind a barrier, so that how barriers are handled matters (protocol.md sections 10 to 12).

Reading order: `posts` (what each vertex holds), `inputs`, `channels`, `live_state`, `snapshot_steps`, `in_flight`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol, assert_never

from tidegate.clock import SystemClock
from tidegate.pipeline.definition import SinkVertex
from tidegate.pipeline.graph import Graph
from tidegate.ports import CheckpointStorage, Round
from tidegate.protocol import subtask_messages as steps
from tidegate.protocol.barrier_options import choose_barrier_options
from tidegate.protocol.barriers import Barrier, BarrierOptions, EndOfPartition
from tidegate.protocol.finished import choose_triggered, finished_operators
from tidegate.protocol.records import CheckpointKind, HandleKind, Snapshot, SubtaskId
from tidegate.protocol.snapshot import SnapshotTask
from tidegate.spark.channels import Channels
from tidegate.spark.gate import Aborted, Aligned, Exchange, Released, SnapshotDue, milliseconds
from tidegate.spark.in_flight import exchanged
from tidegate.spark.inputs import Inputs
from tidegate.spark.live_state import LiveState
from tidegate.spark.place import Place
from tidegate.spark.posts import Batch, OperatorPost, Post, SourcePost, append, is_appending
from tidegate.spark.region_jobs import RegionJobs
from tidegate.spark.snapshot_steps import SnapshotSteps
from tidegate.spark.stations import Answers, Station, build_stations, channel_of, put_back

#: Bytes of input that one operator takes at a time, unless a single segment is larger.
MAX_BATCH_BYTES = 64 << 20

#: As many batches may wait in a channel before its split is polled again.
_BATCHES_AHEAD = 4


class Parts(Protocol):
    """What a region is made of: a `SparkRegion` has it all."""

    graph: Graph
    storage: CheckpointStorage
    place: Place
    jobs: RegionJobs


class SparkContinuousRegion:
    """Implements `ports.ContinuousRegion`: one attempt at running a pipeline continuously. For one thread.

    `attempt` and `directory` must be this region's alone, and `restored` as of the latest completed checkpoint.
    """

    def __init__(
        self,
        region: Parts,
        directory: str,
        attempt: int,
        restored: Mapping[SubtaskId, Snapshot],
        max_batch_bytes: int = MAX_BATCH_BYTES,
    ) -> None:
        self._region = region
        self._graph = graph = region.graph
        self._attempt = attempt
        self._max_batch_bytes = max_batch_bytes
        self._last_begun = max((h.created_by for snapshot in restored.values() for h in snapshot.handles), default=0)
        sources = [SourcePost(vertex) for vertex in graph.sources]
        stations = build_stations(graph, [sink for sink in graph.sinks if is_appending(sink)])
        self._operators = [OperatorPost(station) for station in stations]
        self._sources = sources
        self._posts: tuple[Post, ...] = (*sources, *self._operators)
        self._state = LiveState(region.storage, directory, restored)
        self._channels = Channels(self._operators)
        limit = _BATCHES_AHEAD * max_batch_bytes
        self._inputs = Inputs(sources, self._channels, self._state, region.storage, attempt, limit)
        self._steps = SnapshotSteps(graph, region.jobs, region.place, self._channels, self._inputs, self._state)
        self._finished: set[SubtaskId] = set()  # as of the latest completed checkpoint
        for post in self._posts:
            post.steps.step(steps.Started())
        self._put_back()
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
        self._steps.task, self._last_begun = task, task.checkpoint_id
        gates = self._graph.pipeline.checkpoints.gate_options()
        options = choose_barrier_options(gates, task.kind is not CheckpointKind.CHECKPOINT)
        if task.stop is not None:
            self._inputs.stop(task.stop)
        for source in self._sources:
            if any(subtask in task.attempts for subtask in source.subtasks()):
                self._steps.step(source, steps.Begin(task.checkpoint_id, options, task.stop is not None))
        self._ask_directly(task, options)

    def _ask_directly(self, task: SnapshotTask, options: BarrierOptions) -> None:
        """Of those that are still asked, who has only finished ones upstream gets its barrier from nobody (protocol.md
        section 13)."""
        for post in self._operators:
            alone = choose_triggered([post.vertex.operator_id], self._done(), self._graph.upstreams)
            if alone and post.is_asked(task):
                while self._drain(post):  # so that every end is known before
                    pass
                post.station.gate.signal(Barrier(task.checkpoint_id, 0, options, milliseconds(task.triggered_at)))

    def completed(self, checkpoint_id: int) -> None:
        """See `ports.ContinuousRegion`; what was merged or consumed by now is deleted."""
        taken = [acknowledgement for post in self._posts for acknowledgement in post.taken]
        for post in self._posts:
            self._steps.step(post, steps.NotifyComplete(checkpoint_id))
        self._close({acknowledgement.subtask for acknowledgement in taken if acknowledgement.snapshot.finished})
        self._compact(checkpoint_id)
        self._delete_unused()

    def aborted(self, checkpoint_id: int, latest_completed: int) -> None:
        """See `ports.ContinuousRegion`."""
        for post in self._posts:
            self._steps.step(post, steps.NotifyAborted(checkpoint_id, latest_completed))
        self._steps.acknowledgements = []
        self._delete_unused()

    def _close(self, finished: set[SubtaskId]) -> None:
        """What has finished sends no barriers any more."""
        before = self._done()
        self._inputs.close(finished - self._finished)
        self._finished |= finished
        for vertex in self._graph.producers:
            if vertex.operator_id in self._done() - before:
                self._channels.signal(channel_of(vertex.name), EndOfPartition)

    def _done(self) -> frozenset[str]:
        """The operators and sources that have finished."""
        return finished_operators(self._graph.plan, {id_: Snapshot(finished=True) for id_ in self._finished})

    # -- one round

    def advance(self) -> Round:
        """See `ports.ContinuousRegion`. Raises `CheckpointError`s."""
        arrived, behind = self._inputs.poll(self._last_begun + 1)
        idle = not arrived
        for post in self._operators:
            idle = not self._drain(post) and idle
        acknowledgements, self._steps.acknowledgements = self._steps.acknowledgements, []
        declined, self._steps.declined = self._steps.declined, []
        return Round(acknowledgements, declined, idle and not acknowledgements, behind, self._has_ended())

    def _has_ended(self) -> bool:
        to_finish = {plan.operator_id for plan in self._graph.plan}
        if not self._graph.pipeline.checkpoints.checkpoints_after_tasks_finish:  # there is only one in which any can
            to_finish = {vertex.operator_id for vertex in self._graph.sources}
        return self._inputs.has_ended() and not to_finish <= self._done()

    def _drain(self, post: OperatorPost) -> bool:
        """Take what the gate gives, and process it up to each snapshot. Whether anything happened."""
        gate, batch = post.station.gate, Batch()
        outputs = gate.drain(self._max_batch_bytes)
        last = self._steps.task is not None and self._steps.task.stop is not None
        for output in outputs:
            match output:
                case Released():
                    append(batch, gate.channels[output.channel].partition("/")[0], [output.data])
                case SnapshotDue():
                    self._process(post, batch)
                    batch = Batch()
                    if output.checkpoint_id < self._last_begun:  # more were given up than the steps remember
                        self._steps.step(post, steps.NotifyAborted(output.checkpoint_id))
                    self._steps.step(post, steps.Begin(output.checkpoint_id, output.options, last))
                case Aligned():
                    post.aligned = output
                    self._steps.step(post, steps.CaptureEnded(output.checkpoint_id))
                case Aborted():
                    post.trouble = ""
                    self._steps.step(post, steps.AlignmentAborted(output.abort.checkpoint_id, output.abort.reason))
                case _:
                    assert_never(output)
        self._process(post, batch)
        return bool(outputs)

    def _process(self, post: OperatorPost, batch: Batch) -> None:
        """A micro-batch: an operator changes its state and sends on what changed, a step sends on what it makes of it; a
        sink keeps it for the barrier."""
        if not batch:
            return
        if isinstance(post.vertex, SinkVertex):
            post.hold(batch)
            return
        subtasks = [SubtaskId(post.vertex.operator_id, index) for index in range(self._graph.pipeline.parallelism)]
        attempts = dict.fromkeys(subtasks, self._attempt)
        task = SnapshotTask(self._last_begun + 1, SystemClock().now(), attempts, self._state.snapshots, {})
        answers = Answers(self._graph, task, self._region.place, self._state.directory)
        station = Station(post.vertex, (), post.station.gate, post.station.exchanges, batch)
        reports = self._region.jobs.run(station, answers)
        self._state.ran(reports)
        post.ran(reports)
        handles = [h for r in sorted(reports, key=lambda r: r.subtask_index) for h in r.handles]
        if sent := tuple(handle for handle in handles if handle.kind is HandleKind.EXCHANGE):
            self._channels.feed(channel_of(post.name), Exchange(sent))

    # -- housekeeping

    def _compact(self, checkpoint_id: int) -> None:
        """Merge runs where there are too many; used from here on, and part of the next checkpoint."""
        state = self._state
        state.compacted(self._region.jobs.compact(checkpoint_id + 1, state.snapshots, state.directory))

    def _delete_unused(self) -> None:
        self._state.delete_unused(exchanged(self._channels.waiting()))
