"""What a repeated request leads to, who takes checkpoints at all,
and the row that makes one durable (sections 2 and 4)."""

from datetime import timedelta

import pytest
from cases import for_each
from records import at, completed, record

from tidegate.protocol.facts.errors import PipelineFailedError
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.pipelines import PipelineRecord, PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.steps.trigger import (
    AlreadyCompleted,
    Resumed,
    decide_repeated,
    decide_standing,
    pending_checkpoint,
)


@for_each("status", [Status.COMPLETED, Status.SUBSUMED, Status.DISCARDED])
def test_a_request_that_completed_is_not_done_again(status):
    assert decide_repeated(completed(7, status=status)) == AlreadyCompleted(7)


def test_a_request_in_progress_is_resumed():
    assert decide_repeated(record(7)) == Resumed(7)


def test_a_request_that_failed_or_is_new_asks_anew():
    failed = record(7, status=Status.FAILED, failure_reason=FailureReason.CHECKPOINT_EXPIRED, failed_at=at(50))
    assert decide_repeated(failed) is None
    assert decide_repeated(None) is None


@for_each("status", [PipelineStatus.CREATED, PipelineStatus.RUNNING])
@for_each("periodic", [True, False])
def test_a_pipeline_that_runs_takes_checkpoints(status, periodic):
    assert decide_standing(PipelineRecord("p", status), periodic) is None


@for_each(
    ("status", "periodic", "reason"),
    [
        (PipelineStatus.SUSPENDED, True, FailureReason.PERIODIC_SCHEDULER_SHUTDOWN),
        (PipelineStatus.SUSPENDED, False, FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING),
        (PipelineStatus.FINISHED, True, FailureReason.PERIODIC_SCHEDULER_SHUTDOWN),
        (PipelineStatus.FINISHED, False, FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING),
        (PipelineStatus.CANCELLED, True, FailureReason.COORDINATOR_SHUTDOWN),
        (PipelineStatus.CANCELLED, False, FailureReason.COORDINATOR_SHUTDOWN),
    ],
)
def test_a_pipeline_that_does_not_run_takes_none(status, periodic, reason):
    dropped = decide_standing(PipelineRecord("p", status, at(60)), periodic)
    assert dropped.reason is reason
    assert f"Pipeline p is {status} (since 2026-01-01 12:01:00 UTC)" in dropped.message
    assert ("tidegate resume p" in dropped.message) is (status is PipelineStatus.SUSPENDED)


def test_a_failed_pipeline_says_so_aloud():
    failed = PipelineRecord("p", PipelineStatus.FAILED, at(0), "2 checkpoints failed in a row.")
    with pytest.raises(
        PipelineFailedError, match=r"2 checkpoints failed in a row\. To continue, run `tidegate resume p`"
    ):
        decide_standing(failed, True)


def test_the_pending_row_expects_every_subtask_and_its_deadline_runs_from_the_trigger():
    operators = record().operators
    pending = pending_checkpoint(
        pipeline_id="p", checkpoint_id=3, request_id="r", periodic=True, kind=CheckpointKind.SAVEPOINT,
        operators=operators, timeout=timedelta(minutes=10), now=at(5),
    )  # fmt: skip
    assert (pending.num_subtasks, pending.num_acknowledged, pending.kind) == (2, 0, CheckpointKind.SAVEPOINT)
    assert (pending.status, pending.phase) == (Status.IN_PROGRESS, Phase.TRIGGERED)
    assert pending.deadline == at(605)
