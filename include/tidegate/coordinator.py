"""The checkpoint coordinator: one method a protocol step, each of them read facts, decide, write.

It keeps nothing between calls. Every step may run twice, late, in another process, or never; what holds is what the
store's transactions say. Steps that already happened give their first answer again.
"""

import logging
from collections.abc import Mapping, Sequence

from tidegate.admission_desk import AdmissionDesk
from tidegate.commit_point import CommitPoint
from tidegate.delivery import Delivered, Delivery
from tidegate.graph import Graph, compile_graph
from tidegate.guarantees import reservations
from tidegate.listeners import Listeners, watch_failures
from tidegate.pipeline import Pipeline
from tidegate.pipeline_control import PipelineControl
from tidegate.ports import CheckpointStorage, CheckpointStore, Clock, Region, StoreTransaction, Validator
from tidegate.protocol.abort import Abort, decide_abort
from tidegate.protocol.acknowledge import decide_acknowledgements, garbage_of
from tidegate.protocol.admission import choose_abandoned, choose_overdue, must_clean_first
from tidegate.protocol.errors import (
    CheckpointDeclinedError,
    CheckpointError,
    CheckpointExpiredError,
    CheckpointNotFoundError,
    FinalizeError,
    ValidationFailedError,
)
from tidegate.protocol.lifecycle import COMMITTED, Phase, Status
from tidegate.protocol.notify import choose_unnotified
from tidegate.protocol.pipelines import PipelineRecord
from tidegate.protocol.reasons import FailureReason
from tidegate.protocol.records import (
    Acknowledgement,
    AcknowledgeResult,
    CheckpointKind,
    CheckpointRecord,
    CheckpointRequest,
    CompactedRun,
    SubtaskId,
)
from tidegate.protocol.regions import RegionStart
from tidegate.protocol.snapshot import SnapshotTask, ended_error, needs_attempt, plan_attempt, require_same_plan
from tidegate.protocol.trigger import Triggered, TriggerOutcome
from tidegate.protocol.validate import ValidatedCheckpoint, decide_rejection, needs_validation, permit
from tidegate.region_control import RegionControl
from tidegate.restoring import restore_latest
from tidegate.sweeper import Sweeper

log = logging.getLogger("tidegate")


