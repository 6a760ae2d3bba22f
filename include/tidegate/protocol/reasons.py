"""Why a checkpoint failed: a closed list (protocol.md section 8), each with a sentence a person can act on."""

from enum import Enum


class FailureReason(Enum):
    """Why a checkpoint was refused or aborted.

    `pre_flight` says that no subtask had been asked for anything yet; `counts` that the failure moves the counter of
    tolerable failures (protocol.md section 8). The sentence is what the UI, the log and the row show.
    """

    IO_EXCEPTION = ("Reading or writing checkpoint storage failed before the snapshot began.", True, True)
    MINIMUM_TIME_BETWEEN_CHECKPOINTS = ("The minimum pause since the last checkpoint has not passed.", True, False)
    TOO_MANY_CHECKPOINT_REQUESTS = ("Another checkpoint of this pipeline is in progress.", True, False)
    TRIGGER_CHECKPOINT_FAILURE = ("The checkpoint could not be triggered.", False, False)
    CHECKPOINT_DECLINED = ("A subtask declined the checkpoint.", False, True)
    CHECKPOINT_ASYNC_EXCEPTION = ("A subtask failed while it wrote its snapshot.", False, True)
    CHECKPOINT_EXPIRED = ("The checkpoint was not acknowledged before its deadline.", False, True)
    CHECKPOINT_SUBSUMED = ("A newer checkpoint completed first.", False, False)
    DECLINED_SUBSUMED = ("A newer barrier overtook this checkpoint at an input gate.", False, False)
    DECLINED_ON_CANCELLATION_BARRIER = ("An upstream subtask cancelled the checkpoint.", False, False)
    DECLINED_INPUT_END_OF_STREAM = ("An input ended while barriers were being aligned.", False, False)
    VALIDATION_FAILED = ("The staged data did not meet its expectations.", False, True)
    FINALIZE_CHECKPOINT_FAILURE = ("The checkpoint could not be finalized.", False, True)
    TASK_FAILURE = ("The task that ran the snapshot failed for good.", False, False)

    def __init__(self, sentence: str, pre_flight: bool, counts: bool) -> None:
        self.sentence = sentence
        self.pre_flight = pre_flight
        self.counts = counts
