"""Approve or reject a held checkpoint. This needs the database, and no definition of the pipeline: a user may decide in
a process that has none of its code.

`protocol.steps.hold` decides what the decision leads to. The process that drives the checkpoint reads the decision
and continues.
"""

from tidegate.coordination.context import PipelineContext
from tidegate.coordination.observing.audit import UNAUDITED, AuditEntry
from tidegate.coordination.steps.checkpoint_failures import fail_checkpoint
from tidegate.coordination.steps.lookup import find_checkpoint
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointRecord, Decided, Decision
from tidegate.protocol.steps.hold import (
    AlreadyDecided,
    choose_held,
    decide_decision,
    decided_sentence,
    rejected_message,
    require_legal_decision,
)


class Holds:
    """The held checkpoints of one pipeline, at most one unless checkpoints overlap. Every method may be repeated and
    returns its first answer again."""

    def __init__(self, context: PipelineContext) -> None:
        self._context = context

    def approve(
        self, checkpoint_id: int | None, by: str, comment: str | None = None, entry: AuditEntry = UNAUDITED
    ) -> CheckpointRecord:
        """Let this checkpoint, by default the held one, continue to its commit point although a verdict failed.

        Raises `NotHeldError`, `CheckpointNotFoundError`, `IllegalRequestError`.
        """
        return self._decide(checkpoint_id, Decision.APPROVED, by, comment, entry)

    def reject(
        self, checkpoint_id: int | None, by: str, comment: str | None = None, entry: AuditEntry = UNAUDITED
    ) -> CheckpointRecord:
        """Abort this checkpoint, by default the held one. It does not count as a failure, because a user has handled
        it. Raises as `approve` does."""
        return self._decide(checkpoint_id, Decision.REJECTED, by, comment, entry)

    def _decide(
        self, checkpoint_id: int | None, decision: Decision, by: str, comment: str | None, entry: AuditEntry
    ) -> CheckpointRecord:
        with self._context.transaction() as tx:
            decided = Decided(decision, self._context.clock.now(), by, comment or None)
            require_legal_decision(decided)
            if checkpoint_id is None:
                checkpoint_id = choose_held(self._context.pipeline_id, tx.in_progress()).checkpoint_id
            record = find_checkpoint(tx, self._context.pipeline_id, checkpoint_id)
            outcome = decide_decision(record, decided)
            if not isinstance(outcome, AlreadyDecided):
                tx.decide(checkpoint_id, outcome.decided, outcome.deadline)
                if decision is Decision.REJECTED:
                    message = rejected_message(record, decided)
                    fail_checkpoint(tx, checkpoint_id, FailureReason.VALIDATION_REJECTED, message, decided.at)
                record = find_checkpoint(tx, self._context.pipeline_id, checkpoint_id)
            entry.done(tx, decided.at, decided_sentence(record), checkpoint_id)
            return record
