"""The marker beside `_metadata`: there before any row is visible, wherever somebody crashes, and gone with its
checkpoint."""

from hashlib import sha256

import pytest
from pasts import Past
from sizes import later
from user_actions import dispose
from worlds import Crash, Judge

from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.coordination.steps.finalize import CommitPoint
from tidegate.protocol.facts.errors import StateIntegrityError, StorageError
from tidegate.protocol.facts.paths import marker_path, metadata_path
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.recovery.marker import read_marker
from tidegate.testing.effects import Effects, Mortal, MortalTransactions


@pytest.fixture
def past(store):
    return Past(store, retained=2)


def test_it_is_written_after_the_commit_and_before_any_row_is_visible(past):
    record = past.finalize("r1")
    assert past.marked() == []
    seen = []
    past.sink.before_commit = lambda checkpoint_id: seen.append(past.marked())
    past.coordinator.notify(1)
    assert seen == [[1]]
    marker = read_marker("p", 1, past.storage.files[marker_path("p", 1)])
    assert (marker.completed_at, marker.commit_attempt) == (record.completed_at, 1)
    assert marker.sha256 == sha256(past.storage.files[metadata_path("p", 1)]).hexdigest()


def test_who_finalizes_late_does_not_write_other_metadata_than_the_marker_says(past, monkeypatch):
    """Another process has completed the checkpoint, and the pipeline was restored since: that is in all metadata."""
    begun = []

    def reach(self, *validated):
        begun.append((self, *validated))
        return original(self, *validated)

    original = CommitPoint.reach
    past.take("r1")
    monkeypatch.setattr(CommitPoint, "reach", reach)
    past.take("r2")
    for checkpoint_id in (1, 2):
        past.coordinator.restore(ToCheckpoint(checkpoint_id))
    before = dict(past.storage.files)
    assert original(*begun[0]).checkpoint_id == 2
    assert past.storage.files == before


def test_who_has_read_long_ago_what_it_writes_down_writes_the_same(desk):
    """It was stopped between the validate and the finalize step, and has read ahead."""
    late, other = desk(retained=3), desk(retained=3)
    other.pipeline, other.sink, other.storage = late.pipeline, late.sink, late.storage
    late.complete(late.ask("r1").checkpoint_id)
    late.acknowledge(late.ask("r2").checkpoint_id)
    late.coordinator.validate(2, Judge(True))
    other.reopen(other.store)
    other.coordinator.finalize(2)
    other.coordinator.notify(2)
    for checkpoint_id in (1, 2):
        other.coordinator.restore(ToCheckpoint(checkpoint_id))
    before = dict(late.storage.files)
    assert late.coordinator.finalize(2, notifies=True).checkpoint_id == 2
    assert late.storage.files == before


def test_an_aborted_checkpoint_has_none(past):
    past.ask("r1")
    past.snapshot(1)
    past.coordinator.abort(1, FailureReason.CHECKPOINT_DECLINED, "on purpose")
    past.clock.advance(7200)
    past.coordinator.clean()
    assert past.storage.files == {}


def test_it_goes_with_its_checkpoint_and_not_before(past):
    for number in range(5):
        past.take(f"r{number}")
    assert past.marked() == [4, 5]
    past.clock.advance(7200)
    past.coordinator.clean()
    assert past.marked() == [4, 5]
    past.coordinator.cancel()
    assert past.storage.files == {}


def test_a_crash_between_the_deletion_of_both_leaves_metadata_without_a_marker_and_never_the_other_way_round(past):
    past.take("r1")
    there = []

    class Watching(type(past.storage)):
        def delete(self, paths, closed=()):
            for path in paths:
                super().delete([path])
                there.append((marker_path("p", 1) in self.files, metadata_path("p", 1) in self.files))

    past.storage.__class__ = Watching
    past.take("r2")
    past.take("r3")
    assert (False, True) in there
    assert (True, False) not in there


def test_one_written_late_by_a_process_that_was_overtaken_is_swept(past):
    past.take("r1")
    late = past.storage.files[marker_path("p", 1)]
    for number in range(2, 5):
        past.take(f"r{number}")
    past.storage.files[marker_path("p", 1)] = late
    past.clock.advance(600)
    past.coordinator.clean()
    assert past.marked() == [3, 4]


