"""Checkpoints on a real Spark region that die with a report, and what a test does with a checkpoint that did not."""

from collections.abc import Mapping, Sequence

from continuous_checkpoints import restored_by
from spark_checkpoints import Checkpoints

from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.graph import compile_graph
from tidegate.protocol.facts.records import Acknowledgement, AcknowledgeResult, SubtaskId


class DiedError(Exception):
    """The process that acknowledged is gone."""


def attempt_until(checkpoints: Checkpoints, number: int, before: bool) -> None:
    """An attempt that dies before or after a report is recorded, which is one transaction. `number` counts reports from
    0. Raises `DiedError`, unless there are fewer."""
    checkpoints.attempt += 1
    reports = 0

    def acknowledge(acks: Sequence[Acknowledgement]) -> Mapping[SubtaskId, AcknowledgeResult]:
        nonlocal reports
        reports += 1
        if reports == number + 1 and before:
            raise DiedError
        checkpoints.acknowledged |= {ack.subtask: ack for ack in acks}
        if reports == number + 1:
            raise DiedError
        return {ack.subtask: AcknowledgeResult.SUCCESS for ack in acks}

    checkpoints.region.snapshot(checkpoints.task(), acknowledge)


def finalize(checkpoints: Checkpoints) -> None:
    """Completes it, and commits every sink."""
    checkpoints.complete()
    for sink in checkpoints.graph.sinks:
        checkpoints.commit(sink.name)


def rescaled(checkpoints: Checkpoints, pipeline: Pipeline) -> Checkpoints:
    """The pipeline goes on from what is completed, with the parallelism that `pipeline` has."""
    restored = restored_by(checkpoints.graph, compile_graph(pipeline), checkpoints.completed)
    id_, clock = checkpoints.checkpoint_id, checkpoints.clock
    return Checkpoints(pipeline, checkpoints.session, checkpoints.root, restored, checkpoint_id=id_, clock=clock)
