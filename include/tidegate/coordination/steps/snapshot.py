"""The snapshot and acknowledge steps: a scheduled attempt at a checkpoint, its reports, and its deadline.

When an attempt meets any error, the first question is whether the attempt still counts. A superseded attempt may
miss files that its successor does not need. Reported as damage, it would send the user to search for copies.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import assert_never

from tidegate.coordination.context import DefinedContext
from tidegate.coordination.steps.checkpoint_failures import CheckpointFailureManager
from tidegate.coordination.steps.lookup import find_checkpoint, restore_latest, shown_checkpoints
from tidegate.coordination.steps.region_lease import RegionControl
from tidegate.ports import Prefetch, Region, StoreTransaction
from tidegate.protocol.cleaning.own_files import require_own_files, require_own_runs
from tidegate.protocol.continuous.regions import DeadRegion, LiveRegion, NoRegion
from tidegate.protocol.facts.errors import CheckpointDeclinedError, CheckpointError
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.records import (
    Acknowledgement,
    AcknowledgeResult,
    CheckpointRecord,
    CompactedRun,
    SubtaskId,
)
from tidegate.protocol.observing.lag import lag_of
from tidegate.protocol.steps.acknowledge import decide_acknowledgements, garbage_of
from tidegate.protocol.steps.admission import choose_overdue
from tidegate.protocol.steps.snapshot import (
    SnapshotTask,
    fenced_error,
    late_error,
    needs_attempt,
    plan_attempt,
    require_same_plan,
)

log = logging.getLogger("tidegate")


class Snapshotting:
    """Take snapshots of one pipeline and record the reports. Every method may be repeated."""

    def __init__(self, context: DefinedContext, failures: CheckpointFailureManager, regions: RegionControl) -> None:
        self._context = context
        self._failures = failures
        self._regions = regions

    # -- a scheduled attempt

    def snapshot(self, checkpoint_id: int, region: Region) -> CheckpointRecord:
        """Let a region snapshot its subtasks, as a new attempt for those that have not acknowledged. Does nothing if
        all have, or while a live continuous region takes the snapshot instead. The record shows whether it has.

        Raises the errors of the region. The checkpoint then stays in progress, and a repeated call resumes it. For
        an attempt that no longer counts it raises `SupersededAttemptError`, `CheckpointExpiredError` or
        `CheckpointNotInProgressError`, whichever error the region met.
        """
        task = self._begin(checkpoint_id)
        if isinstance(task, CheckpointRecord):
            return task
        acknowledged: CheckpointRecord | None = None

        def record_reports(acks: Sequence[Acknowledgement]) -> Mapping[SubtaskId, AcknowledgeResult]:
            nonlocal acknowledged
            results, acknowledged = self._record(checkpoint_id, acks)
            return results

        try:
            region.snapshot(task, record_reports)
        except Exception as error:
            self._raise_if_fenced(task, error)
            raise
        record = acknowledged or self.poll(checkpoint_id)
        if record.phase is Phase.TRIGGERED:
            raise CheckpointDeclinedError(
                f"The region of pipeline {self._context.pipeline_id} returned, but only {record.num_acknowledged} of "
                f"{record.num_subtasks} subtasks have acknowledged checkpoint {checkpoint_id}. Nothing is lost; repeat "
                "the snapshot step."
            )
        self._compact(task, region)
        return record

    def _begin(self, checkpoint_id: int) -> SnapshotTask | CheckpointRecord:
        """Return the next attempt's task, or the checkpoint's record if there is nothing to do."""
        shown = shown_checkpoints(self._context.graph)
        with self._context.transaction(Prefetch()) as tx:
            record = self._in_time(tx, checkpoint_id)
            if record.status is not Status.FAILED:
                if not needs_attempt(record):
                    return record
                match presence := self._regions.make_way(tx, checkpoint_id):
                    case NoRegion():
                        pass
                    case LiveRegion():
                        return record
                    case DeadRegion():  # the checkpoint may have been aborted with it
                        record = find_checkpoint(tx, self._context.pipeline_id, checkpoint_id)
                    case _:
                        assert_never(presence)
            if record.status is Status.IN_PROGRESS:
                require_same_plan(record, self._context.graph.plan)
                attempt = tx.begin_attempt(checkpoint_id)
                latest, restored = restore_latest(tx, self._context, shown)
                if attempt > 1 and latest is not None:  # in Flink, a restart
                    tx.record_restore(latest.checkpoint_id, self._context.clock.now())
                return plan_attempt(record, tx.subtasks(checkpoint_id), restored)
        raise late_error(record)

    def _raise_if_fenced(self, task: SnapshotTask, error: Exception) -> None:
        """Raise the reason if the attempt no longer counts. If the store is unavailable, its error is raised, because
        the attempt's error may be caused by its successor."""
        try:
            with self._context.transaction(Prefetch()) as tx:
                record = self._in_time(tx, task.checkpoint_id)
                fenced = fenced_error(record, tx.subtasks(task.checkpoint_id, task.attempts), task)
        except CheckpointError as unavailable:
            raise unavailable from error
        if fenced is not None:
            raise fenced from error

    def _compact(self, task: SnapshotTask, region: Region) -> None:
        """Merge runs after all subtasks have acknowledged, so that no checkpoint waits. The next checkpoint uses the
        result."""
        try:
            compactions = region.compact(task.checkpoint_id, task.restored)
            if compactions:
                self._record_compactions(task.checkpoint_id, compactions)
        except CheckpointError as error:
            if self._has_ended(task.checkpoint_id):
                log.info(
                    "Runs of pipeline %s were not merged: checkpoint %s has ended in the meantime. Nothing is lost; a "
                    "later checkpoint merges them.",
                    self._context.pipeline_id,
                    task.checkpoint_id,
                )
            else:
                log.warning("Compaction of pipeline %s is left to the next run: %s", self._context.pipeline_id, error)

    def _has_ended(self, checkpoint_id: int) -> bool:
        """Whether the checkpoint has ended. False if the store is unavailable."""
        try:
            record = self._context.store.checkpoint(self._context.pipeline_id, checkpoint_id)
        except CheckpointError:
            return False
        return record is not None and record.status is not Status.IN_PROGRESS

    def _record_compactions(self, checkpoint_id: int, compactions: Sequence[CompactedRun]) -> None:
        """Record merged runs while the checkpoint is in progress. Once it has ended, its directory is swept, including
        these files. Raises `ForeignPathError`."""
        require_own_runs(self._context.pipeline_id, checkpoint_id, compactions)
        with self._context.transaction(Prefetch()) as tx:
            if find_checkpoint(tx, self._context.pipeline_id, checkpoint_id).status is Status.IN_PROGRESS:
                tx.add_compactions(compactions)

    # -- reports

    def record(
        self, checkpoint_id: int, acknowledgements: Sequence[Acknowledgement]
    ) -> Mapping[SubtaskId, AcknowledgeResult]:
        """Record reported snapshots (protocol.md section 5.1). New files of reports that do not count become garbage in
        the same transaction. The last acknowledgement moves the checkpoint to ACKNOWLEDGED.

        Raises `ForeignPathError` if a report names a file that is not its own. None of these reports then counts.
        """
        return self._record(checkpoint_id, acknowledgements)[0]

    def _record(
        self, checkpoint_id: int, acknowledgements: Sequence[Acknowledgement]
    ) -> tuple[Mapping[SubtaskId, AcknowledgeResult], CheckpointRecord | None]:
        """Return the results, and the checkpoint if these reports were the last ones."""
        now, last = self._context.clock.now(), None
        with self._context.transaction(Prefetch()) as tx:
            require_own_files(self._context.pipeline_id, checkpoint_id, tx.region(), acknowledgements)
            record = tx.checkpoint(checkpoint_id)
            if record is not None and choose_overdue([record], now) and record.status is Status.IN_PROGRESS:
                self._failures.expire(tx, record)
                record = tx.checkpoint(checkpoint_id)
            expected = tx.subtasks(checkpoint_id, [acknowledgement.subtask for acknowledgement in acknowledgements])
            results = decide_acknowledgements(record, expected, acknowledgements)
            successes = [
                acknowledgement
                for acknowledgement, result in zip(acknowledgements, results, strict=True)
                if result is AcknowledgeResult.SUCCESS
            ]
            if successes and tx.record_acknowledgements(checkpoint_id, successes, now, moves=True) == 0:
                last = find_checkpoint(tx, self._context.pipeline_id, checkpoint_id)
            if lag := lag_of({ack.subtask: (ack.pending, now) for ack in successes if ack.pending is not None}):
                tx.record_lag(lag)
            if garbage := garbage_of(checkpoint_id, acknowledgements, results):
                tx.enqueue_deletions(garbage, checkpoint_id)
        by_subtask = {report.subtask: result for report, result in zip(acknowledgements, results, strict=True)}
        return by_subtask, last

    def poll(self, checkpoint_id: int) -> CheckpointRecord:
        """Return the checkpoint. Its `phase` shows whether all subtasks have acknowledged.

        Raises `CheckpointExpiredError` after aborting a checkpoint whose deadline has passed, and
        `CheckpointNotInProgressError` if it failed otherwise.
        """
        with self._context.transaction(Prefetch()) as tx:
            record = self._in_time(tx, checkpoint_id)
        if record.status is Status.FAILED:
            raise late_error(record)
        return record

    def _in_time(self, tx: StoreTransaction, checkpoint_id: int) -> CheckpointRecord:
        """Return the checkpoint. If its deadline has passed, it is expired first."""
        record = find_checkpoint(tx, self._context.pipeline_id, checkpoint_id)
        if record.status is not Status.IN_PROGRESS:
            return record
        now = self._context.clock.now()
        self._failures.correct_deadlines(tx, [record], now)
        if choose_overdue([record], now):
            self._failures.expire(tx, record)
        return find_checkpoint(tx, self._context.pipeline_id, checkpoint_id)
