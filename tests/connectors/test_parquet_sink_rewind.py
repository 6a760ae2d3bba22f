"""A table that goes back to an earlier checkpoint and forth again, whatever dies, stops and goes on in between."""

import itertools
import os
from contextlib import suppress
from pathlib import Path

import pytest
from commits import Attempt, commit
from parquet_sinks import Died, Mortal, stage, tree, visible
from stopped import Stopped

from tidegate.ports import RewindableSink, Withdrawn
from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.facts.errors import SupersededAttemptError
from tidegate.sinks.parquet import ParquetSink

MODES = pytest.mark.parametrize("mode", ["append", "latest"])
BACK, FORTH = Branch(((1, 1),)), Branch(((1, 3),))


class Table:
    """Three checkpoints; of the second nothing was staged in an appended table."""

    def __init__(self, name, mode):
        self.sink, self.mode = ParquetSink(name, mode), mode
        self.staged = {1: [stage(self.sink, 1, 1), stage(self.sink, 1, 10, subtask=1)], 2: [], 3: []}
        commit(self.sink, 1, self.staged[1])
        if mode == "latest":
            self.staged[2] = [stage(self.sink, 2, 2)]
            commit(self.sink, 2, self.staged[2])
        self.staged[3] = [stage(self.sink, 3, 3)]
        commit(self.sink, 3, self.staged[3])

    def rewind(self, checkpoint_id, attempt=None):
        branch = BACK if checkpoint_id == 1 else FORTH
        self.sink.rewind(checkpoint_id, branch, self.staged[checkpoint_id], attempt or Attempt())

    def shown(self, checkpoint_id):
        return {1: [1, 10], 3: [1, 3, 10] if self.mode == "append" else [3]}[checkpoint_id]


@MODES
def test_it_shows_what_it_showed_then_and_after_an_undo_what_it_showed_before(mode):
    table = Table("there-and-back", mode)
    assert isinstance(table.sink, RewindableSink)
    for _ in range(2):
        table.rewind(1)
        assert visible(table.sink) == table.shown(1)
        assert table.sink.withdrawn() == ([3] if mode == "append" else [])
        table.rewind(1)
        assert visible(table.sink) == table.shown(1)
        table.rewind(3)
        assert visible(table.sink) == table.shown(3)
        assert table.sink.withdrawn() == []


@MODES
def test_the_plan_says_what_readers_will_not_see_any_more(mode):
    table = Table("plan", mode)
    (seen,) = table.sink.shown_outside(BACK)
    assert seen == Withdrawn(3, 1, table.staged[3][0].bytes)
    assert table.sink.shown_outside(FORTH) == []


def test_withdrawn_rows_are_deleted_when_nothing_needs_them():
    table = Table("for-good", "append")
    table.rewind(1)
    table.sink.delete_withdrawn([3], Attempt())
    assert table.sink.withdrawn() == []
    assert not any("checkpoint=3" in path for path in tree(table.sink))
    assert visible(table.sink) == table.shown(1)


def test_a_sink_that_is_newer_than_the_checkpoint_shows_nothing_and_one_without_a_directory_has_nothing_to_do():
    table = Table("newer", "latest")
    table.sink.rewind(1, BACK, [], Attempt())
    assert not Path(table.sink.root, "current").exists()
    for mode in ("append", "latest"):
        absent = ParquetSink(f"absent-{mode}", mode)
        absent.rewind(1, BACK, [], Attempt())
        assert absent.shown_outside(BACK) == []
        assert not Path(absent.root).exists()


@MODES
def test_it_works_where_files_cannot_have_two_names(mode, monkeypatch):
    def refuse(source, target):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    test_it_shows_what_it_showed_then_and_after_an_undo_what_it_showed_before(mode)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@MODES
def test_one_that_dies_anywhere_loses_nothing_and_a_repeat_finishes_it(mode, after, monkeypatch):
    sights = set()
    for at in itertools.count(1):
        table, died = Table(f"died-{at}", mode), False
        for wanted in (1, 3):
            with monkeypatch.context() as patch:
                Mortal(patch, at, after)
                with suppress(Died):
                    table.rewind(wanted)
                    wanted = 0
            died = died or bool(wanted)
            sights.add(tuple(visible(table.sink)))
            if wanted:
                table.rewind(wanted)
                assert visible(table.sink) == table.shown(wanted)
        table.rewind(3)
        assert visible(table.sink) == table.shown(3)
        assert os.listdir(Path(table.sink.root, "_committing")) == []
        if not died:
            break
    assert at > 6
    assert sights == {tuple(table.shown(1)), tuple(table.shown(3))}


@MODES
def test_one_that_is_stopped_and_goes_on_after_its_undo_changes_nothing(mode, monkeypatch):
    for at in itertools.count(1):
        table, attempt = Table(f"zombie-{at}", mode), Attempt()
        with monkeypatch.context() as patch:
            zombie = Stopped(patch, at, lambda t=table, a=attempt: t.rewind(1, a))
            confirm = attempt.confirm
            attempt.confirm = lambda z=zombie, c=confirm: (z.meet("confirm"), c())
            if not zombie.begin():
                assert zombie.error is None
                break
            table.rewind(1)
            assert visible(table.sink) == table.shown(1)
            table.rewind(3)
            commit(table.sink, 4, [stage(table.sink, 4, 4)])
            seen, known = visible(table.sink), tree(table.sink)
            zombie.go_on()
            assert visible(table.sink) == seen
            assert tree(table.sink) == known
            assert zombie.error is None or isinstance(zombie.error, SupersededAttemptError), repr(zombie.error)
    assert at > 10


@MODES
def test_a_commit_of_what_was_left_behind_that_was_stopped_shows_nothing_when_it_goes_on(mode, monkeypatch):
    """The checkpoint has completed, its commit stops, the pipeline is restored, and then the commit goes on."""
    for at in itertools.count(1):
        table, attempt = Table(f"late-{at}", mode), Attempt()
        fourth = [stage(table.sink, 4, 4)]
        with monkeypatch.context() as patch:
            zombie = Stopped(patch, at, lambda t=table, f=fourth, a=attempt: t.sink.commit(4, f, a))
            if not zombie.begin():
                break
            table.rewind(1)
            assert visible(table.sink) == table.shown(1)
            zombie.go_on()
            assert visible(table.sink) == table.shown(1)
    assert at > 10
