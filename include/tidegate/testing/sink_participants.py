"""Tests of a sink in the commit (`ports.CommittingSink`): prepared, run in a transaction, rolled back, crashed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.ports import Branch, CommittingSink, RewindableSink
from tidegate.protocol.facts.errors import CheckpointError
from tidegate.testing.deliveries import InTheCommit
from tidegate.testing.sink_commits import CommitTests
from tidegate.testing.sink_trials import S
from tidegate.testing.trials import Trial


class ParticipantTests(CommitTests[S]):
    def test_what_is_prepared_is_shown_when_a_transaction_is_committed(self, tmp_path: Path) -> None:
        trial, delivery = self._in_the_commit(tmp_path)
        third, before = trial.third(), trial.expected()
        participant = trial.sink.prepare(3, third)
        trial.sink.prepare(3, third)  # by another process, which dies then
        trial.check("After rows were prepared, twice", before)
        delivery.roll_back(participant)
        trial.check("After the transaction was rolled back", before)
        delivery.roll_back(participant)
        delivery.transact(participant, trial.attempts.next(), 3)
        trial.completed(3, third)
        trial.check("After a transaction was committed, the third that ran it")
        trial.take(4, trial.some_rows(40))
        trial.check("After the next checkpoint")

    def test_rows_of_a_checkpoint_that_is_aborted_are_never_shown(self, tmp_path: Path) -> None:
        trial, delivery = self._in_the_commit(tmp_path)
        third = trial.third()
        delivery.roll_back(trial.sink.prepare(3, third))
        trial.sink.prepare(3, third)
        trial.sink.discard([handle.path for handle in third if handle.created_by == 3])
        trial.take(4, trial.some_rows(40))
        trial.check("After a checkpoint was prepared and aborted, and the next one committed")

    def test_who_has_prepared_before_a_later_attempt_committed_changes_nothing(self, tmp_path: Path) -> None:
        trial, delivery = self._in_the_commit(tmp_path)
        third, attempt = trial.third(), trial.attempts.next()
        participant = trial.sink.prepare(3, third)
        fourth = trial.stage(4, trial.some_rows(40))
        for checkpoint_id, staged in ((3, third), (4, fourth)):
            trial.commit(checkpoint_id, staged)
            with pytest.raises(CheckpointError):
                delivery.transact(participant, attempt, 3)
            trial.check(f"After checkpoint {checkpoint_id} was committed, and an older transaction rolled back")

    def test_a_checkpoint_that_completed_without_it_is_committed_afterwards(self, tmp_path: Path) -> None:
        """Check a checkpoint that is brought back from storage, or that completed when the sink was of another kind."""
        trial, _ = self._in_the_commit(tmp_path)
        first = trial.stage(1, trial.some_rows(10, 11))
        for again in ("After a commit without a transaction", "After it was repeated"):
            trial.sink.commit(1, first, trial.attempts.next())
            trial.completed(1, first)
            trial.check(again)
        trial.take(2, trial.some_rows(20))
        trial.check("After a commit without a transaction, and one in a transaction")
        self._afterwards = True
        self.test_a_repeated_commit_changes_nothing(tmp_path)
        self.test_a_commit_killed_anywhere_shows_all_or_nothing_and_is_finished_by_a_repetition(tmp_path)
        self.test_a_commit_that_was_stopped_and_goes_on_after_later_ones_changes_nothing(tmp_path)

    def test_rows_that_a_crash_of_the_server_took_are_missed(self, tmp_path: Path) -> None:
        """Check that the participant fails and nothing is shown if a crash has emptied unlogged tables."""
        trial, delivery = self._in_the_commit(tmp_path)
        third, before = trial.third(), trial.expected()
        participant = trial.sink.prepare(3, third)
        delivery.crash()
        reconnected(trial.shown)
        attempt = trial.attempts.next()
        try:
            delivery.transact(participant, attempt, 3)
        except CheckpointError:
            trial.check("After the server crashed between prepare and the transaction, which failed", before)
        else:
            trial.completed(3, third)
            trial.check("After the server crashed between prepare and the transaction, which was committed")
        reconnected(lambda: trial.commit(3, third))
        trial.check("After the server crashed between prepare and the transaction, and the commit was repeated")

    def test_a_restore_shows_what_was_shown_then_in_its_transaction(self, tmp_path: Path) -> None:
        trial, delivery = self._in_the_commit(tmp_path)
        committing: CommittingSink = trial.sink
        if not isinstance(trial.sink, RewindableSink):
            pytest.skip("the sink is not a RewindableSink")
        trial.commit(3, trial.third())
        for checkpoint_id, undone in ((1, 3), (2, 3)):
            for to in (checkpoint_id, undone):
                branch, staged = Branch(((1, to),)), trial.committed[to]
                before = trial.shown()
                participant = committing.prepare_rewind(to, branch, staged)
                delivery.roll_back(participant)
                assert trial.shown() == before, "a rewind that was rolled back has changed what readers see"
                delivery.transact(participant, trial.attempts.next())
                trial.check(f"After a rewind to checkpoint {to}", trial.expected(branch))

    def _in_the_commit(self, tmp_path: Path) -> tuple[Trial, InTheCommit]:
        trial = self.trial(tmp_path)
        if not isinstance(trial.delivery, InTheCommit):
            pytest.skip("the sink is not in the commit")
        assert isinstance(trial.sink, CommittingSink), "a sink that is IN_THE_COMMIT is a CommittingSink"
        return trial, trial.delivery


#: More than a pool has.
_CONNECTIONS = 6


def reconnected(work: Callable[[], object]) -> None:
    """Repeat failing work while the pool may hold connections from before the server's crash."""
    for left in reversed(range(_CONNECTIONS)):
        try:
            work()
            return
        except Exception:
            if not left:
                raise
