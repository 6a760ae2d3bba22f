"""Checks of the places outside a pipeline: it must have an effect, and must not read its own output."""

from collections.abc import Mapping

from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.vertices import KeyedVertex, SinkVertex, SourceVertex
from tidegate.protocol.facts.errors import PipelineDefinitionError


def check_effect(pipeline: Pipeline) -> None:
    """Raise `PipelineDefinitionError` for a pipeline without effect. State alone is enough, because it is plain Parquet
    and can be validated. Rows that go nowhere are lost, because they are read only once."""
    if not any(isinstance(vertex, KeyedVertex | SinkVertex) for vertex in pipeline.vertices):
        raise PipelineDefinitionError(
            f"Pipeline {pipeline.name!r} has no effect: it has neither a sink nor an operator with state, so the rows "
            "that its sources read would be lost. Add a sink with stream.sink(…)."
        )


def check_places(pipeline: Pipeline) -> None:
    """Raise `PipelineDefinitionError` if a sink writes where a source reads, which is a cycle through the file system,
    or if sinks share a place."""
    sources = {place_of(v.source.describe()): v.name for v in pipeline.vertices if isinstance(v, SourceVertex)}
    sinks: dict[str, str] = {}
    for vertex in pipeline.vertices:
        if isinstance(vertex, SinkVertex) and (place := place_of(vertex.sink.describe())):
            for read, source in sources.items():
                if read and (place == read or place.startswith(read + "/")):
                    raise PipelineDefinitionError(
                        f"Pipeline {pipeline.name!r} has a cycle: sink {vertex.name!r} writes to {place!r}, where "
                        f"source {source!r} reads. Give the sink a place of its own."
                    )
            if place in sinks:
                raise PipelineDefinitionError(
                    f"Sinks {sinks[place]!r} and {vertex.name!r} of pipeline {pipeline.name!r} both write to "
                    f"{place!r}. Each commits as a whole, so give each a place of its own."
                )
            sinks[place] = vertex.name


def place_of(description: Mapping[str, object]) -> str:
    return str(description.get("path", "")).rstrip("/")
