"""Pipelines that begin with another one's state: on every store, whatever the original does, wherever they die."""

from dataclasses import replace

import pytest
from forks import SAVEPOINT, New
from memory_store import MemoryCheckpointStore
from savepoint_directories import AT, directory, past_of
from sizes import sizes
from user_actions import dispose
from worlds import Crash

from tidegate.coordination.context import context_of
from tidegate.coordination.recovery.fork import Forking
from tidegate.coordination.recovery.lost_database import Recovering
from tidegate.coordination.recovery.restore import ToCheckpoint, Undo
from tidegate.protocol.facts.errors import (
    CheckpointError,
    CopyInterruptedError,
    ForkRefusedError,
    NothingToUndoError,
    PipelineIdentityError,
    StateIntegrityError,
    StorageError,
)
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.recovery.imports import IMPORT_LEASE
from tidegate.protocol.recovery.lost_database import AcceptedLosses


@pytest.fixture
def world(store):
    """The original: checkpoint 1, savepoint 2, also in its directory, and checkpoints 3 and 4 after it."""
    return past_of(store)


@pytest.fixture
def new(world):
    return New(world)


@pytest.mark.parametrize("where", [SAVEPOINT, AT], ids=["native", "canonical"])
def test_a_pipeline_begins_with_a_savepoint_of_another_which_is_not_touched(new, where):
    before = new.untouched()
    planned = new.fork(where).plan
    assert new.untouched() == before
    assert [(each.source, each.is_known) for each in planned.sources] == [("src", True)]
    assert [(each.operator_id, each.matched, each.rows) for each in planned.operators] == [
        ("op", True, 1 if where == AT else 2)
    ]
    assert [(each.sink, each.is_filled) for each in planned.sinks] == [("out", True)]
    (first,) = new.store.history("q", 9)
    assert (first.checkpoint_id, first.request_id) == (3, "fork:p/2/kept")
    assert first.notified_at is not None
    pipeline = new.store.pipeline("q")
    assert (pipeline.status, pipeline.message) == (PipelineStatus.RUNNING, "It was forked from p, savepoint kept.")
    with new.store.transaction("q") as tx:
        assert {endpoint.name: endpoint.place for endpoint in tx.endpoints()} == {"src": "", "out": "/tables/q"}
        assert (tx.restores(), tx.imports()) == ([], {})
    new.check_forked()
    assert new.untouched() == before


def test_what_the_original_does_afterwards_changes_nothing(world, new):
    new.fork(SAVEPOINT)
    mine = new.files()
    world.restore(2)
    world.take("r5")
    dispose(world.coordinator, "kept")
    for number in range(3):
        world.take(f"more {number}")
    world.coordinator.cancel()
    assert not [path for path in world.storage.files if path.startswith("p/chk-2/")]
    assert new.files() == mine
    new.check_forked()


def test_and_the_other_way_round(world, new):
    new.fork(SAVEPOINT)
    before = new.untouched()
    new.take("q1")
    new.coordinator.cancel()
    new.coordinator.clean()
    assert new.untouched() == before
    world.restore(2)
    assert world.latest() == world.saved


@pytest.mark.parametrize(("where", "forked"), [(ToCheckpoint(None), 4), (ToCheckpoint(4), 4), (ToCheckpoint(3), 3)])
def test_from_a_checkpoint_that_is_no_savepoint(world, new, where, forked):
    world.restore(3)
    world.restore(4)  # both are kept
    planned = new.fork(where).plan
    assert planned.fork.describe() == f"p, checkpoint {forked}"
    assert new.latest()[0] == "".join(f"r{number:02}" for number in range(1, forked + 1)).encode()


def test_into_a_database_that_does_not_know_the_original(world):
    new = New(world, MemoryCheckpointStore())
    new.storage = type(world.storage)()
    new.storage.others = world.storage.others
    new.reopen(new.store)
    new.fork(AT)
    assert new.store.pipelines() == ["q"]
    directory(world).clear()
    new.check_forked()


def test_there_is_nothing_before_it_to_go_back_to(new):
    new.fork(SAVEPOINT)
    with pytest.raises(NothingToUndoError, match="A fork is no restore: there is nothing before it to go back to"):
        new.coordinator.restore(Undo())
    new.take("q1")
    new.restore(3)
    assert new.latest()[:2] == new.original.saved[:2]
    assert new.sink.current is None  # the next run stages the rows again


def test_its_storage_alone_knows_of_it_afterwards(new):
    new.fork(SAVEPOINT)
    new.store = MemoryCheckpointStore()
    new.reopen(new.store)
    with pytest.raises(PipelineIdentityError, match="tidegate recover"):
        new.take("q1")
    recovering = Recovering(context_of(new.coordinator.graph, new.store, new.storage, new.clock))
    recovering.recover(recovering.plan(), AcceptedLosses())
    assert new.store.history("q", 9)[-1].request_id == "fork:p/2/kept"
    new.check_forked()


def test_a_plan_changes_nothing(new):
    new.store.pipelines()
    before, files = new.untouched(), dict(new.storage.files)
    for where in (SAVEPOINT, AT, ToCheckpoint(None)):
        new.plan(where)
    assert (new.untouched(), new.storage.files, new.store.history("q", 9)) == (before, files, [])


