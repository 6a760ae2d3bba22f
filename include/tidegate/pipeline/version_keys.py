"""The streams that carry changes of versions, and the key of these versions."""

from typing import TYPE_CHECKING

from tidegate.pipeline.vertices import SourceVertex, StepVertex
from tidegate.ports.versioned_sources import VersionedSource
from tidegate.protocol.facts.errors import PipelineDefinitionError

if TYPE_CHECKING:
    from tidegate.pipeline.streams import Stream


def version_key_of(stream: "Stream") -> tuple[str, ...]:
    """Return the key of the versions whose changes a stream carries; empty if it carries none."""
    origin = next((vertex for vertex in stream.pipeline.vertices if vertex.name == stream.origin), None)
    if isinstance(origin, StepVertex):
        return version_key_of(origin.input)
    source = origin.source if isinstance(origin, SourceVertex) and stream.output == "rows" else None
    return tuple(source.version_key) if isinstance(source, VersionedSource) else ()


def require_version_key(stream: "Stream", what: str) -> tuple[str, ...]:
    """Return the key of a stream's versions. Raise `PipelineDefinitionError` if it carries no changes of versions."""
    if not (key := version_key_of(stream)):
        raise PipelineDefinitionError(
            f"{what} of pipeline {stream.pipeline.name!r} reads {stream.origin!r}, whose rows do not replace one "
            'another. It needs a source of versions: FileSource(…, mode="snapshot", key=[…]).'
        )
    return key
