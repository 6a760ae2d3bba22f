"""Events: recorded with what they say, delivered at least once and never lost, whoever dies when."""

import logging
from datetime import timedelta

import pytest
from ears import Ear, fail, told
from user_actions import resume, suspend
from ways_to_fail import NAMES, WAYS_TO_FAIL, take
from worlds import DEATHS, Crash, MortalStore

from tidegate.protocol.facts.errors import CheckpointError, PipelineFailedError
from tidegate.protocol.facts.lifecycle import COMMITTED, Status
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.observing.events import ALERTS, FORGOTTEN_ONCE_DELIVERED, KEPT_FOR, EventKind
from tidegate.protocol.steps.trigger import Dropped

EVERYTHING = frozenset(EventKind)


@pytest.mark.parametrize("failing", WAYS_TO_FAIL, ids=NAMES)
def test_every_failure_is_told_once_whatever_its_cause(desk, failing):
    world, ear = desk(retention="RETAIN_ON_CANCELLATION"), Ear()
    told(world, ear)
    take(world, "a")
    world.ask("b")
    failing(world)
    world.coordinator.abort(2, FailureReason.TASK_FAILURE, "again")
    assert ear.said == [("CHECKPOINT_FAILED", 2)]
    record, (event,) = world.store.checkpoint("p", 2), ear.heard
    assert (event.reason, event.message) == (record.failure_reason.name, record.failure_message)
    assert (event.pipeline_id, event.at) == ("p", record.failed_at)


def test_a_pipeline_that_fails_is_told_after_the_checkpoint(desk):
    world, ear = desk(tolerable_failed_checkpoints=0), Ear()
    told(world, ear)
    world.ask("a")
    world.clock.advance(3600)
    with pytest.raises(PipelineFailedError):
        world.ask("b")
    assert ear.said == [("CHECKPOINT_FAILED", 1), ("PIPELINE_FAILED", None)]
    assert ear.heard[1].message == world.store.pipeline("p").message


def test_what_is_rolled_back_is_not_told(desk, store):
    world, ear, mortal = desk(), Ear(), MortalStore(store)
    told(world, ear, store=mortal)
    world.ask("a")
    mortal.plan = (0, "crash before commit")
    with pytest.raises(Crash):
        suspend(world.coordinator)
    told(world, ear)
    world.coordinator.reporting.deliver()
    assert ear.heard == []


def test_a_failure_that_nobody_was_told_of_is_told_by_the_next_who_can(desk):
    world, ear = desk(), Ear()
    fail(world)  # by a process without any notifier
    told(world, ear)
    world.ask("b")
    assert ear.said == [("CHECKPOINT_FAILED", 1)]


def test_also_by_one_whose_request_leads_to_nothing(desk):
    world, ear = desk(), Ear()
    fail(world)
    suspend(world.coordinator)
    told(world, ear)
    assert isinstance(world.ask("b", periodic=True, wait=False), Dropped)
    assert ear.said == [("CHECKPOINT_FAILED", 1)]


def test_a_completion_is_told_after_the_commit_point_to_who_wants_it(desk):
    world, ear, other = desk(), Ear("all", EVERYTHING), Ear()
    told(world, ear, other)
    take(world, "a", "b")
    assert ear.said == [("CHECKPOINT_COMPLETED", 1), ("CHECKPOINT_COMPLETED", 2)]
    assert other.heard == []


def test_a_completion_that_nobody_wants_leaves_no_row(desk):
    world = desk()
    told(world, Ear())
    take(world, "a")
    with world.store.transaction("p") as tx:
        assert tx.undelivered("all", EVERYTHING, world.clock.now() - KEPT_FOR) == []


def test_a_notifier_that_raises_harms_no_checkpoint_and_is_tried_again_after_a_while(desk, caplog):
    world = desk()
    ear = Ear(answers=[ConnectionError("https://secret.example/hook"), TimeoutError()])
    coordinator = told(world, ear)
    with caplog.at_level(logging.DEBUG):
        fail(world)
        assert world.store.checkpoint("p", 1).status is Status.FAILED
        for seconds in (1, 58):
            world.clock.advance(seconds)
            coordinator.reporting.deliver()
        assert len(ear.heard) == 1
        world.clock.advance(1)
        coordinator.reporting.deliver()  # fails again, and now waits twice as long
        world.clock.advance(119)
        coordinator.reporting.deliver()
        assert len(ear.heard) == 2
        world.clock.advance(1)
        coordinator.reporting.deliver()
        coordinator.reporting.deliver()
    assert len(ear.heard) == 3
    assert "Notifier ear was not reached about CHECKPOINT_FAILED of pipeline p (ConnectionError)" in caplog.text
    assert "secret" not in caplog.text


def test_a_notifier_that_is_down_costs_one_try_however_much_there_is_to_tell(desk):
    world, ear = desk(), Ear(answers=[ConnectionError()])
    for request in "abc":
        fail(world, request)
    coordinator = told(world, ear)
    coordinator.reporting.deliver()
    fail(world, "d")
    assert ear.said == [("CHECKPOINT_FAILED", 1)]
    world.clock.advance(60)
    coordinator.reporting.deliver()
    assert ear.said[1:] == [("CHECKPOINT_FAILED", number) for number in (1, 2, 3, 4)]


