"""The errors a user can meet, all under `CheckpointError`.

A message names the event, the pipeline, checkpoint or file, the data that is safe, and the next step for the user.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegate.protocol.facts.reasons import FailureReason

if TYPE_CHECKING:
    from tidegate.protocol.facts.records import Verdict


class CheckpointError(Exception):
    """Base of every error Tidegate raises. If the error ends a checkpoint, the checkpoint is aborted with `reason`.
    `retries` is the number of repetitions of a task that may help. None means no limit: the task can succeed once the
    missing system is back."""

    reason: FailureReason = FailureReason.TASK_FAILURE
    retries: int | None = None


class DeterministicError(CheckpointError):
    """An error that the same input causes again. A retry cannot help."""

    retries: int | None = 0


class PipelineDefinitionError(DeterministicError):
    """The pipeline as written cannot run: an illegal name, a cycle, an unknown column, a bad option."""


class ConfigurationError(CheckpointError):
    """A setting, connection or command-line argument is missing or makes no sense."""


class MissingConnectionError(ConfigurationError, DeterministicError):
    """Airflow has no connection of this name. A retry finds none either."""


class NotInstalledError(ConfigurationError, DeterministicError):
    """A required package is not installed, or two packages that share a folder have different versions."""


class PipelineIdentityError(DeterministicError):
    """The definition does not match the pipeline recorded under its name: a source or sink lies elsewhere."""


class PipelineNotFoundError(DeterministicError):
    """The database has no pipeline of that name."""


class PipelineFailedError(DeterministicError):
    """More checkpoints failed in a row than the pipeline tolerates; it takes none until it is resumed."""


class IllegalRequestError(DeterministicError):
    """A checkpoint was requested in a way that is never allowed, whatever the pipeline's status."""


class ActionRefusedError(DeterministicError):
    """A user action was refused, because an earlier request with the same id was refused."""


class ActionRepeatedError(DeterministicError):
    """A user action was already carried out for an earlier request with the same id. It is not repeated."""


class StopIncompleteError(CheckpointError):
    """The savepoint to stop with is complete, but not all of its sinks have committed, so the pipeline has not finished
    yet."""


class PipelineStatusError(DeterministicError):
    """The pipeline's status does not allow the requested change: a cancelled one cannot be resumed."""


class CheckpointNotFoundError(DeterministicError):
    """The pipeline has no checkpoint of that id in this database."""


class OperatorFailedError(CheckpointError):
    """Spark or a user's function failed in an operator, most likely because of the code or the data. Acknowledged
    snapshots are safe, and a repetition resumes the checkpoint."""

    retries: int | None = 3


class OperatorNotFoundError(DeterministicError):
    """The checkpoint has no operator of that name, or none with keyed state."""


class CheckpointNotRetainedError(DeterministicError):
    """The checkpoint did not complete, or newer ones have replaced it. Its state can be neither restored nor read, or
    its tables can no longer be read as of it."""


class CheckpointAbandonedError(DeterministicError):
    """A step was requested for a completed checkpoint that a restore has since left behind."""


class SavepointInUseError(DeterministicError):
    """A savepoint was not disposed of, because the pipeline still needs it."""


class NothingToUndoError(DeterministicError):
    """The pipeline has no restore that could be undone."""


class RestoreRefusedError(DeterministicError):
    """The plan of a restore has a part that the user must accept explicitly."""


class SkipRefusedError(DeterministicError):
    """Rows of a source were not skipped: none are lost, or rows that were read would be skipped too."""


class ForkRefusedError(DeterministicError):
    """A pipeline was not forked: it has checkpoints of its own, or it would share a place with the original."""


class CheckpointCompletedError(DeterministicError):
    """A checkpoint cannot be aborted after its commit point. Only a restore takes it back."""


class CheckpointNotInProgressError(DeterministicError):
    """A step was requested for a checkpoint that has already ended in another way; the error carries the recorded
    cause."""


class CheckpointDeclinedError(CheckpointError):
    """A subtask could not take its snapshot."""

    reason = FailureReason.CHECKPOINT_DECLINED


class CheckpointExpiredError(DeterministicError):
    """The deadline passed before every subtask had acknowledged."""

    reason = FailureReason.CHECKPOINT_EXPIRED


class SupersededAttemptError(CheckpointError):
    """A later attempt has taken over from this one. Nothing that this attempt wrote counts."""


