"""Tests of a sink's commit: repeated, killed at any step, stopped and overtaken."""

from pathlib import Path

import pytest

from tidegate.testing.sink_trials import S, SinkTrials, kill, stop
from tidegate.testing.trials import Trial


class CommitTests(SinkTrials[S]):
    def test_what_is_staged_is_not_shown(self, tmp_path: Path) -> None:
        trial = self.trial(tmp_path)
        trial.check("Before anything was staged")
        trial.stage(1, trial.some_rows(1, 2))
        trial.check("After rows were staged and not committed")
        trial.take(2, trial.some_rows(3))
        trial.stage(3, trial.some_rows(4))
        trial.check("After rows were staged and not committed")

    def test_a_commit_shows_what_counts_and_nothing_else(self, tmp_path: Path) -> None:
        trial = self.trial(tmp_path)
        trial.commit(3, trial.third())
        trial.check("After a commit next to files of an attempt that does not count")

    def test_a_checkpoint_without_rows_is_committed(self, tmp_path: Path) -> None:
        trial = self.trial(tmp_path)
        trial.commit(1, [])
        trial.check("After the commit of a checkpoint without rows")
        trial.take(2, [])
        trial.check("After the commit of no rows")
        trial.take(3, trial.some_rows(3))
        trial.check("After the commit of rows that follows one of no rows")
        trial.take(4, [])
        trial.check("After the commit of no rows that follows one of rows")

    def test_a_repeated_commit_changes_nothing(self, tmp_path: Path) -> None:
        trial = self.trial(tmp_path)
        third = trial.third()
        for again in ("After a commit", "After the commit was repeated", "After it was repeated twice"):
            trial.commit(3, third)
            trial.check(again)
        late = dict(trial.committed)
        trial.take(4, trial.some_rows(40))
        for checkpoint_id, staged in late.items():
            trial.commit(checkpoint_id, staged)
            trial.check(f"After the commit of checkpoint {checkpoint_id} was repeated after checkpoint 4")

    def test_all_rows_of_a_state_take_the_place_of_those_that_it_had(self, tmp_path: Path) -> None:
        trial = self.trial(tmp_path)
        if not trial.keys:
            pytest.skip("the sink does not accept upserts, or has no keys")
        trial.commit(3, trial.third())
        trial.commit(4, trial.stage_whole(4, [*trial.some_rows(10, 40), trial.changed(30, 45)]))
        trial.check("After a commit of all rows")
        trial.commit(5, [*trial.stage(5, trial.some_rows(30, 50)), *trial.stage_gone(5, 10)])
        trial.check("After the next commit")
        trial.commit(6, trial.stage_whole(6, []))
        trial.check("After a commit of all rows of an empty state")

    def test_a_commit_killed_anywhere_shows_all_or_nothing_and_is_finished_by_a_repetition(
        self, tmp_path: Path
    ) -> None:
        trial = self.trial(tmp_path)
        for step in self.steps(trial.sink, ThirdCommit(trial)):
            trial = self.trial(tmp_path)
            work = ThirdCommit(trial)
            before = trial.expected()
            kill(step, trial.sink, work)
            trial.completed(3, work.staged)
            trial.check(f"Killed before {step}", before, trial.expected())
            trial.commit(3, work.staged)
            trial.check(f"Killed before {step}, and committed again")
            trial.take(4, trial.some_rows(40))
            trial.check(f"Killed before {step}, committed again, and the next checkpoint too")

    def test_a_commit_that_was_stopped_and_goes_on_after_later_ones_changes_nothing(self, tmp_path: Path) -> None:
        trial = self.trial(tmp_path)
        for step in self.steps(trial.sink, ThirdCommit(trial)):
            trial = self.trial(tmp_path)
            work = ThirdCommit(trial)
            zombie = stop(step, trial.sink, work)
            try:
                later(trial, work)
                trial.check(f"While an older attempt is stopped before {step}")
            except AssertionError:
                raise
            except Exception:
                if not self.may_wait:
                    raise
                zombie.go_on()
                later(trial, work)
            finally:
                zombie.go_on()
            trial.check(f"After an older attempt, stopped before {step}, went on")
            trial.take(5, trial.some_rows(50))
            trial.check(f"After an older attempt, stopped before {step}, went on, and another commit")


class ThirdCommit:
    """The commit of a trial's third checkpoint, by an attempt that has begun."""

    def __init__(self, trial: Trial) -> None:
        self.trial, self.staged = trial, trial.third()
        self.attempt = trial.attempts.next()

    def __call__(self) -> None:
        self.trial.delivery.commit(self.trial.sink, 3, self.staged, self.attempt)


def later(trial: Trial, work: ThirdCommit) -> None:
    """Commit the same checkpoint by a later attempt, and the next one by another."""
    trial.commit(3, work.staged)
    trial.take(4, trial.some_rows(40))