def test_what_runs_of_the_new_pipeline_began_with_nothing_and_is_ended(new):
    region = new.coordinator.start_region()
    new.fork(SAVEPOINT)
    with pytest.raises(CheckpointError, match=r"another|taken over|ended"):
        new.coordinator.keep_region(region.attempt)
    new.check_forked()


def test_the_table_is_filled_also_if_nothing_more_will_come(world, new):
    """The original has read all that there is."""
    for each in (world, new):
        each.made = lambda *arguments, made=each.made: replace(made(*arguments), finished=True)
    world.take("the last")
    assert world.store.pipeline("p").status is PipelineStatus.FINISHED
    new.fork(ToCheckpoint(None))
    assert new.store.pipeline("q").status is PipelineStatus.RUNNING
    number = new.take("fills the table")
    assert new.latest() == (*world.latest()[:2], (number, f"rows {number}".encode()))
    asked = {id_.operator_id for id_, known in new.store.subtasks("q", number).items() if known.attempt}
    assert asked == {"out-sink"}
    assert new.store.pipeline("q").status is PipelineStatus.FINISHED


# -- meanwhile


def test_a_directory_that_is_emptied_while_the_plan_is_made(world, new, monkeypatch):
    """By its owner, after it was verified."""

    def emptied(*arguments):
        del directory(world)["positions/src/2-0-1-m"]
        raise StateIntegrityError("positions/src/2-0-1-m is missing.")

    monkeypatch.setattr(Forking, "_plan", emptied)
    with pytest.raises(ForkRefusedError, match=r"no longer exists.*positions/src.*Nothing was changed\."):
        new.fork(AT)


def test_a_savepoint_that_is_given_up_while_it_is_copied(world, new):
    planned = new.plan(SAVEPOINT)
    dispose(world.coordinator, "kept")
    with pytest.raises(ForkRefusedError, match="no longer exists"):
        new.coordinator.fork(planned)
    assert (new.store.history("q", 9), new.files()) == ([], {})


def test_a_pipeline_that_begins_while_files_are_copied(new, monkeypatch):
    def slow(self, *arguments):
        if not new.store.history("q", 1):
            new.take("meanwhile")
        copy(self, *arguments)

    copy = type(new.storage).copy
    monkeypatch.setattr(type(new.storage), "copy", slow)
    with pytest.raises(ForkRefusedError, match="knows checkpoints of it, up to 4"):
        new.fork(SAVEPOINT)
    assert not [path for path in new.files() if path.startswith("q/chk-3/")]
    assert new.latest()[0] == b"r04"


def test_a_full_disk_leaves_nothing_behind(new, monkeypatch):
    def full(self, file, source, path, keep):
        if "/src/" in path:
            raise StorageError("The storage is full.")
        copy(self, file, source, path, keep)

    copy = type(new.storage).copy
    monkeypatch.setattr(type(new.storage), "copy", full)
    with pytest.raises(StorageError, match="is full"):
        new.fork(SAVEPOINT)
    assert (new.store.history("q", 9), new.files()) == ([], {})
    monkeypatch.undo()
    new.fork(SAVEPOINT)
    new.check_forked()


def test_who_stands_still_is_overtaken_and_what_it_has_copied_is_swept(new, monkeypatch):
    def stopped(self, file, source, path, keep):
        copy(self, file, source, path, keep)
        if not stood:
            stood.append(path)
            new.clock.advance(IMPORT_LEASE.total_seconds() + 1)
            new.coordinator.clean()
            assert path not in new.storage.files

    copy, stood = type(new.storage).copy, []
    monkeypatch.setattr(type(new.storage), "copy", stopped)
    with pytest.raises(CopyInterruptedError, match=r"copying stood still.*Nothing was changed\."):
        new.fork(SAVEPOINT)
    monkeypatch.undo()
    new.fork(SAVEPOINT)
    new.check_forked()


@sizes("step", sample=4, whole=1)
@pytest.mark.parametrize("where", [SAVEPOINT, AT], ids=["native", "canonical"])
def test_a_fork_that_dies_before_or_after_any_effect_has_not_happened_or_is_finished(where, step):
    uninterrupted = New(past_of(MemoryCheckpointStore()))
    uninterrupted.fork(where)
    expected, number, survived, crashes = uninterrupted.latest(), 0, False, 0
    while not survived:
        survived = True
        for before in (True, False):
            new = New(past_of(MemoryCheckpointStore()))
            untouched = new.untouched()
            new.mortal().effects.die(number, before)
            try:
                new.fork(where)
            except Crash:
                survived = False
                crashes += 1
            new.effects.die(None)
            new.clock.advance(2 * IMPORT_LEASE.total_seconds())  # the holder of a lease is dead
            new.reopen(new.store)
            new.coordinator.clean()
            if new.store.history("q", 9):
                with pytest.raises(ForkRefusedError, match="it has taken effect"):
                    new.fork(where)
            else:
                assert new.files() == {}
                new.fork(where)
            assert new.latest() == expected
            new.check_all_is_needed()
            new.check_forked()
            assert new.untouched() == untouched
        number += step
    assert crashes > 16 // step
