"""Savepoints in directories of their own: on every store, wherever writing one dies."""

import json

import pytest
from memory_store import MemoryCheckpointStore
from savepoint_directories import AT, Exported, MemoryExporter, directory, past_of
from sizes import sizes
from user_actions import dispose
from worlds import Crash, MemorySink, small_pipeline

from tidegate.ports import SinkInput
from tidegate.protocol.facts.errors import (
    CheckpointNotFoundError,
    ConfigurationError,
    IllegalRequestError,
    SavepointExportError,
    SavepointInUseError,
    StorageError,
)
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.records import CheckpointKind, Deletion
from tidegate.protocol.facts.savepoints import Label
from tidegate.protocol.recovery.canonical import MARKER, METADATA

FILES = {"state/op/0.parquet", "positions/src/2-0-1-m", "positions/src/2-1-1-m", "staged/out-sink/0-0.parquet"}


@pytest.fixture
def world(store):
    """Checkpoint 1, savepoint 2 in its directory, and checkpoints 3 and 4 after it."""
    return past_of(store)


def test_a_directory_holds_everything_and_its_marker_comes_last(world):
    record = world.coordinator.savepoints.find("kept")
    assert (record.location, record.exported_at is not None) == (AT, True)
    assert directory(world).keys() == FILES | {METADATA, MARKER}
    assert list(directory(world))[-2:] == [METADATA, MARKER]
    assert record.exported_size == sum(len(directory(world)[path]) for path in FILES)
    text = directory(world)[METADATA].decode()
    assert "p/chk-" not in text
    assert json.loads(text)["name"] == "kept"


def test_without_a_place_it_lies_next_to_the_checkpoints_where_no_pipeline_can_be(store):
    world = Exported(store)
    assert world.savepoint("s").location == "memory:/_savepoints/p/chk-1"


@sizes("step", sample=4, whole=1)
def test_an_export_that_dies_before_or_after_any_effect_is_finished_by_the_same_command(step):
    number, survived, crashes = 0, False, 0
    while not survived:
        survived = True
        for before in (True, False):
            world = Exported(MemoryCheckpointStore()).mortal()
            world.take("r1")
            world.effects.die(number, before)
            try:
                world.savepoint("kept", AT)
            except Crash:
                survived = False
                crashes += 1
            world.effects.die(None)
            world.clock.advance(120)  # the holder of a lease is dead
            known = world.coordinator.savepoints.named("kept")
            if known is not None and known.status is Status.IN_PROGRESS:
                world.walk(known.checkpoint_id)
            assert world.savepoint("kept", AT).exported_at is not None
            assert [record.checkpoint_id for record in world.store.history("p", 9)] == [2, 1]
            assert len(directory(world)) == len(FILES | {METADATA, MARKER})
            assert world.coordinator.plan_restore_from(AT).savepoint.checkpoint_id == 2
        number += step
    assert crashes > 24 // step, world.effects.log


def test_what_dead_executions_have_left_in_the_directory_is_removed_and_nothing_of_others(world):
    world.coordinator.trigger("again", kind=world.coordinator.savepoints.find("kept").kind)
    world.walk(5)
    world.coordinator.exporting.begin("5", "memory://five")
    directory(world, "memory://five").update({"state/op/.0.parquet.1.tmp": b"", "notes": b"mine"})
    world.coordinator.exporting.export(5, MemoryExporter(world))
    assert "notes" in directory(world, "memory://five")
    assert not [path for path in directory(world, "memory://five") if path.endswith(".tmp")]


def test_a_directory_that_holds_something_is_refused_and_so_is_another_one_for_the_same_savepoint(world):
    directory(world, "memory://full")["notes"] = b"mine"
    with pytest.raises(ConfigurationError, match=r"memory://full: it already contains notes"):
        world.coordinator.exporting.require_possible("memory://full")
    with pytest.raises(IllegalRequestError, match=f"is written to {AT}. Nothing was changed. Copy that directory"):
        world.coordinator.exporting.begin("kept", "memory://other")
    with pytest.raises(CheckpointNotFoundError, match="no savepoint '1'"):
        world.coordinator.exporting.begin("1")


def test_who_writes_the_same_savepoint_at_the_same_time_is_no_stranger(world, monkeypatch):
    world.coordinator.trigger("again", kind=world.coordinator.savepoints.find("kept").kind)
    world.walk(5)
    exporting, there = world.coordinator.exporting, world.storage.elsewhere("memory://five")
    listed = there.list

    def list_behind_another(prefix):
        monkeypatch.setattr(there, "list", listed)
        exporting.begin("5", there.url)
        exporting.export(5, MemoryExporter(world))
        return listed(prefix)

    monkeypatch.setattr(there, "list", list_behind_another)
    assert exporting.begin("5", there.url).location == there.url
    assert exporting.export(5, MemoryExporter(world)).exported_at is not None


