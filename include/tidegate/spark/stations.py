"""Where an operator or sink stands in one checkpoint: its gate, what is still to be acknowledged, and what it answers.

Pure bookkeeping, no Spark: which subtasks to run, under which names they write, and which snapshots follow from the
reports that come back.
"""

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from tidegate.pipeline.definition import KeyedVertex, SinkVertex, StepVertex
from tidegate.pipeline.graph import Graph, inputs_of
from tidegate.ports import SinkInput
from tidegate.protocol.barrier_options import make_handler
from tidegate.protocol.barriers import StopMode
from tidegate.protocol.errors import StateSchemaError
from tidegate.protocol.finalize import directory
from tidegate.protocol.paths import write_prefix
from tidegate.protocol.records import (
    Acknowledgement,
    HandleKind,
    Snapshot,
    StateHandle,
    SubtaskId,
    SubtaskMetrics,
)
from tidegate.protocol.snapshot import SnapshotTask
from tidegate.spark.gate import Aligned, Data, Exchange, InputGate
from tidegate.spark.in_flight import in_flight_of
from tidegate.spark.partitions import Staging
from tidegate.spark.place import Place
from tidegate.spark.reports import Report
from tidegate.state.layout import StateLayout
from tidegate.state.spec import SubtaskSpec


@dataclass(eq=False)
class Station:
    """A vertex that runs as one Spark job: a step, a keyed operator with the sinks fused to it, or a sink of its own."""

    vertex: StepVertex | KeyedVertex | SinkVertex
    fused: tuple[SinkVertex, ...]
    gate: InputGate
    exchanges: bool = False  # whether somebody downstream runs in a job of its own
    arrived: dict[str, list[Data]] = field(default_factory=dict)
    aligned: Aligned | None = None
    reports: dict[SubtaskId, Report] = field(default_factory=dict)
    answered: set[int] = field(default_factory=set)

    @property
    def operator_ids(self) -> tuple[str, ...]:
        return (self.vertex.operator_id, *(sink.operator_id for sink in self.fused))

    @property
    def has_finished(self) -> bool:
        """Whether nothing will ever follow what has arrived."""
        return self.aligned is not None and self.aligned.ended is StopMode.DRAIN


def build_stations(graph: Graph, apart: Container[SinkVertex] = ()) -> list[Station]:
    """One station per step, keyed operator and sink that follows no operator directly; upstream before downstream.

    Sinks that are `apart` get a station of their own in any case.
    """
    stations = []
    options = graph.pipeline.checkpoints.gate_options()
    fused = {sink for sink in graph.sinks if is_fused(graph, sink) and sink not in apart}
    vertices = [*graph.producers, *(sink for sink in graph.sinks if sink not in fused)]
    for vertex in vertices:
        downstream = () if isinstance(vertex, SinkVertex) else graph.downstream(vertex.name)
        mine = tuple(sink for sink in graph.sinks if sink in downstream and sink in fused)
        channels = _channels(graph, vertex)
        gate = InputGate(channels, make_handler(options, len(channels)))
        stations.append(Station(vertex, mine, gate, any(follower not in fused for follower in downstream)))
    return stations


def put_back(station: Station, restored: Mapping[SubtaskId, Snapshot], pipeline_id: str) -> None:
    """Put the in-flight data of an unaligned checkpoint into its channels again, where it comes before anything else.

    Raises `StateSchemaError` if a channel is no longer there.
    """
    channels = station.gate.channels
    for channel, data in in_flight_of(restored.get(SubtaskId(station.vertex.operator_id, 0))):
        if channel not in channels:
            raise StateSchemaError(
                f"The latest checkpoint of pipeline {pipeline_id} holds data on its way from {channel} to "
                f"{station.vertex.name}, which no longer reads that. It would be lost, so nothing was run. Put the input "
                "back and take a savepoint, which holds no data on its way; then change the pipeline."
            )
        station.gate.offer(channels.index(channel), data)


def is_fused(graph: Graph, sink: SinkVertex) -> bool:
    """Whether a sink takes an operator's rows as they are, so that they are staged in the operator's own tasks."""
    return not sink.input.transforms and any(vertex.name == sink.input.origin for vertex in graph.keyed)


def channel_of(origin: str, split: int | None = None) -> str:
    return origin if split is None else f"{origin}/{split}"


def _channels(graph: Graph, vertex: StepVertex | KeyedVertex | SinkVertex) -> list[str]:
    splits = {source.name: source.source.num_splits() for source in graph.sources}
    channels: list[str] = []
    for origin in dict.fromkeys(stream.origin for stream in inputs_of(vertex)):
        if origin in splits:
            channels += [channel_of(origin, split) for split in range(splits[origin])]
        else:
            channels.append(channel_of(origin))
    return channels


