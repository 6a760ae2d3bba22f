"""Suspends, resumes and cancels a pipeline, fails it when too many checkpoints have failed, and finishes it at its end
(protocol.md sections 2, 8, 9, 13, 18).

Checkpoints in progress are aborted in the same transaction, so that none completes after a pipeline was stopped.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import assert_never

from tidegate.coordination.lookup import find_checkpoint
from tidegate.pipeline.config import CheckpointConfig, CheckpointRetention
from tidegate.ports import CheckpointStore, Clock, StoreTransaction
from tidegate.protocol.abort import Abort, decide_abort
from tidegate.protocol.errors import RecordRefusedError
from tidegate.protocol.failures import TooManyFailures, decide_pipeline_failure
from tidegate.protocol.hold import expired_message, is_held
from tidegate.protocol.pipelines import PipelineRecord, PipelineStatus
from tidegate.protocol.reasons import FailureReason
from tidegate.protocol.records import CheckpointKind, CheckpointRecord
from tidegate.protocol.retention import choose_subsumed_on_cancellation
from tidegate.protocol.sentences import reassured
from tidegate.protocol.stopping import Restart, StopFailed, decide_end, decide_stop_failure, require_resumable

log = logging.getLogger("tidegate")


class PipelineControl:
    """The status of one pipeline. Every method may be repeated."""

    def __init__(self, pipeline_id: str, config: CheckpointConfig, store: CheckpointStore, clock: Clock) -> None:
        self._pipeline_id = pipeline_id
        self._config = config
        self._store = store
        self._clock = clock

    def suspend(self) -> PipelineRecord:
        """No checkpoints until it is resumed. Raises `PipelineStatusError` if it failed, finished or was cancelled."""
        return self._move(
            PipelineStatus.SUSPENDED, lambda tx, now: abort_all(tx, FailureReason.COORDINATOR_SUSPEND, now)
        )

    def resume(self) -> PipelineRecord:
        """Checkpoints again, from the latest completed one; earlier failures are forgiven.

        Raises `PipelineStatusError` if it was cancelled, is stopping, or has nothing left to read.
        """
        return self._move(
            PipelineStatus.RUNNING,
            lambda tx, now: None,
            lambda tx: require_resumable(tx.pipeline(), tx.latest_completed()),
        )

    def cancel(self) -> PipelineRecord:
        """End the pipeline for ever. Its checkpoints are deleted unless `CheckpointConfig.retention` keeps them."""
        return self._move(PipelineStatus.CANCELLED, self._discard_state)

    def fail_checkpoint(self, tx: StoreTransaction, checkpoint_id: int, reason: FailureReason, message: str) -> bool:
        """Fail a checkpoint in progress, and the pipeline if that is one too many. False if it had ended before."""
        now, record = self._clock.now(), tx.checkpoint(checkpoint_id)
        if record is None or not tx.fail(checkpoint_id, reason, message, now):
            return False
        if stop_failed(tx, record, reason, message, now):
            return True
        pipeline, latest = tx.pipeline(), tx.latest_completed()
        since = max(pipeline.forgiven_until, 0 if latest is None else latest.checkpoint_id)
        decision = decide_pipeline_failure(
            tx.failed_after(since), self._config.tolerable_failed_checkpoints, self._config.validation_failures_count
        )
        if isinstance(decision, TooManyFailures) and pipeline.status is PipelineStatus.RUNNING:
            tx.move_pipeline(PipelineStatus.FAILED, now, decision.message)
        return True

    def abort(self, checkpoint_id: int, reason: FailureReason, message: str) -> CheckpointRecord:
        """Abort a checkpoint. The first reason stands; a completed checkpoint is left alone (protocol.md section 7)."""
        try:
            return self._abort(checkpoint_id, reason, message)
        except RecordRefusedError as refused:  # whatever is wrong with the message, the checkpoint ends
            log.warning(
                "The cause of the failure of checkpoint %s cannot be recorded (%s): %s", checkpoint_id, refused, message
            )
            unsaid = (
                f"{reason.sentence} The full message cannot be recorded; it is in the log of the process that failed."
            )
            return self._abort(checkpoint_id, reason, unsaid)

    def _abort(self, checkpoint_id: int, reason: FailureReason, message: str) -> CheckpointRecord:
        with self._store.transaction(self._pipeline_id) as tx:
            record = find_checkpoint(tx, self._pipeline_id, checkpoint_id)
            if isinstance(decide_abort(record), Abort):
                self.fail_checkpoint(tx, checkpoint_id, reason, message)
                record = find_checkpoint(tx, self._pipeline_id, checkpoint_id)
            return record

    def abort_request(self, request_id: str, reason: FailureReason, message: str) -> CheckpointRecord | None:
        """Remove a request from the queue, and abort its newest checkpoint if that is in progress. Returns that
        checkpoint as it is then, None if there never was one."""
        with self._store.transaction(self._pipeline_id) as tx:
            tx.remove_requests([request_id])
            record = tx.latest_by_request(request_id)
            if record is not None and self.fail_checkpoint(tx, record.checkpoint_id, reason, message):
                record = tx.checkpoint(record.checkpoint_id)
            return record

    def expire(self, tx: StoreTransaction, record: CheckpointRecord) -> None:
        """Fail a checkpoint in progress whose deadline, or that of its hold, has passed."""
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

    def _move(
        self,
        after: PipelineStatus,
        meanwhile: Callable[[StoreTransaction, datetime], None],
        require: Callable[[StoreTransaction], None] = lambda tx: None,
    ) -> PipelineRecord:
        """Does nothing if the pipeline has this status already."""
        now = self._clock.now()
        with self._store.transaction(self._pipeline_id) as tx:
            if tx.pipeline().status is not after:
                require(tx)
                tx.move_pipeline(
                    after, now, forgiven_until=find_forgiven(tx) if after is PipelineStatus.RUNNING else None
                )
                meanwhile(tx, now)
            return tx.pipeline()

    def _discard_state(self, tx: StoreTransaction, now: datetime) -> None:
        abort_all(tx, FailureReason.COORDINATOR_SHUTDOWN, now)
        tx.end_region(tx.region().attempt, now)  # there is no other region to come that would do it
        keep = self._config.retention is CheckpointRetention.RETAIN_ON_CANCELLATION
        if not keep and (runs := tx.compactions()):
            tx.remove_compactions([run.handle.path for run in runs])
        if leaving := choose_subsumed_on_cancellation([*tx.retained(), *tx.abandoned()], keep):
            tx.subsume(leaving)


def stop_failed(
    tx: StoreTransaction, record: CheckpointRecord, reason: FailureReason, message: str, now: datetime
) -> bool:
    """What follows for the pipeline from a checkpoint that has just failed, if it was to stop with that; otherwise
    False."""
    if tx.pipeline().status is not PipelineStatus.STOPPING or record.kind is not CheckpointKind.SYNC_SAVEPOINT:
        return False
    match decision := decide_stop_failure(record, reason, message):
        case Restart():
            tx.move_pipeline(PipelineStatus.RUNNING, now)
        case StopFailed():
            tx.move_pipeline(PipelineStatus.FAILED, now, decision.message)
        case _:
            assert_never(decision)
    return True


def find_forgiven(tx: StoreTransaction) -> int:
    """The newest failure so far: the person who resumes or restores a pipeline has seen to it."""
    before = tx.pipeline().forgiven_until
    return max((record.checkpoint_id for record in tx.failed_after(before)), default=before)


def end_if_over(tx: StoreTransaction, now: datetime) -> None:
    """Once the sinks have committed a pipeline's last checkpoint, it has finished."""
    if (end := decide_end(tx.pipeline(), tx.latest_completed(), tx.in_progress())) is not None:
        tx.move_pipeline(PipelineStatus.FINISHED, now, end.message)
        tx.end_region(tx.region().attempt, now)  # a dead region cannot end itself, and a live one is done


def abort_all(
    tx: StoreTransaction,
    reason: FailureReason,
    now: datetime,
    why: str | None = None,
    last: CheckpointRecord | None = None,
) -> None:
    """Abort what is in progress and drop what waits, except the `last` checkpoint, with which the pipeline stops. `why`
    is a sentence, if the reason's own does not fit."""
    why = why or reason.sentence
    if last is not None:
        why = f"The pipeline stops with savepoint {last.checkpoint_id}, requested by {last.request_id}."
    message = reassured(why)
    for record in tx.in_progress():
        if last is not None and record.checkpoint_id == last.checkpoint_id:
            continue
        tx.fail(record.checkpoint_id, reason, message, now)
    for request in tx.requests():
        if request.dropped is None:
            tx.put_request(replace(request, dropped=reason, dropped_message=message))