def test_a_directory_serves_once(world):
    """Who cleans up knows files by their names alone, and may be slow."""
    world.coordinator.trigger("again", kind=world.coordinator.savepoints.find("kept").kind)
    world.walk(5)
    with pytest.raises(IllegalRequestError, match=f"5 of .* to {AT}: savepoint 2 has it, and a directory is used"):
        world.coordinator.exporting.begin("5", AT)
    world.coordinator.exporting.require_possible(AT)  # by whoever repeats the request of savepoint 2
    dispose(world.coordinator, "kept")
    world.coordinator.clean()
    assert directory(world) == {}
    with pytest.raises(ConfigurationError, match=f"{AT}: savepoint 2 was there and has been disposed of"):
        world.coordinator.exporting.begin("5", AT)
    with pytest.raises(ConfigurationError, match=r"Nothing was changed\. Name another directory"):
        world.coordinator.exporting.require_possible(AT)
    assert world.coordinator.savepoints.find("5").location is None


def test_of_a_savepoint_whose_rows_were_never_committed_no_copy_is_made(world):
    """Who restores the copy would not find them."""
    world.finalize("again", savepoint=True)
    world.restore(4)
    with pytest.raises(IllegalRequestError, match=r"Savepoint 5 .* left it behind before its sinks had committed"):
        world.coordinator.exporting.begin("5", "memory://five")
    assert world.coordinator.savepoints.find("5").location is None
    world.restore(5)
    assert world.sink.current[0] == 5
    world.take("next")
    assert world.coordinator.exporting.begin("5", "memory://five").location == "memory://five"


class FixedSink(MemorySink):
    input = SinkInput.CURRENT


def test_a_sink_of_current_rows_that_cannot_be_taken_along_is_named_before_anything_happens(store):
    world = Exported(store)
    world.pipeline = small_pipeline(FixedSink())
    world.reopen(store)
    with pytest.raises(ConfigurationError, match="staged files of sink out cannot be taken along"):
        world.coordinator.exporting.require_possible(None)


def test_if_it_cannot_be_written_the_savepoint_stands_and_is_not_listed_as_canonical(world, monkeypatch):
    def full(self, record, location, rewrites, copies):
        raise StorageError("The disk is full.")

    monkeypatch.setattr(MemoryExporter, "export", full)
    with pytest.raises(SavepointExportError, match=r"Savepoint later .* was taken.*disk is full.*Repeat the same comm"):
        world.savepoint("later", "memory://later")
    assert world.coordinator.savepoints.find("later").exported_at is None
    monkeypatch.undo()
    assert world.savepoint("later", "memory://later").exported_at is not None


def test_to_dispose_of_it_removes_the_marker_first_and_waits_for_a_directory_out_of_reach(world, monkeypatch):
    world.mortal()
    elsewhere = type(world.storage).elsewhere

    def unreachable(self, url):
        raise StorageError("out of reach")

    dispose = world.coordinator.savepoints.dispose
    dispose("kept")
    with world.store.transaction("p") as tx:
        queued = [each.path for each in tx.pending_deletions(99) if each.owner == f"savepoint:{AT}"]
    assert (queued[:2], set(queued[2:])) == ([MARKER, METADATA], FILES)
    monkeypatch.setattr(type(world.storage), "elsewhere", unreachable)
    world.coordinator.clean()
    assert directory_files(world).keys() == FILES | {METADATA, MARKER}
    monkeypatch.setattr(type(world.storage), "elsewhere", elsewhere)
    world.coordinator.clean()
    assert directory_files(world) == {}
    assert world.coordinator.savepoints.list() == []


def directory_files(world):
    return world.storage.others[AT].files


def test_what_is_still_being_deleted_from_a_claimed_directory_is_never_another_ones(world):
    world.coordinator.trigger("next", kind=CheckpointKind.SAVEPOINT, label=Label("next"))
    world.walk(5)
    with world.store.transaction("p") as tx:
        tx.enqueue_deletions([Deletion("savepoint:memory://claimed", MARKER)])
    with pytest.raises(IllegalRequestError, match="to memory://claimed: a savepoint that was claimed has it"):
        world.coordinator.exporting.begin("next", "memory://claimed")


def test_one_that_the_pipeline_goes_on_from_is_not_disposed_of(store):
    world = Exported(store)
    world.savepoint("kept", AT)
    with pytest.raises(SavepointInUseError, match="the pipeline goes on from it"):
        dispose(world.coordinator, "kept")
    world.coordinator.clean()
    assert MARKER in directory(world)