def test_metadata_that_are_gone_are_named_and_no_row_becomes_visible(past):
    past.finalize("r1")
    kept = past.storage.files.pop(metadata_path("p", 1))
    with pytest.raises(StateIntegrityError, match="p/chk-1/_metadata"):
        past.coordinator.notify(1)
    assert past.shown() == []
    past.storage.files[metadata_path("p", 1)] = kept
    past.coordinator.notify(1)
    assert past.shown() == [1]


def test_whoever_repeats_finalize_writes_the_same_metadata(past):
    past.ask("r1")
    past.snapshot(1)
    past.coordinator.validate(1, Judge(True))
    storage, effects, written = past.storage, Effects(), []
    past.storage = Mortal(storage, effects, "write")
    past.reopen(past.store)
    for _ in range(2):
        past.clock.advance(60)
        effects.die(0, before=False)
        with pytest.raises(Crash):
            past.coordinator.finalize(1)
        written.append(storage.files.pop(metadata_path("p", 1)))
    assert written[0] == written[1]


@pytest.mark.parametrize("before", [True, later(False)])
def test_wherever_notify_dies_what_is_visible_is_marked_and_a_repeat_marks_the_rest(past, before):
    effects, number, survived = Effects(), 0, False
    past.sink.before_commit = lambda checkpoint_id: effects.around("commit", lambda: None)
    store, storage = past.store, past.storage
    while not survived:
        checkpoint_id = past.finalize(f"r{number}").checkpoint_id
        past.storage = Mortal(storage, effects, "write", "read", "delete")
        past.reopen(MortalTransactions(store, effects))
        effects.die(number, before)
        try:
            past.coordinator.notify(checkpoint_id)
            survived = True
        except Crash:
            pass
        effects.die(None)
        past.storage = storage
        past.reopen(store)
        assert checkpoint_id not in past.shown() or checkpoint_id in past.marked()
        past.clock.advance(60)
        past.coordinator.notify(checkpoint_id)
        assert past.marked() == [id_ for id_ in (checkpoint_id - 1, checkpoint_id) if id_]
        number += 1
    assert number > 8, effects.log


def test_a_restore_that_was_overtaken_by_another_one_calls_nothing_damage(store, monkeypatch):
    """And the savepoint that it went to was given up since: its metadata are gone."""
    past = Past(store, retained=2)
    past.take("s1", savepoint=True)
    past.take("r2")
    past.take("r3")
    read, meanwhile = past.storage.read, []

    def slow(path):
        if path == metadata_path("p", 1) and not meanwhile:
            meanwhile.append(path)
            past.restore(3)
            dispose(past.coordinator, "1")
        return read(path)

    monkeypatch.setattr(past.storage, "read", slow)
    past.restore(1)
    assert metadata_path("p", 1) not in past.storage.files
    assert (past.shown(), past.ids()) == ([1, 2, 3], ([2, 3], []))


def test_a_sweep_that_takes_the_unfinished_file_for_a_leftover_costs_no_run(past, monkeypatch):
    past.finalize("r1")
    write, refusals = past.storage.write, [StorageError("the unfinished file is gone")]

    def swept(path, content):
        if refusals:
            raise refusals.pop()
        write(path, content)

    monkeypatch.setattr(past.storage, "write", swept)
    past.coordinator.notify(1)
    assert past.marked() == [1]
    refusals += [StorageError("the disk is full")] * 2
    monkeypatch.undo()
    past.finalize("r2")
    monkeypatch.setattr(past.storage, "write", swept)
    with pytest.raises(StorageError, match="the disk is full"):
        past.coordinator.notify(2)
    past.coordinator.notify(2)
    assert past.marked() == [1, 2]


def test_who_looks_for_a_lost_database_while_the_first_checkpoint_completes_finds_none(store, monkeypatch):
    """It had asked the database before there was any, and stood still."""
    world, meanwhile = Past(store), []
    look = type(world.storage).list

    def slow(self, prefix):
        if not meanwhile:
            meanwhile.append(prefix)
            world.take("r1")
        return look(self, prefix)

    monkeypatch.setattr(type(world.storage), "list", slow)
    assert world.take("r2") == 2
