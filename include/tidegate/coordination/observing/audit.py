"""Puts on record who asked for what, and what the answer was: in the transaction that does it, where there is one.

A refused gesture is recorded too, after its transaction was rolled back. A crash in between loses the record of the
refusal only: nothing was done.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from tidegate.coordination.context import PipelineContext
from tidegate.ports import StoreTransaction
from tidegate.protocol.facts.errors import (
    CheckpointError,
    GestureRepeatedError,
    IllegalRequestError,
    UnavailableError,
    UnknownOutcomeError,
)
from tidegate.protocol.observing.gestures import (
    AnswerStatus,
    AuditRecord,
    Gesture,
    GestureAnswer,
    recordable,
    recordable_answer,
    require_same_gesture,
)

#: After these errors it is not known yet what became of the gesture, or nothing did: it is to be asked for again, with
#: the same id.
UNANSWERED = (UnavailableError, UnknownOutcomeError)


class Deed:
    """A gesture while it is carried out. Whoever opens the transaction that does it calls `done` there. What a program
    does by itself is no gesture, and leaves no record."""

    def __init__(self, gesture: Gesture | None = None) -> None:
        self.gesture = gesture
        self.answer: GestureAnswer | None = None

    def done(self, tx: StoreTransaction, now: datetime, sentence: str, checkpoint_id: int | None = None) -> None:
        """Record it. Raises `GestureRepeatedError` if it was done meanwhile: then the transaction must do nothing."""
        if self.gesture is None:
            return
        if (known := tx.audited(self.gesture.request_id)) is not None:
            require_same_gesture(known.gesture, recordable(self.gesture))
            raise GestureRepeatedError(known.answer.sentence)
        self.answer = recordable_answer(GestureAnswer(AnswerStatus.DONE, sentence, checkpoint_id))
        tx.record_gesture(self.gesture, self.answer, now)

    def noted(self, tx: StoreTransaction, now: datetime, answer: GestureAnswer) -> None:
        """Record the first answer to what may be repeated with the same id, and is carried out each time."""
        if self.gesture is not None and tx.audited(self.gesture.request_id) is None:
            tx.record_gesture(self.gesture, answer, now)


UNASKED = Deed()


class Auditing:
    """The record of one pipeline's gestures."""

    def __init__(self, context: PipelineContext) -> None:
        self._context = context

    def answer_to(self, gesture: Gesture) -> GestureAnswer | None:
        """What the gesture was answered before, None if it is new. It is refused, and that is not recorded, if its id
        cannot be one, or is of another."""
        try:
            asked = recordable(gesture)
        except IllegalRequestError as error:
            return _refused(error)
        with self._context.transaction() as tx:
            known = tx.audited(asked.request_id)
        return None if known is None else _answer_of(known, asked)

    def carry_out(self, gesture: Gesture, act: Callable[[Deed], object]) -> GestureAnswer:
        """What became of it, or of the same gesture before. Two at once with the same id: one deed, one answer.

        `act` calls `Deed.done` in the transaction that does it: one that was done before is undone there, with all that
        `act` has written. Raises only if nobody knows what became of it, `UnavailableError` or
        `UnknownOutcomeError`, or if it is done and something after it went wrong.
        """
        try:
            recordable(gesture)
        except IllegalRequestError as error:  # which cannot be recorded either
            return _refused(error)
        deed = Deed(gesture)
        try:
            act(deed)
        except UNANSWERED:
            raise
        except CheckpointError as error:
            return self._answer_after(deed, error)
        assert deed.answer is not None, f"{gesture.kind} recorded nothing"
        return deed.answer

    @contextmanager
    def attempt(self, gesture: Gesture | None) -> Iterator[Deed]:
        """For what takes several steps: a refusal within it is recorded, and raised again. Without a gesture nothing is
        recorded."""
        deed = Deed(gesture)
        try:
            yield deed
        except (*UNANSWERED, GestureRepeatedError):
            raise
        except CheckpointError as error:
            if gesture is not None:
                self._answer_after(deed, error)
            raise

    def _answer_after(self, deed: Deed, error: CheckpointError) -> GestureAnswer:
        """Whoever has recorded the gesture has answered it. Raises the error if that is this process."""
        gesture = deed.gesture
        assert gesture is not None
        refused = _refused(error)
        with self._context.transaction() as tx:
            if (known := tx.audited(gesture.request_id)) is None:
                tx.record_gesture(gesture, refused, self._context.clock.now())
        if known is None:
            return refused
        if deed.answer is not None:
            raise error
        return _answer_of(known, recordable(gesture))


def _refused(error: CheckpointError) -> GestureAnswer:
    return replace(recordable_answer(GestureAnswer(AnswerStatus.REFUSED, str(error))), cause=error)


def _answer_of(known: AuditRecord, asked: Gesture) -> GestureAnswer:
    try:
        require_same_gesture(known.gesture, asked)
    except IllegalRequestError as error:
        return _refused(error)
    return known.answer
