"""protocol.md section 8: every reason, whether it counts, and when failures are too many."""

from cases import for_each
from records import at, record

from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.steps.failures import Tolerated, TooManyFailures, decide_pipeline_failure

#: The reasons of section 8 that exist here: (before anybody was asked, counts). For a failed validation a setting
#: decides; it is ours.
TABLE = {
    "CHECKPOINT_ASYNC_EXCEPTION": (False, True),
    "CHECKPOINT_DECLINED": (False, True),
    "CHECKPOINT_EXPIRED": (False, True),
    "FINALIZE_CHECKPOINT_FAILURE": (False, True),
    "VALIDATION_FAILED": (False, True),
    "HOLD_EXPIRED": (False, True),
    "VALIDATION_REJECTED": (False, False),
    "PERIODIC_SCHEDULER_SHUTDOWN": (True, False),
    "TOO_MANY_CHECKPOINT_REQUESTS": (True, False),
    "MINIMUM_TIME_BETWEEN_CHECKPOINTS": (True, False),
    "NOT_ALL_REQUIRED_TASKS_RUNNING": (True, False),
    "DECLINED_SUBSUMED": (False, False),
    "DECLINED_ON_CANCELLATION_BARRIER": (False, False),
    "DECLINED_INPUT_END_OF_STREAM": (False, False),
    "ALIGNMENT_LIMIT_EXCEEDED": (False, False),
    "COORDINATOR_SHUTDOWN": (False, False),
    "COORDINATOR_SUSPEND": (False, False),
    "CHECKPOINT_SUBSUMED": (False, False),
    "JOB_FAILOVER_REGION": (False, False),
    "TASK_FAILURE": (False, False),
}


def failed(checkpoint_id, reason, **changes):
    return record(
        checkpoint_id, status=Status.FAILED, failure_reason=reason, failure_message=f"m{checkpoint_id}",
        failed_at=at(9), **changes,
    )  # fmt: skip


def test_the_reasons_are_those_of_the_table():
    assert {reason.name: (reason.pre_flight, reason.counts) for reason in FailureReason} == TABLE


@for_each("reason", FailureReason)
def test_with_none_tolerated_the_first_failure_that_counts_fails_the_pipeline(reason):
    decision = decide_pipeline_failure([failed(1, reason)], 0, True)
    assert isinstance(decision, TooManyFailures if TABLE[reason.name][1] else Tolerated)


DECLINED, EXPIRED = FailureReason.CHECKPOINT_DECLINED, FailureReason.CHECKPOINT_EXPIRED


@for_each(("tolerable", "fails"), [(0, True), (1, True), (2, False), (None, False)])
def test_a_pipeline_fails_when_more_fail_than_are_tolerated(tolerable, fails):
    decision = decide_pipeline_failure([failed(3, DECLINED), failed(4, EXPIRED)], tolerable, True)
    assert isinstance(decision, TooManyFailures) is fails


def test_the_message_lists_what_happened():
    uncounted = failed(4, FailureReason.TASK_FAILURE)
    decision = decide_pipeline_failure([failed(3, DECLINED), uncounted, failed(5, EXPIRED)], 1, True)
    assert decision.message == (
        "Pipeline p has failed: 2 checkpoints failed in a row, and 1 are tolerated. Checkpoint 3: CHECKPOINT_DECLINED, "
        "m3 Checkpoint 5: CHECKPOINT_EXPIRED, m5. Committed data and the latest completed checkpoint are untouched. "
        "Fix the cause first."
    )


def test_the_threshold_is_compared_even_if_the_newest_failure_does_not_count():
    newest = failed(9, FailureReason.TASK_FAILURE)
    assert isinstance(decide_pipeline_failure([failed(3, DECLINED), newest], 0, True), TooManyFailures)


@for_each("count", [True, False])
def test_a_setting_says_whether_failed_expectations_count(count):
    decision = decide_pipeline_failure([failed(1, FailureReason.VALIDATION_FAILED)], 0, count)
    assert isinstance(decision, TooManyFailures) is count


def test_a_failed_savepoint_never_counts():
    assert decide_pipeline_failure([failed(1, EXPIRED, kind=CheckpointKind.SAVEPOINT)], 0, True) == Tolerated(0)