def test_an_event_that_is_refused_holds_up_no_other(desk):
    world, ear = desk(), Ear(answers=[False])
    coordinator = told(world, ear)
    fail(world, "a")
    fail(world, "b")
    assert ear.said == [("CHECKPOINT_FAILED", 1), ("CHECKPOINT_FAILED", 2)]
    world.clock.advance(60)
    coordinator.reporting.deliver()
    coordinator.reporting.deliver()
    assert ear.said[2:] == [("CHECKPOINT_FAILED", 1)]


def test_notifiers_are_told_independently(desk):
    world, down, well = desk(), Ear("down", answers=[OSError()] * 9), Ear("well")
    told(world, down, well)
    fail(world)
    assert (len(down.heard), len(well.heard)) == (1, 1)
    world.clock.advance(60)
    world.coordinator.reporting.deliver()
    assert (len(down.heard), len(well.heard)) == (2, 1)


def test_what_another_process_is_delivering_is_left_to_it_until_its_lease_is_over(desk):
    world, ear, other = desk(), Ear(), Ear()
    second = told(world, other)
    told(world, ear)

    def meanwhile(event):
        ear.heard.append(event)
        second.reporting.deliver()
        return True

    ear.notify = meanwhile
    fail(world)
    assert (ear.said, other.said) == ([("CHECKPOINT_FAILED", 1)], [])


def test_what_is_too_old_is_news_to_nobody_and_is_forgotten(desk):
    world, ear = desk(), Ear()
    fail(world)
    world.clock.advance(KEPT_FOR.total_seconds() + 1)
    coordinator = told(world, ear)
    coordinator.reporting.deliver()
    assert ear.heard == []
    long_ago = world.clock.now() - timedelta(days=1000)
    with world.store.transaction("p") as tx:
        assert len(tx.undelivered("ear", ALERTS, long_ago)) == 1
        tx.forget_events(world.clock.now() - KEPT_FOR)
        assert tx.undelivered("ear", ALERTS, long_ago) == []


def test_to_tell_somebody_wakes_nobody_who_waits(desk, store):
    world, ear = desk(), Ear(answers=[OSError(), False])
    fail(world)
    coordinator = told(world, ear)
    store.wait_for_changes(["p", "q"], 0)
    store.wait_for_changes(["p", "q"], 0.2)
    for _ in range(3):  # not reached, refused, taken
        coordinator.reporting.deliver()
        world.clock.advance(3600)
    assert len(ear.heard) == 3
    assert store.wait_for_changes(["p", "q"], 0.2) == set()
    fail(world, "b")
    assert store.wait_for_changes(["p", "q"], 5) == {"p"}


@pytest.mark.parametrize("how", DEATHS)
def test_a_crash_at_any_transaction_loses_no_event(desk, store, how):
    """A process dies at each of its transactions in turn, also at those that record what was told; the next one goes
    on."""
    world, mortal, ear = desk(retained=1), MortalStore(store), Ear("all", EVERYTHING)
    number, died = 0, True
    while died:
        told(world, ear, store=mortal)
        mortal.plan = (number, how)
        try:
            take(world, f"good{number}")
            fail(world, f"bad{number}")
        except (Crash, CheckpointError):
            pass
        died, mortal.plan = mortal.plan is None, None
        number += 1
        suspend(told(world, ear))  # whatever the dead one has left in progress
        resume(world.coordinator)
    world.clock.advance(3600)  # every lease is over
    told(world, ear).reporting.deliver()
    history = store.history("p", 1000)
    known = {(event.kind, event.checkpoint_id) for event in ear.heard}
    assert {id_ for kind, id_ in known if kind is EventKind.CHECKPOINT_FAILED} == {
        record.checkpoint_id for record in history if record.status is Status.FAILED
    }
    assert {id_ for kind, id_ in known if kind is EventKind.CHECKPOINT_COMPLETED} == {
        record.checkpoint_id for record in history if record.status in COMMITTED
    }
    assert number > 12
    with store.transaction("p") as tx:
        assert tx.undelivered("all", EVERYTHING, world.clock.now() - KEPT_FOR) == []


@pytest.mark.parametrize("when", ["before the receiver had it", "after the receiver had it"])
def test_a_process_that_dies_while_it_tells_is_made_up_for(desk, when):
    world = desk()

    class Dies(Ear):
        def notify(self, event):
            if when.startswith("after"):
                self.heard.append(event)
            raise Crash(when)

    dying, ear = Dies(), Ear()
    told(world, dying)
    with pytest.raises(Crash):
        fail(world)
    told(world, ear).reporting.deliver()
    assert ear.heard == []  # it may still be at it
    world.clock.advance(60)
    world.coordinator.reporting.deliver()
    assert ear.said == [("CHECKPOINT_FAILED", 1)]
    if dying.heard:
        assert dying.heard[0].event_id == ear.heard[0].event_id


def test_only_what_has_one_reader_is_forgotten_once_it_was_read():
    assert FORGOTTEN_ONCE_DELIVERED.isdisjoint(ALERTS)
