"""What an error means to Airflow: whether a retry of the task can help, and with which reason the checkpoint fails
otherwise.

Pure. It does not raise Airflow's exceptions; `step` does.
"""

from tidegate.protocol.errors import (
    CheckpointAbandonedError,
    CheckpointCompletedError,
    CheckpointError,
    CheckpointExpiredError,
    CheckpointNotFoundError,
    CheckpointNotInProgressError,
    CheckpointNotRetainedError,
    ForeignPathError,
    ForkRefusedError,
    GestureRefusedError,
    GestureRepeatedError,
    IllegalRequestError,
    MalformedRowsError,
    MetadataError,
    MissingConnectionError,
    NotHeldError,
    NothingToUndoError,
    NotInstalledError,
    OperatorNotFoundError,
    PipelineDefinitionError,
    PipelineFailedError,
    PipelineIdentityError,
    PipelineNotFoundError,
    PipelineStatusError,
    RecordRefusedError,
    RecoveryRefusedError,
    RestoreRefusedError,
    SavepointEditError,
    SavepointInUseError,
    SourceChangedError,
    StateIntegrityError,
    StateSchemaError,
    ValidationFailedError,
)
from tidegate.protocol.reasons import FailureReason

#: The same input gives the same error. Everything else may pass: a database or cluster that restarts or is being
#: repaired (`ConfigurationError`), a full disk, a lost connection while committing (which the repeated step looks
#: into).
DETERMINISTIC = (
    CheckpointAbandonedError,
    CheckpointCompletedError,
    CheckpointExpiredError,
    CheckpointNotFoundError,
    CheckpointNotInProgressError,
    CheckpointNotRetainedError,
    ForeignPathError,
    ForkRefusedError,
    GestureRefusedError,
    GestureRepeatedError,
    IllegalRequestError,
    MalformedRowsError,
    MetadataError,
    MissingConnectionError,
    NotHeldError,
    NothingToUndoError,
    NotInstalledError,
    OperatorNotFoundError,
    PipelineDefinitionError,
    PipelineFailedError,
    PipelineIdentityError,
    PipelineNotFoundError,
    PipelineStatusError,
    RecordRefusedError,
    RecoveryRefusedError,
    RestoreRefusedError,
    SavepointEditError,
    SavepointInUseError,
    SourceChangedError,
    StateIntegrityError,
    StateSchemaError,
    ValidationFailedError,
)


def is_deterministic(error: BaseException) -> bool:
    """Whether a retry of the task would only fail again."""
    return isinstance(error, DETERMINISTIC)


def cause_of(task_id: str, error: BaseException) -> tuple[FailureReason, str]:
    """The reason and message with which a checkpoint ends when `task_id` failed with `error` for good."""
    if isinstance(error, CheckpointError):
        return error.reason, f"Task {task_id} failed for good: {error}"
    text = str(error).strip().split("\n\nJVM stacktrace:")[0]
    return FailureReason.TASK_FAILURE, f"Task {task_id} failed for good: {type(error).__name__}: {text[:2000]}"
