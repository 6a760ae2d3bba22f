"""Restores from savepoints' directories while something happens: what is there changes, the disk is full, whoever does
it dies."""

import pytest
from memory_store import MemoryCheckpointStore
from savepoint_directories import AT, check_restored, directory, past_of
from sizes import sizes
from worlds import Crash

from tidegate.coordination.context import context_of
from tidegate.coordination.recovery.lost_database import Recovering
from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.coordination.recovery.restore_plan import RestorePlanner
from tidegate.protocol.facts.errors import (
    CopyInterruptedError,
    RestoreRefusedError,
    StateIntegrityError,
    StorageError,
)
from tidegate.protocol.recovery.imports import IMPORT_LEASE, ClaimMode
from tidegate.protocol.recovery.lost_database import AcceptedLosses


@pytest.fixture
def world(store):
    """Checkpoint 1, savepoint 2 in its directory, and checkpoints 3 and 4 after it."""
    return past_of(store)


def test_a_directory_that_changes_while_it_is_copied_is_refused_and_what_was_copied_is_swept(world):
    plan = world.coordinator.plan_restore_from(AT)
    before = world.everything()
    directory(world)["state/op/0.parquet"] = b"xyz"
    with pytest.raises(RestoreRefusedError, match=r"its content has changed.*state/op/0.parquet"):
        world.coordinator.restore_from(AT, planned=plan)
    assert world.everything() == before
    assert world.take("r5") > 4


def test_a_directory_that_is_emptied_while_the_plan_is_made_is_refused(world, monkeypatch):
    """By somebody who has claimed it, after it was verified."""

    def emptied(*arguments):
        del directory(world)["positions/src/2-0-1-m"]
        raise StateIntegrityError("positions/src/2-0-1-m is missing.")

    monkeypatch.setattr(RestorePlanner, "plan", emptied)
    with pytest.raises(RestoreRefusedError, match=r"its content has changed.*positions/src.*Nothing was changed\."):
        world.coordinator.restore_from(AT)


def test_a_checkpoint_that_is_replaced_while_the_plan_is_made_is_no_damage(world, monkeypatch):
    """The plan says what is read again, by the positions of the latest checkpoint."""

    def replaced(self, facts, *more):
        if facts.previous.checkpoint_id == 4:
            world.take("r5")
            raise StateIntegrityError("p/chk-4/src/0-1-m is missing.")
        return original(self, facts, *more)

    original = RestorePlanner.plan
    monkeypatch.setattr(RestorePlanner, "plan", replaced)
    assert world.coordinator.restore_from(AT).restore.previous.checkpoint_id == 5
    check_restored(world, 6)


def test_a_full_disk_leaves_everything_as_it_was(world, monkeypatch):
    def full(self, file, source, path, keep):
        if file.path.startswith("state"):
            raise StorageError("The storage at memory:// is full.")
        copy(self, file, source, path, keep)

    copy, before = type(world.storage).copy, world.everything()
    monkeypatch.setattr(type(world.storage), "copy", full)
    with pytest.raises(StorageError, match="is full"):
        world.coordinator.restore_from(AT)
    assert world.everything() == before


def test_a_checkpoint_that_completes_meanwhile_is_not_lost(world):
    plan = world.coordinator.plan_restore_from(AT)
    world.take("r5")
    before = world.everything()
    with pytest.raises(RestoreRefusedError, match="latest completed checkpoint has changed to 5"):
        world.coordinator.restore_from(AT, planned=plan)
    assert world.everything() == before


def test_one_that_completes_while_files_are_copied_is_not_lost_either(world, monkeypatch):
    plan, copy, taken = world.coordinator.plan_restore_from(AT), type(world.storage).copy, []

    def slow(self, *arguments):
        if not taken:
            taken.append(None)
            world.take("meanwhile")
        copy(self, *arguments)

    monkeypatch.setattr(type(world.storage), "copy", slow)
    with pytest.raises(RestoreRefusedError, match="latest completed checkpoint has changed to 6"):
        world.coordinator.restore_from(AT, planned=plan)
    assert world.ids()[0][-1] == 6
    assert not [path for path in world.storage.files if path.startswith("p/chk-5/")]


