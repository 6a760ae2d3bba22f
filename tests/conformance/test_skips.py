"""Going on behind rows that a source has lost: on every store, wherever it crashes, and before and after a restore."""

import pytest
from losing_sources import SPLITS, Reading
from pasts import OP
from worlds import DEATHS, Crash, Judge, MortalStore

from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.protocol.facts.errors import (
    ActionRepeatedError,
    ConfigurationError,
    SkipRefusedError,
    SourceChangedError,
    UnknownOutcomeError,
)
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.observing.actions import ActionKind, Actor, ActorKind, AnswerStatus, UserAction


@pytest.fixture
def world(store, monkeypatch):
    """Checkpoint 1 has read three rows of each partition; then six more came, and two of partition 0 are lost."""
    return Reading.that_has_lost(store, monkeypatch)


def action(request_id="g1", **details):
    return UserAction(request_id, ActionKind.SKIP, Actor(ActorKind.CLI_USER, "ada", "here"), details)


def status_of(world):
    with world.store.transaction("p") as tx:
        return tx.pipeline().status


def lost(plan):
    return [(rows.part, rows.first, rows.last, rows.next) for rows in plan.lost]


def refused(world, match):
    with pytest.raises(SkipRefusedError, match=match):
        world.coordinator.skip("src")


def test_the_next_checkpoint_goes_on_behind_what_is_lost_and_the_audit_says_what_that_was(world):
    with pytest.raises(SourceChangedError):
        world.take("r2")
    plan = world.coordinator.skipping.plan("src")
    assert (lost(plan), plan.checkpoint.checkpoint_id, plan.aborted) == ([("0", 3, 4, 5)], 1, (2,))
    assert world.record(2).status is Status.IN_PROGRESS, "a plan changes nothing"
    world.coordinator.skip("src", plan, action(lost=[["0", 3, 4]]))
    failed = world.record(2)
    assert (failed.status, failed.failure_reason) == (Status.FAILED, FailureReason.COORDINATOR_SUSPEND)
    assert "Lost rows of source src were skipped." in failed.failure_message
    assert world.take("r3") == 3
    assert (world.read[3, 0], world.read[3, 1]) == (range(5, 9), range(3, 9))
    assert world.task.restored[SPLITS[0]].position["event_time"] == 1, "event time does not begin anew"
    assert world.shown() == [1, 3]
    [found] = world.store.audit("p", 10)
    assert (found.answer.status, found.answer.checkpoint_id) == (AnswerStatus.DONE, 1)
    assert "without rows that it has lost: 0: 3 to 4 (goes on at 5)." in found.answer.sentence
    assert found.action.details == {"lost": [["0", 3, 4]]}
    with world.store.transaction("p") as tx:
        [skip] = tx.skips()
    assert (skip.source, skip.checkpoint_id, skip.subtask, skip.lost) == ("src", 1, SPLITS[0], plan.skips[0].lost)
    refused(world, "It has lost nothing since checkpoint 3")
    world.topic.first = [20, 20]
    with pytest.raises(ActionRepeatedError):
        world.coordinator.skip("src", None, action(lost=[["0", 3, 4]]))


def test_more_may_be_lost_before_the_next_checkpoint_and_a_failed_one_takes_nothing_along(world):
    world.coordinator.skip("src")
    world.topic.first = [7, 4]
    plan = world.coordinator.skip("src")
    assert lost(plan) == [("0", 5, 6, 7), ("1", 3, 3, 4)]
    world.ask("r2")
    world.snapshot(2)
    world.coordinator.abort(2, FailureReason.TASK_FAILURE, "enough")
    assert world.take("r3") == 3
    assert (world.read[3, 0], world.read[3, 1]) == (range(7, 9), range(4, 9))


def test_a_pipeline_whose_savepoint_to_stop_with_cannot_read_what_is_lost_goes_on_with_the_skip(world):
    world.coordinator.trigger("stop", kind=CheckpointKind.SYNC_SAVEPOINT)
    assert status_of(world) is PipelineStatus.STOPPING
    with pytest.raises(SourceChangedError):
        world.snapshot(2)
    world.coordinator.skip("src")
    assert world.record(2).status is Status.FAILED
    assert status_of(world) is PipelineStatus.RUNNING
    assert world.take("r3") == 3


