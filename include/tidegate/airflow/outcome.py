"""What an error means to Airflow: whether and for how long a retry of the task can help, and with which reason the
checkpoint fails otherwise.

Pure. It does not raise Airflow's exceptions; `step` does.
"""

from datetime import timedelta

from tidegate.protocol.facts.errors import (
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
    OperatorFailedError,
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
from tidegate.protocol.facts.reasons import FailureReason

#: How long a component may be away (API server, scheduler, Postgres, Spark server, storage) before a task that needs it
#: has failed for good. Everything that says how often tasks are retried follows from this.
OUTLASTED = timedelta(minutes=10)
RETRY_DELAY = timedelta(seconds=2)
LONGEST_RETRY_DELAY = timedelta(minutes=1)
#: Retries of what is more likely the fault of the code or the data than of a component.
FEW_RETRIES = 3


def retries_to_outlast(away: timedelta) -> int:
    """How many retries it takes until the delays before them, each twice the one before, add up to that."""
    retries, waited = 0, timedelta()
    while waited < away:
        waited += min(RETRY_DELAY * 2**retries, LONGEST_RETRY_DELAY)
        retries += 1
    return retries


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


def is_final(error: BaseException, try_number: int) -> bool:
    """Whether the task fails for good with the error of this try, whatever retries Airflow has left. Tries that Airflow
    lost on its own count too: it does not say which they were."""
    return is_deterministic(error) or (isinstance(error, OperatorFailedError) and try_number > FEW_RETRIES)


def cause_of(task_id: str, error: BaseException) -> tuple[FailureReason, str]:
    """The reason and message with which a checkpoint ends when `task_id` failed with `error` for good."""
    if isinstance(error, CheckpointError):
        return error.reason, f"Task {task_id} failed for good: {error}"
    text = str(error).strip().split("\n\nJVM stacktrace:")[0]
    return FailureReason.TASK_FAILURE, f"Task {task_id} failed for good: {type(error).__name__}: {text[:2000]}"
