"""Approves or rejects a checkpoint that is held. It needs the database, and no definition of the pipeline: a person may
decide in a process that has none of its code.

`protocol.hold` decides what a decision leads to. Whoever drives the checkpoint finds out and goes on.
"""

from tidegate.coordination.lookup import find_checkpoint
from tidegate.coordination.pipeline_status import stop_failed
from tidegate.ports import CheckpointStore, Clock, StoreTransaction
from tidegate.protocol.hold import (
    AlreadyDecided,
    choose_held,
    decide_decision,
    rejected_message,
    require_legal_decision,
)
from tidegate.protocol.reasons import FailureReason
from tidegate.protocol.records import CheckpointRecord, Decided, Decision


class Holds:
    """The held checkpoints of one pipeline, of which there is at most one at a time. Every method may be repeated: the
    first answer is given again."""

    def __init__(self, pipeline_id: str, store: CheckpointStore, clock: Clock) -> None:
        self._pipeline_id = pipeline_id
        self._store = store
        self._clock = clock

    def approve(self, checkpoint_id: int | None, by: str, comment: str | None = None) -> CheckpointRecord:
        """Let the checkpoint, or the one that is held, go on to its commit point although a verdict failed.

        Raises `NotHeldError`, `CheckpointNotFoundError`, `IllegalRequestError`.
        """
        return self._decide(checkpoint_id, Decision.APPROVED, by, comment)

    def reject(self, checkpoint_id: int | None, by: str, comment: str | None = None) -> CheckpointRecord:
        """Abort the checkpoint, or the one that is held. That counts as no failure: a person has seen to it. Raises as
        `approve` does."""
        return self._decide(checkpoint_id, Decision.REJECTED, by, comment)

    def _decide(self, checkpoint_id: int | None, decision: Decision, by: str, comment: str | None) -> CheckpointRecord:
        with self._store.transaction(self._pipeline_id) as tx:
            decided = Decided(decision, self._clock.now(), by, comment or None)
            require_legal_decision(decided)
            if checkpoint_id is None:
                checkpoint_id = choose_held(self._pipeline_id, tx.in_progress()).checkpoint_id
            record = find_checkpoint(tx, self._pipeline_id, checkpoint_id)
            outcome = decide_decision(record, decided)
            if isinstance(outcome, AlreadyDecided):
                return outcome.record
            tx.decide(checkpoint_id, outcome.decided, outcome.deadline)
            if decision is Decision.REJECTED:
                self._abort(tx, record, outcome.decided)
            return find_checkpoint(tx, self._pipeline_id, checkpoint_id)

    def _abort(self, tx: StoreTransaction, record: CheckpointRecord, decided: Decided) -> None:
        reason, message = FailureReason.VALIDATION_REJECTED, rejected_message(record, decided)
        tx.fail(record.checkpoint_id, reason, message, decided.at)
        stop_failed(tx, record, reason, message, decided.at)
