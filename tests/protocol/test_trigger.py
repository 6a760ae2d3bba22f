"""protocol.md section 3 for a scheduled run, and what a repeated request leads to."""

from datetime import timedelta

import pytest
from records import at, completed, record

from tidegate.protocol.admission import Admitted, Dropped, choose_abandoned, choose_overdue
from tidegate.protocol.lifecycle import Phase, Status
from tidegate.protocol.reasons import FailureReason
from tidegate.protocol.trigger import AlreadyCompleted, Resumed, decide_trigger, pending_checkpoint


def decide(**changes):
    facts = {
        "previous": None,
        "periodic": True,
        "in_progress": [],
        "latest_completed": None,
        "max_concurrent": 1,
        "min_pause": timedelta(0),
        "now": at(100),
    }
    return decide_trigger(**(facts | changes))


def test_the_first_request_is_admitted():
    assert decide() == Admitted()


def test_a_request_is_dropped_while_another_checkpoint_is_in_progress_and_says_which():
    decision = decide(in_progress=[record(4, request_id="scheduled-1")])
    assert isinstance(decision, Dropped)
    assert decision.reason is FailureReason.TOO_MANY_CHECKPOINT_REQUESTS
    assert "Checkpoint 4 of pipeline p, requested by scheduled-1" in decision.message
    assert "Nothing was changed" in decision.message


@pytest.mark.parametrize(
    ("now", "admitted"),
    [(3, False), (12.999, False), (13, True), (14, True)],
    ids=["at once", "before", "exactly", "after"],
)
def test_a_periodic_request_waits_for_the_minimum_pause_since_the_last_success(now, admitted):
    decision = decide(latest_completed=completed(1, completed_at=at(3)), min_pause=timedelta(seconds=10), now=at(now))
    assert (decision == Admitted()) is admitted
    if not admitted:
        assert decision.reason is FailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS


def test_a_manual_request_ignores_the_minimum_pause():
    assert decide(periodic=False, latest_completed=completed(1), min_pause=timedelta(hours=1), now=at(4)) == Admitted()


def test_a_manual_request_does_not_ignore_the_one_in_progress():
    assert isinstance(decide(periodic=False, in_progress=[record()]), Dropped)


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.SUBSUMED, Status.DISCARDED])
def test_a_request_that_completed_is_not_done_again(status):
    assert decide(previous=completed(7, status=status)) == AlreadyCompleted(7)


def test_a_request_in_progress_is_resumed_even_though_its_own_checkpoint_holds_the_pipeline():
    mine = record(7)
    assert decide(previous=mine, in_progress=[mine]) == Resumed(7)


def test_a_request_that_failed_is_admitted_anew():
    failed = record(7, status=Status.FAILED, failure_reason=FailureReason.CHECKPOINT_EXPIRED, failed_at=at(50))
    assert decide(previous=failed) == Admitted()


def test_a_failure_does_not_move_the_minimum_pause():
    failed = record(2, status=Status.FAILED, failure_reason=FailureReason.TASK_FAILURE, failed_at=at(99))
    assert decide(previous=failed, latest_completed=completed(1), min_pause=timedelta(seconds=10)) == Admitted()


def test_only_an_unacknowledged_checkpoint_expires():
    late = record(1, deadline=at(60))
    acknowledged = record(2, deadline=at(60), phase=Phase.ACKNOWLEDGED, acknowledged_at=at(59))
    early = record(3, deadline=at(60.001))
    assert choose_overdue([late, acknowledged, early], at(60)) == [late]


def test_a_new_request_pushes_aside_whatever_is_past_its_deadline():
    acknowledged = record(2, deadline=at(60), phase=Phase.ACKNOWLEDGED, acknowledged_at=at(59))
    assert choose_abandoned([acknowledged, record(3, deadline=at(61))], at(60)) == [acknowledged]


def test_the_pending_row_expects_every_subtask_and_its_deadline_runs_from_the_trigger():
    operators = record().operators
    pending = pending_checkpoint(
        pipeline_id="p", checkpoint_id=3, request_id="r", periodic=True, operators=operators,
        timeout=timedelta(minutes=10), now=at(5),
    )  # fmt: skip
    assert (pending.num_subtasks, pending.num_acknowledged) == (2, 0)
    assert (pending.status, pending.phase) == (Status.IN_PROGRESS, Phase.TRIGGERED)
    assert pending.deadline == at(605)
