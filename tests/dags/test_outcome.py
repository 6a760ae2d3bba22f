"""Which errors are worth a retry, and what a checkpoint then failed of."""

from cases import for_each

from tidegate.airflow.outcome import cause_of, is_final
from tidegate.protocol.facts import errors
from tidegate.protocol.facts.reasons import FailureReason


@for_each("error", [errors.StoreUnavailableError("away"), OSError("reset"), ValueError("user code")])
def test_what_may_pass_is_left_to_retries(error):
    assert not is_final(error, 1)


def test_what_failed_in_an_operator_is_repeated_a_few_times_and_an_absence_until_no_retry_is_left():
    failed, away = errors.OperatorFailedError("KeyError"), errors.StoreUnavailableError("away")
    assert [is_final(failed, number) for number in (1, 3, 4)] == [False, False, True]
    assert not any(is_final(error, 100) for error in (away, OSError("reset"), errors.CheckpointError("Spark was lost")))
    assert is_final(errors.SourceChangedError("a.csv"), 1)


def test_an_error_of_ours_brings_its_own_reason():
    reason, message = cause_of("snapshot", errors.SourceChangedError("a.csv has changed."))
    assert reason is FailureReason.CHECKPOINT_DECLINED
    assert message == "Task snapshot failed for good: a.csv has changed."


def test_a_foreign_error_is_a_task_failure_without_the_stack_of_the_jvm():
    reason, message = cause_of("snapshot", RuntimeError("Job aborted.\n\nJVM stacktrace:\nat org.apache…"))
    assert reason is FailureReason.TASK_FAILURE
    assert message == "Task snapshot failed for good: RuntimeError: Job aborted."
