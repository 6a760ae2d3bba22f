"""Operator chains: which vertices run as one job, the gate before each, and what one execution of a chain knows."""

from collections.abc import Container
from dataclasses import dataclass, field

from tidegate.dataflow.channel import ChannelName
from tidegate.dataflow.elements import Aligned, Data
from tidegate.dataflow.input_gate import InputGate
from tidegate.dataflow.reports import Report
from tidegate.pipeline.definition import KeyedVertex, SinkVertex, StepVertex
from tidegate.pipeline.graph import Graph, inputs_of
from tidegate.ports import Clock
from tidegate.protocol.barriers.messages import StopMode
from tidegate.protocol.barriers.options import make_handler
from tidegate.protocol.records import SubtaskId


@dataclass(frozen=True, slots=True, eq=False)
class OperatorChain:
    """What runs as one job: a step, a keyed operator with the sinks that stage its rows, or a sink by itself."""

    vertex: StepVertex | KeyedVertex | SinkVertex
    sinks: tuple[SinkVertex, ...]
    gate: InputGate
    exchanges: bool = False  # whether a vertex downstream runs in a job of its own

    @property
    def name(self) -> str:
        return self.vertex.name

    @property
    def operator_ids(self) -> tuple[str, ...]:
        return (self.vertex.operator_id, *(sink.operator_id for sink in self.sinks))

    def origin(self, channel: int) -> str:
        """The vertex whose data comes through a channel."""
        return self.gate.channels[channel].origin


@dataclass(eq=False, slots=True)
class Execution:
    """One execution of a chain, for a checkpoint or a micro-batch. `arrived` is what it reads, by origin vertex."""

    chain: OperatorChain
    arrived: dict[str, list[Data]] = field(default_factory=dict)
    aligned: Aligned | None = None
    reports: dict[SubtaskId, Report] = field(default_factory=dict)
    acknowledged: set[int] = field(default_factory=set)

    @property
    def has_input(self) -> bool:
        return any(self.arrived.values())

    @property
    def is_last(self) -> bool:
        """Whether nothing will ever follow what has arrived."""
        return self.aligned is not None and self.aligned.ended is StopMode.DRAIN

    def record(self, reports: list[Report]) -> set[int]:
        """Keep the reports. Returns the subtasks they are about."""
        for report in reports:
            self.reports[SubtaskId(report.operator_id, report.subtask_index)] = report
        return {report.subtask_index for report in reports}


def build_chains(graph: Graph, clock: Clock, apart: Container[SinkVertex] = ()) -> list[OperatorChain]:
    """One chain per step, keyed operator and sink that follows no operator directly; upstream before downstream.

    Sinks in `apart` always get a chain of their own.
    """
    chains = []
    options = graph.pipeline.checkpoints.gate_options()
    chained = {sink for sink in graph.sinks if is_chained(graph, sink) and sink not in apart}
    vertices = [*graph.producers, *(sink for sink in graph.sinks if sink not in chained)]
    for vertex in vertices:
        downstream = () if isinstance(vertex, SinkVertex) else graph.downstream(vertex.name)
        mine = tuple(sink for sink in graph.sinks if sink in downstream and sink in chained)
        channels = _channels(graph, vertex)
        gate = InputGate(channels, make_handler(options, len(channels)), clock)
        chains.append(OperatorChain(vertex, mine, gate, any(follower not in chained for follower in downstream)))
    return chains


def is_chained(graph: Graph, sink: SinkVertex) -> bool:
    """Whether a sink takes an operator's rows as they are, so that they are staged in the operator's own tasks."""
    return not sink.input.transforms and any(vertex.name == sink.input.origin for vertex in graph.keyed)


def _channels(graph: Graph, vertex: StepVertex | KeyedVertex | SinkVertex) -> list[ChannelName]:
    splits = {source.name: source.source.num_splits() for source in graph.sources}
    channels: list[ChannelName] = []
    for origin in dict.fromkeys(stream.origin for stream in inputs_of(vertex)):
        if origin in splits:
            channels += [ChannelName(origin, split) for split in range(splits[origin])]
        else:
            channels.append(ChannelName(origin))
    return channels