class CheckpointCoordinator:
    """Drives the checkpoints of one pipeline. Raises subclasses of `CheckpointError` only, and what the ports raise."""

    def __init__(self, pipeline: Pipeline, store: CheckpointStore, storage: CheckpointStorage, clock: Clock) -> None:
        self.graph: Graph = compile_graph(pipeline)
        self.pipeline_id = pipeline.name
        self.config = pipeline.checkpoints
        listeners = Listeners(pipeline.name, pipeline.listeners)
        self._store = store = watch_failures(store, listeners)
        self._clock = clock
        self._unsaid = reservations(pipeline, self.graph.sinks)
        self._desk = AdmissionDesk(self.graph, self.config)
        self._control = PipelineControl(self.pipeline_id, self.config, store, clock)
        self._commit_point = CommitPoint(self.graph, self.config, store, storage, clock)
        self._delivery = Delivery(self.graph, store, clock, listeners)
        self._regions = RegionControl(self.graph, self.config, store, self._control, self._delivery, clock)
        self._sweeper = Sweeper(self.graph, store, storage, clock)

    # -- trigger

    def trigger(
        self,
        request_id: str,
        periodic: bool = False,
        kind: CheckpointKind = CheckpointKind.CHECKPOINT,
        wait: bool = False,
        drain: bool = False,
    ) -> TriggerOutcome:
        """Record a checkpoint for a request, before anybody is asked to do anything (protocol.md sections 3 and 4).

        First makes up for a notification that a crash cut short, and expires what is overdue. With `wait`, a request that
        cannot start yet is `Queued` instead of dropped, and is to be repeated. A SYNC_SAVEPOINT gives up whatever is in
        progress and stops the pipeline, with `drain` for ever. Raises `PipelineFailedError`, `IllegalRequestError`.
        """
        cleaned = False
        while True:
            with self._store.transaction(self.pipeline_id) as tx:
                now = self._clock.now()  # not before: the lock may have been waited for, while another one completed
                unnotified = choose_unnotified(tx.retained())
                abandoned = choose_abandoned(tx.in_progress(), now)
                # What cannot be deleted now holds up nothing: it is only logged, here as in Flink.
                must_clean = not cleaned and must_clean_first(tx.cleaning(), self.config.max_concurrent)
                if not unnotified and not abandoned and not must_clean:
                    # Never forced: a scheduled checkpoint starts from the state of the one before, which must have ended.
                    request = CheckpointRequest(request_id, kind, periodic, False, now, now, drain=drain)
                    outcome = self._desk.admit(tx, request, wait)
                    break
                for record in abandoned:
                    self._expire(tx, record)
            self._delivery.deliver(unnotified)
            if must_clean:
                self.clean()
                cleaned = True
        if isinstance(outcome, Triggered):
            self._say_reservations()
        return outcome

    def _say_reservations(self) -> None:
        """Once a process: who reads the log of a long one has read it."""
        for reservation in self._unsaid:
            log.warning("%s", reservation)
        self._unsaid = []

    # -- snapshot and acknowledge

    def snapshot(self, checkpoint_id: int, region: Region) -> CheckpointRecord:
        """Let a region take its part, as a new attempt at whatever is not acknowledged yet; nothing if all is, or while a
        continuous region lives, which takes it instead: the record says whether it has.

        Raises what the region raises; the checkpoint then stays in progress, and a repeated call resumes it.
        """
        task = self._begin_snapshot(checkpoint_id)
        if isinstance(task, CheckpointRecord):
            return task
        region.snapshot(task, lambda acks: self.record_acknowledgements(checkpoint_id, acks))
        record = self.acknowledge(checkpoint_id)
        if record.phase is Phase.TRIGGERED:
            raise CheckpointDeclinedError(
                f"The region of pipeline {self.pipeline_id} returned, but only {record.num_acknowledged} of "
                f"{record.num_subtasks} subtasks have acknowledged checkpoint {checkpoint_id}. Nothing is lost; repeat it."
            )
        self._compact(task, region)
        return record

    def _begin_snapshot(self, checkpoint_id: int) -> SnapshotTask | CheckpointRecord:
        """The next attempt's task, or the checkpoint as it is where there is nothing to do."""
        with self._store.transaction(self.pipeline_id) as tx:
            record = self._found(tx, checkpoint_id)
            if not needs_attempt(record) or not self._regions.make_way(tx, checkpoint_id):
                return record
            record = self._found(tx, checkpoint_id)
            if record.status is Status.IN_PROGRESS:  # a dead region may just have taken it with it
                require_same_plan(record, self.graph.plan)
                attempt = tx.begin_attempt(checkpoint_id)
                latest, restored = restore_latest(tx, self.graph, self.config)
                if attempt > 1 and latest is not None:  # a restart, to Flink
                    tx.record_restore(latest.checkpoint_id, self._clock.now())
                return plan_attempt(record, tx.subtasks(checkpoint_id), restored)
        raise ended_error(record)

    def record_acknowledgements(
        self, checkpoint_id: int, acknowledgements: Sequence[Acknowledgement]
    ) -> Mapping[SubtaskId, AcknowledgeResult]:
        """Take reported snapshots (protocol.md section 5.1); files that came with reports that do not count become
        garbage in the same transaction. The last one moves the checkpoint to ACKNOWLEDGED."""
        now = self._clock.now()
        with self._store.transaction(self.pipeline_id) as tx:
            record = tx.checkpoint(checkpoint_id)
            if record is not None and choose_overdue([record], now) and record.status is Status.IN_PROGRESS:
                self._expire(tx, record)
                record = tx.checkpoint(checkpoint_id)
            expected = tx.subtasks(checkpoint_id, [acknowledgement.subtask for acknowledgement in acknowledgements])
            results = decide_acknowledgements(record, expected, acknowledgements)
            successes = [
                acknowledgement
                for acknowledgement, result in zip(acknowledgements, results, strict=True)
                if result is AcknowledgeResult.SUCCESS
            ]
            if successes and tx.record_acknowledgements(checkpoint_id, successes, now) == 0:
                tx.advance(checkpoint_id, Phase.TRIGGERED, Phase.ACKNOWLEDGED, now)
            if garbage := garbage_of(checkpoint_id, acknowledgements, results):
                tx.enqueue_deletions(garbage, checkpoint_id)
        return {
            acknowledgement.subtask: result for acknowledgement, result in zip(acknowledgements, results, strict=True)
        }

    def acknowledge(self, checkpoint_id: int) -> CheckpointRecord:
        """One look at the checkpoint; its `phase` says whether all have acknowledged.

        Raises `CheckpointExpiredError` after aborting a checkpoint whose deadline has passed, and
        `CheckpointNotInProgressError` if it failed otherwise.
        """
        now = self._clock.now()
        with self._store.transaction(self.pipeline_id) as tx:
            record = self._found(tx, checkpoint_id)
            if record.status is Status.IN_PROGRESS and choose_overdue([record], now):
                self._expire(tx, record)
                record = self._found(tx, checkpoint_id)
        if record.failure_reason is FailureReason.CHECKPOINT_EXPIRED:
            raise CheckpointExpiredError(record.failure_message)
        if record.status is Status.FAILED:
            raise ended_error(record)
        return record

    # -- validate

    def validate(self, checkpoint_id: int, validator: Validator) -> ValidatedCheckpoint:
        """Judge what is staged, before any of it is visible. The first verdicts stand when it is repeated.

        Raises `ValidationFailedError` after aborting the checkpoint: a failed, raised or missing verdict.
        """
        with self._store.transaction(self.pipeline_id) as tx:
            record = self._found(tx, checkpoint_id)
            if not needs_validation(record):
                return permit(record)
            require_same_plan(record, self.graph.plan)
            if not self.graph.targets:
                return permit(self._accept(tx, record))
            subtasks = tx.subtasks(checkpoint_id)
        verdicts = list(validator.validate(record, subtasks))
        rejection = decide_rejection(record, self.graph.targets, verdicts)
        with self._store.transaction(self.pipeline_id) as tx:
            record = self._found(tx, checkpoint_id)
            if not needs_validation(record):  # another process was faster; its verdicts stand
                return permit(record)
            tx.record_verdicts(checkpoint_id, verdicts)
            if rejection is None:
                return permit(self._accept(tx, record))
            self._control.fail_checkpoint(tx, checkpoint_id, FailureReason.VALIDATION_FAILED, rejection)
        raise ValidationFailedError(rejection)

    def _accept(self, tx: StoreTransaction, record: CheckpointRecord) -> CheckpointRecord:
        tx.advance(record.checkpoint_id, Phase.ACKNOWLEDGED, Phase.VALIDATED, self._clock.now())
        return self._found(tx, record.checkpoint_id)

    # -- finalize

    def finalize(self, checkpoint_id: int) -> CheckpointRecord:
        """Complete a validated checkpoint. Raises as `permit` does if it is not validated."""
        with self._store.transaction(self.pipeline_id) as tx:
            validated = permit(self._found(tx, checkpoint_id))
        return self.finalize_validated(validated)

    def finalize_validated(self, validated: ValidatedCheckpoint) -> CheckpointRecord:
        """Write `_metadata`, then pass the commit point: one transaction (protocol.md section 6).

        Raises `FinalizeError` if it did not land, `UnknownOutcomeError` if that cannot be seen. Repeating is safe.
        """
        return self._commit_point.reach(validated)

    # -- notify

    def notify(self, checkpoint_id: int) -> list[Delivered]:
        """Commit the sinks of every completed checkpoint up to this one, then work off garbage. Idempotent.

        Returns what this checkpoint delivered, also when it was delivered before.
        """
        with self._store.transaction(self.pipeline_id) as tx:
            record = self._found(tx, checkpoint_id)
            if record.status not in COMMITTED:
                raise (
                    ended_error(record)
                    if record.status is Status.FAILED
                    else FinalizeError(
                        f"Checkpoint {checkpoint_id} of pipeline {self.pipeline_id} has not completed; sinks are told only "
                        "after the commit point. Run the finalize step first."
                    )
                )
            unnotified = choose_unnotified(tx.retained(), checkpoint_id)
        self._delivery.deliver(unnotified)
        self.clean()
        return self._delivery.delivered(checkpoint_id)

    def _notify_pending(self) -> None:
        with self._store.transaction(self.pipeline_id) as tx:
            unnotified = choose_unnotified(tx.retained())
        self._delivery.deliver(unnotified)

    # -- a continuous region

    def start_region(self) -> RegionStart:
        """See `RegionControl.start`: the caller is the pipeline's region from here on, and whoever was is no more."""
        return self._regions.start()

    def begin_snapshot(self, attempt: int, checkpoint_id: int) -> SnapshotTask | None:
        """See `RegionControl.begin_snapshot`. `restored` is empty: a region has its own state."""
        return self._regions.begin_snapshot(attempt, checkpoint_id)

    def keep_region(self, attempt: int) -> PipelineRecord:
        """See `RegionControl.keep`. To be called well within `regions.REGION_LEASE`."""
        return self._regions.keep(attempt)

    def end_region(self, attempt: int) -> None:
        """See `RegionControl.end`. Idempotent; what the region leaves behind is deleted."""
        self._regions.end(attempt)
        self.clean()

    def has_live_region(self) -> bool:
        """Whether a continuous region takes this pipeline's snapshots now."""
        return self._regions.is_live()

    # -- the pipeline as a whole

    def suspend(self) -> PipelineRecord:
        """See `PipelineControl`; files of what was given up are deleted."""
        return self._after_cleaning(self._control.suspend())

    def resume(self) -> PipelineRecord:
        """See `PipelineControl`."""
        return self._control.resume()

    def cancel(self) -> PipelineRecord:
        """See `PipelineControl`. What completed is committed in the sinks first, and what is not kept is deleted."""
        self._notify_pending()
        return self._after_cleaning(self._control.cancel())

    def _after_cleaning(self, record: PipelineRecord) -> PipelineRecord:
        self.clean()
        return record

    # -- abort and housekeeping

    def abort(self, checkpoint_id: int, reason: FailureReason, message: str) -> CheckpointRecord:
        """Give a checkpoint up. The first reason stands; a completed checkpoint is left alone (protocol.md section 7)."""
        with self._store.transaction(self.pipeline_id) as tx:
            record = self._found(tx, checkpoint_id)
            if isinstance(decide_abort(record), Abort):
                self._control.fail_checkpoint(tx, checkpoint_id, reason, message)
                record = self._found(tx, checkpoint_id)
        self.clean()
        return record

    def clean(self) -> None:
        """Delete what nothing refers to. Errors are logged: garbage waits, it never fails a checkpoint."""
        try:
            self._sweeper.sweep()
            self._sweeper.delete_queued()
        except CheckpointError as error:
            log.warning("Cleaning up after pipeline %s is left to the next run: %s", self.pipeline_id, error)

    def _compact(self, task: SnapshotTask, region: Region) -> None:
        """Merge runs, off the critical path: everything is acknowledged. Used from the next checkpoint on."""
        try:
            compactions = region.compact(task.checkpoint_id, task.restored)
        except CheckpointError as error:
            log.warning("Compaction of pipeline %s is left to the next run: %s", self.pipeline_id, error)
            return
        if compactions:
            self._record_compactions(task.checkpoint_id, compactions)

    def _record_compactions(self, checkpoint_id: int, compactions: Sequence[CompactedRun]) -> None:
        """Only while the checkpoint is in progress: once it has ended, its directory is swept, these files included."""
        with self._store.transaction(self.pipeline_id) as tx:
            if self._found(tx, checkpoint_id).status is Status.IN_PROGRESS:
                tx.add_compactions(compactions)

    def _expire(self, tx: StoreTransaction, record: CheckpointRecord) -> None:
        message = (
            f"Checkpoint {record.checkpoint_id} of pipeline {self.pipeline_id} did not get past {record.phase} by its "
            f"deadline {record.deadline:%Y-%m-%d %H:%M:%S} UTC ({record.num_acknowledged} of {record.num_subtasks} subtasks "
            "had acknowledged). "
            "Committed data is untouched. If the work is sound but slow, raise CheckpointConfig(timeout=…)."
        )
        self._control.fail_checkpoint(tx, record.checkpoint_id, FailureReason.CHECKPOINT_EXPIRED, message)

    def _found(self, tx: StoreTransaction, checkpoint_id: int) -> CheckpointRecord:
        record = tx.checkpoint(checkpoint_id)
        if record is None:
            raise CheckpointNotFoundError(
                f"Pipeline {self.pipeline_id} has no checkpoint {checkpoint_id} in this database. Check the id with "
                f"`tidegate checkpoints {self.pipeline_id}` and that TIDEGATE_DATABASE_URL names the right database."
            )
        return record
