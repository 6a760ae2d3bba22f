"""What a pipeline guarantees for the rows in its sinks (protocol.md section 17), what it refuses and what it warns of.

Two things can weaken exactly-once: the pipeline's mode, and a sink that cannot commit together with the checkpoint.
"""

from collections.abc import Sequence

from tidegate.pipeline.config import CheckpointingMode
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.vertices import SinkVertex
from tidegate.ports import CommittingSink, DeliveryGuarantee, SinkCommit
from tidegate.protocol.facts.errors import PipelineDefinitionError


def guarantee_of(pipeline: Pipeline, vertex: SinkVertex) -> DeliveryGuarantee:
    """What the sink really gives in this pipeline."""
    weak = pipeline.checkpoints.mode is CheckpointingMode.AT_LEAST_ONCE
    weak = weak or vertex.sink.commits is SinkCommit.AT_LEAST_ONCE
    return DeliveryGuarantee.AT_LEAST_ONCE if weak else DeliveryGuarantee.EXACTLY_ONCE


def promised(pipeline: Pipeline, vertex: SinkVertex) -> dict[str, str]:
    """What the metadata of checkpoints says of it."""
    return {"guarantee": guarantee_of(pipeline, vertex), "commits": vertex.sink.commits}


def check_guarantee(pipeline: Pipeline, vertex: SinkVertex) -> None:
    """Raises `PipelineDefinitionError` if a sink cannot give what the pipeline or its own declaration asks of it."""
    if vertex.sink.commits is SinkCommit.IN_THE_COMMIT and not isinstance(vertex.sink, CommittingSink):
        raise PipelineDefinitionError(
            f"The sink {vertex.name!r} of pipeline {pipeline.name!r} is a {_kind(vertex)}, which says IN_THE_COMMIT, "
            "but has no prepare and prepare_rewind (ports.CommittingSink). Add them, or say AFTER_THE_COMMIT."
        )
    asked = _asked(pipeline, vertex)
    if asked is DeliveryGuarantee.AT_LEAST_ONCE or guarantee_of(pipeline, vertex) is asked:
        return
    if pipeline.checkpoints.mode is CheckpointingMode.AT_LEAST_ONCE:
        raise PipelineDefinitionError(
            f"The sink {vertex.name!r} of pipeline {pipeline.name!r} is declared guarantee='EXACTLY_ONCE', but the "
            "pipeline has CheckpointConfig(mode='AT_LEAST_ONCE'): rows may reach any sink twice after a failure. "
            "Change one of the two."
        )
    raise PipelineDefinitionError(
        f"The sink {vertex.name!r} of pipeline {pipeline.name!r} is a {_kind(vertex)}, which can give AT_LEAST_ONCE "
        "only: rows may appear twice after a failure. The pipeline is EXACTLY_ONCE. If that is enough for this sink, "
        "declare it with stream.sink(…, guarantee='AT_LEAST_ONCE'); if it is enough for all sinks, use "
        "CheckpointConfig(mode='AT_LEAST_ONCE'); otherwise use a sink that commits with the checkpoint, such as "
        "ParquetSink."
    )


def reservations(pipeline: Pipeline, sinks: Sequence[SinkVertex]) -> list[str]:
    """The warnings about a pipeline that is accepted although not everything in it is exactly once."""
    if pipeline.checkpoints.mode is CheckpointingMode.AT_LEAST_ONCE:
        names = ", ".join(vertex.name for vertex in sinks) or "none"
        return [
            f"Pipeline {pipeline.name} is AT_LEAST_ONCE: in a continuous run, rows behind a barrier may already be in "
            f"its checkpoint. After a failure they count again in state and may appear twice in its sinks ({names}), "
            "even in sinks that commit exactly once."
        ]
    return [
        f"Sink {vertex.name} of pipeline {pipeline.name} is declared AT_LEAST_ONCE: its rows may appear twice after a "
        "failure. State and the other sinks are exactly once."
        for vertex in sinks
        if guarantee_of(pipeline, vertex) is DeliveryGuarantee.AT_LEAST_ONCE
    ]


def _asked(pipeline: Pipeline, vertex: SinkVertex) -> DeliveryGuarantee:
    """The weakest acceptable guarantee: what the sink was declared with, or what the pipeline's mode says."""
    try:
        return DeliveryGuarantee(vertex.guarantee or pipeline.checkpoints.mode)
    except ValueError:
        known = ", ".join(DeliveryGuarantee)
        raise PipelineDefinitionError(
            f"The guarantee of sink {vertex.name!r} of pipeline {pipeline.name!r} is one of {known}, not "
            f"{vertex.guarantee!r}."
        ) from None


def _kind(vertex: SinkVertex) -> str:
    return type(vertex.sink).__name__