class Answers:
    """Turns reports into acknowledgements for one attempt at one checkpoint."""

    def __init__(self, graph: Graph, task: SnapshotTask, place: Place, below: str | None = None) -> None:
        """Runs are written `below` a directory on checkpoint storage, by default the checkpoint's own."""
        self._task = task
        self._place = place
        self._below = below or directory(graph.pipeline.name, task.checkpoint_id)
        self._parallelism = graph.pipeline.parallelism

    @property
    def checkpoint_id(self) -> int:
        return self._task.checkpoint_id

    @property
    def storage_url(self) -> str:
        return self._place.storage_url

    def pending(self, station: Station) -> list[int]:
        """Subtasks of which something is still to be acknowledged."""
        attempts = self._task.attempts
        ids = station.operator_ids
        return [i for i in range(self._parallelism) if any(SubtaskId(id_, i) in attempts for id_ in ids)]

    def prefixes(self, vertex: StepVertex | KeyedVertex) -> dict[int, str]:
        """By subtask, what the names of its files begin with."""
        attempt = max(self._task.attempts.values(), default=0)
        subtasks = (SubtaskId(vertex.operator_id, index) for index in range(self._parallelism))
        return {subtask.subtask_index: write_prefix(self._below, subtask, attempt) for subtask in subtasks}

    def specs(self, vertex: KeyedVertex, layout: StateLayout, indexes: Iterable[int]) -> dict[int, SubtaskSpec]:
        """What subtasks need to find their state as of the latest completed checkpoint and to write their run."""
        id_, prefixes = self._task.checkpoint_id, self.prefixes(vertex)
        return {
            index: self._place.spec(vertex, layout, index, self.runs(vertex, index), id_, prefixes[index])
            for index in indexes
        }

    def runs(self, vertex: KeyedVertex, index: int) -> tuple[StateHandle, ...]:
        return self._carried(SubtaskId(vertex.operator_id, index), HandleKind.RUN)

    def staging(self, sink: SinkVertex) -> Staging:
        attempt = max(self._task.attempts.values(), default=0)
        attempts = dict.fromkeys(range(self._parallelism), attempt)
        current = sink.sink.input is SinkInput.CURRENT
        return Staging(sink.operator_id, sink.sink.writer(), current, attempts, _identity(sink))

    def to_restage(self, station: Station, sink: SinkVertex) -> list[int]:
        """Subtasks with state of which a sink of current rows has nothing: it is new or writes elsewhere now, or the
        parallelism changed."""
        if sink.sink.input is not SinkInput.CURRENT or not isinstance(station.vertex, KeyedVertex):
            return []
        ids = {index: SubtaskId(sink.operator_id, index) for index in self.pending(station)}
        return [
            index
            for index, subtask in ids.items()
            if subtask in self._task.attempts
            and subtask not in station.reports
            and not self._staged_before(sink, index)
            and self.runs(station.vertex, index)
        ]

    def acknowledgements(self, station: Station, indexes: Iterable[int], start_delay: int) -> list[Acknowledgement]:
        """Of the operator and its sinks together, for subtasks whose reports are complete; the others carry over."""
        result = []
        for index in indexes:
            station.answered.add(index)
            for operator_id in station.operator_ids:
                subtask = SubtaskId(operator_id, index)
                if subtask in self._task.attempts:
                    report = station.reports.get(subtask)
                    snapshot = Snapshot(self._handles(station, subtask, report), finished=station.has_finished)
                    metrics = _metrics(station, subtask, report, start_delay)
                    result.append(Acknowledgement(subtask, self._task.attempts[subtask], snapshot, metrics))
        return result

    def exchange(self, station: Station) -> Exchange:
        """What the station's step or operator sends downstream: new files, and those an earlier attempt acknowledged."""
        handles: list[StateHandle] = []
        for index in range(self._parallelism):
            subtask = SubtaskId(station.vertex.operator_id, index)
            acknowledged = self._task.acknowledged.get(subtask)
            report = station.reports.get(subtask)
            found: Sequence[StateHandle] = () if report is None else report.handles
            found = found if acknowledged is None else acknowledged.handles
            handles += [handle for handle in found if handle.kind is HandleKind.EXCHANGE]
        return Exchange(tuple(handles))

    def _handles(self, station: Station, subtask: SubtaskId, report: Report | None) -> tuple[StateHandle, ...]:
        new = () if report is None else report.handles
        if subtask.operator_id == station.vertex.operator_id and isinstance(station.vertex, KeyedVertex):
            return self._carried(subtask, HandleKind.RUN) + new
        current = [
            sink
            for sink in station.fused
            if sink.operator_id == subtask.operator_id and sink.sink.input is SinkInput.CURRENT
        ]
        return self._staged_before(current[0], subtask.subtask_index) if current and report is None else new

    def _staged_before(self, sink: SinkVertex, index: int) -> tuple[StateHandle, ...]:
        """All current rows of a subtask as the sink has them; none if what it has was staged for another place or mode."""
        carried = self._carried(SubtaskId(sink.operator_id, index), HandleKind.STAGED)
        return tuple(handle for handle in carried if handle.details.get("sink") == _identity(sink))

    def _carried(self, subtask: SubtaskId, kind: HandleKind) -> tuple[StateHandle, ...]:
        restored = self._task.restored.get(subtask, Snapshot())
        return tuple(handle for handle in restored.handles if handle.kind is kind)


def _identity(sink: SinkVertex) -> str:
    """What a sink is and where it writes, in a few characters."""
    return sha256(json.dumps(sink.sink.describe(), sort_keys=True).encode()).hexdigest()[:16]


def _metrics(station: Station, subtask: SubtaskId, report: Report | None, start_delay: int) -> SubtaskMetrics:
    """The subtasks share one gate: what passed it is counted once, with the first one, which records data in flight."""
    assert station.aligned is not None
    first = subtask == SubtaskId(station.vertex.operator_id, 0)
    nothing = {"sync_duration": 0, "async_duration": 0, "rows_in": 0, "rows_out": 0}
    return SubtaskMetrics(
        start_delay=start_delay,
        alignment_duration=station.aligned.alignment,
        processed_bytes=station.aligned.processed_bytes if first else 0,
        persisted_bytes=station.aligned.persisted_bytes if first else 0,
        **(nothing if report is None else dict(report.metrics)),
    )
