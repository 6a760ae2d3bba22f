"""The guarantees of a pipeline for the rows in its sinks (protocol.md section 17), and its refusals and warnings.

Two things can weaken exactly-once: the pipeline's mode, and a sink that cannot commit together with the checkpoint.
"""

from collections.abc import Sequence

from tidegate.pipeline.config import CheckpointingMode
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.vertices import SinkVertex
from tidegate.ports import CommittingSink, DeliveryGuarantee, SinkCommit
from tidegate.protocol.facts.errors import PipelineDefinitionError


def guarantee_of(pipeline: Pipeline, vertex: SinkVertex) -> DeliveryGuarantee:
    """Return the guarantee that the sink gives in this pipeline."""
    weak = pipeline.checkpoints.mode is CheckpointingMode.AT_LEAST_ONCE
    weak = weak or vertex.sink.commits is SinkCommit.AT_LEAST_ONCE
    return DeliveryGuarantee.AT_LEAST_ONCE if weak else DeliveryGuarantee.EXACTLY_ONCE


def promised(pipeline: Pipeline, vertex: SinkVertex) -> dict[str, str]:
    """Return the sink's guarantee and kind of commit for the metadata of checkpoints."""
    return {"guarantee": guarantee_of(pipeline, vertex), "commits": vertex.sink.commits}


def check_guarantee(pipeline: Pipeline, vertex: SinkVertex) -> None:
    """Raise `PipelineDefinitionError` if a sink cannot give the guarantee that its declaration or the pipeline
    requires."""
    if vertex.sink.commits is SinkCommit.IN_THE_COMMIT and not isinstance(vertex.sink, CommittingSink):
        raise PipelineDefinitionError(
            f"The sink {vertex.name!r} of pipeline {pipeline.name!r} is a {_kind(vertex)}, which declares "
            "IN_THE_COMMIT, but has no prepare and prepare_rewind (ports.CommittingSink). Add them, or declare "
            "AFTER_THE_COMMIT."
        )
    required = _required(pipeline, vertex)
    if required is DeliveryGuarantee.AT_LEAST_ONCE or guarantee_of(pipeline, vertex) is required:
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
    """Return the warnings about an accepted pipeline in which not everything is exactly once."""
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


def _required(pipeline: Pipeline, vertex: SinkVertex) -> DeliveryGuarantee:
    """Return the weakest acceptable guarantee: the one the sink is declared with, or else the pipeline's mode."""
    try:
        return DeliveryGuarantee(vertex.guarantee or pipeline.checkpoints.mode)
    except ValueError:
        known = ", ".join(DeliveryGuarantee)
        raise PipelineDefinitionError(
            f"The guarantee of sink {vertex.name!r} of pipeline {pipeline.name!r} must be one of {known}, not "
            f"{vertex.guarantee!r}."
        ) from None


def _kind(vertex: SinkVertex) -> str:
    return type(vertex.sink).__name__
