"""Stopping with a savepoint, and the end of a pipeline (protocol.md sections 3, 8, 13 and 18).

The order makes it safe. First, no other checkpoint may complete any more. Then the savepoint is taken. Only when its
sinks have committed has the pipeline finished. If the savepoint fails, the pipeline goes on, unless a subtask was the
cause.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.protocol.barriers.messages import StopMode
from tidegate.protocol.facts.errors import IllegalRequestError, PipelineStatusError
from tidegate.protocol.facts.pipelines import PIPELINE_TRANSITIONS, PipelineRecord, PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord
from tidegate.protocol.text.sentences import reassured

#: Reasons that come from a subtask, or from the task that ran it. The subtask has stopped emitting and cannot undo that
#: (section 8).
_OF_SUBTASKS = frozenset(
    {
        FailureReason.CHECKPOINT_DECLINED,
        FailureReason.CHECKPOINT_ASYNC_EXCEPTION,
        FailureReason.DECLINED_SUBSUMED,
        FailureReason.DECLINED_ON_CANCELLATION_BARRIER,
        FailureReason.DECLINED_INPUT_END_OF_STREAM,
        FailureReason.ALIGNMENT_LIMIT_EXCEEDED,
        FailureReason.TASK_FAILURE,
    }
)


#: Characters of a request's id. It is part of indexes, whose entries are bounded; Airflow's ids have at most 250.
LONGEST_REQUEST_ID = 500


def require_legal_id(request_id: str) -> None:
    """Check that an id can be recorded and shown. Raises `IllegalRequestError`. Performs no I/O."""
    if not request_id.isprintable() or not 1 <= len(request_id) <= LONGEST_REQUEST_ID:
        shown = ascii(request_id if len(request_id) <= 100 else f"{request_id[:100]}…")
        raise IllegalRequestError(
            f"{shown} cannot name a request: an id has 1 to {LONGEST_REQUEST_ID} printable characters. Nothing was "
            "triggered. Use another id."
        )


def require_legal(request_id: str, kind: CheckpointKind, drain: bool) -> None:
    """Check the id, and that only a savepoint to stop with drains. Raises `IllegalRequestError`. Performs no I/O."""
    require_legal_id(request_id)
    if drain and kind is not CheckpointKind.SYNC_SAVEPOINT:
        raise IllegalRequestError(
            f"A {kind} cannot drain the pipeline: nothing may follow a drain, so only a "
            f"{CheckpointKind.SYNC_SAVEPOINT}, which stops the pipeline, may drain it. Nothing was triggered. Request "
            "that kind, or leave drain out."
        )


def stop_mode(record: CheckpointRecord) -> StopMode | None:
    """Return the way in which the pipeline stops with this checkpoint, if it does. It is sent ahead of the barriers.
    Performs no I/O."""
    if record.kind is not CheckpointKind.SYNC_SAVEPOINT:
        return None
    return StopMode.DRAIN if record.drain else StopMode.SUSPEND


def stopping_message(record: CheckpointRecord) -> str:
    """Return the pipeline's message while it stops."""
    again = "`tidegate stop" + (" --drain`" if record.drain else "`")
    return (
        f"It stops with savepoint {record.checkpoint_id}, requested by {record.request_id}: {again} continues with it, "
        "`tidegate suspend` aborts it."
    )


@dataclass(frozen=True, slots=True)
class Restart:
    """The pipeline goes on as if no stop had been requested."""


@dataclass(frozen=True, slots=True)
class StopFailed:
    """The pipeline has failed, whatever it tolerates. `message` is the reason."""

    message: str


def decide_stop_failure(record: CheckpointRecord, reason: FailureReason, message: str) -> Restart | StopFailed:
    """Decide what happens to the pipeline after the savepoint to stop with has failed. Performs no I/O."""
    if reason not in _OF_SUBTASKS:
        return Restart()
    return StopFailed(
        f"Pipeline {record.pipeline_id} has failed: a subtask could not take savepoint {record.checkpoint_id}, with "
        f"which it was to stop, and cannot continue without it. {reason.name}, {reassured(message[:300])} Fix the "
        "cause first."
    )


@dataclass(frozen=True, slots=True)
class PipelineEnd:
    """The pipeline has ended. `message` describes its end."""

    message: str


def decide_end(
    pipeline: PipelineRecord, latest: CheckpointRecord | None, in_progress: Sequence[CheckpointRecord]
) -> PipelineEnd | None:
    """Decide whether the latest completed checkpoint was the last one. Its sinks must have committed. Performs no
    I/O."""
    if latest is None or latest.notified_at is None or in_progress:
        return None
    if PipelineStatus.FINISHED not in PIPELINE_TRANSITIONS[pipeline.status]:
        return None
    if is_at_end(latest):
        return PipelineEnd(_end_of(latest))
    if pipeline.status is PipelineStatus.STOPPING and latest.kind is CheckpointKind.SYNC_SAVEPOINT:
        return PipelineEnd(
            f"It was stopped with savepoint {latest.checkpoint_id} ({latest.metadata_path}); `tidegate resume "
            f"{latest.pipeline_id}` continues from it."
        )
    return None


def may_end(pipeline: PipelineRecord, record: CheckpointRecord) -> bool:
    """Whether the pipeline may end once the sinks have committed this checkpoint. `decide_end` decides it then.
    Performs no I/O."""
    return pipeline.status is PipelineStatus.STOPPING or is_at_end(record)


def is_at_end(latest: CheckpointRecord) -> bool:
    """Whether nothing can follow a completed checkpoint: all of its subtasks have finished. Performs no I/O."""
    return latest.num_finished == latest.num_subtasks


def require_resumable(pipeline: PipelineRecord, latest: CheckpointRecord | None) -> None:
    """Raise `PipelineStatusError` for a pipeline that is about to stop, or that has read everything to its end.
    Performs no I/O."""
    if pipeline.status is PipelineStatus.STOPPING:
        raise PipelineStatusError(
            f"Pipeline {pipeline.pipeline_id} is STOPPING and cannot be resumed. {pipeline.message} Nothing was "
            "changed."
        )
    if pipeline.status is PipelineStatus.FINISHED and latest is not None and is_at_end(latest):
        raise PipelineStatusError(
            f"Pipeline {pipeline.pipeline_id} is FINISHED and cannot be resumed. {_end_of(latest)} Nothing was "
            "changed; its state and tables are safe. Give a new pipeline another name, or go back to an earlier "
            f"checkpoint with `tidegate restore {pipeline.pipeline_id}`."
        )


def _end_of(latest: CheckpointRecord) -> str:
    if latest.drain:
        return f"It was drained by savepoint {latest.checkpoint_id} ({latest.metadata_path}): nothing follows it."
    return f"Checkpoint {latest.checkpoint_id} has read every source to its end."
