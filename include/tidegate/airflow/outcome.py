"""What an error means to Airflow: whether and for how long a retry of the task can help, and with which reason the
checkpoint fails otherwise.

Pure. It does not raise Airflow's exceptions; `step` does.
"""

from datetime import timedelta

from tidegate.protocol.facts.errors import CheckpointError
from tidegate.protocol.facts.reasons import FailureReason

#: How long a component may be away (API server, scheduler, Postgres, Spark server, storage) before a task that needs it
#: has failed for good. Everything that says how often tasks are retried follows from this.
OUTLASTED = timedelta(minutes=10)
RETRY_DELAY = timedelta(seconds=2)
LONGEST_RETRY_DELAY = timedelta(minutes=1)


def retries_to_outlast(away: timedelta) -> int:
    """How many retries it takes until the delays before them, each twice the one before, add up to that."""
    retries, waited = 0, timedelta()
    while waited < away:
        waited += min(RETRY_DELAY * 2**retries, LONGEST_RETRY_DELAY)
        retries += 1
    return retries


def is_final(error: BaseException, try_number: int) -> bool:
    """Whether the task fails for good with the error of this try, whatever retries Airflow has left. Tries that Airflow
    lost on its own count too: it does not say which they were. What is no error of ours may pass."""
    return isinstance(error, CheckpointError) and error.retries is not None and try_number > error.retries


def cause_of(task_id: str, error: BaseException) -> tuple[FailureReason, str]:
    """The reason and message with which a checkpoint ends when `task_id` failed with `error` for good."""
    if isinstance(error, CheckpointError):
        return error.reason, f"Task {task_id} failed for good: {error}"
    text = str(error).strip().split("\n\nJVM stacktrace:")[0]
    return FailureReason.TASK_FAILURE, f"Task {task_id} failed for good: {type(error).__name__}: {text[:2000]}"
