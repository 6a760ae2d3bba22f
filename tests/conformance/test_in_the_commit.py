"""Sinks in the commit: rows and checkpoint are there in the same instant, whatever dies and whoever is late."""

import pytest
from committed_tables import TablePast, TableSink
from worlds import DEATHS, Crash, Judge, MemorySink, MortalStore

from tidegate.ports import SinkCommit
from tidegate.protocol.facts.errors import (
    CheckpointNotInProgressError,
    FinalizeError,
    SinkError,
    UnknownOutcomeError,
)
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import Acknowledgement


@pytest.fixture
def world(store, place):
    """Two sinks in the commit, and one after it."""
    sinks = {"out": TableSink(place("out")), "second": TableSink(place("second"), "second"), "after": MemorySink()}
    return TablePast(store, sinks)


def validated(world, request):
    checkpoint_id = world.ask(request).checkpoint_id
    world.snapshot(checkpoint_id)
    world.coordinator.validate(checkpoint_id, Judge(True))
    return checkpoint_id


def taken_by_a_region(world, *ids):
    region = world.coordinator.start_region()
    for id_ in ids:
        world.ask(f"r{id_}")
        attempts = world.coordinator.begin_snapshot(region.attempt, id_).attempts
        acks = [Acknowledgement(each, attempt, world.made(id_, each, attempt)) for each, attempt in attempts.items()]
        world.coordinator.record_acknowledgements(id_, acks)
    return region


def in_the_commit(world):
    return [world.sinks[name].shown() for name in ("out", "second")]


def test_rows_are_visible_with_the_checkpoint_and_those_of_other_sinks_after_it(world):
    validated(world, "r1")
    assert in_the_commit(world) == [[], []]
    record = world.coordinator.finalize(1)
    assert record.committed_sinks == ("out-sink", "second-sink")
    assert in_the_commit(world) == [[1], [1]]
    assert world.sinks["after"].visible == {}
    world.coordinator.notify(1)
    assert world.shown() == [1]
    assert world.take("r2") == 2
    assert world.shown() == [1, 2]
    assert [sink.acts for sink in (world.sinks["out"], world.sinks["second"])] == [["prepare 1", "prepare 2"]] * 2


@pytest.mark.parametrize("death", DEATHS)
def test_wherever_the_commit_dies_rows_and_checkpoint_share_its_fate(world, death):
    store, at, survived = world.store, 0, False
    while not survived:
        checkpoint_id = validated(world, f"r{at}")
        mortal = MortalStore(store)
        world.reopen(mortal)
        mortal.plan = (at, death)
        try:
            world.coordinator.finalize(checkpoint_id, notifies=True)
            survived = mortal.plan is not None
        except (Crash, UnknownOutcomeError, FinalizeError):
            pass
        world.reopen(store)
        completed = [r.checkpoint_id for r in reversed(store.history("p", 9)) if r.status is Status.COMPLETED]
        assert in_the_commit(world) == [completed, completed]
        world.coordinator.finalize(checkpoint_id)
        world.clock.advance(60)  # a process that held a lease is dead
        world.coordinator.notify(checkpoint_id)
        assert world.shown() == list(range(1, checkpoint_id + 1))
        at += 1
    assert at >= 2


def test_an_unknown_outcome_is_looked_up_and_nothing_is_shown_twice(world):
    for number, (death, error) in enumerate(
        {"connection lost after commit": None, "connection lost before commit": FinalizeError}.items(), 1
    ):
        validated(world, f"r{number}")
        mortal = MortalStore(world.store)
        world.reopen(mortal)
        mortal.plan = (1, death)
        if error is None:
            assert world.coordinator.finalize(number).status is Status.COMPLETED
        else:
            with pytest.raises(error, match="nothing became visible"):
                world.coordinator.finalize(number)
        assert mortal.plan is None
        world.reopen(mortal._store)
        assert in_the_commit(world) == [[1], [1]]


def test_one_that_is_late_shows_nothing_twice(world):
    """It has prepared, and another process completes the checkpoint, and a newer one, before its statements run."""
    validated(world, "r1")
    late, other = world.coordinator, world.sinks["second"]

    def overtake():
        other.has_prepared = lambda: None
        world.reopen(world.store)
        world.coordinator.finalize(1)
        world.coordinator.notify(1)
        assert world.take("r2") == 2

    other.has_prepared = overtake
    assert late.finalize(1).status is Status.COMPLETED
    assert world.shown() == [1, 2]


