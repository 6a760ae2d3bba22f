"""Hand out attempts at changing sinks, one at a time, and check whether an attempt is still the newest.

Commits and rewinds both change sinks, and take turns here.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from tidegate.coordination.context import PipelineContext
from tidegate.ports import StoreTransaction
from tidegate.protocol.facts.errors import StoreUnavailableError, SupersededAttemptError, UnknownOutcomeError
from tidegate.protocol.steps.committing import (
    COMMIT_LEASE,
    AlreadyDone,
    Take,
    WaitForCommitter,
    decide_take,
    describe_failure,
    is_committing,
    needs_sign,
)

log = logging.getLogger("tidegate")

#: Attempts of one call when other processes overtake it.
TURNS = 3


@dataclass(frozen=True, slots=True)
class SinkWork:
    """Work on a pipeline's sinks: its description, such as "committing the sinks of checkpoint 3", and a check whether
    it is done."""

    what: str
    is_done: Callable[[StoreTransaction], bool]


class Committer:
    """One attempt at changing sinks, a `ports.CommitAttempt`."""

    def __init__(self, context: PipelineContext, work: SinkWork, number: int) -> None:
        self.number = number
        self._context = context
        self._work = work
        self._seen_at = context.clock.now()

    def confirm(self) -> None:
        """See `ports.CommitAttempt`. Raises `SupersededAttemptError`."""
        with self._context.transaction() as tx:
            if not is_committing(tx.committer(), self.number):
                raise self.superseded()
            now = self._context.clock.now()
            if needs_sign(self._seen_at, now):
                tx.touch_committer(self.number, now)
                self._seen_at = now

    def keep(self) -> None:
        """See `ports.CommitAttempt`. Raises `SupersededAttemptError`."""
        if needs_sign(self._seen_at, self._context.clock.now()):
            self.confirm()

    def release(self, error: Exception | None = None) -> None:
        """Let the next attempt begin at once. `error` is the reason if this one failed. Does nothing if another attempt
        has taken over. If the store is unavailable, the next attempt waits until the lease ends."""
        try:
            with self._context.transaction() as tx:
                tx.end_commit(self.number, None if error is None else describe_failure(self._work.what, error))
        except (StoreUnavailableError, UnknownOutcomeError) as error:
            log.warning("The next commit of pipeline %s has to wait: %s", self._context.pipeline_id, error)

    def superseded(self) -> SupersededAttemptError:
        return SupersededAttemptError(
            f"Attempt {self.number} at {self._work.what} of pipeline {self._context.pipeline_id} was overtaken by "
            "another process, because it gave no sign of life for too long. Its work no longer counts. The "
            "checkpoint is complete and its rows are safe: the process that took over makes them visible. Repeat the "
            "step to confirm that."
        )


#: The result of trying to begin an attempt.
Turn = Committer | AlreadyDone | WaitForCommitter


def in_turn(
    context: PipelineContext, work: SinkWork, do: Callable[[Committer], None], first: Turn | None = None
) -> None:
    """Do the work as the newest attempt, or wait until another process has done it. When overtaken, check again.
    `first` is the result of an earlier `take`, if any.

    Raises the errors of `do`, and `SupersededAttemptError` if other processes overtook it repeatedly.
    """
    for turn in range(1, TURNS + 1):
        committer = _take_turn(context, work, first)
        first = None
        if isinstance(committer, AlreadyDone):
            return
        try:
            return do(committer)
        except SupersededAttemptError as error:
            if turn == TURNS:
                raise
            log.info("%s Checking again.", error)
        except Exception as error:
            committer.release(error)
            raise


def take(
    tx: StoreTransaction, context: PipelineContext, work: SinkWork, waited: WaitForCommitter | None = None
) -> Turn:
    """Begin an attempt in this transaction, unless the work is done or another committer is working on it."""
    now = context.clock.now()
    match decision := decide_take(work.is_done(tx), tx.committer(), waited, now):
        case Take():
            return Committer(context, work, tx.begin_commit(now))
        case AlreadyDone() | WaitForCommitter():
            return decision
        case _:
            assert_never(decision)


def _take_turn(context: PipelineContext, work: SinkWork, turn: Turn | None) -> Committer | AlreadyDone:
    """Wait until the current committer is done or its lease ends, and take over."""
    waited: WaitForCommitter | None = None
    while True:
        if turn is None:
            with context.transaction() as tx:
                turn = take(tx, context, work, waited)
        if not isinstance(turn, WaitForCommitter):
            return turn
        if waited is None or waited.committer.attempt != turn.committer.attempt:
            _log_waiting(context.pipeline_id, work, turn.committer.attempt)
        waited, turn = turn, None
        context.clock.sleep(waited.pause.total_seconds())


def _log_waiting(pipeline_id: str, work: SinkWork, attempt: int) -> None:
    log.info(
        "Attempt %s at changing the sinks of pipeline %s is running. The attempt at %s waits for it, and takes over "
        "%g s after its last sign of life.",
        attempt,
        pipeline_id,
        work.what,
        COMMIT_LEASE.total_seconds(),
    )