def test_nor_is_one_that_completes_meanwhile_and_is_left_behind_again(world, monkeypatch):
    """The latest checkpoint is that of the plan again, but a newer number than the copied one's was given out."""
    plan, copy, taken = world.coordinator.plan_restore_from(AT), type(world.storage).copy, []

    def slow(self, *arguments):
        if not taken:
            taken.append(world.take("meanwhile"))
            world.coordinator.restore(ToCheckpoint(4))
        copy(self, *arguments)

    monkeypatch.setattr(type(world.storage), "copy", slow)
    with pytest.raises(RestoreRefusedError, match="another restore was made since"):
        world.coordinator.restore_from(AT, planned=plan)
    with world.store.transaction("p") as tx:
        assert [restore.checkpoint_id for restore in tx.restores()] == [4]


def test_a_restore_that_came_to_nothing_does_not_keep_the_database_from_being_recovered(store, monkeypatch):
    world = past_of(MemoryCheckpointStore())
    world.store = store
    world.reopen(store)

    def full(self, *arguments):
        raise StorageError("The storage is full.")

    monkeypatch.setattr(type(world.storage), "copy", full)
    with pytest.raises(StorageError):
        world.coordinator.restore_from(AT)
    recovering = Recovering(context_of(world.coordinator.graph, store, world.storage, world.clock))
    recovering.recover(recovering.plan(), AcceptedLosses())
    assert world.ids()[0][-1] == 4


def test_who_stands_still_is_overtaken_and_what_it_has_copied_is_swept(world, monkeypatch):
    copy = type(world.storage).copy

    def stopped(self, file, source, path, keep):
        copy(self, file, source, path, keep)
        if path.startswith("p/") and not stood:
            stood.append(path)
            world.clock.advance(IMPORT_LEASE.total_seconds() + 1)
            world.coordinator.clean()
            assert path not in world.storage.files

    stood: list[str] = []
    monkeypatch.setattr(type(world.storage), "copy", stopped)
    with pytest.raises(CopyInterruptedError, match=r"copying stood still.*Nothing was changed\."):
        world.coordinator.restore_from(AT)
    assert stood
    monkeypatch.undo()
    world.coordinator.clean()
    assert world.ids()[0][-1] == 4
    world.coordinator.restore_from(AT)
    check_restored(world)


@sizes("step", sample=4, whole=1)
@pytest.mark.parametrize("into", ["empty", "known"])
def test_a_restore_that_dies_before_or_after_any_effect_has_not_happened_or_is_finished(into, step):
    number, survived, crashes = 0, False, 0
    while not survived:
        survived = True
        for before in (True, False):
            world = past_of(MemoryCheckpointStore())
            if into == "empty":
                world.store, world.storage.files = MemoryCheckpointStore(), {}
            world.mortal().effects.die(number, before)
            try:
                world.coordinator.restore_from(AT, ClaimMode.NO_CLAIM)
            except Crash:
                survived = False
                crashes += 1
            world.effects.die(None)
            world.clock.advance(2 * IMPORT_LEASE.total_seconds())  # the holder of a lease is dead
            world.reopen(world.store)
            if not any(each.imported for each in restores(world)):
                assert (world.store.history("p", 1) == []) == (into == "empty")
                world.coordinator.clean()
                assert not [path for path in world.storage.files if path.startswith("p/chk-5/")]
                world.coordinator.restore_from(AT)
            assert len(restores(world)) == 1
            world.take("on from there")  # finishes it
            assert world.latest()[0][: len(world.saved[0])] == world.saved[0]
            assert len(world.latest()[0]) == len(world.saved[0]) + 3
        number += step
    assert crashes > 24 // step


def restores(world):
    with world.store.transaction("p") as tx:
        return tx.restores()
