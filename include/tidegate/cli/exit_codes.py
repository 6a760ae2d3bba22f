"""Exit codes of `tidegate`. They are stable: scripts may depend on them."""

from enum import IntEnum

from tidegate.protocol.facts.errors import (
    ActionRefusedError,
    ActionRepeatedError,
    CheckpointAbandonedError,
    CheckpointCompletedError,
    CheckpointError,
    CheckpointHeldError,
    CheckpointNotFoundError,
    CheckpointNotRetainedError,
    ConfigurationError,
    ForkRefusedError,
    IllegalRequestError,
    NotHeldError,
    NothingToUndoError,
    OperatorNotFoundError,
    PipelineDefinitionError,
    PipelineFailedError,
    PipelineIdentityError,
    PipelineNotFoundError,
    PipelineStatusError,
    RecoveryRefusedError,
    RestoreRefusedError,
    SavepointEditError,
    SavepointInUseError,
    SkipRefusedError,
    StopIncompleteError,
    UnavailableError,
    UnknownOutcomeError,
    ValidationFailedError,
)


class ExitCode(IntEnum):
    OK = 0  # done; for `run`: the checkpoint completed and its sinks have committed
    ABORTED = 1  # the checkpoint was aborted; nothing became visible
    USAGE = 2  # wrong arguments, configuration or pipeline definition; nothing was started
    VALIDATION_FAILED = 3  # the staged data did not meet its expectations; nothing became visible
    DROPPED = 4  # the request was not admitted (minimum pause, another one in progress); nothing was started
    NOT_FOUND = 5  # no such pipeline, checkpoint or operator
    UNAVAILABLE = (
        6  # the database, Spark or a source cannot be reached, or copying stalled; repeat when it is available
    )
    OUTCOME_UNKNOWN = 7  # the connection was lost at the commit point; nothing was deleted; repeat to find out
    PIPELINE_STOPPED = (
        8  # the pipeline has failed, or the requested change of status is not possible; the error has the reason
    )
    INCOMPATIBLE = 9  # of `plan`: the definition cannot continue from the latest checkpoint
    DAMAGED = 10  # of `clean`: a retained file is missing or differs from its checksum; nothing was deleted
    DIFFERENT = 11  # of `compare`: the two pipelines differ
    HELD = 12  # a failed verdict waits for approval: approve or reject, then repeat; nothing became visible yet
    IN_DOUBT = 14  # of `doubts`: a table has not shown a completed checkpoint for longer than allowed
    INTERRUPTED = 130  # by Ctrl-C; a checkpoint stays in progress, and the same command continues it
    UNWELL = 13  # of `watch --once`: a pipeline is stale or has failed, or its latest checkpoint has


def exit_code_of(error: CheckpointError) -> ExitCode:
    """Return the code that a command ends with when this error reaches it."""
    match error:
        case ValidationFailedError():
            return ExitCode.VALIDATION_FAILED
        case CheckpointHeldError():
            return ExitCode.HELD
        case PipelineFailedError() | PipelineStatusError() | StopIncompleteError():
            return ExitCode.PIPELINE_STOPPED
        case ActionRefusedError() | ActionRepeatedError():
            return ExitCode.PIPELINE_STOPPED
        case CheckpointAbandonedError() | CheckpointCompletedError() | NothingToUndoError() | SavepointInUseError():
            return ExitCode.PIPELINE_STOPPED
        case NotHeldError():
            return ExitCode.PIPELINE_STOPPED
        case UnknownOutcomeError():
            return ExitCode.OUTCOME_UNKNOWN
        case UnavailableError():
            return ExitCode.UNAVAILABLE
        case CheckpointNotFoundError() | CheckpointNotRetainedError():
            return ExitCode.NOT_FOUND
        case PipelineNotFoundError() | OperatorNotFoundError():
            return ExitCode.NOT_FOUND
        case ConfigurationError() | IllegalRequestError() | PipelineDefinitionError() | PipelineIdentityError():
            return ExitCode.USAGE
        case ForkRefusedError() | RestoreRefusedError() | RecoveryRefusedError() | SavepointEditError():
            return ExitCode.USAGE
        case SkipRefusedError():
            return ExitCode.USAGE
        case _:
            return ExitCode.ABORTED
