"""Fail checkpoints, and the pipeline when too many have failed (protocol.md sections 7, 8 and 18)."""

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import assert_never

from tidegate.coordination.context import DefinedContext
from tidegate.coordination.observing.audit import UNAUDITED, AuditEntry
from tidegate.coordination.steps.lookup import find_checkpoint
from tidegate.coordination.steps.pipeline_status import end_if_over
from tidegate.ports import StoreTransaction
from tidegate.protocol.facts.errors import RecordRefusedError
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord
from tidegate.protocol.observing.actions import ActionAnswer, AnswerStatus
from tidegate.protocol.steps.abort import Abort, decide_abort
from tidegate.protocol.steps.admission import choose_misdated
from tidegate.protocol.steps.failures import TooManyFailures, decide_pipeline_failure
from tidegate.protocol.steps.hold import expired_message, is_held
from tidegate.protocol.steps.stopping import Restart, StopFailed, decide_stop_failure

log = logging.getLogger("tidegate")


class CheckpointFailureManager:
    """Handle the failures of one pipeline's checkpoints. Every method may be repeated."""

    def __init__(self, context: DefinedContext) -> None:
        self._context = context
        self._pipeline_id = context.pipeline_id

    def fail_checkpoint(self, tx: StoreTransaction, checkpoint_id: int, reason: FailureReason, message: str) -> bool:
        """Fail a checkpoint in progress, and the pipeline if it exceeds the tolerated number. Return False if it had
        ended before."""
        now, record = self._context.clock.now(), tx.checkpoint(checkpoint_id)
        was_to_stop = record is not None and _stops_with(tx, record)
        if not fail_checkpoint(tx, checkpoint_id, reason, message, now):
            return False
        if was_to_stop:
            return True
        pipeline, latest = tx.pipeline(), tx.latest_completed()
        since = max(pipeline.forgiven_until, 0 if latest is None else latest.checkpoint_id)
        decision = decide_pipeline_failure(
            tx.failed_after(since),
            self._context.config.tolerable_failed_checkpoints,
            self._context.config.validation_failures_count,
        )
        if isinstance(decision, TooManyFailures) and pipeline.status is PipelineStatus.RUNNING:
            tx.move_pipeline(PipelineStatus.FAILED, now, decision.message)
        return True

    def abort(self, checkpoint_id: int, reason: FailureReason, message: str) -> CheckpointRecord:
        """Abort a checkpoint. The first reason stands; a completed checkpoint is left alone (protocol.md section 7)."""
        try:
            return self._abort(checkpoint_id, reason, message)
        except RecordRefusedError as refused:  # the checkpoint must end even if its message cannot be recorded
            log.warning(
                "The cause of the failure of checkpoint %s cannot be recorded (%s): %s", checkpoint_id, refused, message
            )
            shortened = (
                f"{reason.sentence} The full message cannot be recorded; it is in the log of the process that failed."
            )
            return self._abort(checkpoint_id, reason, shortened)

    def _abort(self, checkpoint_id: int, reason: FailureReason, message: str) -> CheckpointRecord:
        with self._context.transaction() as tx:
            record = find_checkpoint(tx, self._pipeline_id, checkpoint_id)
            if isinstance(decide_abort(record), Abort):
                self.fail_checkpoint(tx, checkpoint_id, reason, message)
                record = find_checkpoint(tx, self._pipeline_id, checkpoint_id)
            return record

    def abort_request(
        self, request_id: str, reason: FailureReason, message: str, entry: AuditEntry = UNAUDITED
    ) -> CheckpointRecord | None:
        """Remove a request from the queue, and abort its newest checkpoint if that is in progress. Return that
        checkpoint as it is then, None if there never was one."""
        with self._context.transaction() as tx:
            tx.remove_requests([request_id])
            record = tx.latest_by_request(request_id)
            checkpoint_id = 0 if record is None else record.checkpoint_id
            if self.fail_checkpoint(tx, checkpoint_id, reason, message):
                record = tx.checkpoint(checkpoint_id)
                sentence = f"Checkpoint {checkpoint_id} of pipeline {self._pipeline_id} was aborted. {message}"
                entry.noted(tx, self._context.clock.now(), ActionAnswer(AnswerStatus.DONE, sentence, checkpoint_id))
            return record

    def correct_deadlines(self, tx: StoreTransaction, in_progress: Sequence[CheckpointRecord], now: datetime) -> None:
        """Correct the deadlines that a fast clock has set, so that nothing waits for them."""
        for record in choose_misdated(in_progress, self._context.config.timeout, now):
            log.warning(
                "Checkpoint %s of pipeline %s was triggered by a clock that was ahead, at %s: its deadline is now %s",
                *(record.checkpoint_id, self._pipeline_id, record.triggered_at, record.deadline),
            )
            tx.correct_deadline(record.checkpoint_id, record.deadline)

    def expire(self, tx: StoreTransaction, record: CheckpointRecord) -> None:
        """Fail a checkpoint in progress that has passed its deadline, or that of its hold."""
        if is_held(record):
            self.fail_checkpoint(tx, record.checkpoint_id, FailureReason.HOLD_EXPIRED, expired_message(record))
            return
        message = (
            f"Checkpoint {record.checkpoint_id} of pipeline {self._pipeline_id} did not get past {record.phase} by its "
            f"deadline {record.deadline:%Y-%m-%d %H:%M:%S} UTC ({record.num_acknowledged} of {record.num_subtasks} "
            "subtasks had acknowledged). Committed data is untouched. If nothing is wrong and the work is only slow, "
            "raise CheckpointConfig(timeout=…)."
        )
        self.fail_checkpoint(tx, record.checkpoint_id, FailureReason.CHECKPOINT_EXPIRED, message)


def fail_checkpoint(
    tx: StoreTransaction, checkpoint_id: int, reason: FailureReason, message: str, now: datetime
) -> bool:
    """Fail a checkpoint in progress, and record the consequence for a pipeline that was to stop with it. Return False
    if it had ended before."""
    record = tx.checkpoint(checkpoint_id)
    if record is None or not tx.fail(checkpoint_id, reason, message, now):
        return False
    if _stops_with(tx, record):
        _stop_failed(tx, record, reason, message, now)
    end_if_over(tx, now)  # an older checkpoint may have been the last, and waited for this one to end
    return True


def _stops_with(tx: StoreTransaction, record: CheckpointRecord) -> bool:
    return tx.pipeline().status is PipelineStatus.STOPPING and record.kind is CheckpointKind.SYNC_SAVEPOINT


def _stop_failed(
    tx: StoreTransaction, record: CheckpointRecord, reason: FailureReason, message: str, now: datetime
) -> None:
    match decision := decide_stop_failure(record, reason, message):
        case Restart():
            tx.move_pipeline(PipelineStatus.RUNNING, now)
        case StopFailed():
            tx.move_pipeline(PipelineStatus.FAILED, now, decision.message)
        case _:
            assert_never(decision)
