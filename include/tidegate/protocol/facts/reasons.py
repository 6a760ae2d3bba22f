"""The closed list of reasons why a checkpoint failed, each with a sentence that a user can act on. protocol.md section
8 names Flink's reasons that are not among them, and why."""

from enum import Enum


class FailureReason(Enum):
    """The reason why a checkpoint was refused or aborted.

    `pre_flight`: no subtask had been triggered yet. `counts`: the failure counts towards the tolerable ones
    (protocol.md section 8); a setting decides it for a failed validation and for a hold that has expired. The UI, the
    log and the row show the sentence.
    """

    # Before any subtask was triggered.
    PERIODIC_SCHEDULER_SHUTDOWN = ("The pipeline is not running, so it takes no periodic checkpoints.", True, False)
    MINIMUM_TIME_BETWEEN_CHECKPOINTS = ("The minimum pause since the last checkpoint has not passed.", True, False)
    TOO_MANY_CHECKPOINT_REQUESTS = ("Another checkpoint or request of this pipeline has precedence.", True, False)
    NOT_ALL_REQUIRED_TASKS_RUNNING = ("The pipeline, or a part of it that is needed, is not running.", True, False)

    # While subtasks took their snapshots.
    CHECKPOINT_DECLINED = ("A subtask declined the checkpoint.", False, True)
    CHECKPOINT_ASYNC_EXCEPTION = ("A subtask failed while it wrote its snapshot.", False, True)
    CHECKPOINT_EXPIRED = ("The checkpoint was not acknowledged before its deadline.", False, True)
    DECLINED_SUBSUMED = ("A newer barrier overtook this checkpoint at an input gate.", False, False)
    DECLINED_ON_CANCELLATION_BARRIER = ("An upstream subtask cancelled the checkpoint.", False, False)
    DECLINED_INPUT_END_OF_STREAM = ("An input ended while barriers were being aligned.", False, False)
    ALIGNMENT_LIMIT_EXCEEDED = ("More data queued up behind barriers than the alignment limit allows.", False, False)
    TASK_FAILURE = ("The task that ran the snapshot failed for good.", False, False)

    # After every subtask had acknowledged.
    VALIDATION_FAILED = ("The staged data did not meet its expectations.", False, True)
    VALIDATION_REJECTED = ("A person rejected the staged data, which did not meet its expectations.", False, False)
    HOLD_EXPIRED = ("The staged data did not meet its expectations, and was not approved in time.", False, True)
    FINALIZE_CHECKPOINT_FAILURE = ("The checkpoint could not be finalized.", False, True)

    # From outside, at any time.
    CHECKPOINT_SUBSUMED = ("A newer checkpoint, which has the same rows and more, completed first.", False, False)
    COORDINATOR_SUSPEND = (
        "It was ended on purpose: by hand, or because the pipeline was suspended, stopped or restored.",
        False,
        False,
    )
    COORDINATOR_SHUTDOWN = ("The pipeline was cancelled.", False, False)
    JOB_FAILOVER_REGION = ("A region of the pipeline failed and was started again.", False, False)

    def __init__(self, sentence: str, pre_flight: bool, counts: bool) -> None:
        self.sentence = sentence
        self.pre_flight = pre_flight
        self.counts = counts

    @property
    def is_fault(self) -> bool:
        """Whether something went wrong. Otherwise a user, a newer checkpoint or a new region ended the checkpoint, and
        there is nothing to repair: it is no failure in a row, and no alert."""
        return self not in _NO_FAULT


_NO_FAULT = frozenset(
    {
        FailureReason.VALIDATION_REJECTED,
        FailureReason.CHECKPOINT_SUBSUMED,
        FailureReason.DECLINED_SUBSUMED,
        FailureReason.DECLINED_INPUT_END_OF_STREAM,
        FailureReason.COORDINATOR_SUSPEND,
        FailureReason.COORDINATOR_SHUTDOWN,
        FailureReason.JOB_FAILOVER_REGION,
    }
)