def test_one_whose_checkpoint_was_aborted_meanwhile_shows_nothing(world):
    validated(world, "r1")

    def abort():
        world.coordinator.abort(1, FailureReason.TASK_FAILURE, "somebody aborted it")

    world.sinks["second"].afterwards = abort
    with pytest.raises((FinalizeError, CheckpointNotInProgressError)):
        world.coordinator.finalize(1)
    assert world.store.checkpoint("p", 1).status is Status.FAILED
    assert in_the_commit(world) == [[], []]
    world.sinks["second"].afterwards = lambda: None
    assert world.take("r2") == 2
    assert world.shown() == [2]


def test_one_that_a_newer_checkpoint_overtakes_shows_nothing(store, place):
    """Both have their verdicts, and that of the newer one is on the rows of the older one."""
    world = TablePast(store, {"out": TableSink(place("out"))}, max_concurrent=2)
    taken_by_a_region(world, 1, 2)
    for id_ in (1, 2):
        world.coordinator.validate(id_, Judge(True))
    with pytest.raises(FinalizeError, match="nothing became visible"):
        world.coordinator.finalize(1)
    assert world.store.checkpoint("p", 1).failure_reason is FailureReason.CHECKPOINT_SUBSUMED
    assert "prepare 1" in world.sink.acts
    assert world.shown() == []
    world.coordinator.finalize(2)
    assert world.shown() == [2]


def test_an_error_of_a_participant_leaves_the_checkpoint_in_progress(world):
    validated(world, "r1")

    def fail():
        raise SinkError("the table does not take it")

    world.sinks["second"].afterwards = fail
    with pytest.raises(SinkError, match="does not take it"):
        world.coordinator.finalize(1)
    assert world.store.checkpoint("p", 1).status is Status.IN_PROGRESS
    assert in_the_commit(world) == [[], []]
    world.sinks["second"].afterwards = lambda: None
    world.coordinator.finalize(1)
    world.coordinator.notify(1)
    assert world.shown() == [1]


def test_a_checkpoint_whose_participant_fails_can_be_aborted(world):
    validated(world, "r1")

    def fail():
        raise SinkError("the table does not take it")

    world.sinks["out"].meanwhile = fail
    with pytest.raises(SinkError):
        world.coordinator.finalize(1)
    world.coordinator.abort(1, FailureReason.TASK_FAILURE, "enough")
    world.sinks["out"].meanwhile = lambda: None
    assert world.take("r2") == 2
    assert world.shown() == [2]
    world.coordinator.clean()
    assert set(world.sinks["out"].staged.values()) == {2}


def test_nobody_waits_for_the_pipeline_while_a_participant_works(world):
    """Others record what they like meanwhile: the row is locked last."""
    region = taken_by_a_region(world, 1)
    world.coordinator.validate(1, Judge(True))
    touched = []

    def touch():
        with world.store.transaction("p") as tx:
            touched.append(tx.touch_region(region.attempt, world.clock.now()))

    world.sinks["out"].meanwhile = world.sinks["second"].afterwards = touch
    world.coordinator.finalize(1)
    assert touched == [True, True]
    assert in_the_commit(world) == [[1], [1]]


@pytest.mark.parametrize("was_in_the_commit", [True, False])
def test_a_sink_may_become_another_kind_between_the_commit_and_its_second_phase(world, was_in_the_commit):
    sink = world.sinks["out"]
    kinds = SinkCommit.IN_THE_COMMIT, SinkCommit.AFTER_THE_COMMIT
    before, now = kinds if was_in_the_commit else kinds[::-1]
    sink.commits = before
    world.define()
    record = world.finalize("r1")
    assert record.committed_sinks == (("out-sink",) if was_in_the_commit else ()) + ("second-sink",)
    sink.commits = now
    world.define()
    world.coordinator.notify(1)
    world.coordinator.notify(1)
    assert world.shown() == [1]
    assert ("commit 1" in sink.acts) is not was_in_the_commit
    assert world.take("r2") == 2
    assert world.shown() == [1, 2]


def test_a_sink_that_is_not_asked_any_more_brings_nothing(world):
    world.ask("r1")
    world.acknowledge(1, "src op out-sink second-sink after-sink")
    world.coordinator.validate(1, Judge(True))
    assert world.coordinator.finalize(1).committed_sinks == ("out-sink", "second-sink")
    world.sinks["out"].acts.clear()
    world.coordinator.notify(1)
    assert world.sinks["out"].acts == []
