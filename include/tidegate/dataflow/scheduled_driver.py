"""`ScheduledDriver`, one attempt at one checkpoint: it feeds segments and barriers into the gates, runs jobs, and sends
acknowledgements.

A single thread feeds and drains every gate and acknowledges. Jobs run in the background and only report to it. A chain
runs when its gate has every barrier, so independent chains run in parallel.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tidegate.dataflow.channel import ChannelName
from tidegate.dataflow.driver_base import DriverBase, barrier
from tidegate.dataflow.elements import Aborted, Aligned, Ended, Output, Released, SnapshotDue, has_rows
from tidegate.dataflow.execution_plan import plan_snapshot
from tidegate.dataflow.jobs import JobEnded, JobReported, JobsAtOnce, Parts
from tidegate.dataflow.operator_chains import Execution
from tidegate.dataflow.source_snapshots import SourceSnapshots, confirm, milliseconds_between, snapshot_sources
from tidegate.dataflow.subtask_snapshots import acknowledgements, exchange_of
from tidegate.pipeline.sink_inputs import derives
from tidegate.pipeline.vertices import KeyedVertex, SinkVertex
from tidegate.ports import Acknowledger
from tidegate.protocol.barriers.messages import EndOfData, StopMode
from tidegate.protocol.barriers.options import choose_barrier_options
from tidegate.protocol.facts.errors import CheckpointDeclinedError
from tidegate.protocol.facts.paths import checkpoint_name
from tidegate.protocol.facts.records import Acknowledgement, AcknowledgeResult, CheckpointKind, SubtaskId
from tidegate.protocol.steps.finished import choose_triggered
from tidegate.protocol.steps.snapshot import SnapshotTask


class ScheduledDriver:
    """The driver of one call of `ports.Region.snapshot`. Used once."""

    def __init__(self, parts: Parts, task: SnapshotTask, acknowledge: Acknowledger) -> None:
        self._parts = parts
        self._graph = graph = parts.graph
        self._task = task
        self._acknowledge = acknowledge
        self._base = DriverBase(parts)
        self._plan = plan_snapshot(graph, replace(task, restored=parts.jobs.fitting(task.restored)))
        self._executions = [Execution(chain) for chain in self._base.chains]
        # Nothing of this run outlives its one checkpoint, so in-flight data could not be put back into a channel. An
        # unaligned checkpoint is therefore forced to align (protocol.md section 11.5). That costs no time.
        options = graph.pipeline.checkpoints.gate_options()
        self._options = choose_barrier_options(options, task.kind is not CheckpointKind.CHECKPOINT).forced_aligned()
        self._running = 0
        self._unsent: list[Acknowledgement] = []

    def execute(self) -> None:
        """Run until every subtask has acknowledged. Raise `CheckpointError`s."""
        sources = snapshot_sources(self._parts, self._task, self._hold_back, self._base.began.wall)
        name = f"tidegate-{self._graph.pipeline.name}-{checkpoint_name(self._task.checkpoint_id)}"
        with self._parts.jobs.at_once(name, max(len(self._executions), 1)) as jobs:
            self._base.put_back(self._task.restored)
            self._base.restore_watermarks(self._task.restored)
            for execution in self._executions:
                marks = execution.chain.watermarks
                execution.closed, execution.late, execution.gone = marks.lowest, marks.late, marks.gone
            self._base.close({subtask for subtask, snapshot in self._task.restored.items() if snapshot.finished})
            self._ask_directly()
            self._feed_sources(sources)
            self._advance(jobs)
            while self._running:
                self._take_news(jobs)
                self._advance(jobs)

    def _hold_back(self, cut: Sequence[Acknowledgement]) -> Mapping[SubtaskId, AcknowledgeResult]:
        """Hold the sources' acknowledgements back. They are recorded together with others known by then, before any
        operator runs."""
        self._unsent += cut
        return {ack.subtask: AcknowledgeResult.SUCCESS for ack in cut}

    # -- into the gates

    def _ask_directly(self) -> None:
        """Put a barrier into the gate of each chain with only finished vertices upstream, which receives none
        (protocol.md section 13)."""
        finished = self._base.finished_operators()
        for execution in self._executions:
            chain = execution.chain
            waited_for = [id_ for id_ in chain.operator_ids if id_ not in finished or id_ in self._graph.showing_state]
            if choose_triggered(waited_for, finished, self._graph.upstreams):
                for output in chain.gate.drain():  # so that every end of data is processed before the barrier
                    assert isinstance(output, Released | Ended), "before any barrier, channels hold only restored data"
                    self._arrive(execution, output)
                chain.gate.signal(barrier(self._task, self._options))

    def _feed_sources(self, sources: SourceSnapshots) -> None:
        names = {vertex.operator_id: vertex.name for vertex in self._graph.sources}
        for subtask, segment in sources.segments.items():
            channel = ChannelName(names[subtask.operator_id], subtask.subtask_index)
            if segment is not None:
                self._base.channels.feed(channel, segment)
            self._send_barrier(channel, sources.ends.get(subtask))

    def _send_barrier(self, channel: ChannelName, end: StopMode | None) -> None:
        if end is not None:
            self._base.channels.signal(channel, lambda index: EndOfData(index, end))
        self._base.channels.signal(channel, lambda index: barrier(self._task, self._options, index))

    # -- out of the gates

    def _advance(self, jobs: JobsAtOnce) -> None:
        """Drain the gates and start the aligned chains until nothing more follows. Then send the acknowledgements."""
        progress = True
        while progress:
            progress = False
            for execution in self._executions:
                for output in execution.chain.gate.drain():
                    progress = True
                    self._follow(execution, output, jobs)
        self._send()

    def _follow(self, execution: Execution, output: Output, jobs: JobsAtOnce) -> None:
        match output:
            case Released() | Ended():
                self._arrive(execution, output)
            case Aligned():
                execution.aligned = output
            case SnapshotDue():
                self._take_snapshot(execution, jobs)
            case Aborted():
                raise CheckpointDeclinedError(
                    f"{execution.chain.name} aborted checkpoint {output.abort.checkpoint_id} of pipeline "
                    f"{self._graph.pipeline.name}: {output.abort.reason.sentence}"
                )

    def _arrive(self, execution: Execution, output: Released | Ended) -> None:
        chain = execution.chain
        if isinstance(output, Ended):
            chain.watermarks.end(output.channel)
            return
        origin = chain.origin(output.channel)
        chain.watermarks.arrive(origin, output.data)
        if has_rows(output.data):
            execution.arrived.setdefault(origin, []).append(output.data)

    def _take_snapshot(self, execution: Execution, jobs: JobsAtOnce) -> None:
        marks = execution.chain.watermarks
        execution.watermark, execution.watermarks = marks.lowest, dict(marks.known)
        if self._has_work(execution):
            self._record_cut()
            self._running += 1
            jobs.start(execution, self._plan)
        else:
            self._end(execution)

    def _record_cut(self) -> None:
        """Record the positions before an operator reads, because a retry must replay its input (protocol.md section
        5.1)."""
        self._send()

    def _has_work(self, execution: Execution) -> bool:
        if not self._plan.pending(execution.chain):
            return False
        if execution.has_input or execution.has_windows_due:
            return True
        return any(self._plan.to_restage(execution, sink) for sink in execution.chain.sinks)

    # -- results of jobs

    def _take_news(self, jobs: JobsAtOnce) -> None:
        """Take all available reports, so that acknowledgements travel together."""
        for news in jobs.news():
            match news:
                case JobReported():
                    self._record(news.execution, news)
                case JobEnded():
                    self._running -= 1
                    if news.error is not None:
                        raise news.error
                    self._record(news.execution, news)
                    self._end(news.execution)

    def _record(self, execution: Execution, news: JobReported | JobEnded) -> None:
        """Keep the reports of a subtask, and acknowledge for it unless more reports will follow.

        A step, an operator that emits, or a sink that does not follow an operator acknowledges as a whole, because its
        rows may fall on other partitions next time. So does an operator whose sinks derive columns, because these are
        staged in a job of their own.
        """
        indexes = execution.record(news.reports)
        restaged = {index for sink in execution.chain.sinks for index in self._plan.to_restage(execution, sink)}
        vertex = execution.chain.vertex
        if isinstance(vertex, KeyedVertex) and not vertex.emits and not any(map(derives, execution.chain.sinks)):
            self._acknowledge_for(execution, indexes - restaged)

    def _end(self, execution: Execution) -> None:
        vertex = execution.chain.vertex
        self._acknowledge_for(execution, self._plan.pending(execution.chain))
        if isinstance(vertex, SinkVertex) or vertex.operator_id in self._base.finished_operators():
            return
        assert execution.aligned is not None
        exchange = exchange_of(execution, self._task.acknowledged, self._graph.pipeline.parallelism)
        if exchange.handles or exchange.watermark is not None:
            self._base.channels.feed(ChannelName(vertex.name), exchange)
        self._send_barrier(ChannelName(vertex.name), execution.aligned.ended)

    def _acknowledge_for(self, execution: Execution, indexes: Iterable[int]) -> None:
        assert execution.aligned is not None
        first_barrier = self._base.began.wall_time(execution.aligned.first_barrier)
        start_delay = milliseconds_between(self._task.triggered_at, first_barrier)
        todo = sorted(set(indexes) - execution.acknowledged)
        self._unsent += acknowledgements(self._plan, execution, todo, start_delay)

    def _send(self) -> None:
        if self._unsent:
            confirm(self._graph, self._task, self._acknowledge, self._unsent)
            self._unsent = []
