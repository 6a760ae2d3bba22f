"""The streams that a vertex reads, and the vertices that have a watermark."""

from collections.abc import Iterable, Sequence

from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.streams import Stream
from tidegate.pipeline.vertices import CheckVertex, KeyedVertex, SinkVertex, SourceVertex, StepVertex, Vertex
from tidegate.protocol.facts.errors import PipelineDefinitionError


def inputs_of(vertex: Vertex) -> tuple[Stream, ...]:
    match vertex:
        case KeyedVertex():
            return vertex.inputs
        case StepVertex() | SinkVertex():
            return (vertex.input,)
        case SourceVertex() | CheckVertex():
            return ()


def timed_vertices(upstream_first: Iterable[Vertex]) -> frozenset[str]:
    """Return the vertices with a watermark: those below a source with an event time. Others hold up no window."""
    timed: set[str] = set()
    for vertex in upstream_first:
        declared = isinstance(vertex, SourceVertex) and vertex.event_time is not None
        if declared or any(stream.origin in timed for stream in inputs_of(vertex)):
            timed.add(vertex.name)
    return frozenset(timed)


def check_watermarks(pipeline: Pipeline, ordered: Sequence[Vertex]) -> None:
    """Raise `PipelineDefinitionError` if an operator with windows has no watermark: no window would ever be emitted."""
    timed = timed_vertices(ordered)
    for vertex in ordered:
        if isinstance(vertex, KeyedVertex) and vertex.window is not None and vertex.name not in timed:
            sources = sorted(v.name for v in ordered if isinstance(v, SourceVertex))
            raise PipelineDefinitionError(
                f"The operator {vertex.name!r} of pipeline {pipeline.name!r} has windows, and the stream "
                f"{vertex.inputs[0].origin!r} that it reads has no watermark, so none of them would ever be emitted. "
                f"Name the column with the event time of its source: pipeline.source({sources[0]!r}, …, "
                f"event_time={vertex.window.column!r}, delay='10 min')."
            )
