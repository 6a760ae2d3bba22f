"""Tables in the commit go back with a restore in its own transaction, and come along where a checkpoint is recorded
without them: after a lost database, from a savepoint's directory, in a fork."""

from contextlib import suppress

import pytest
from committed_tables import Bringing, InMemory, TablePast, TableSink
from current_tables import CurrentTable, OwnTable
from forks import SAVEPOINT, New
from lost_databases import Lost
from savepoint_directories import AT, past_of
from worlds import DEATHS, Crash, MemorySink, MortalStore, small_pipeline

from tidegate.coordination.recovery.restore import ToCheckpoint, Undo
from tidegate.ports import SinkCommit
from tidegate.protocol.facts.errors import RestoreRefusedError, SinkError, UnknownOutcomeError
from tidegate.protocol.facts.reasons import FailureReason


@pytest.fixture
def world(store, place):
    """With checkpoints 1 to 4 behind it: two sinks in the commit, and one after it."""
    sinks = {"out": TableSink(place("out")), "second": TableSink(place("second"), "second"), "after": MemorySink()}
    world = TablePast(store, sinks)
    for number in (1, 2, 3, 4):
        assert world.take(f"r{number}") == number
    return world


def in_the_commit(world):
    first, second = (world.sinks[name].shown() for name in ("out", "second"))
    assert first == second
    return first


def test_a_restore_and_its_undo_show_state_and_tables_at_once(world):
    def refuse(checkpoint_id):
        raise SinkError("the second phase comes later")

    for sink in world.sinks.values():
        sink.before_rewind = refuse
    with pytest.raises(SinkError, match="comes later"):
        world.restore(2)
    assert (world.ids(), in_the_commit(world)) == (([1, 2], [3, 4]), [1, 2])
    with pytest.raises(SinkError, match="comes later"):
        world.coordinator.restore(Undo())
    assert (world.ids(), in_the_commit(world)) == (([1, 2, 3, 4], []), [1, 2, 3, 4])
    for sink in world.sinks.values():
        sink.before_rewind = lambda checkpoint_id: None
    world.restore(2)
    assert world.take("r5") == 5
    assert (world.ids(), world.shown()) == (([1, 2, 5], [3, 4]), [1, 2, 5])
    world.coordinator.restore(Undo())
    assert (world.ids(), world.shown()) == (([1, 2, 3, 4], [5]), [1, 2, 3, 4])


@pytest.mark.parametrize("death", DEATHS)
def test_wherever_it_dies_tables_and_checkpoints_are_of_one_moment(world, death):
    store, at, survived = world.store, 0, False
    while not survived:
        mortal = MortalStore(store)
        world.reopen(mortal)
        mortal.plan = (at, death)
        try:
            world.coordinator.restore(ToCheckpoint(2))
            survived = mortal.plan is not None
        except (Crash, UnknownOutcomeError):
            pass
        world.reopen(store)
        world.clock.advance(60)  # a process that held a lease is dead
        assert world.ids() in (([1, 2], [3, 4]), ([1, 2, 3, 4], []))
        assert in_the_commit(world) == world.ids()[0]
        world.ask("look")
        world.coordinator.abort(world.store.history("p", 1)[0].checkpoint_id, FailureReason.TASK_FAILURE, "enough")
        assert world.shown() == world.ids()[0]
        world.restore(4)
        assert (world.ids(), world.shown()) == (([1, 2, 3, 4], []), [1, 2, 3, 4])
        at += 1
    assert at >= 5


def test_the_second_phase_of_an_older_restore_does_not_go_on_behind_a_newer_one(world):
    """It was about to change a table when somebody undid the restore, and died before the second phase of that."""
    late, mortal = world.coordinator, MortalStore(world.store)

    def undo(checkpoint_id):
        world.sinks["out"].before_rewind = lambda checkpoint_id: None
        world.reopen(mortal)
        for at in range(9):
            mortal.plan = (at, "crash after commit")
            with suppress(Crash):
                world.coordinator.restore(Undo())
            if world.ids() == ([1, 2, 3, 4], []):
                return

    world.sinks["out"].before_rewind = undo
    late.restore(ToCheckpoint(2))
    assert (world.ids(), in_the_commit(world)) == (([1, 2, 3, 4], []), [1, 2, 3, 4])
    world.reopen(world.store)
    assert world.take("r5") == 5
    assert world.shown() == [1, 2, 3, 4, 5]


