"""Suspend, resume and cancel a pipeline, and finish it at its end (protocol.md sections 2, 9, 13, 18).

Checkpoints in progress are aborted in the same transaction, so that none completes after a pipeline was stopped.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from tidegate.coordination.context import PipelineContext
from tidegate.coordination.observing.audit import UNAUDITED, AuditEntry
from tidegate.pipeline.config import CheckpointRetention
from tidegate.ports import StoreTransaction
from tidegate.protocol.cleaning.retention import choose_subsumed_on_cancellation
from tidegate.protocol.facts.pipelines import PipelineRecord, PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointRecord
from tidegate.protocol.steps.stopping import decide_end, require_resumable
from tidegate.protocol.text.sentences import reassured


class PipelineControl:
    """The status of one pipeline. Every method may be repeated. Needs no definition of the pipeline."""

    def __init__(self, context: PipelineContext) -> None:
        self._context = context

    def suspend(self, entry: AuditEntry = UNAUDITED) -> PipelineRecord:
        """Start no more checkpoints until `resume`. Raises `PipelineStatusError` if the pipeline failed, finished or
        was cancelled."""
        message = "The pipeline was suspended."
        return self._move(
            PipelineStatus.SUSPENDED,
            lambda tx, now: abort_all(tx, FailureReason.COORDINATOR_SUSPEND, now, message),
            entry,
        )

    def resume(self, entry: AuditEntry = UNAUDITED) -> PipelineRecord:
        """Start checkpoints again, from the latest completed one. Earlier failures no longer count.

        Raises `PipelineStatusError` if the pipeline was cancelled, is stopping, or has nothing left to read.
        """
        return self._move(
            PipelineStatus.RUNNING,
            lambda tx, now: None,
            entry,
            lambda tx: require_resumable(tx.pipeline(), tx.latest_completed()),
        )

    def cancel(
        self,
        retention: CheckpointRetention,
        entry: AuditEntry = UNAUDITED,
        require: Callable[[StoreTransaction], None] = lambda tx: None,
    ) -> PipelineRecord:
        """End the pipeline for good. Its checkpoints are deleted unless `retention` keeps them. `require` raises for a
        pipeline that must not be cancelled yet."""
        keep = retention is CheckpointRetention.RETAIN_ON_CANCELLATION
        return self._move(PipelineStatus.CANCELLED, lambda tx, now: _discard_state(tx, now, keep), entry, require)

    def _move(
        self,
        after: PipelineStatus,
        meanwhile: Callable[[StoreTransaction, datetime], None],
        entry: AuditEntry,
        require: Callable[[StoreTransaction], None] = lambda tx: None,
    ) -> PipelineRecord:
        """Change the status of the pipeline. Nothing is changed if it has this status already."""
        now = self._context.clock.now()
        with self._context.transaction() as tx:
            if tx.pipeline().status is not after:
                require(tx)
                tx.move_pipeline(
                    after, now, forgiven_until=find_forgiven(tx) if after is PipelineStatus.RUNNING else None
                )
                meanwhile(tx, now)
            entry.done(tx, now, f"Pipeline {self._context.pipeline_id} is {after}.")
            return tx.pipeline()


def _discard_state(tx: StoreTransaction, now: datetime, keep: bool) -> None:
    abort_all(tx, FailureReason.COORDINATOR_SHUTDOWN, now)
    tx.end_region(tx.region().attempt, now)  # no later region will end it
    if not keep and (runs := tx.compactions()):
        tx.remove_compactions([run.handle.path for run in runs])
    if leaving := choose_subsumed_on_cancellation([*tx.retained(), *tx.abandoned()], keep):
        tx.subsume(leaving)


def find_forgiven(tx: StoreTransaction) -> int:
    """Return the newest failure so far. Failures up to it no longer count when a user resumes or
    restores the pipeline."""
    before = tx.pipeline().forgiven_until
    return max((record.checkpoint_id for record in tx.failed_after(before)), default=before)


def end_if_over(tx: StoreTransaction, now: datetime) -> None:
    """Finish the pipeline once its sinks have committed its last checkpoint."""
    if (end := decide_end(tx.pipeline(), tx.latest_completed(), tx.in_progress())) is not None:
        tx.move_pipeline(PipelineStatus.FINISHED, now, end.message)
        tx.end_region(
            tx.region().attempt, now
        )  # a dead region cannot end itself, and a live one has nothing left to do


def abort_all(
    tx: StoreTransaction,
    reason: FailureReason,
    now: datetime,
    why: str | None = None,
    last: CheckpointRecord | None = None,
) -> None:
    """Abort checkpoints in progress and drop waiting requests, except the `last` checkpoint, with which the pipeline
    stops. `why` is a sentence, if the reason's own does not fit."""
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
