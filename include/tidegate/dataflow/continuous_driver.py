"""`ContinuousDriver`: runs a pipeline's operators continuously, micro-batch by micro-batch.

Each round polls the sources, lets the gates release data, processes it, and carries out the effects of the barriers in
between. Chains, gates and jobs are those of a scheduled run. The difference is that data follows a barrier here, so the
barrier handler matters (protocol.md sections 10 to 12).

Reading order: `running` (the contents of each vertex), `polled_sources`, `live_state`, `snapshot_steps`,
`snapshot_writes`, `in_flight`.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import assert_never

from tidegate.dataflow.batch_size import BatchSize
from tidegate.dataflow.channel import ChannelName
from tidegate.dataflow.driver_base import DriverBase, barrier
from tidegate.dataflow.elements import Aborted, Aligned, Ended, Exchange, Released, SnapshotDue, has_rows
from tidegate.dataflow.execution_plan import ExecutionPlan
from tidegate.dataflow.in_flight import exchanged
from tidegate.dataflow.jobs import Parts
from tidegate.dataflow.live_state import LiveState
from tidegate.dataflow.operator_chains import Execution
from tidegate.dataflow.polled_sources import PolledSources
from tidegate.dataflow.reports import Report
from tidegate.dataflow.run_merging import RunMerging
from tidegate.dataflow.running import (
    MicroBatch,
    RunningChain,
    RunningSource,
    RunningVertex,
    append,
    is_sink,
    size_of,
)
from tidegate.dataflow.snapshot_steps import SnapshotSteps
from tidegate.ports import Round
from tidegate.protocol.barriers.messages import BarrierOptions
from tidegate.protocol.barriers.options import choose_barrier_options
from tidegate.protocol.facts.records import CheckpointKind, HandleKind, Snapshot, SubtaskId
from tidegate.protocol.schema.expiry import microseconds
from tidegate.protocol.steps.finished import choose_triggered
from tidegate.protocol.steps.snapshot import SnapshotTask
from tidegate.protocol.subtask import messages as steps

#: The maximum bytes of input that one operator takes at a time, unless a single segment is larger. See `batch_size`.
MAX_BATCH_BYTES = 64 << 20


class ContinuousDriver:
    """See `ports.ContinuousRegion`: one attempt at running a pipeline continuously. Used from one thread only. The rows
    that sinks stage for a snapshot are written on the `background` executor.

    `attempt` and `directory` must be unique to this region. `restored` must be as of the latest completed checkpoint.
    """

    def __init__(
        self,
        parts: Parts,
        directory: str,
        attempt: int,
        restored: Mapping[SubtaskId, Snapshot],
        background: Executor,
        max_batch_bytes: int = MAX_BATCH_BYTES,
    ) -> None:
        self._parts = parts
        self._graph = graph = parts.graph
        self._attempt = attempt
        self._max_batch_bytes = max_batch_bytes
        self._at = 0
        self._batches = 0  # micro-batches run in this round
        self._last_begun = max((h.created_by for snapshot in restored.values() for h in snapshot.handles), default=0)
        self._base = DriverBase(parts, [sink for sink in graph.sinks if sink.operator_id not in graph.showing_state])
        self._channels = self._base.channels
        self._chains = [RunningChain(chain, BatchSize(max_batch_bytes)) for chain in self._base.chains]
        self._sources = [RunningSource(vertex) for vertex in graph.sources]
        self._vertices: tuple[RunningVertex, ...] = (*self._sources, *self._chains)
        self._state = LiveState(parts.storage, directory, parts.jobs.fitting(restored))
        self._polled = PolledSources(parts, self._sources, self._channels, self._state, attempt)
        self._merging = RunMerging(parts, self._state, background)
        self._going: set[int] = set()  # the checkpoints that have begun and not ended
        self._steps = SnapshotSteps(self._base, self._polled, self._state, background)
        self._put_back()
        self._base.close({subtask for subtask, snapshot in restored.items() if snapshot.finished})

    def _put_back(self) -> None:
        """Move the in-flight data of an unaligned checkpoint from its snapshots back into the channels."""
        self._base.put_back(self._state.snapshots)
        self._base.restore_watermarks(self._state.snapshots)
        for running in self._chains:
            running.show(self._state.snapshots)
            running.closed, running.gone = running.chain.watermarks.lowest, running.chain.watermarks.gone
            first = SubtaskId(running.vertex.operator_id, 0)
            if first in self._state.snapshots:
                self._state.snapshots[first] = replace(self._state.snapshots[first], position=None)

    # -- calls of the coordinator

    def begin(self, task: SnapshotTask) -> None:
        """See `ports.ContinuousRegion`."""
        self._polled.settle(task.checkpoint_id, self._at_a_time)
        self._steps.begin(task)
        self._last_begun = task.checkpoint_id
        self._going.add(task.checkpoint_id)
        # The older checkpoint may have completed by now without a notification.
        self._base.close({subtask for subtask, snapshot in task.acknowledged.items() if snapshot.finished})
        gates = self._graph.pipeline.checkpoints.gate_options()
        options = choose_barrier_options(gates, task.kind is not CheckpointKind.CHECKPOINT)
        if task.stop is not None:
            self._polled.stop(task.stop)
        for source in self._sources:
            if any(subtask in task.attempts for subtask in source.subtasks()):
                self._steps.step(source, steps.Begin(task.checkpoint_id, options, task.stop is not None))
        self._ask_directly(task, options)

    def _ask_directly(self, task: SnapshotTask, options: BarrierOptions) -> None:
        """Put a barrier into the gate of each chain that the checkpoint waits for and that has only finished vertices
        upstream. It receives no barrier otherwise (protocol.md section 13)."""
        finished = self._base.finished_operators()
        for running in self._chains:
            alone = choose_triggered([running.vertex.operator_id], finished, self._graph.upstreams)
            if alone and running.is_asked(task):
                while self._drain(running):  # so that every end of data is processed before the barrier
                    pass
                running.chain.gate.signal(barrier(task, options))

    def completed(self, checkpoint_id: int) -> None:
        """See `ports.ContinuousRegion`. Delete files that have been merged or consumed by now, and merge others."""
        taken = [ack for vertex in self._vertices for ack in vertex.taken.get(checkpoint_id, ())]
        for vertex in self._vertices:
            self._steps.step(vertex, steps.NotifyComplete(checkpoint_id))
        self._base.close({ack.subtask for ack in taken if ack.snapshot.finished})
        self._going = {going for going in self._going if going > checkpoint_id}
        self._delete_unused()
        self._merging.start(self._last_begun + 1)

    def aborted(self, checkpoint_id: int, latest_completed: int) -> None:
        """See `ports.ContinuousRegion`."""
        for vertex in self._vertices:
            self._steps.step(vertex, steps.NotifyAborted(checkpoint_id, latest_completed))
            vertex.aborted(checkpoint_id)
        self._steps.acknowledgements.pop(checkpoint_id, None)
        self._going.discard(checkpoint_id)
        self._delete_unused()

    # -- one round

    def advance(self, polls: bool = True) -> Round:
        """See `ports.ContinuousRegion`. Raise the `CheckpointError`s of sources and operators."""
        arrived, behind = self._polled.poll(self._last_begun + 1, self._at_a_time) if polls else (False, False)
        idle = not arrived
        for running in self._chains:
            idle = not self._drain(running) and idle
        self._steps.take_written()
        self._tidy()
        acknowledgements, self._steps.acknowledgements = self._steps.acknowledgements, {}
        declined, self._steps.declined = self._steps.declined, []
        idle = idle and not acknowledgements
        lag, writing = self._polled.lag(), self._steps.is_writing
        return Round(acknowledgements, declined, idle, behind, self._has_ended(), lag, writing)

    def _at_a_time(self, source: str) -> int:
        """Return the bytes of a source that its slowest reader takes at a time. Sinks do not count, because they only
        hold them."""
        readers = (chain for chain in self._chains if source in chain.origins and not is_sink(chain))
        return min((chain.size.bytes for chain in readers), default=self._max_batch_bytes)

    def _has_ended(self) -> bool:
        to_finish = {plan.operator_id for plan in self._graph.plan}
        if not self._graph.pipeline.checkpoints.checkpoints_after_tasks_finish:  # they finish in one checkpoint only
            to_finish = {vertex.operator_id for vertex in self._graph.sources}
        return self._polled.has_ended() and not to_finish <= self._base.finished_operators()

    def _drain(self, running: RunningChain) -> bool:
        """Process the data that the gate releases, up to each snapshot. Return whether anything happened."""
        chain, batch = running.chain, MicroBatch()
        outputs = chain.gate.drain(self._max_batch_bytes if is_sink(running) else running.size.bytes)
        for output in outputs:
            match output:
                case Released():
                    chain.watermarks.arrive(chain.origin(output.channel), output.data)
                    if has_rows(output.data):
                        append(batch, chain.origin(output.channel), [output.data])
                case Ended():
                    chain.watermarks.end(output.channel)
                case SnapshotDue():
                    self._process(running, batch)
                    batch = MicroBatch()
                    if output.checkpoint_id not in self._going:  # more were aborted than the steps remember
                        self._steps.step(running, steps.NotifyAborted(output.checkpoint_id))
                    last = self._steps.task(output.checkpoint_id).stop is not None
                    self._steps.step(running, steps.Begin(output.checkpoint_id, output.options, last))
                case Aligned():
                    running.aligned[output.checkpoint_id] = output
                    self._steps.step(running, steps.CaptureEnded(output.checkpoint_id))
                case Aborted():
                    running.trouble.pop(output.abort.checkpoint_id, None)
                    self._steps.step(running, steps.AlignmentAborted(output.abort.checkpoint_id, output.abort.reason))
                case _:
                    assert_never(output)
        self._process(running, batch)
        return bool(outputs)

    def _process(self, running: RunningChain, batch: MicroBatch) -> None:
        """Process a micro-batch. An operator changes its state and sends the changes on. A step sends on its result. A
        sink keeps the data until the barrier."""
        chain = replace(running.chain, sinks=())
        lowest = chain.watermarks.lowest
        execution = Execution(chain, batch, closed=running.closed, watermark=lowest, gone=running.gone)
        running.closed, running.gone = lowest, execution.goes
        if is_sink(running):
            running.hold(batch)
            return
        if not execution.has_input and not execution.has_windows_due:
            self._send_on(running, execution, [])
            return
        parallelism = self._graph.pipeline.parallelism
        attempts = {SubtaskId(running.vertex.operator_id, index): self._attempt for index in range(parallelism)}
        checkpoint_id, below = self._last_begun + 1, self._state.directory
        snapshots = self._state.as_of(checkpoint_id)
        plan = ExecutionPlan(checkpoint_id, parallelism, attempts, snapshots, below, self._micro_batch_at())
        begin = self._parts.clock.monotonic()
        reports = self._parts.jobs.run(execution, plan)
        running.size.took(size_of(batch), self._parts.clock.monotonic() - begin)
        self._state.ran(reports)
        running.ran(reports)
        self._batches += 1
        self._send_on(running, execution, reports)

    def _micro_batch_at(self) -> int:
        """Return the time at which a micro-batch tests for expiry: one time for all its subtasks, never before the last
        one's."""
        self._at = max(self._at, microseconds(self._parts.clock.now()))
        return self._at

    def _send_on(self, running: RunningChain, execution: Execution, reports: Sequence[Report]) -> None:
        handles = [h for r in sorted(reports, key=lambda r: r.subtask_index) for h in r.handles]
        sent = tuple(handle for handle in handles if handle.kind is HandleKind.EXCHANGE)
        if sent or execution.watermark != execution.closed:
            self._channels.feed(ChannelName(running.name), Exchange(sent, execution.watermark))

    # -- housekeeping

    def _tidy(self) -> None:
        batches, self._batches = self._batches, 0
        is_due = self._merging.is_due_after(batches)
        if self._merging.take():
            self._delete_unused()
        if is_due:
            self._merging.start(self._last_begun + 1)

    def _delete_unused(self) -> None:
        """Delete unused files. A snapshot that is being written may need files that nothing else lists. The files that
        an unaligned snapshot captures are in no list until it is written, so nothing is deleted before its checkpoint
        has ended."""
        if self._going and self._graph.pipeline.checkpoints.unaligned:
            return
        frozen = [
            *self._steps.being_written(),
            *(pending for chain in self._chains for pending in chain.pending.values()),
        ]
        needed = exchanged(data for running in self._chains for data in running.waiting())
        self._state.delete_unused([*needed, *(handle for snapshot in frozen for handle in snapshot.files())])
