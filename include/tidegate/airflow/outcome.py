"""The meaning of an error to Airflow: whether and for how long a retry can help, and the reason that the checkpoint
fails for otherwise.

Pure. It does not raise Airflow's exceptions; `step` does.
"""

from datetime import timedelta

from tidegate.protocol.facts.errors import CheckpointError
from tidegate.protocol.facts.reasons import FailureReason

#: The time that a component (API server, scheduler, Postgres, Spark server, storage) may be away before a task that
#: needs it fails for good. All settings of retries follow from it.
OUTLASTED = timedelta(minutes=10)
RETRY_DELAY = timedelta(seconds=2)
LONGEST_RETRY_DELAY = timedelta(minutes=1)


def retries_to_outlast(away: timedelta) -> int:
    """Return the number of retries after which their delays, each twice the one before, add up to `away`."""
    retries, waited = 0, timedelta()
    while waited < away:
        waited += min(RETRY_DELAY * 2**retries, LONGEST_RETRY_DELAY)
        retries += 1
    return retries


def is_final(error: BaseException, try_number: int) -> bool:
    """Whether the task fails for good with this error, regardless of the retries that Airflow has left. Tries that
    Airflow lost on its own count too, because it does not report them. An error that is not Tidegate's may be
    temporary.
    """
    return isinstance(error, CheckpointError) and error.retries is not None and try_number > error.retries


def cause_of(task_id: str, error: BaseException) -> tuple[FailureReason, str]:
    """Return the reason and message with which a checkpoint ends if `task_id` has failed with `error` for good."""
    if isinstance(error, CheckpointError):
        return error.reason, f"Task {task_id} failed for good: {error}"
    text = str(error).strip().split("\n\nJVM stacktrace:")[0]
    return FailureReason.TASK_FAILURE, f"Task {task_id} failed for good: {type(error).__name__}: {text[:2000]}"
