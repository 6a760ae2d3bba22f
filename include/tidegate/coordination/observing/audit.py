"""Puts on record who asked for what, and what the answer was: in the transaction that does it, where there is one.

A refused action is recorded too, after its transaction was rolled back. A crash in between loses the record of the
refusal only: nothing was done.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from tidegate.coordination.context import PipelineContext
from tidegate.ports import StoreTransaction
from tidegate.protocol.facts.errors import (
    ActionRepeatedError,
    CheckpointError,
    IllegalRequestError,
    UnavailableError,
    UnknownOutcomeError,
)
from tidegate.protocol.observing.actions import (
    ActionAnswer,
    AnswerStatus,
    AuditRecord,
    UserAction,
    recordable,
    recordable_answer,
    require_same_action,
)

#: After these errors it is not known yet what became of the action, or nothing did: it is to be asked for again, with
#: the same id.
UNANSWERED = (UnavailableError, UnknownOutcomeError)


class AuditEntry:
    """A user action while it is carried out. The code that opens its transaction calls `done` there. What a program
    does by itself is no user action, and leaves no record."""

    def __init__(self, action: UserAction | None = None) -> None:
        self.action = action
        self.answer: ActionAnswer | None = None

    def done(self, tx: StoreTransaction, now: datetime, sentence: str, checkpoint_id: int | None = None) -> None:
        """Record it. Raises `ActionRepeatedError` if it was done meanwhile: then the transaction must do nothing."""
        if self.action is None:
            return
        if (known := tx.audited(self.action.request_id)) is not None:
            require_same_action(known.action, recordable(self.action))
            raise ActionRepeatedError(known.answer.sentence)
        self.answer = recordable_answer(ActionAnswer(AnswerStatus.DONE, sentence, checkpoint_id))
        tx.record_action(self.action, self.answer, now)

    def noted(self, tx: StoreTransaction, now: datetime, answer: ActionAnswer) -> None:
        """Record the first answer to what may be repeated with the same id, and is carried out each time."""
        if self.action is not None and tx.audited(self.action.request_id) is None:
            tx.record_action(self.action, answer, now)


UNAUDITED = AuditEntry()


class Auditing:
    """The record of one pipeline's actions."""

    def __init__(self, context: PipelineContext) -> None:
        self._context = context

    def answer_to(self, action: UserAction) -> ActionAnswer | None:
        """What the action was answered before, None if it is new. It is refused, and that is not recorded, if its id
        cannot be one, or is of another."""
        try:
            asked = recordable(action)
        except IllegalRequestError as error:
            return _refused(error)
        with self._context.transaction() as tx:
            known = tx.audited(asked.request_id)
        return None if known is None else _answer_of(known, asked)

    def carry_out(self, action: UserAction, act: Callable[[AuditEntry], object]) -> ActionAnswer:
        """What became of it, or of the same action before. Two at once with the same id: done once, one answer.

        `act` calls `AuditEntry.done` in its transaction: one that was done before is undone there, with all
        that `act` has written. Raises only if nobody knows what became of it, `UnavailableError` or
        `UnknownOutcomeError`, or if it is done and something after it went wrong.
        """
        try:
            recordable(action)
        except IllegalRequestError as error:  # which cannot be recorded either
            return _refused(error)
        entry = AuditEntry(action)
        try:
            act(entry)
        except UNANSWERED:
            raise
        except CheckpointError as error:
            return self._answer_after(entry, error)
        assert entry.answer is not None, f"{action.kind} recorded nothing"
        return entry.answer

    @contextmanager
    def attempt(self, action: UserAction | None) -> Iterator[AuditEntry]:
        """For what takes several steps: a refusal within it is recorded, and raised again. Without an action nothing is
        recorded."""
        entry = AuditEntry(action)
        try:
            yield entry
        except (*UNANSWERED, ActionRepeatedError):
            raise
        except CheckpointError as error:
            if action is not None:
                self._answer_after(entry, error)
            raise

    def _answer_after(self, entry: AuditEntry, error: CheckpointError) -> ActionAnswer:
        """Whoever has recorded the action has answered it. Raises the error if that is this process."""
        action = entry.action
        assert action is not None
        refused = _refused(error)
        with self._context.transaction() as tx:
            if (known := tx.audited(action.request_id)) is None:
                tx.record_action(action, refused, self._context.clock.now())
        if known is None:
            return refused
        if entry.answer is not None:
            raise error
        return _answer_of(known, recordable(action))


def _refused(error: CheckpointError) -> ActionAnswer:
    return replace(recordable_answer(ActionAnswer(AnswerStatus.REFUSED, str(error))), cause=error)


def _answer_of(known: AuditRecord, asked: UserAction) -> ActionAnswer:
    try:
        require_same_action(known.action, asked)
    except IllegalRequestError as error:
        return _refused(error)
    return known.answer