class ForeignPathError(DeterministicError):
    """A report names a file that its subtask did not write. Nothing of the report was recorded, and nothing is
    deleted."""

    reason = FailureReason.CHECKPOINT_DECLINED


class ValidationFailedError(DeterministicError):
    """Staged data or state did not meet its expectations, or the validation itself failed or is missing. `verdicts`
    holds the details, where there are any."""

    reason = FailureReason.VALIDATION_FAILED

    def __init__(self, message: str, verdicts: "Sequence[Verdict]" = ()) -> None:
        super().__init__(message)
        self.verdicts: tuple[Verdict, ...] = tuple(verdicts)


class CheckpointHeldError(CheckpointError):
    """The checkpoint waits for manual approval. The error does not abort it."""


class NotHeldError(DeterministicError):
    """A checkpoint cannot be approved or rejected, because it does not wait for manual approval, or no longer does."""


class EarlierSavepointError(CheckpointError):
    """An older savepoint must end before this checkpoint is validated. Nothing was changed. Repeat the step."""


class FinalizeError(CheckpointError):
    """The commit point was not reached. The previous checkpoint is still the latest."""

    reason = FailureReason.FINALIZE_CHECKPOINT_FAILURE


class UnknownOutcomeError(CheckpointError):
    """The connection was lost while a transaction committed: it may or may not have landed. Nothing was deleted."""

    reason = FailureReason.FINALIZE_CHECKPOINT_FAILURE


class UnavailableError(CheckpointError):
    """A system that the step needs is unavailable. Repeat the step once it is back."""


class StoreUnavailableError(UnavailableError):
    """The database cannot be reached. The failed step has changed nothing."""


class CheckpointInDoubtError(UnavailableError):
    """The checkpoint has completed, and a table does not show its rows yet."""


class SparkUnavailableError(UnavailableError):
    """Spark cannot be reached or started, or was lost while something ran on it."""


class SourceUnavailableError(UnavailableError):
    """The input of a source is not there: it is not mounted, or its path is wrong. Nothing was read."""


class CopyInterruptedError(UnavailableError):
    """The import of files stood still for so long that another process deletes the copies. Nothing was changed. Repeat
    the command to copy them again."""


class RecordRefusedError(DeterministicError):
    """A rule of the database refused a record. The transaction has changed nothing."""


class StorageError(CheckpointError):
    """Checkpoint storage or a staging area cannot be read or written (disk full, permission, network)."""

    reason = FailureReason.CHECKPOINT_ASYNC_EXCEPTION


class StateIntegrityError(DeterministicError):
    """A file of state is missing, truncated or differs from its checksum."""

    reason = FailureReason.CHECKPOINT_DECLINED


class MetadataError(DeterministicError):
    """A checkpoint's `_metadata` or marker cannot be read: it is damaged, of another checkpoint, or of a newer
    version."""


class SavepointExportError(CheckpointError):
    """A savepoint was taken, but its own directory is not complete yet. Repeating the command finishes it."""


class SavepointEditError(DeterministicError):
    """An edited savepoint cannot be written: the rows or keys do not fit the state, or the original cannot be edited.
    Nothing was written."""


class RecoveryRefusedError(DeterministicError):
    """The rows of a pipeline were not rebuilt from its checkpoint storage, because the user must first do or confirm
    something."""


class StateSchemaError(DeterministicError):
    """The state on storage and the pipeline's definition disagree on columns, types, keys or max parallelism."""

    reason = FailureReason.CHECKPOINT_DECLINED


class SourceChangedError(DeterministicError):
    """Input that was already read has changed or vanished. Reading on would lose or duplicate rows."""

    reason = FailureReason.CHECKPOINT_DECLINED


class MalformedRowsError(DeterministicError):
    """A source that is configured to fail on malformed rows has read some."""

    reason = FailureReason.CHECKPOINT_DECLINED


class SinkError(CheckpointError):
    """A sink could not stage or commit its rows."""

    reason = FailureReason.CHECKPOINT_ASYNC_EXCEPTION


class SinkUnavailableError(UnavailableError, SinkError):
    """The database of a sink's table cannot be reached or has no room, or another session holds a lock on the table."""


class RowsRefusedError(DeterministicError, SinkError):
    """A sink's table does not take its rows because of a constraint, a type or a missing right. The rows are staged."""
