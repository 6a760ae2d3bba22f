"""What the operators of a simulated continuous run must hold: a plain execution of the rows before some offsets."""

from collections import Counter
from collections.abc import Mapping

from simulator.running_emitting import Numbers, counted_again, key_of
from simulator.running_parts import Rows
from tidegate.pipeline.graph import Graph
from tidegate.pipeline.vertices import StepVertex
from tidegate.protocol.facts.records import SubtaskId


def rows_before(log: str, splits: Mapping[str, int], offsets: Mapping[SubtaskId, int]) -> list[tuple[int, int]]:
    return [(split, at) for split in range(splits[log]) for at in range(offsets.get(SubtaskId(log, split), 0))]


def plain_execution(graph: Graph, offsets: Mapping[SubtaskId, int]) -> dict[str, Rows]:
    """The state of every operator after the rows before these offsets."""
    states: dict[str, Rows] = {}
    emitters = {vertex.name: vertex.inputs[0].origin for vertex in graph.keyed if isinstance(vertex.update, Numbers)}
    splits = {vertex.name: len(vertex.source.lengths) for vertex in graph.sources}
    steps = {vertex.name: vertex.input.origin for vertex in graph.producers if isinstance(vertex, StepVertex)}
    for vertex in graph.keyed:
        state: Rows = {}
        if vertex.window is not None or vertex.ttl is not None:
            continue
        for origin in (steps.get(stream.origin, stream.origin) for stream in vertex.inputs):
            if origin in splits:
                rows = rows_before(origin, splits, offsets)
                keys = vertex.update.counted(rows) if isinstance(vertex.update, Numbers) else map(key_of, rows)
                for key, count in Counter(keys).items():
                    state[key] = state.get(key, 0) + count
            elif origin in emitters:
                rows = rows_before(emitters[origin], splits, offsets)
                state = dict(Counter(key for key, _ in counted_again(Numbers().emit({}, rows))))
            else:
                for key, value in states[origin].items():
                    state[key] = max(state.get(key, 0), value)
        states[vertex.name] = state
    return states
