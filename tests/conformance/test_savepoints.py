"""A savepoint has a name and a note, and stays until its owner disposes of it: on every store."""

import pytest
from user_actions import dispose
from worlds import Judge

from tidegate.coordination.recovery.restore import ToCheckpoint, Undo
from tidegate.protocol.facts.errors import CheckpointNotFoundError, IllegalRequestError, SavepointInUseError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.facts.savepoints import Label
from tidegate.protocol.steps.trigger import AlreadyCompleted, Resumed, Triggered

SAVEPOINT = CheckpointKind.SAVEPOINT


@pytest.fixture
def world(desk):
    return desk(retained=1)


def ask(world, request_id, name=None, note=None, kind=SAVEPOINT, wait=True):
    return world.coordinator.trigger(request_id, kind=kind, wait=wait, label=Label(name, note))


def take(world, request_id, name=None, note=None):
    checkpoint_id = ask(world, request_id, name, note).checkpoint_id
    world.complete(checkpoint_id)
    return checkpoint_id


def names(world):
    return [(record.checkpoint_id, record.name, record.note) for record in world.coordinator.savepoints.list()]


def test_it_keeps_its_name_and_note_while_checkpoints_come_and_go(world):
    take(world, "s1", "before the migration", "all 2024 \0 files are in")
    for number in (2, 3):
        world.ask(f"r{number}")
        world.complete(number)
    take(world, "s4")
    assert names(world) == [(1, "before the migration", "all 2024 \ufffd files are in"), (4, None, None)]
    assert world.coordinator.savepoints.find("before the migration").checkpoint_id == 1
    assert world.coordinator.savepoints.find("4").checkpoint_id == 4


def test_a_name_belongs_to_one_savepoint_from_its_trigger_on_and_is_free_when_that_has_failed_or_gone(world):
    assert ask(world, "s1", "weekly") == Triggered(1)
    assert ask(world, "s1", "weekly") == Resumed(1)
    with pytest.raises(IllegalRequestError, match=r"Savepoint 1 of pipeline p is already called 'weekly'.*rename"):
        world.coordinator.trigger("last", kind=CheckpointKind.SYNC_SAVEPOINT, label=Label("weekly"))
    world.coordinator.abort(1, FailureReason.TASK_FAILURE, "it broke")
    assert take(world, "s2", "weekly") == 2
    assert ask(world, "s2", "weekly") == AlreadyCompleted(2)
    with pytest.raises(IllegalRequestError, match="already called"):
        ask(world, "s3", "weekly")
    world.ask("r3")
    world.complete(3)
    dispose(world.coordinator, "weekly")
    assert take(world, "s4", "weekly") == 4


def test_a_request_that_waits_keeps_what_it_asked_for(world):
    world.ask("r1")
    waiting = ask(world, "s2", "later", "a note")
    assert "waits" in waiting.message or waiting.message
    world.complete(1)
    assert take(world, "s2", "later", "a note") == 2
    assert names(world) == [(2, "later", "a note")]


@pytest.mark.parametrize(
    ("kind", "label", "words"),
    [
        (CheckpointKind.CHECKPOINT, Label("x"), "A checkpoint has no name"),
        (CheckpointKind.CHECKPOINT, Label(None, "x"), "A checkpoint has no name"),
        (SAVEPOINT, Label(""), "1 to 100 printable"),
        (SAVEPOINT, Label(" x"), "1 to 100 printable"),
        (SAVEPOINT, Label("x" * 101), "1 to 100 printable"),
        (SAVEPOINT, Label("a\nb"), "1 to 100 printable"),
        (SAVEPOINT, Label("17"), "numbers are the ids"),
        (SAVEPOINT, Label("x", "n" * 2001), "2001 characters"),
    ],
)
def test_a_label_that_cannot_be_is_refused_before_anything_is_triggered(world, kind, label, words):
    with pytest.raises(IllegalRequestError, match=words):
        world.coordinator.trigger("r", kind=kind, label=label)
    assert world.store.history("p", 9) == []


def test_it_is_renamed_and_annotated_and_the_other_part_stays(world):
    take(world, "s1", "first", "a note")
    take(world, "s2")
    savepoints = world.coordinator.savepoints
    savepoints.relabel("first", Label("one"))
    savepoints.relabel("2", Label(None, "another note"))
    savepoints.relabel("2", Label("two"))
    savepoints.relabel("two", Label("two"))
    assert names(world) == [(1, "one", "a note"), (2, "two", "another note")]
    with pytest.raises(IllegalRequestError, match="already called 'one'"):
        savepoints.relabel("two", Label("one"))
    with pytest.raises(IllegalRequestError, match="numbers"):
        savepoints.relabel("two", Label("3"))
    with pytest.raises(CheckpointNotFoundError, match=r"no savepoint 'first'.*It has: one, two\."):
        savepoints.relabel("first", Label("two"))


def test_disposing_of_it_deletes_what_nothing_else_refers_to(world):
    take(world, "s1", "old")
    world.ask("r2")
    with pytest.raises(SavepointInUseError, match="the pipeline goes on from it"):
        dispose(world.coordinator, "old")
    world.complete(2)
    dispose(world.coordinator, "old")
    assert world.store.checkpoint("p", 1).status is Status.DISCARDED
    assert not any(path.startswith("p/chk-1/") for path in world.storage.files)
    with pytest.raises(CheckpointNotFoundError, match="It has none"):
        dispose(world.coordinator, "old")


def test_it_is_not_disposed_of_while_its_sinks_or_a_restore_to_it_need_it(world):
    ask(world, "s1", "mine")
    world.acknowledge(1)
    world.coordinator.validate(1, Judge(True))
    world.coordinator.finalize(1)
    with pytest.raises(SavepointInUseError):
        dispose(world.coordinator, "mine")
    world.coordinator.notify(1)
    for number in (2, 3):
        world.ask(f"r{number}")
        world.complete(number)

    def refuse(checkpoint_id):
        raise OSError("no space left")

    world.sink.before_rewind = refuse
    with pytest.raises(OSError, match="no space left"):
        world.coordinator.restore(ToCheckpoint(1))
    with pytest.raises(SavepointInUseError):
        dispose(world.coordinator, "mine")
    world.sink.before_rewind = lambda checkpoint_id: None
    world.coordinator.restore(Undo())
    dispose(world.coordinator, "mine")


def test_one_that_a_restore_left_behind_keeps_its_name_and_can_be_disposed_of(world):
    take(world, "s1", "one")
    take(world, "s2", "two")
    world.coordinator.restore(ToCheckpoint(1))
    assert [record.abandoned_by for record in world.coordinator.savepoints.list()] == [None, 1]
    with pytest.raises(IllegalRequestError, match="already called"):
        ask(world, "s3", "two")
    dispose(world.coordinator, "two")
    assert names(world) == [(1, "one", None)]
    assert world.sink.withdrawn() == []
