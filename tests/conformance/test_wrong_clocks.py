"""A clock that is set back, or was ahead and is corrected: nothing waits for it to catch up, on every store."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from desks import Desk
from live_pipelines import Live
from user_actions import approve
from worlds import Judge

from tidegate.protocol.continuous.regions import REGION_LEASE, LiveRegion, RegionStart, decide_presence
from tidegate.protocol.facts.errors import CheckpointHeldError, SupersededAttemptError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.recovery.imports import IMPORT_LEASE
from tidegate.protocol.steps.admission import LEASE
from tidegate.protocol.steps.trigger import Dropped, Queued, Triggered

BACK = [timedelta(hours=-1), timedelta(days=-1), timedelta(minutes=-3)]


@pytest.mark.parametrize("back", BACK)
@pytest.mark.parametrize("min_pause", ["0 s", "5 s"])
def test_periodic_checkpoints_go_on_after_the_clock_is_set_back(
    live: Callable[..., Live], back: timedelta, min_pause: str
) -> None:
    one = live(interval="10 s", min_pause=min_pause)
    clock = one.world.clock

    def sets_back() -> None:
        clock.wrong = back

    one.at(35, sets_back)
    assert one.run(until=66).status is PipelineStatus.RUNNING
    assert [seconds % 10 for seconds in one.triggered()] == [0] * 6
    assert all(record.notified_at for record in one.world.store.history("p", 10))
    one.check()


def test_a_region_gives_signs_of_life_after_the_clock_is_set_back(live: Callable[..., Live]) -> None:
    one = live()
    clock, store = one.world.clock, one.world.store

    def sets_back() -> None:
        clock.wrong = timedelta(hours=-1)

    def looks() -> None:
        assert decide_presence(store.region("p"), clock.now()) == LiveRegion()
        assert store.region("p").seen_at <= clock.now()

    one.at(20, sets_back)
    for second in (25, 90, 200):
        one.at(second, looks)
    one.run(until=210)
    assert len(one.regions) == 1


def test_a_checkpoint_that_somebody_asks_for_is_taken_after_the_clock_is_set_back(live: Callable[..., Live]) -> None:
    one = live(interval="1 h")
    clock = one.world.clock

    def asks() -> None:
        clock.wrong = timedelta(hours=-1)
        assert one.world.coordinator.has_live_region()
        outcome = one.world.ask("by hand")
        assert isinstance(outcome, Triggered)

    one.at(20, asks)
    one.run(until=40)
    assert one.history() == [(1, "by hand", "COMPLETED")]
    one.check()


def test_a_region_whose_clock_was_ahead_is_dead_after_one_lease(desk: Callable[..., Desk]) -> None:
    world = desk()
    world.clock.wrong = timedelta(days=1)
    assert isinstance(world.coordinator.start_region(), RegionStart)
    world.clock.wrong = timedelta(0)  # and it is killed
    assert world.coordinator.has_live_region(), "it may live, and gives its next sign soon"
    world.clock.advance(REGION_LEASE.total_seconds() + 1)
    assert not world.coordinator.has_live_region()


def test_a_region_that_lives_is_not_taken_for_dead_because_its_clock_is_ahead(desk: Callable[..., Desk]) -> None:
    world = desk()
    world.clock.wrong = timedelta(hours=1)
    start = world.coordinator.start_region()
    assert isinstance(start, RegionStart)
    for _ in range(20):
        world.clock.wrong = timedelta(0)
        assert world.coordinator.has_live_region()
        world.clock.advance(10)
        world.clock.wrong = timedelta(hours=1)
        world.coordinator.keep_region(start.attempt)
    world.clock.wrong = timedelta(0)
    world.coordinator.has_live_region()
    world.clock.advance(REGION_LEASE.total_seconds() + 1)
    outcome = world.ask("r")
    assert isinstance(outcome, Triggered)
    world.complete(outcome.checkpoint_id)  # which ends the region: it is dead
    with pytest.raises(SupersededAttemptError):
        world.coordinator.keep_region(start.attempt)


def test_a_request_of_a_process_whose_clock_was_ahead_loses_its_place_after_one_lease(
    desk: Callable[..., Desk],
) -> None:
    world = desk(timeout="2 h")
    assert world.ask("busy") == Triggered(1)
    world.clock.wrong = timedelta(hours=1)
    assert isinstance(world.ask("dead", savepoint=True), Queued)
    world.clock.wrong = timedelta(0)
    assert isinstance(world.ask("alive"), Queued)
    world.complete(1)
    assert isinstance(world.ask("alive"), Queued), "a savepoint comes first"
    world.clock.advance(LEASE.total_seconds() / 2)
    assert isinstance(world.ask("alive"), Queued)
    world.clock.advance(LEASE.total_seconds() / 2 + 1)
    assert world.ask("alive") == Triggered(2)


def test_a_request_that_lives_keeps_its_place_while_the_clock_is_set_back(desk: Callable[..., Desk]) -> None:
    world = desk()
    assert world.ask("busy") == Triggered(1)
    assert isinstance(world.ask("first"), Queued)
    world.clock.wrong = timedelta(hours=-1)
    assert isinstance(world.ask("first"), Queued)
    assert isinstance(world.ask("second"), Queued)
    world.complete(1)
    assert isinstance(world.ask("first"), Triggered | Queued)
    world.clock.advance(1)
    assert isinstance(world.ask("second"), Triggered | Queued)
    assert world.store.checkpoint("p", 2) is not None, "somebody's turn has come"


def test_the_pause_after_a_completion_in_the_future_is_over(desk: Callable[..., Desk]) -> None:
    world = desk(min_pause="1 min")
    world.clock.wrong = timedelta(days=1)
    world.complete(world.ask("a", periodic=True).checkpoint_id)  # type: ignore[union-attr]
    world.clock.wrong = timedelta(0)
    assert world.ask("b", periodic=True) == Triggered(2)
    world.complete(2)
    assert isinstance(world.ask("c", periodic=True), Dropped)


def test_a_checkpoint_of_a_process_whose_clock_was_ahead_expires_a_timeout_after_somebody_asks(
    desk: Callable[..., Desk],
) -> None:
    world = desk(timeout="10 min")
    world.clock.wrong = timedelta(days=1)
    assert world.ask("dead") == Triggered(1)
    world.clock.wrong = timedelta(0)
    assert isinstance(world.ask("alive"), Queued), "its driver may live"
    assert world.record(1).deadline == world.clock.now() + timedelta(minutes=10)
    world.clock.advance(599)
    assert isinstance(world.ask("alive"), Queued)
    world.clock.advance(1)
    assert world.ask("alive") == Triggered(2)
    assert world.record(1).failure_reason is FailureReason.CHECKPOINT_EXPIRED


def test_a_clock_that_is_put_right_in_two_steps_corrects_a_deadline_twice(desk: Callable[..., Desk]) -> None:
    world = desk(timeout="10 min")
    world.clock.wrong = timedelta(days=2)
    assert world.ask("dead") == Triggered(1)
    for wrong in (timedelta(days=1), timedelta(0)):
        world.clock.wrong = wrong
        assert isinstance(world.ask("alive"), Queued)
        assert world.record(1).deadline == world.clock.now() + timedelta(minutes=10)
    world.clock.advance(600)
    assert world.ask("alive") == Triggered(2)


def test_whoever_waits_for_a_checkpoint_corrects_its_deadline_and_it_completes(desk: Callable[..., Desk]) -> None:
    world = desk(timeout="10 min")
    assert world.ask("a") == Triggered(1)
    world.clock.wrong = timedelta(hours=-5)
    assert world.coordinator.acknowledge(1).deadline == world.clock.now() + timedelta(minutes=10)
    world.complete(1)
    assert world.record(1).status is Status.COMPLETED


def test_a_deadline_that_a_clock_may_have_dated_stands(desk: Callable[..., Desk]) -> None:
    world = desk(timeout="10 min")
    assert world.ask("a") == Triggered(1)
    deadline = world.record(1).deadline
    world.clock.wrong = timedelta(minutes=-10)
    assert isinstance(world.ask("b"), Queued)
    assert world.coordinator.acknowledge(1).deadline == deadline


def test_what_a_person_decides_about_keeps_its_deadlines(desk: Callable[..., Desk]) -> None:
    world = desk(hold_for="1 day", timeout="10 min")
    assert world.ask("a") == Triggered(1)
    world.acknowledge(1)
    with pytest.raises(CheckpointHeldError):
        world.coordinator.validate(1, Judge("held"))
    world.clock.wrong = timedelta(hours=-5)
    held = world.record(1)
    assert isinstance(world.ask("b"), Queued)
    assert world.record(1) == held
    approved = approve(world.coordinator, 1, "ada")
    assert approved.deadline == held.held_until
    assert isinstance(world.ask("b"), Queued)
    assert world.coordinator.acknowledge(1) == approved


def test_one_that_is_approved_after_its_deadline_was_corrected_has_time_to_complete(desk: Callable[..., Desk]) -> None:
    world = desk(hold_for="1 h", timeout="10 min")
    world.clock.wrong = timedelta(days=1)
    assert world.ask("a") == Triggered(1)
    world.clock.wrong = timedelta(0)
    world.clock.advance(60)
    world.coordinator.acknowledge(1)
    world.acknowledge(1)
    with pytest.raises(CheckpointHeldError):
        world.coordinator.validate(1, Judge("held"))
    world.clock.advance(3599)
    assert approve(world.coordinator, 1, "ada").deadline == world.clock.now() + timedelta(minutes=10)


@pytest.mark.parametrize("back", BACK)
def test_a_snapshot_that_never_comes_is_given_up_after_the_clock_was_set_back(
    live: Callable[..., Live], back: timedelta
) -> None:
    one = live(interval="1 h", timeout="30 s")
    clock = one.world.clock

    def asks() -> None:
        one.orders[1] = "silent"
        assert one.world.ask("by hand") == Triggered(1)

    one.at(20, asks)
    one.at(25, lambda: setattr(clock, "wrong", back))
    one.run(until=110)
    record = one.world.record(1)
    assert (record.status, record.failure_reason) == (Status.FAILED, FailureReason.CHECKPOINT_EXPIRED)


def test_the_files_of_an_import_whose_clock_was_ahead_are_swept_after_one_lease(desk: Callable[..., Desk]) -> None:
    world = desk()
    with world.store.transaction("p") as tx:
        tx.begin_import(0, world.clock.now() + timedelta(days=1))
    world.coordinator.clean()
    world.clock.advance(IMPORT_LEASE.total_seconds() + 1)
    world.coordinator.clean()
    with world.store.transaction("p") as tx:
        assert not tx.imports()
