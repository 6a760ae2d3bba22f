"""Record each user action and its answer, in the transaction that carries the action out, if there is one.

A refused action is recorded too, after its transaction was rolled back. A crash in between loses only the record of
the refusal, and nothing was done.
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

#: After these errors the outcome of the action is unknown, or nothing was done. The caller repeats the request with the
#: same id.
UNANSWERED = (UnavailableError, UnknownOutcomeError)


class AuditEntry:
    """A user action while it is carried out. The code that opens its transaction calls `done` there. Steps that a
    program takes by itself are no user actions, and are not recorded."""

    def __init__(self, action: UserAction | None = None) -> None:
        self.action = action
        self.answer: ActionAnswer | None = None

    def done(self, tx: StoreTransaction, now: datetime, sentence: str, checkpoint_id: int | None = None) -> None:
        """Record the action as done. Raise `ActionRepeatedError` if it was done meanwhile. The transaction must then do
        nothing."""
        if self.action is None:
            return
        if (recorded := tx.audited(self.action.request_id)) is not None:
            require_same_action(recorded.action, recordable(self.action))
            raise ActionRepeatedError(recorded.answer.sentence)
        self.answer = recordable_answer(ActionAnswer(AnswerStatus.DONE, sentence, checkpoint_id))
        tx.record_action(self.action, self.answer, now)

    def noted(self, tx: StoreTransaction, now: datetime, answer: ActionAnswer) -> None:
        """Record the first answer to an action that may be repeated with the same id and is carried out each time."""
        if self.action is not None and tx.audited(self.action.request_id) is None:
            tx.record_action(self.action, answer, now)


UNAUDITED = AuditEntry()


class Auditing:
    """The audit of one pipeline's user actions."""

    def __init__(self, context: PipelineContext) -> None:
        self._context = context

    def answer_to(self, action: UserAction) -> ActionAnswer | None:
        """Return the earlier answer to an action, None if the action is new. It is refused without a record if its id
        is illegal, or belongs to another action."""
        try:
            stored = recordable(action)
        except IllegalRequestError as error:
            return _refused(error)
        with self._context.transaction() as tx:
            recorded = tx.audited(stored.request_id)
        return None if recorded is None else _answer_of(recorded, stored)

    def carry_out(self, action: UserAction, act: Callable[[AuditEntry], object]) -> ActionAnswer:
        """Carry out an action and return its answer, or the answer of an earlier request with the same id. Of two
        requests at once with the same id, one is carried out, and both get its answer.

        `act` calls `AuditEntry.done` in the transaction of the action. If the action was done before, that
        transaction is rolled back, with everything that `act` has written. Raises only if the outcome is unknown,
        `UnavailableError` or `UnknownOutcomeError`, or if the action is done and a later step failed.
        """
        try:
            recordable(action)
        except IllegalRequestError as error:  # an illegal action cannot be recorded either
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
        """Carry out an action of several steps. A refusal within it is recorded, and raised again. Without an action
        nothing is recorded."""
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
        """Return the recorded answer after an error. Raises the error if this process has recorded the
        action as done."""
        action = entry.action
        assert action is not None
        refused = _refused(error)
        with self._context.transaction() as tx:
            if (recorded := tx.audited(action.request_id)) is None:
                tx.record_action(action, refused, self._context.clock.now())
        if recorded is None:
            return refused
        if entry.answer is not None:
            raise error
        return _answer_of(recorded, recordable(action))


def _refused(error: CheckpointError) -> ActionAnswer:
    return replace(recordable_answer(ActionAnswer(AnswerStatus.REFUSED, str(error))), cause=error)


def _answer_of(recorded: AuditRecord, stored: UserAction) -> ActionAnswer:
    try:
        require_same_action(recorded.action, stored)
    except IllegalRequestError as error:
        return _refused(error)
    return recorded.answer
