"""Suspend, resume, cancel and too many failures (protocol.md sections 2, 8 and 9), on every store."""

from collections.abc import Callable

import pytest
from desks import Desk
from records import at
from store_steps import PIPELINE, fail_checkpoint, triggered
from user_actions import STOPS, resume, suspend
from worlds import Judge

from tidegate.ports import CheckpointStore
from tidegate.protocol.facts.errors import (
    CheckpointError,
    CheckpointNotInProgressError,
    PipelineFailedError,
    PipelineStatusError,
)
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineRecord, PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.steps.trigger import Dropped, Queued, Triggered


def test_a_pipeline_is_unknown_then_created_and_keeps_what_is_recorded(store: CheckpointStore) -> None:
    assert store.pipeline(PIPELINE) is None
    triggered(store)
    assert store.pipeline(PIPELINE) == PipelineRecord(PIPELINE)
    with store.transaction(PIPELINE) as tx:
        tx.move_pipeline(PipelineStatus.RUNNING, at(1))
        tx.move_pipeline(PipelineStatus.FAILED, at(2), "why", forgiven_until=1)
        assert tx.pipeline() == PipelineRecord(PIPELINE, PipelineStatus.FAILED, at(2), "why", 1)
    assert store.pipeline(PIPELINE) == PipelineRecord(PIPELINE, PipelineStatus.FAILED, at(2), "why", 1)


def test_pipelines_that_had_a_checkpoint_or_a_command_are_listed(store: CheckpointStore) -> None:
    with store.transaction("looked at"):
        pass
    with store.transaction("told") as tx:
        tx.move_pipeline(PipelineStatus.SUSPENDED, at(1))
    triggered(store)
    assert store.pipelines() == [PIPELINE, "told"]


def test_an_illegal_move_and_forgiving_the_future_are_refused(store: CheckpointStore) -> None:
    with pytest.raises(PipelineStatusError), store.transaction(PIPELINE) as tx:
        tx.move_pipeline(PipelineStatus.FAILED, at(1))
    with pytest.raises(CheckpointError), store.transaction(PIPELINE) as tx:
        tx.move_pipeline(PipelineStatus.RUNNING, at(1), forgiven_until=1)


def test_failures_are_found_by_the_checkpoint_they_came_after(store: CheckpointStore) -> None:
    for number in (1, 2, 3):
        triggered(store)
        if number != 2:
            fail_checkpoint(store, number)
    with store.transaction(PIPELINE) as tx:
        assert [record.checkpoint_id for record in tx.failed_after(0)] == [1, 3]
        assert [record.checkpoint_id for record in tx.failed_after(1)] == [3]


def status_of(world: Desk) -> PipelineStatus:
    known = world.store.pipeline("p")
    assert known is not None
    return known.status


def test_a_suspended_pipeline_aborts_what_it_has_and_takes_nothing(desk: Callable[..., Desk]) -> None:
    world = desk()
    world.ask("first")
    world.ask("second")
    assert suspend(world.coordinator).status is PipelineStatus.SUSPENDED
    record = world.store.checkpoint("p", 1)
    assert record is not None
    assert (record.status, record.failure_reason) == (Status.FAILED, FailureReason.COORDINATOR_SUSPEND)
    with pytest.raises(CheckpointNotInProgressError, match="The pipeline was suspended"):
        world.acknowledge(1)
    periodic, manual = world.ask("third", periodic=True), world.ask("fourth")
    assert isinstance(periodic, Dropped)
    assert isinstance(manual, Dropped)
    assert periodic.reason is FailureReason.PERIODIC_SCHEDULER_SHUTDOWN
    assert manual.reason is FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING
    assert suspend(world.coordinator).status is PipelineStatus.SUSPENDED
    assert resume(world.coordinator).status is PipelineStatus.RUNNING
    waited = world.ask("second")
    assert isinstance(waited, Dropped)
    assert waited.reason is FailureReason.COORDINATOR_SUSPEND
    assert world.ask("first") == Triggered(2)


