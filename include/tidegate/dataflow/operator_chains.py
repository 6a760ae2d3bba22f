"""Operator chains: the vertices that run as one job, the gate of each chain, and the facts of one execution."""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from tidegate.dataflow.channel import ChannelName
from tidegate.dataflow.elements import Aligned, Data
from tidegate.dataflow.event_time import InputWatermarks
from tidegate.dataflow.input_gate import InputGate
from tidegate.dataflow.reports import ROWS_LATE, Report
from tidegate.pipeline.graph import Graph
from tidegate.pipeline.inputs import inputs_of
from tidegate.pipeline.streams import LATE_ROWS
from tidegate.pipeline.vertices import KeyedVertex, SinkVertex, StepVertex
from tidegate.ports import Clock
from tidegate.protocol.barriers.messages import StopMode
from tidegate.protocol.barriers.options import make_handler
from tidegate.protocol.facts.records import SubtaskId
from tidegate.protocol.steps.watermarks import gone_by


@dataclass(frozen=True, slots=True, eq=False)
class OperatorChain:
    """The vertices of one job: a step, a keyed operator with the sinks that stage its rows, or a sink by itself."""

    vertex: StepVertex | KeyedVertex | SinkVertex
    sinks: tuple[SinkVertex, ...]
    gate: InputGate
    watermarks: InputWatermarks
    exchanges: bool = False  # whether a vertex downstream runs in a job of its own

    @property
    def name(self) -> str:
        return self.vertex.name

    @property
    def operator_ids(self) -> tuple[str, ...]:
        return (self.vertex.operator_id, *(sink.operator_id for sink in self.sinks))

    def origin(self, channel: int) -> str:
        """Return the vertex whose data comes through a channel."""
        return self.gate.channels[channel].origin


@dataclass(eq=False, slots=True)
class Execution:
    """One execution of a chain, for a checkpoint or a micro-batch.

    `arrived` is its input by origin vertex. The execution moves the chain's watermark from `closed` to `watermark`, and
    the watermarks of its inputs to `watermarks`. `late` counts the earlier rows that no window took. Windows up to
    `gone` had left the state before.
    """

    chain: OperatorChain
    arrived: dict[str, list[Data]] = field(default_factory=dict)
    aligned: Aligned | None = None
    reports: dict[SubtaskId, Report] = field(default_factory=dict)
    acknowledged: set[int] = field(default_factory=set)
    closed: int | None = None
    watermark: int | None = None
    watermarks: Mapping[str, int] = field(default_factory=dict)
    late: int = 0
    gone: int | None = None

    @property
    def has_input(self) -> bool:
        return any(self.arrived.values())

    @property
    def has_windows_due(self) -> bool:
        """Whether windows may end between the two watermarks."""
        vertex = self.chain.vertex
        if not isinstance(vertex, KeyedVertex) or vertex.window is None:
            return False
        if vertex.window.has_end_in(self.closed, self.watermark):
            return True
        if vertex.corrections is None or self.watermark is None:
            return False
        return self.has_input or vertex.window.has_end_in(self.gone, self.goes)

    @property
    def goes(self) -> int | None:
        """The time up to which windows are no longer in state after the execution."""
        return gone_by(self.gone, self.watermark, lateness_of(self.chain.vertex))

    @property
    def recorded_gone(self) -> int | None:
        """The time of `goes` to record in snapshots; None if the watermark determines it."""
        return self.goes if lateness_of(self.chain.vertex) else None

    @property
    def all_late(self) -> int:
        return self.late + sum(report.metrics.get(ROWS_LATE, 0) for report in self.reports.values())

    @property
    def is_last(self) -> bool:
        """Whether nothing will ever follow the input."""
        return self.aligned is not None and self.aligned.ended is StopMode.DRAIN

    def record(self, reports: list[Report]) -> set[int]:
        """Keep the reports. Return their subtasks."""
        for report in reports:
            self.reports[SubtaskId(report.operator_id, report.subtask_index)] = report
        return {report.subtask_index for report in reports}


def build_chains(graph: Graph, clock: Clock, apart: Container[SinkVertex] = ()) -> list[OperatorChain]:
    """Return one chain per step, keyed operator and sink that does not follow an operator directly, upstream before
    downstream.

    Sinks in `apart` always get a chain of their own.
    """
    chains = []
    options = graph.pipeline.checkpoints.gate_options()
    chained = {sink for sink in graph.sinks if is_chained(graph, sink) and sink not in apart}
    vertices = [*graph.producers, *(sink for sink in graph.sinks if sink not in chained)]
    for vertex in vertices:
        downstream = () if isinstance(vertex, SinkVertex) else graph.downstream(vertex.name)
        chain_sinks = tuple(sink for sink in graph.sinks if sink in downstream and sink in chained)
        channels = _channels(graph, vertex)
        gate = InputGate(channels, make_handler(options, len(channels)), clock)
        watermarks = InputWatermarks(_delays(graph, vertex), channels, lateness_of(vertex))
        exchanges = any(_reads_rows(follower, vertex.name) for follower in downstream if follower not in chained)
        chains.append(OperatorChain(vertex, chain_sinks, gate, watermarks, exchanges))
    return chains


def _delays(graph: Graph, vertex: StepVertex | KeyedVertex | SinkVertex) -> dict[str, int]:
    """Return the delay of the watermark behind the arriving data, for each input whose watermark the vertex follows."""
    if vertex.name not in graph.watched or isinstance(vertex, SinkVertex):
        return {}
    sources = {source.name: source.event_time for source in graph.sources}
    followed = (stream.origin for stream in inputs_of(vertex) if stream.origin in graph.watched)
    return {origin: declared.delay_micros if (declared := sources.get(origin)) else 0 for origin in followed}


def lateness_of(vertex: StepVertex | KeyedVertex | SinkVertex) -> int:
    """Return how long windows of a vertex stay in state after they have been emitted, in microseconds."""
    return vertex.corrections.lateness if isinstance(vertex, KeyedVertex) and vertex.corrections else 0


def _reads_rows(vertex: StepVertex | KeyedVertex | SinkVertex, name: str) -> bool:
    return any(stream.origin == name and stream.output != LATE_ROWS for stream in inputs_of(vertex))


def is_chained(graph: Graph, sink: SinkVertex) -> bool:
    """Return whether a sink is staged with its operator, because it takes the rows unchanged or shows the state."""
    if sink.input.output == LATE_ROWS:
        return False
    plain = not sink.input.transforms or sink.operator_id in graph.showing_state
    return plain and any(vertex.name == sink.input.origin for vertex in graph.keyed)


def _channels(graph: Graph, vertex: StepVertex | KeyedVertex | SinkVertex) -> list[ChannelName]:
    splits = {source.name: source.source.num_splits() for source in graph.sources}
    channels: list[ChannelName] = []
    for origin in dict.fromkeys(stream.origin for stream in inputs_of(vertex)):
        if origin in splits:
            channels += [ChannelName(origin, split) for split in range(splits[origin])]
        else:
            channels.append(ChannelName(origin))
    return channels
