"""Whole checkpoints on Spark, of which one may be the last."""

from dataclasses import replace
from typing import Any

from dying_checkpoints import finalize
from spark_checkpoints import Checkpoints

from tidegate.protocol.barriers.messages import StopMode
from tidegate.protocol.facts.records import AcknowledgeResult, CheckpointKind


def take(checkpoints: Checkpoints, stop: StopMode | None = None) -> None:
    """A whole checkpoint, with what readers see of it."""
    checkpoints.trigger()
    checkpoints.attempt += 1
    task = checkpoints.task()
    if stop is not None:
        task = replace(task, kind=CheckpointKind.SYNC_SAVEPOINT, stop=stop)
    checkpoints.region.snapshot(task, lambda acks: acknowledge(checkpoints, acks))
    finalize(checkpoints)


def acknowledge(checkpoints: Checkpoints, acks: Any) -> Any:
    checkpoints.acknowledged |= {ack.subtask: ack for ack in acks}
    return {ack.subtask: AcknowledgeResult.SUCCESS for ack in acks}
