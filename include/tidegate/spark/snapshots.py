"""One attempt at one checkpoint: segments and barriers into the gates, jobs out of them, acknowledgements back.

A single thread feeds and drains every gate and acknowledges; Spark jobs run in threads of their own and only report to
it. An operator runs when its gate says that every barrier has arrived, so independent ones run side by side.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import timedelta
from queue import Empty, SimpleQueue
from time import monotonic

from tidegate.clock import SystemClock
from tidegate.pipeline.definition import KeyedVertex, SinkVertex
from tidegate.pipeline.graph import Graph
from tidegate.ports import Acknowledge, CheckpointStorage
from tidegate.protocol.barrier_options import choose_barrier_options
from tidegate.protocol.barriers import Barrier, EndOfData, EndOfPartition, Marker, StopMode
from tidegate.protocol.errors import CheckpointDeclinedError
from tidegate.protocol.finished import choose_triggered, finished_operators
from tidegate.protocol.records import Acknowledgement, CheckpointKind, Snapshot, SubtaskId
from tidegate.protocol.snapshot import SnapshotTask
from tidegate.spark.cut import Cut, confirm, milliseconds_between, take_cut
from tidegate.spark.gate import Aborted, Aligned, Data, Output, Released, SnapshotDue, milliseconds
from tidegate.spark.jobs import JobGroup
from tidegate.spark.operators import Operators, explained
from tidegate.spark.place import Place
from tidegate.spark.reports import Report
from tidegate.spark.session import is_connect
from tidegate.spark.stations import Answers, Station, build_stations, channel_of, put_back
from tidegate.spark.streams import Streams


@dataclass(frozen=True, slots=True)
class _Reported:
    station: Station
    reports: list[Report]


@dataclass(frozen=True, slots=True)
class _Ended:
    station: Station
    reports: list[Report]
    error: BaseException | None


class SnapshotRun:
    """Made for one call of `SparkRegion.snapshot` and used once."""

    def __init__(
        self,
        graph: Graph,
        streams: Streams,
        storage: CheckpointStorage,
        place: Place,
        task: SnapshotTask,
        acknowledge: Acknowledge,
    ) -> None:
        self._graph = graph
        self._storage = storage
        self._task = task
        self._acknowledge = acknowledge
        self._answers = Answers(graph, task, place)
        self._streams = streams
        self._operators = Operators(graph, streams, self._answers)
        self._stations = build_stations(graph)
        # Nothing of this run outlives its one checkpoint, so there is no place to put data in flight back into: an
        # unaligned checkpoint is forced to align (protocol.md section 11.5), and waits for nothing longer by it.
        options = graph.pipeline.checkpoints.gate_options()
        self._sent = choose_barrier_options(options, task.kind is not CheckpointKind.CHECKPOINT).forced_aligned()
        self._finished = finished_operators(graph.plan, task.restored)
        self._events: SimpleQueue[_Reported | _Ended] = SimpleQueue()
        self._running = 0
        self._threads: list[Future[None]] = []
        self._unsent: list[Acknowledgement] = []
        self._reports_early = is_connect(streams.session)
        self._jobs = JobGroup(streams.session, f"tidegate-{graph.pipeline.name}-chk-{task.checkpoint_id}")
        self._began = SystemClock().now()
        self._began_monotonic = monotonic()

    def execute(self) -> None:
        """Run until every subtask has acknowledged. Raises `CheckpointError`s."""
        cut = take_cut(self._graph, self._task, self._storage, self._acknowledge, self._began)
        with ThreadPoolExecutor(max(len(self._stations), 1), thread_name_prefix="tidegate") as pool:
            try:
                self._put_back()
                self._close_finished()
                self._feed_sources(cut)
                self._advance(pool)
                while self._running:
                    self._take_events()
                    self._advance(pool)
            except BaseException:
                self._stop()
                raise

    def _stop(self) -> None:
        """Interrupt what still runs; again and again, because a job that was being planned is not there yet."""
        while wait(self._threads, timeout=0).not_done:
            self._jobs.interrupt()
            wait(self._threads, timeout=0.5)

    # -- into the gates

    def _put_back(self) -> None:
        """What the latest checkpoint, if it was an unaligned one, had captured on its way, before anything else."""
        for station in self._stations:
            put_back(station, self._task.restored, self._graph.pipeline.name)

    def _close_finished(self) -> None:
        """What had finished before the checkpoint began sends no barrier. Who has only that upstream is asked directly: in
        place of its barriers, by one that comes from nobody (protocol.md section 13)."""
        for vertex in self._graph.sources:
            for split in range(vertex.source.num_splits()):
                if self._task.restored.get(SubtaskId(vertex.operator_id, split), Snapshot()).finished:
                    self._signal(channel_of(vertex.name, split), EndOfPartition)
        for operator in self._graph.producers:
            if operator.operator_id in self._finished:
                self._signal(channel_of(operator.name), EndOfPartition)
        for station in self._stations:
            waited_for = [i for i in station.operator_ids if i not in self._finished or i in self._graph.restaged]
            if choose_triggered(waited_for, self._finished, self._graph.upstreams):
                for output in station.gate.drain():  # so that every end is known before
                    assert isinstance(output, Released), "before any barrier there is only what was put back"
                    self._arrive(station, output)
                station.gate.signal(self._barrier(0))

    def _feed_sources(self, cut: Cut) -> None:
        sources = {vertex.operator_id: vertex.name for vertex in self._graph.sources}
        for subtask, segment in cut.segments.items():
            channel = channel_of(sources[subtask.operator_id], subtask.subtask_index)
            self._feed(channel, segment, cut.ends.get(subtask))

    def _feed(self, channel: str, data: Data | None, end: StopMode | None) -> None:
        """Put what lies before the barrier, then the barrier, into a channel of every gate that has it."""
        if data is not None:
            for station in self._stations:
                if channel in station.gate.channels:
                    station.gate.offer(station.gate.channels.index(channel), data)
        if end is not None:
            self._signal(channel, lambda index: EndOfData(index, end))
        self._signal(channel, self._barrier)

    def _signal(self, channel: str, make: Callable[[int], Marker]) -> None:
        for station in self._stations:
            if channel in station.gate.channels:
                station.gate.signal(make(station.gate.channels.index(channel)))

    def _barrier(self, index: int) -> Barrier:
        return Barrier(self._task.checkpoint_id, index, self._sent, milliseconds(self._task.triggered_at))

    # -- out of the gates

    def _advance(self, pool: ThreadPoolExecutor) -> None:
        """Drain the gates and start what is aligned, until nothing more follows; then acknowledge what came of it."""
        progress = True
        while progress:
            progress = False
            for station in self._stations:
                for output in station.gate.drain():
                    progress = True
                    self._follow(station, output, pool)
        self._send()

    def _follow(self, station: Station, output: Output, pool: ThreadPoolExecutor) -> None:
        match output:
            case Released():
                self._arrive(station, output)
            case Aligned():
                station.aligned = output
            case SnapshotDue():
                self._take_snapshot(station, pool)
            case Aborted():
                raise CheckpointDeclinedError(
                    f"{station.vertex.name} gave checkpoint {output.abort.checkpoint_id} of pipeline "
                    f"{self._graph.pipeline.name} up: {output.abort.reason.sentence}"
                )

    def _arrive(self, station: Station, output: Released) -> None:
        origin = station.gate.channels[output.channel].partition("/")[0]
        station.arrived.setdefault(origin, []).append(output.data)

    def _take_snapshot(self, station: Station, pool: ThreadPoolExecutor) -> None:
        if self._has_work(station):
            self._running += 1
            self._threads.append(pool.submit(self._run, station))
        else:
            self._end(station)

    def _has_work(self, station: Station) -> bool:
        if not self._answers.pending(station):
            return False
        if any(station.arrived.values()):
            return True
        return any(self._answers.to_restage(station, sink) for sink in station.fused)

    # -- in threads of their own

    def _run(self, station: Station) -> None:
        """Reports that come early are sent early; those that come with the end of the job travel together."""
        error: BaseException | None = None
        reports: list[Report] = []

        def report_early(early: list[Report]) -> None:
            self._events.put(_Reported(station, early))

        try:
            self._jobs.enter()
            self._operators.run(station, report_early if self._reports_early else reports.extend)
        except BaseException as caught:
            error = caught
        self._events.put(_Ended(station, reports, error))

    # -- back

    def _take_events(self) -> None:
        """Wait for one event and take all that are there, so that acknowledgements travel together."""
        event: _Reported | _Ended | None = self._events.get()
        while event is not None:
            match event:
                case _Reported():
                    self._record(event.station, event.reports)
                case _Ended():
                    self._running -= 1
                    if event.error is not None:
                        raise explained(self._graph, self._streams, event.station, event.error) from event.error
                    self._record(event.station, event.reports)
                    self._end(event.station)
            try:
                event = self._events.get_nowait()
            except Empty:
                event = None

    def _record(self, station: Station, reports: Iterable[Report]) -> None:
        """Keep the reports of a subtask, and answer for it unless more is to come for it.

        A step, and a sink that follows no operator, answers as a whole: how its rows fall on partitions may differ next time.
        """
        indexes = set()
        for report in reports:
            station.reports[SubtaskId(report.operator_id, report.subtask_index)] = report
            indexes.add(report.subtask_index)
        restaged = {index for sink in station.fused for index in self._answers.to_restage(station, sink)}
        if isinstance(station.vertex, KeyedVertex):
            self._answer(station, indexes - restaged)

    def _end(self, station: Station) -> None:
        self._answer(station, set(self._answers.pending(station)))
        if not isinstance(station.vertex, SinkVertex) and station.vertex.operator_id not in self._finished:
            assert station.aligned is not None
            exchange = self._answers.exchange(station)
            self._feed(channel_of(station.vertex.name), exchange if exchange.handles else None, station.aligned.ended)

    def _answer(self, station: Station, indexes: set[int]) -> None:
        assert station.aligned is not None
        since_began = timedelta(seconds=station.aligned.first_barrier - self._began_monotonic)
        start_delay = milliseconds_between(self._task.triggered_at, self._began + since_began)
        todo = sorted(indexes - station.answered)
        self._unsent += self._answers.acknowledgements(station, todo, start_delay)

    def _send(self) -> None:
        if self._unsent:
            confirm(self._graph, self._task, self._acknowledge, self._unsent)
            self._unsent = []