def test_rows_that_were_read_are_not_skipped_and_what_cannot_lose_any_is_said(world):
    with pytest.raises(ConfigurationError, match=r"no source 'other' whose rows can be skipped.*have: src\. Nothing"):
        world.coordinator.skipping.plan("other")
    plan = world.coordinator.skipping.plan("src")
    region = world.coordinator.start_region()
    refused(world, "A continuous run is alive")
    world.clock.advance(600)
    world.topic.first = [0, 0]
    world.ask("r2")
    world.snapshot(2)
    world.topic.first = [5, 0]
    refused(world, "Checkpoint 2 has read all that it needs")
    world.coordinator.validate(2, Judge(True))
    world.coordinator.finalize(2)
    with pytest.raises(SkipRefusedError, match="Make a new plan"):
        world.coordinator.skip("src", plan)
    assert world.shown() == [1]
    assert region.attempt == 1


def test_a_region_that_died_of_it_begins_behind_what_is_lost(world):
    region = world.coordinator.start_region()
    world.clock.advance(600)
    world.coordinator.skip("src")
    assert not world.coordinator.has_live_region()
    started = world.coordinator.start_region()
    assert started.attempt > region.attempt
    assert started.restored[SPLITS[0]].position == {"event_time": 1, "part": 0, "from": 5, "to": 5}
    assert started.restored[SPLITS[1]].position["to"] == 3


def test_a_refusal_is_on_record(world):
    world.topic.first = [0, 0]
    with pytest.raises(SkipRefusedError):
        world.coordinator.skip("src", None, action())
    [found] = world.store.audit("p", 10)
    assert found.answer.status is AnswerStatus.REFUSED


def test_rows_in_flight_of_an_unaligned_checkpoint_are_skipped_too(world):
    world.topic.first = [0, 0]
    segments = [{"part": 0, "from": start, "to": start + 3} for start in (0, 3)]
    world.flight = [["src/0", {"split": 0, "reference": each, "bytes": 9}] for each in segments]
    world.flight.append(["src/1", {"split": 1, "reference": {"part": 1, "from": 0, "to": 3}, "bytes": 9}])
    world.take("r2")
    world.topic.first = [4, 0]
    plan = world.coordinator.skip("src")
    assert lost(plan) == [("0", 0, 2, 3), ("0", 3, 3, 4)]
    world.flight = ()
    world.take("r3")
    left = [[channel, data["reference"]] for channel, data in world.task.restored[OP].position["in_flight"]]
    assert left == [["src/0", {"part": 0, "from": 4, "to": 6}], ["src/1", {"part": 1, "from": 0, "to": 3}]]
    assert len(world.restored) == 2, "its files stay"


def test_a_restore_says_what_it_meets_again_and_the_skip_of_its_own_checkpoint_counts(world):
    world.topic.first = [0, 0]
    world.take("r2")
    world.topic.ends, world.topic.first = [20, 20], [15, 0]
    world.coordinator.skip("src")
    world.take("r3")
    plan = world.coordinator.plan_restore(ToCheckpoint(1))
    assert [(each.source, each.checkpoint_id, each.lost[0].first) for each in plan.skipped] == [("src", 2, 9)]
    assert any("skipped after checkpoint 2" in line for line in plan.lines())
    assert world.coordinator.plan_restore(ToCheckpoint(2)).skipped == ()
    world.restore(2)
    world.take("r4")
    assert world.read[4, 0] == range(15, 20), "it goes on behind what is lost, without another skip"
    world.restore(1)
    with pytest.raises(SourceChangedError):
        world.take("r5")
    assert lost(world.coordinator.skip("src")) == [("0", 3, 14, 15)]
    world.take("r6")
    assert (world.read[6, 0], world.read[6, 1]) == (range(15, 20), range(3, 20))
    assert world.coordinator.plan_restore(ToCheckpoint(2)).skipped == (), "of another branch"


@pytest.mark.parametrize("death", DEATHS)
def test_wherever_it_dies_it_was_skipped_or_not_and_a_repeat_leads_on(world, death):
    store, at, survived = world.store, 0, False
    while not survived:
        mortal = MortalStore(store)
        world.reopen(mortal)
        mortal.plan = (at, death)
        try:
            world.coordinator.skip("src", None, action(f"g{at}"))
            survived = mortal.plan is not None
        except (Crash, UnknownOutcomeError):
            pass
        world.reopen(store)
        with store.transaction("p") as tx:
            done, on_record = tx.audited(f"g{at}"), [skip.lost[0].first for skip in tx.skips()]
        assert (done is not None) == (bool(on_record) and on_record[-1] == world.topic.first[0] - 2)
        if done is None:
            world.coordinator.skip("src")
        request = f"after {at}"
        taken = world.take(request)
        assert world.read[taken, 0] == range(world.topic.first[0], world.topic.ends[0])
        end = world.topic.ends[0]
        world.topic.ends, world.topic.first = [end + 6] * 2, [end + 2, 0]
        at += 1
    assert at >= 3
