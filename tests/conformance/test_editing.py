"""Savepoints that are edited, or made from nothing: on every store, wherever writing one dies."""

from dataclasses import replace

import pytest
from memory_store import MemoryCheckpointStore
from pasts import OP
from savepoint_directories import AT, Exported, MemoryEditor, directory, past_of
from sizes import sizes
from worlds import Crash, Judge

from tidegate.coordination.recovery.editing import Changes
from tidegate.protocol.facts.errors import (
    CheckpointNotRetainedError,
    ConfigurationError,
    IllegalRequestError,
    RestoreRefusedError,
    SavepointEditError,
    StorageError,
    ValidationFailedError,
)
from tidegate.protocol.facts.savepoints import Label
from tidegate.protocol.recovery.canonical import MARKER
from tidegate.protocol.recovery.restore_plan import RestorePlan

TO = "memory://edited"
CHANGES = Changes({"op": b"+fixed"}, {"op": False}, ("op: rows were replaced or added",))


@pytest.fixture
def world(store):
    """Checkpoint 1, savepoint 2 in its directory, and checkpoints 3 and 4 after it."""
    return past_of(store)


def write(world, base, changes=CHANGES, verdict=True, to=TO, **label):
    editing = world.coordinator.editing
    return editing.write(base, to, "ann", changes, MemoryEditor(world, base), Judge(verdict), Label(**label))


def edited(world, checkpoint_id=2, **options):
    return write(world, world.coordinator.editing.of_checkpoint(checkpoint_id), **options)


def test_an_edited_savepoint_is_restored_as_one_and_says_so(world):
    then = world.everything()
    marker = edited(world, name="repaired", note="ann counted twice")
    assert marker.checkpoint_id == 2
    assert world.everything() == then
    plan = world.coordinator.plan_restore_from(TO)
    assert (plan.restore.checkpoint.name, plan.restore.checkpoint.note) == ("repaired", "ann counted twice")
    said = "Written by ann on 2026-01-01 12:00:00 UTC from savepoint kept. Changed: op: rows were replaced or added."
    assert [line for line in plan.restore.lines() if line.startswith("Written")] == [said]
    world.coordinator.restore_from(TO)
    state, read, (shown_by, shown) = world.latest()
    saved, saved_read, _ = world.saved
    assert (state, read) == (saved + b"+fixed", saved_read)
    assert (shown_by > 4, shown) == (True, b"rows of " + state)
    world.take("next")
    assert world.latest()[0].startswith(state)


def test_what_a_pipeline_goes_on_from_says_that_it_was_edited(world):
    edited(world)
    world.coordinator.restore_from(TO)
    (path,) = [path for path in world.storage.files if path.endswith("chk-5/_metadata")]
    assert b'"edited": {"by": "ann"' in world.storage.files[path]


def test_a_directory_can_be_edited_in_its_turn_and_what_it_is_made_from_stays(world):
    then = dict(directory(world))
    write(world, world.coordinator.editing.of_directory(AT), Changes())
    assert directory(world) == then
    assert world.coordinator.plan_restore_from(TO).restore.edited.origin == AT


@pytest.mark.parametrize("verdict", [False, None, "missing"])
def test_state_that_fails_its_expectations_leaves_nothing(world, verdict):
    then = world.everything()
    with pytest.raises(
        ValidationFailedError, match=r"(?s)to memory://edited does not meet .* sink:out.* Nothing is left"
    ):
        edited(world, verdict=verdict)
    assert directory(world, TO) == {}
    assert world.everything() == then


def test_an_error_while_it_is_written_leaves_nothing(world, monkeypatch):
    def full(self, *arguments):
        directory(world, TO)["state/op/0.parquet"] = b"half"
        raise StorageError("The disk is full.")

    monkeypatch.setattr(MemoryEditor, "rewrite", full)
    with pytest.raises(StorageError, match="disk is full"):
        edited(world)
    assert directory(world, TO) == {}


def test_nothing_is_written_where_something_is(world):
    directory(world, TO)["notes"] = b"mine"
    with pytest.raises(ConfigurationError, match=r"it already contains notes. Nothing was written"):
        edited(world)
    assert directory(world, TO) == {"notes": b"mine"}
    with pytest.raises(IllegalRequestError, match="cannot name a savepoint"):
        edited(world, name="5", to="memory://else")


def test_files_that_are_damaged_are_no_savepoint(world):
    edited(world)
    directory(world, TO)["state/op/0.parquet"] = b"tampered"
    with pytest.raises(RestoreRefusedError, match="its content has changed"):
        world.coordinator.plan_restore_from(TO)


def test_rows_in_flight_are_refused_with_the_way_out(world):
    editing = world.coordinator.editing
    base = editing.of_checkpoint(2)
    known = base.metadata.subtasks[OP]
    position = {"in_flight": [["src/0", {}]]}
    moved = base.metadata.subtasks | {OP: replace(known, snapshot=replace(known.snapshot, position=position))}
    flying = replace(base, metadata=replace(base.metadata, subtasks=moved))
    with pytest.raises(SavepointEditError, match=r"rows on their way to op .* `tidegate savepoint p`"):
        write(world, flying)
    assert directory(world, TO) == {}


def test_a_pipeline_that_never_ran_begins_with_what_it_is_given(store):
    world = Exported(store)
    base = world.coordinator.editing.of_nothing()
    write(world, base, Changes({"op": b"from before"}, {"op": True}, ("op: the whole state was replaced",)))
    plan = world.coordinator.plan_restore_from(TO).restore
    assert isinstance(plan, RestorePlan)
    assert plan.edited.base is None
    world.coordinator.restore_from(TO)
    state, _, (_, shown) = world.latest()
    assert (state, shown) == (b"from before", b"rows of from before")
    world.take("first")
    assert world.latest()[0].startswith(b"from before")
    with pytest.raises(SavepointEditError, match="Pipeline p has run"):
        world.coordinator.editing.of_nothing()
    with pytest.raises(RestoreRefusedError, match="made from nothing, for a pipeline that never ran"):
        world.coordinator.plan_restore_from(TO)


@sizes("step", sample=3, whole=1)
def test_an_edit_that_dies_before_or_after_any_effect_leaves_a_whole_savepoint_or_none(step):
    number, survived, crashes = 0, False, 0
    while not survived:
        survived = True
        for before in (True, False):
            world = past_of(MemoryCheckpointStore()).mortal()
            then = world.everything()
            world.effects.die(number, before)
            try:
                edited(world)
            except Crash:
                survived = False
                crashes += 1
            world.effects.die(None)
            assert world.everything() == then
            if MARKER in directory(world, TO):
                assert world.coordinator.plan_restore_from(TO).savepoint.checkpoint_id == 2
            else:
                with pytest.raises(RestoreRefusedError, match="it has no marker"):
                    world.coordinator.plan_restore_from(TO)
                directory(world, TO).clear()
                edited(world)
            world.coordinator.restore_from(TO)
            assert world.latest()[0] == world.saved[0] + b"+fixed"
        number += step
    assert crashes > 8 // step, world.effects.log


def test_a_checkpoint_that_is_replaced_while_it_is_edited_is_named(store):
    world = Exported(store, retained=1)
    world.take("r1")
    base = world.coordinator.editing.of_checkpoint(None)
    for number in (2, 3):
        world.take(f"r{number}")
    world.coordinator.clean()
    with pytest.raises(CheckpointNotRetainedError, match="newer ones have replaced it"):
        write(world, base)
    assert directory(world, TO) == {}