def test_tables_that_cannot_go_back_leave_everything_as_it_is(world):
    def fail():
        raise SinkError("somebody holds the table")

    world.sinks["second"].meanwhile = fail
    with pytest.raises(SinkError, match="holds the table"):
        world.restore(2)
    assert (world.ids(), world.shown()) == (([1, 2, 3, 4], []), [1, 2, 3, 4])
    world.sinks["second"].meanwhile = lambda: None
    world.restore(2)
    assert world.shown() == [1, 2]


def test_a_checkpoint_that_completes_while_tables_go_back_is_not_lost(world):
    """The restore does not happen then, and its plan is to be looked at again."""
    late, other = world.coordinator, world.sinks["second"]

    def complete():
        other.has_prepared = lambda: None
        world.reopen(world.store)
        assert world.take("r5") == 5

    other.has_prepared = complete
    with pytest.raises(RestoreRefusedError, match="has changed to 5"):
        late.restore(ToCheckpoint(2))
    assert (world.ids(), world.shown()) == (([1, 2, 3, 4, 5], []), [1, 2, 3, 4, 5])


def test_of_two_restores_at_once_tables_follow_the_one_that_holds(world):
    late, other = world.coordinator, world.sinks["second"]

    def restore():
        other.has_prepared = lambda: None
        world.reopen(world.store)
        world.restore(3)

    other.has_prepared = restore
    with pytest.raises(RestoreRefusedError):
        late.restore(ToCheckpoint(2))
    assert (world.ids(), world.shown()) == (([1, 2, 3], [4]), [1, 2, 3])


def test_what_completed_when_the_sink_was_another_kind_is_not_shown_next_to_what_was_left_behind(world):
    """Its second phase is still to come when the pipeline is restored, and comes after an undo."""
    for name in ("out", "second"):
        world.sinks[name].commits = SinkCommit.AFTER_THE_COMMIT
    world.define()
    assert world.finalize("r5").committed_sinks == ()
    for name in ("out", "second"):
        world.sinks[name].commits = SinkCommit.IN_THE_COMMIT
    world.define()
    world.restore(3)
    assert world.shown() == [1, 2, 3]
    world.coordinator.restore(Undo())
    assert world.shown() == [1, 2, 3, 4, 5]
    assert world.sinks["out"].acts.count("commit 5") == 1


@pytest.mark.parametrize("known", [2, 4], ids=["tables of before", "tables as they were"])
def test_what_a_recovered_database_does_not_know_is_brought_along_once(store, place, known):
    """Its records say nothing of tables. They are as a copy had them, and the sink knows by its own record what it
    has."""
    world = Lost()
    world.sink = sink = TableSink(InMemory(world.store, "out"))
    world.pipeline = small_pipeline(sink)
    world.reopen(world.store)
    for number in (1, 2, 3, 4):
        world.take(f"r{number}")
        if number == known:
            sink.place, copy = place("out"), sink.place.read()
            for id_, path in copy:
                sink.place.by_itself(Bringing(sink, id_, (path,)))
            sink.place = InMemory(world.store, "out")
    world.lose(store)
    sink.place = place("out")
    world.recover()
    assert world.store.checkpoint("p", 4).committed_sinks == ()
    world.coordinator.notify(4)
    assert sink.shown() == ([1, 2, 3, 4] if known == 4 else [1, 2, 4])
    assert world.take("r5") == 5
    assert sink.shown()[-2:] == [4, 5]


@pytest.fixture
def saved(store, place):
    """A table of current rows. Checkpoint 1, savepoint 2 in its directory, and checkpoints 3 and 4 after it."""
    return past_of(store, CurrentTable(place("out")))


def test_a_restore_from_a_directory_brings_tables_along_in_the_second_phase(saved):
    assert saved.sink.current == (4, b"rows 4")
    saved.coordinator.restore_from(AT)
    record = saved.store.checkpoint("p", 5)
    assert record.committed_sinks == ()
    assert record.notified_at is not None
    assert saved.sink.current == (5, b"rows 2")
    saved.coordinator.restore(Undo())
    assert saved.sink.current == (4, b"rows 4")


def test_a_fork_shows_nothing_of_its_own_before_its_first_commit(saved, place):
    new = New(saved, sink=OwnTable(place("own")))
    new.fork(SAVEPOINT)
    (first,) = new.store.history("q", 9)
    assert (first.committed_sinks, new.sink.current, saved.sink.current) == ((), None, (4, b"rows 4"))
    new.ask("r4")
    new.walk(4)
    assert new.store.checkpoint("q", 4).committed_sinks == ("out-sink",)
    assert (new.sink.current, saved.sink.current) == ((4, b"rows 4"), (4, b"rows 4"))
