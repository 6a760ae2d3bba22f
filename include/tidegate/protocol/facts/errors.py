"""The errors a user can meet, all under `CheckpointError`.

A message says what happened, to which pipeline, checkpoint or file, what is safe, and what to do next.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegate.protocol.facts.reasons import FailureReason

if TYPE_CHECKING:
    from tidegate.protocol.facts.records import Verdict


class CheckpointError(Exception):
    """Base of every error Tidegate raises. `reason` is what the checkpoint is aborted with if this error ends it.
    `retries` says how many repetitions of a task may help: None for as many as it takes until what was away is back."""

    reason: FailureReason = FailureReason.TASK_FAILURE
    retries: int | None = None


class DeterministicError(CheckpointError):
    """The same input gives the same error: a retry cannot help."""

    retries: int | None = 0


class PipelineDefinitionError(DeterministicError):
    """The pipeline as written cannot run: an illegal name, a cycle, an unknown column, a bad option."""


class ConfigurationError(CheckpointError):
    """A setting, connection or command-line argument is missing or makes no sense."""


class MissingConnectionError(ConfigurationError, DeterministicError):
    """Airflow has no connection of this name, so that a retry finds none either."""


class NotInstalledError(ConfigurationError, DeterministicError):
    """A package is missing that this needs, or two that share a folder are of different versions."""


class PipelineIdentityError(DeterministicError):
    """The definition does not match the pipeline recorded under its name: a source or sink lies elsewhere."""


class PipelineNotFoundError(DeterministicError):
    """No pipeline of that name is known."""


class PipelineFailedError(DeterministicError):
    """More checkpoints failed in a row than the pipeline tolerates; it takes none until it is resumed."""


class IllegalRequestError(DeterministicError):
    """A checkpoint was requested in a way that is never allowed, whatever the pipeline's status."""


class ActionRefusedError(DeterministicError):
    """What a person asks for was refused before, when it was asked for with the same id."""


class ActionRepeatedError(DeterministicError):
    """What a person asks for was done before, when it was asked for with the same id: it is not done again."""


class StopIncompleteError(CheckpointError):
    """The savepoint to stop with is complete, but not all of its sinks have committed, so the pipeline has not finished
    yet."""


class PipelineStatusError(DeterministicError):
    """The pipeline's status does not allow the requested change: a cancelled one cannot be resumed."""


class CheckpointNotFoundError(DeterministicError):
    """No checkpoint of that id is known for the pipeline."""


class OperatorFailedError(CheckpointError):
    """Spark or a user's function failed in an operator: most likely for the code or the data. What was acknowledged is
    safe, and a repetition resumes the checkpoint."""

    retries: int | None = 3


class OperatorNotFoundError(DeterministicError):
    """The checkpoint has no operator of that name, or none with keyed state."""


class CheckpointNotRetainedError(DeterministicError):
    """The checkpoint has no state that could be restored or read, or its tables cannot be read as of it any more: it
    did not complete, or newer ones have replaced it."""


class CheckpointAbandonedError(DeterministicError):
    """A step was requested for a checkpoint that completed, and that a restore has since left behind."""


class SavepointInUseError(DeterministicError):
    """Something rests on a savepoint that was to be disposed of."""


class NothingToUndoError(DeterministicError):
    """No restore of the pipeline is left that could be undone."""


class RestoreRefusedError(DeterministicError):
    """The plan of a restore has a part that must be accepted explicitly."""


class SkipRefusedError(DeterministicError):
    """Rows of a source were not skipped: none are lost, or rows that were read would be skipped too."""


class ForkRefusedError(DeterministicError):
    """A pipeline was not forked: it has a past of its own, or something would be shared with the original."""


class CheckpointCompletedError(DeterministicError):
    """A checkpoint was to be aborted after its commit point: only a restore takes it back."""


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
    """This attempt is no longer the current one: a later one has taken over, and nothing this one wrote counts."""


class ForeignPathError(DeterministicError):
    """A report names a file that is not its own; nothing of the report was recorded, and nothing is deleted."""

    reason = FailureReason.CHECKPOINT_DECLINED


class ValidationFailedError(DeterministicError):
    """Staged data or state did not meet its expectations, or the judgement itself failed or is missing. `verdicts` say
    what, where there are any."""

    reason = FailureReason.VALIDATION_FAILED

    def __init__(self, message: str, verdicts: "Sequence[Verdict]" = ()) -> None:
        super().__init__(message)
        self.verdicts: tuple[Verdict, ...] = tuple(verdicts)


class CheckpointHeldError(CheckpointError):
    """The checkpoint waits for a person to approve or reject it. Nothing aborts it for that."""


class NotHeldError(DeterministicError):
    """A checkpoint was to be approved or rejected that does not wait for that, or not any more."""


class EarlierSavepointError(CheckpointError):
    """An older savepoint has to end before this checkpoint is judged. Nothing was changed; repeat the step."""


class FinalizeError(CheckpointError):
    """The commit point was not reached; the previous checkpoint is still the latest."""

    reason = FailureReason.FINALIZE_CHECKPOINT_FAILURE


class UnknownOutcomeError(CheckpointError):
    """The connection was lost while a transaction committed: it may or may not have landed. Nothing was deleted."""

    reason = FailureReason.FINALIZE_CHECKPOINT_FAILURE


class UnavailableError(CheckpointError):
    """Something that the step needs cannot be used now: repeating the step helps once it can."""


class StoreUnavailableError(UnavailableError):
    """The database cannot be reached. Nothing was changed by the step that met this."""


class CheckpointInDoubtError(UnavailableError):
    """The checkpoint has completed, and a table does not show its rows yet."""


class SparkUnavailableError(UnavailableError):
    """Spark cannot be reached or started, or was lost while something ran on it."""


class SourceUnavailableError(UnavailableError):
    """The place that a source reads is not there: it is not mounted, or its path is wrong. Nothing was read."""


class CopyInterruptedError(UnavailableError):
    """Copying files in stood still for so long that another process deletes what was copied. Nothing was changed;
    repeating the command copies anew."""


class RecordRefusedError(DeterministicError):
    """A rule of the database refused a record. Nothing was changed by the transaction that met this."""


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
    """A savepoint cannot be written as it was to be edited: its rows or keys do not fit the state, or what it would be
    made from cannot be edited. Nothing was written."""


class RecoveryRefusedError(DeterministicError):
    """The rows of a pipeline were not rebuilt from its checkpoint storage: something must be done or said first."""


class StateSchemaError(DeterministicError):
    """The state on storage and the pipeline's definition disagree on columns, types, keys or max parallelism."""

    reason = FailureReason.CHECKPOINT_DECLINED


class SourceChangedError(DeterministicError):
    """Something that was already read has changed or vanished; reading on would lose or double rows."""

    reason = FailureReason.CHECKPOINT_DECLINED


class MalformedRowsError(DeterministicError):
    """A source met rows that do not fit its schema and is configured to fail on them."""

    reason = FailureReason.CHECKPOINT_DECLINED


class SinkError(CheckpointError):
    """A sink could not stage or commit its rows."""

    reason = FailureReason.CHECKPOINT_ASYNC_EXCEPTION


class SinkUnavailableError(UnavailableError, SinkError):
    """The database of a sink's table cannot be reached or has no room, or another session holds a lock on the table."""


class RowsRefusedError(DeterministicError, SinkError):
    """A sink's table does not take its rows: a constraint, a type or a right is against it. Rows are staged."""