@pytest.mark.parametrize(
    ("end", "reason"),
    [("cancel", FailureReason.COORDINATOR_SHUTDOWN), ("suspend", FailureReason.COORDINATOR_SUSPEND)],
)
@pytest.mark.parametrize("periodic", [True, False])
def test_a_request_that_waited_hears_what_ended_its_waiting(
    desk: Callable[..., Desk], end: str, reason: FailureReason, periodic: bool
) -> None:
    world = desk()
    world.ask("first")
    assert isinstance(world.ask("second", periodic=periodic), Queued)
    STOPS[end](world.coordinator)
    waited = world.ask("second", periodic=periodic)
    assert isinstance(waited, Dropped)
    assert waited.reason is reason
    assert waited.message.startswith(f"The pipeline was {end}")


def test_a_cancelled_pipeline_is_shut_down_for_every_request(desk: Callable[..., Desk]) -> None:
    world = desk()
    world.coordinator.cancel()
    for request, periodic in (("first", True), ("second", False)):
        outcome = world.ask(request, periodic=periodic)
        assert isinstance(outcome, Dropped)
        assert outcome.reason is FailureReason.COORDINATOR_SHUTDOWN


def test_a_suspended_pipeline_goes_on_from_its_latest_checkpoint(desk: Callable[..., Desk]) -> None:
    world = desk()
    world.ask("first")
    world.complete(1)
    suspend(world.coordinator)
    resume(world.coordinator)
    assert world.ask("second") == Triggered(2)
    latest = world.store.checkpoint("p", 1)
    assert latest is not None
    assert latest.status is Status.COMPLETED


@pytest.mark.parametrize(
    ("retention", "left"),
    [
        ("NO_EXTERNALIZED_CHECKPOINTS", Status.DISCARDED),
        ("RETAIN_ON_CANCELLATION", Status.COMPLETED),
    ],
)
def test_cancelling_commits_what_completed_and_keeps_or_deletes_the_rest(
    desk: Callable[..., Desk],
    retention: str,
    left: Status,
) -> None:
    world = desk(retention=retention)
    world.ask("first")
    world.acknowledge(1)
    world.coordinator.validate(1, Judge(True))
    world.coordinator.finalize(1)  # and nobody notifies
    assert world.coordinator.cancel().status is PipelineStatus.CANCELLED
    assert 1 in world.sink.visible
    record = world.store.checkpoint("p", 1)
    assert record is not None
    assert record.status is left
    assert bool(world.storage.files) is (left is Status.COMPLETED)
    assert isinstance(world.ask("second"), Dropped)
    with pytest.raises(PipelineStatusError, match="That is final"):
        resume(world.coordinator)


def decline(world: Desk, request: str, reason: FailureReason = FailureReason.CHECKPOINT_DECLINED) -> None:
    outcome = world.ask(request)
    assert isinstance(outcome, Triggered)
    world.coordinator.abort(outcome.checkpoint_id, reason, "it declined")


def test_one_failure_too_many_fails_the_pipeline_until_it_is_resumed(desk: Callable[..., Desk]) -> None:
    world = desk(tolerable_failed_checkpoints=1)
    decline(world, "r1")
    assert status_of(world) is PipelineStatus.RUNNING
    decline(world, "r2", FailureReason.TASK_FAILURE)
    assert status_of(world) is PipelineStatus.RUNNING
    decline(world, "r3")
    assert status_of(world) is PipelineStatus.FAILED
    with pytest.raises(PipelineFailedError, match=r"Checkpoint 1: CHECKPOINT_DECLINED, it declined Checkpoint 3: "):
        world.ask("r4")
    assert resume(world.coordinator).status is PipelineStatus.RUNNING
    decline(world, "r5")
    assert status_of(world) is PipelineStatus.RUNNING
    decline(world, "r6")
    assert status_of(world) is PipelineStatus.FAILED


def test_a_success_starts_the_count_again(desk: Callable[..., Desk]) -> None:
    world = desk(tolerable_failed_checkpoints=1)
    decline(world, "r1")
    world.ask("r2")
    world.complete(2)
    decline(world, "r3")
    assert status_of(world) is PipelineStatus.RUNNING


def test_a_deadline_that_a_new_request_finds_passed_can_be_the_one_too_many(desk: Callable[..., Desk]) -> None:
    world = desk(tolerable_failed_checkpoints=0, timeout="1 min")
    world.ask("r1")
    world.clock.advance(61)
    for _ in range(2):
        with pytest.raises(PipelineFailedError, match="Checkpoint 1: CHECKPOINT_EXPIRED"):
            world.ask("r2")
    assert status_of(world) is PipelineStatus.FAILED
    resume(world.coordinator)
    assert isinstance(world.ask("r2"), Triggered | Queued)
