"""Events: recorded with what they say, delivered at least once and never lost, whoever dies when."""

import logging
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from made_gestures import STOPS, resume, suspend
from ways_to_fail import NAMES, WAYS_TO_FAIL, take
from worlds import DEATHS, Crash, MortalStore

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.protocol.errors import CheckpointError, PipelineFailedError
from tidegate.protocol.events import ALERTS, FORGOTTEN_ONCE_DELIVERED, KEPT_FOR, EventKind
from tidegate.protocol.lifecycle import COMMITTED, Status
from tidegate.protocol.reasons import FailureReason
from tidegate.protocol.trigger import Dropped

EVERYTHING = frozenset(EventKind)


@dataclass
class Ear:
    """A notifier. `answers` are what it does, in turn: True, False, or an error to raise; then it takes everything."""

    name: str = "ear"
    kinds: frozenset[EventKind] = ALERTS
    answers: list[object] = field(default_factory=list)
    heard: list = field(default_factory=list)

    def notify(self, event):
        self.heard.append(event)
        answer = self.answers.pop(0) if self.answers else True
        if isinstance(answer, BaseException):
            raise answer
        return answer

    @property
    def said(self):
        return [(event.kind.name, event.checkpoint_id) for event in self.heard]


def told(world, *ears, store=None):
    """Another process of the pipeline, that tells these."""
    world.coordinator = CheckpointCoordinator(
        world.pipeline, store or world.store, world.storage, world.clock, notifiers=ears
    )
    return world.coordinator


def fail(world, request="x"):
    """One checkpoint, for a cause of its own."""
    checkpoint_id = world.ask(request).checkpoint_id
    world.coordinator.abort(checkpoint_id, FailureReason.TASK_FAILURE, f"the cause of {request}")
    return checkpoint_id


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


# -- stale


def test_a_stale_pipeline_is_told_once_and_once_when_it_is_well_again(desk):
    world, ear = desk(stale_after="30 min", timeout="5 h"), Ear()
    told(world, ear)
    take(world, "a")
    health = world.coordinator.reporting.watch()
    assert (health.well, health.stale_at) == (True, world.clock.now() + timedelta(minutes=30))
    world.clock.advance(1800)
    for _ in range(3):
        health = world.coordinator.reporting.watch()
    assert (health.well, health.stale) == (False, True)
    assert "It is stale since" in health.summary()
    assert ear.said == [("PIPELINE_STALE", None)]
    take(world, "b")
    for _ in range(3):
        health = world.coordinator.reporting.watch()
    assert health.well
    assert ear.said == [("PIPELINE_STALE", None), ("PIPELINE_FRESH", None)]
    world.clock.advance(1800)
    world.coordinator.reporting.watch()
    assert ear.said[2:] == [("PIPELINE_STALE", None)]
    assert world.store.pipeline("p").stale_since == world.clock.now()


@pytest.mark.parametrize("end", ["suspend", "cancel"])
def test_a_pipeline_that_somebody_stopped_is_not_stale(desk, end):
    world, ear = desk(stale_after="30 min", retention="RETAIN_ON_CANCELLATION"), Ear()
    told(world, ear)
    take(world, "a")
    STOPS[end](world.coordinator)
    world.clock.advance(10**6)
    assert world.coordinator.reporting.watch().well
    assert ear.heard == []


def test_a_checkpoint_that_failed_by_itself_is_not_well_until_the_next_completes(desk):
    world = desk()
    take(world, "a")
    world.ask("b")
    world.coordinator.abort(2, FailureReason.COORDINATOR_SUSPEND, "asked for")
    assert world.coordinator.reporting.watch().well
    fail(world, "c")
    health = world.coordinator.reporting.watch()
    assert (health.well, health.failing.checkpoint_id) == (False, 3)
    assert "Checkpoint 3 failed, TASK_FAILURE" in health.summary()
    take(world, "d")
    assert world.coordinator.reporting.watch().well


# -- metrics


class Gauge:
    def __init__(self, raises=False):
        self.known, self.raises, self.flushed = [], raises, 0

    def record(self, pipeline_id, metrics):
        self.known.append(metrics)
        if self.raises:
            raise OSError("secret")

    def flush(self):
        self.flushed += 1
        if self.raises:
            raise OSError("secret")


def test_figures_are_recorded_by_whoever_begins_completes_or_fails_a_checkpoint(desk):
    world, meter = desk(retained=1), Gauge()
    world.coordinator = CheckpointCoordinator(world.pipeline, world.store, world.storage, world.clock, meters=[meter])
    world.ask("a")
    assert (meter.known[-1]["numberOfInProgressCheckpoints"], meter.known[-1]["lastCompletedCheckpointId"]) == (1, -1)
    world.clock.advance(2)
    world.complete(1)
    known = meter.known[-1]
    assert (known["numberOfInProgressCheckpoints"], known["numberOfCompletedCheckpoints"]) == (0, 1)
    assert (known["lastCompletedCheckpointId"], known["lastCheckpointDuration"]) == (1, 2000)
    assert known["lastCheckpointExternalPath"] == "p/chk-1/_metadata"
    take(world, "b")
    fail(world, "c")
    known = meter.known[-1]
    assert [known[name] for name in ("totalNumberOfCheckpoints", "numberOfCompletedCheckpoints")] == [3, 2]
    assert (known["numberOfFailedCheckpoints"], known["lastCompletedCheckpointId"]) == (1, 2)


def test_the_figures_are_those_of_the_statistics(desk):
    world = desk(retained=2)
    take(world, "a", "b", "c")
    fail(world, "d")
    world.coordinator.end_region(world.coordinator.start_region().attempt)  # which goes on from 3
    figures, statistics = world.store.figures("p"), world.store.statistics("p")
    assert figures.by_status == statistics.by_status
    assert figures.latest == statistics.measurements[0]
    assert figures.latest_completed == statistics.latest_completed
    assert (figures.restores, figures.restored_at) == (statistics.restores, statistics.latest_restore.at)


def test_a_meter_that_raises_harms_nobody(desk, caplog):
    world, meter = desk(), Gauge(raises=True)
    world.coordinator = CheckpointCoordinator(world.pipeline, world.store, world.storage, world.clock, meters=[meter])
    take(world, "a")
    world.coordinator.reporting.flush()
    assert world.store.checkpoint("p", 1).status is Status.COMPLETED
    assert "(OSError)" in caplog.text
    assert "secret" not in caplog.text
