"""The scheduled way beside a continuous region, on every store: one of them takes the snapshots, and in time."""

from collections.abc import Callable

import pytest
from desks import Desk
from user_actions import approve
from worlds import CapturingRegion, Judge

from tidegate.protocol.facts.errors import (
    CheckpointDeclinedError,
    CheckpointExpiredError,
    CheckpointHeldError,
    CheckpointNotInProgressError,
    SupersededAttemptError,
)
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import (
    Acknowledgement,
    AcknowledgeResult,
    Deletion,
    HandleKind,
    Snapshot,
    StateHandle,
    SubtaskId,
)
from tidegate.protocol.steps.trigger import Triggered


def test_while_a_region_lives_a_scheduled_snapshot_begins_nothing(desk: Callable[..., Desk]) -> None:
    world = desk()
    world.coordinator.start_region()
    world.ask("first")
    region = CapturingRegion()
    assert world.coordinator.snapshot(1, region) == world.record(1)
    assert region.task is None
    assert world.record(1).phase is Phase.TRIGGERED
    world.complete_by(1, 1)


def test_a_scheduled_snapshot_takes_over_from_a_dead_region_and_fences_it(desk: Callable[..., Desk]) -> None:
    world = desk()
    world.coordinator.start_region()
    world.ask("first")
    world.clock.advance(61)
    world.complete(1)
    assert world.record(1).status is Status.COMPLETED
    world.ask("second")
    with pytest.raises(SupersededAttemptError):
        world.coordinator.begin_snapshot(1, 2)
    with pytest.raises(SupersededAttemptError):
        world.coordinator.keep_region(1)


def test_what_a_dead_region_has_begun_is_aborted(desk: Callable[..., Desk]) -> None:
    world = desk()
    world.coordinator.start_region()
    world.ask("first")
    task = world.coordinator.begin_snapshot(1, 1)
    assert task is not None
    world.clock.advance(61)
    with pytest.raises(CheckpointNotInProgressError, match="JOB_FAILOVER_REGION"):
        world.acknowledge(1)
    assert world.store.region("p").seen_at is None
    world.ask("second")
    world.complete(2)
    assert world.record(2).status is Status.COMPLETED


@pytest.mark.parametrize("approved", [False, True])
@pytest.mark.parametrize("begun", [False, True])
def test_what_a_person_decides_about_outlives_a_dead_region_and_is_not_overtaken(
    desk: Callable[..., Desk], begun: bool, approved: bool
) -> None:
    """A scheduled attempt at a savepoint behind it would begin from what has completed, and take the same rows."""
    world = desk(hold_for="2 h")
    world.coordinator.start_region()
    world.ask("first")
    task = world.coordinator.begin_snapshot(1, 1)
    assert task is not None
    world.answer(task)
    with pytest.raises(CheckpointHeldError):
        world.coordinator.validate(1, Judge("held"))
    assert isinstance(world.ask("second", savepoint=True), Triggered)
    if begun:
        world.coordinator.begin_snapshot(1, 2)
    if approved:
        approve(world.coordinator, 1, "ada")
    world.clock.advance(61)
    with pytest.raises(CheckpointNotInProgressError, match="JOB_FAILOVER_REGION"):
        world.coordinator.snapshot(2, CapturingRegion())
    if not approved:
        assert world.record(1).phase is Phase.HELD
        approve(world.coordinator, 1, "ada")
    world.coordinator.finalize(1)
    world.coordinator.notify(1)
    assert [world.record(id_).status for id_ in (1, 2)] == [Status.COMPLETED, Status.FAILED]
    world.ask("third")
    world.complete(3)
    assert world.record(3).status is Status.COMPLETED


def begin_and_die(world: Desk, checkpoint_id: int) -> None:
    with pytest.raises(CheckpointDeclinedError):
        world.coordinator.snapshot(checkpoint_id, CapturingRegion())


def test_a_second_scheduled_attempt_is_a_restore(desk: Callable[..., Desk]) -> None:
    world = desk()
    world.ask("first")
    for _ in range(2):
        begin_and_die(world, 1)
    assert world.store.figures("p").restores == 0, "there was nothing to restore"
    world.complete(1)
    world.ask("second")
    begin_and_die(world, 2)
    assert world.store.figures("p").restores == 0, "a first attempt is no restart"
    world.complete(2)
    latest = world.store.figures("p").latest_restore
    assert latest is not None
    assert (world.store.figures("p").restores, latest.checkpoint.checkpoint_id) == (1, 1)


def test_a_region_begins_no_snapshot_whose_deadline_has_passed(desk: Callable[..., Desk]) -> None:
    world = desk(timeout="10 min")
    world.coordinator.start_region()
    world.ask("first")
    world.clock.advance(600)
    assert world.coordinator.begin_snapshot(1, 1) is None
    assert world.record(1).failure_reason is FailureReason.CHECKPOINT_EXPIRED
    assert {known.attempt for known in world.store.subtasks("p", 1).values()} == {0}


def test_a_scheduled_attempt_begins_no_snapshot_whose_deadline_has_passed(desk: Callable[..., Desk]) -> None:
    world = desk(timeout="10 min")
    world.ask("first")
    world.clock.advance(600)
    region = CapturingRegion()
    with pytest.raises(CheckpointExpiredError):
        world.coordinator.snapshot(1, region)
    assert region.task is None
    assert {known.attempt for known in world.store.subtasks("p", 1).values()} == {0}


@pytest.mark.parametrize("late", [599, 600, 3600])
def test_a_report_after_a_deadline_that_nobody_noticed_is_discarded(desk: Callable[..., Desk], late: int) -> None:
    """Also where it would have been the last one: the checkpoint has failed, and its files are garbage."""
    world = desk(timeout="10 min")
    world.ask("first")
    region = CapturingRegion()
    with pytest.raises(CheckpointDeclinedError):
        world.coordinator.snapshot(1, region)
    assert region.task is not None
    run = StateHandle("p/chk-1/op/0-1-run", HandleKind.RUN, 1, 1, "0" * 64, 1)
    acks = [
        Acknowledgement(key, attempt, Snapshot((run,) if key == SubtaskId("op", 0) else ()))
        for key, attempt in region.task.attempts.items()
    ]
    world.clock.advance(late)
    results = world.coordinator.record_acknowledgements(1, acks)
    in_time = late < 600
    assert set(results.values()) == {AcknowledgeResult.SUCCESS if in_time else AcknowledgeResult.DISCARDED}
    assert world.record(1).failure_reason is (None if in_time else FailureReason.CHECKPOINT_EXPIRED)
    with world.store.transaction("p") as tx:
        assert tx.pending_deletions(10) == ([] if in_time else [Deletion("storage", run.path)])
