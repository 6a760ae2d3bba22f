"""Tests of a sink that a restore can rewind (`ports.RewindableSink`), or whose place has an owner."""

from pathlib import Path

import pytest

from tidegate.ports import Branch, OwnedSink, RewindableSink, SinkInput
from tidegate.protocol.recovery.ownership import Owner
from tidegate.testing.sink_trials import S, SinkTrials, kill, stop
from tidegate.testing.trials import Trial


class RewindTests(SinkTrials[S]):
    def test_a_restore_shows_what_was_shown_then_and_its_undo_what_is_shown_now(self, tmp_path: Path) -> None:
        trial = self._three(tmp_path)
        first, present = until(1), until(3)
        withdrawn = sorted(withdrawal.checkpoint_id for withdrawal in trial.sink.shown_outside(first))
        newest = [3] if trial.sink.input is SinkInput.CURRENT else [2, 3]
        assert withdrawn == newest, (
            f"a rewind to checkpoint 1 would withdraw {newest}, but shown_outside returns {withdrawn}"
        )
        for again in ("After a rewind", "After the rewind was repeated"):
            trial.rewind(1, first)
            trial.check(again, trial.expected(first))
        assert list(trial.sink.shown_outside(first)) == [], (
            "shown_outside returns checkpoints although none is left to withdraw"
        )
        trial.rewind(3, present)
        trial.check("After the rewind was undone", trial.expected(present))

    def test_a_restore_brings_back_what_all_rows_of_a_state_have_replaced(self, tmp_path: Path) -> None:
        trial = self._three(tmp_path)
        if not trial.keys:
            pytest.skip("the sink does not accept upserts, or has no keys")
        trial.commit(4, trial.stage_whole(4, [*trial.some_rows(10, 40), trial.changed(30, 45)]))
        for checkpoint_id in (3, 4, 1, 4, 2, 3):
            trial.rewind(checkpoint_id, until(checkpoint_id))
            trial.check(f"After a rewind to checkpoint {checkpoint_id}", trial.expected(until(checkpoint_id)))

    def test_a_pipeline_goes_on_from_where_it_was_restored(self, tmp_path: Path) -> None:
        trial = self._three(tmp_path)
        trial.rewind(1, until(1))
        del trial.committed[2], trial.committed[3]
        trial.take(4, trial.some_rows(40, 41))
        trial.check("After a rewind to checkpoint 1, and a commit")
        trial.sink.delete_withdrawn(trial.sink.withdrawn(), trial.attempts.next())
        assert list(trial.sink.withdrawn()) == [], "withdrawn() lists deleted rows"
        trial.check("After withdrawn rows were deleted")

    def test_a_checkpoint_that_was_left_behind_before_its_commit_is_committed_after_the_undo(
        self, tmp_path: Path
    ) -> None:
        for goes_on in (False, True):
            trial = self.trial(tmp_path)
            if not isinstance(trial.sink, RewindableSink):
                pytest.skip("the sink is not a RewindableSink")
            third = trial.third()
            trial.rewind(1, until(1))
            if goes_on:
                trial.take(4, trial.some_rows(40))
            trial.committed = {1: trial.committed[1], 2: trial.committed[2], 3: third}
            trial.rewind(3, until(3))
            for again in ("committed", "committed twice"):
                trial.commit(3, third)
                trial.check(f"After checkpoint 3 was left behind, restored and {again}")
            trial.take(5, trial.some_rows(50))
            trial.check("After the checkpoint that follows")

    def test_a_rewind_killed_anywhere_is_finished_by_a_repetition(self, tmp_path: Path) -> None:
        trial = self._three(tmp_path)
        for step in self.steps(trial.sink, Rewind(trial)):
            trial = self._three(tmp_path)
            kill(step, trial.sink, Rewind(trial))
            every_checkpoint_whole(trial, f"A rewind was killed before {step}")
            trial.rewind(1, until(1))
            trial.check(f"A rewind was killed before {step}, and repeated", trial.expected(until(1)))
            trial.rewind(3, until(3))
            trial.check(f"A rewind was killed before {step}, repeated and undone")

    def test_a_rewind_that_was_stopped_and_goes_on_after_later_ones_changes_nothing(self, tmp_path: Path) -> None:
        trial = self._three(tmp_path)
        for step in self.steps(trial.sink, Rewind(trial)):
            trial = self._three(tmp_path)
            zombie = stop(step, trial.sink, Rewind(trial))
            try:
                trial.rewind(3, until(3))
            except Exception:
                if not self.may_wait:
                    raise
                zombie.go_on()
                trial.rewind(3, until(3))
            finally:
                zombie.go_on()
            trial.check(f"After an older rewind, stopped before {step}, went on")
            trial.take(4, trial.some_rows(40))
            trial.check(f"After an older rewind, stopped before {step}, went on, and another commit")

    def test_a_place_has_one_owner(self, tmp_path: Path) -> None:
        trial = self.trial(tmp_path, marked=False)
        if not isinstance(trial.sink, OwnedSink):
            pytest.skip("the sink is not an OwnedSink")
        one, other = Owner("one", "out", "d"), Owner("other", "out", "d")
        assert trial.sink.owner() is None, "a new place has an owner"
        assert (trial.sink.mark(one), trial.sink.mark(other), trial.sink.owner()) == (one, one, one)
        assert not trial.sink.is_used(), "is_used() mistakes the mark for rows"
        trial.sink.mark_anew(other)
        assert trial.sink.owner() == other
        trial.take(1, trial.some_rows(1))
        assert trial.sink.is_used(), "is_used() does not see rows"
        trial.check("After a commit to a place with an owner")

    def _three(self, tmp_path: Path) -> Trial:
        trial = self.trial(tmp_path)
        if not isinstance(trial.sink, RewindableSink):
            pytest.skip("the sink is not a RewindableSink")
        trial.commit(3, trial.third())
        return trial


class Rewind:
    """A rewind to a trial's first checkpoint, by an attempt that has begun."""

    def __init__(self, trial: Trial) -> None:
        self._trial, self._attempt = trial, trial.attempts.next()

    def __call__(self) -> None:
        trial = self._trial
        trial.delivery.rewind(trial.sink, 1, until(1), trial.committed[1], self._attempt)


def until(checkpoint_id: int) -> Branch:
    """Return the branch of a checkpoint that follows all earlier ones."""
    return Branch(((1, checkpoint_id),))


def every_checkpoint_whole(trial: Trial, when: str) -> None:
    """Check that readers see all rows of each checkpoint or none. Several checkpoints change one after the other."""
    if trial.sink.input is SinkInput.CURRENT:
        return trial.check(when, trial.expected(until(1)), trial.expected())
    kept = {1}
    possible = [kept | {id_ for at, id_ in enumerate((2, 3)) if chosen >> at & 1} for chosen in range(4)]
    return trial.check(when, *(trial.rows_at(sorted(ids)) for ids in possible))
