"""The checkpoint coordinator, with one method per protocol step. A step reads facts, decides and writes.

Any step may run twice, late, in another process, or never. Only the store's transactions decide the outcome. A step
that has already happened returns its first result again.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidegate.coordination.cleaning.clean import Cleaning
from tidegate.coordination.cleaning.housekeeping import Housekeeping
from tidegate.coordination.cleaning.sweeper import Sweeper
from tidegate.coordination.context import context_of
from tidegate.coordination.observing.audit import AuditEntry
from tidegate.coordination.observing.listeners import Listeners, NotifiedListeners, watch_failures
from tidegate.coordination.observing.reporting import Reporting
from tidegate.coordination.operations import PipelineOperations
from tidegate.coordination.recovery.change_plan import Planning
from tidegate.coordination.recovery.corrected_files import Replacing
from tidegate.coordination.recovery.editing import Editing
from tidegate.coordination.recovery.export import Exporting
from tidegate.coordination.recovery.fork import Forking, PlannedFork
from tidegate.coordination.recovery.importing import Importing, ImportPlan
from tidegate.coordination.recovery.restore import Restoring, Target
from tidegate.coordination.recovery.skipping import Skipping
from tidegate.coordination.steps.checkpoint_failures import CheckpointFailureManager
from tidegate.coordination.steps.definitions import Definitions
from tidegate.coordination.steps.finalize import CommitPoint
from tidegate.coordination.steps.identity import Identification
from tidegate.coordination.steps.notify import Delivery
from tidegate.coordination.steps.outstanding import Delivered
from tidegate.coordination.steps.ownership import Ownership
from tidegate.coordination.steps.participating import Participants
from tidegate.coordination.steps.region_lease import RegionControl
from tidegate.coordination.steps.rewinding_sinks import Rewinding
from tidegate.coordination.steps.snapshot import Snapshotting
from tidegate.coordination.steps.trigger import Triggering
from tidegate.coordination.steps.validate import Validation
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.graph import compile_graph
from tidegate.pipeline.guarantees import reservations
from tidegate.pipeline.known_schemas import KnownSchemas
from tidegate.ports import (
    CheckpointStorage,
    CheckpointStore,
    Clock,
    Meter,
    Notifier,
    Region,
    StateSchemas,
    Validator,
)
from tidegate.protocol.continuous.regions import RegionPoll, RegionStart
from tidegate.protocol.facts.pipelines import PipelineRecord
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import (
    Acknowledgement,
    AcknowledgeResult,
    CheckpointKind,
    CheckpointRecord,
    CheckpointRequest,
    SubtaskId,
)
from tidegate.protocol.facts.savepoints import UNLABELLED, Label
from tidegate.protocol.observing.actions import UserAction
from tidegate.protocol.observing.lag import SourceLag
from tidegate.protocol.recovery.identity import Moved
from tidegate.protocol.recovery.imports import ClaimMode
from tidegate.protocol.recovery.ownership import Place
from tidegate.protocol.recovery.restore_plan import Accepted, RestorePlan
from tidegate.protocol.recovery.skipping import SkipPlan
from tidegate.protocol.steps.snapshot import SnapshotTask
from tidegate.protocol.steps.trigger import Triggered, TriggerOutcome
from tidegate.protocol.steps.validate import ValidatedCheckpoint

log = logging.getLogger("tidegate")


class CheckpointCoordinator:
    """Drive the checkpoints of one pipeline. Raises subclasses of `CheckpointError`, and the errors of the ports.

    `notified` has the events that this process's listeners have received so far, by default none. `schemas` has the
    columns of state for plans, by default those of the definition. `notifiers` receive the pipeline's events, and
    `meters` its metrics.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        store: CheckpointStore,
        storage: CheckpointStorage,
        clock: Clock,
        notified: NotifiedListeners | None = None,
        schemas: StateSchemas | None = None,
        notifiers: Sequence[Notifier] = (),
        meters: Sequence[Meter] = (),
    ) -> None:
        listeners = Listeners(pipeline.name, pipeline.listeners, notified or NotifiedListeners())
        unwatched = context_of(compile_graph(pipeline), store, storage, clock)
        self.reporting = Reporting(unwatched, notifiers, meters)
        #: Shared by all work on the pipeline. Failures in its transactions are reported to the listeners.
        self.context = context = replace(unwatched, store=watch_failures(store, listeners, self.reporting.report))
        self.graph, self.pipeline_id, self.config = context.graph, context.pipeline_id, context.config
        self._unlogged = reservations(pipeline, self.graph.sinks)
        ownership = Ownership(context)
        self._identification = Identification(context, ownership)
        self.definitions = Definitions(context)
        #: The user actions on the pipeline.
        self.operations = PipelineOperations(context)
        self.auditing, self.savepoints = self.operations.auditing, self.operations.savepoints
        self._failures = CheckpointFailureManager(context)
        self.validation = Validation(context, self._failures)
        self._rewinding = Rewinding(context, ownership)
        sweeper = Sweeper(context, ownership)
        self._housekeeping = Housekeeping(self.pipeline_id, sweeper, self._rewinding)
        self._delivery = Delivery(context, listeners, self._rewinding, self._housekeeping.along, ownership)
        participants = Participants(context, ownership)
        self._commit_point = CommitPoint(
            context, self._delivery, participants, self._identification.found, self.reporting.announces
        )
        self._triggering = Triggering(context, self._identification, self._failures, self._delivery, self.clean)
        self._regions = RegionControl(context, self._failures, self._delivery, self._identification)
        self.snapshotting = Snapshotting(context, self._failures, self._regions)
        self.cleaning = Cleaning(context, self._identification, sweeper, self._rewinding, ownership)
        self.planning = Planning(context, schemas or KnownSchemas(self.graph), self._identification)
        self.exporting = Exporting(context, self._delivery)
        self.editing = Editing(context, self._identification)
        back = context, self._delivery, self._identification, self.planning
        self._restoring = Restoring(*back, participants)
        self.replacing = Replacing(context, self._restoring)
        self.skipping = Skipping(context, self._identification)
        self._importing = Importing(*back)
        self.forking = Forking(*back)

    # -- trigger

    def trigger(
        self,
        request_id: str,
        periodic: bool = False,
        kind: CheckpointKind = CheckpointKind.CHECKPOINT,
        wait: bool = False,
        drain: bool = False,
        label: Label = UNLABELLED,
        action: UserAction | None = None,
        dag_id: str | None = None,
    ) -> TriggerOutcome:
        """Record a checkpoint for a request, before any subtask starts its snapshot (protocol.md sections 3 and 4).

        First delivers notifications that a crash cut short, and expires overdue checkpoints. With `wait`, a request
        that cannot start yet is `Queued` instead of dropped, and must be repeated. A SYNC_SAVEPOINT aborts
        everything in progress and stops the pipeline, for good with `drain`. `label` names a savepoint. `action`
        identifies a request by a user: it is recorded with its first answer. `dag_id` is the DAG that makes the
        request, if any. Raises `PipelineIdentityError`, `PipelineFailedError`, `IllegalRequestError`.
        """
        self.reporting.deliver()  # deliver the events that a crash has left behind
        now = self.context.clock.now()
        request = CheckpointRequest(
            request_id, kind, periodic, False, now, now, drain=drain, name=label.name, note=label.note
        )
        with self.auditing.attempt(action) as entry:
            outcome = self._triggering.trigger(request, wait, entry, dag_id)
        if isinstance(outcome, Triggered):
            self._log_reservations()
            self.reporting.report()
        return outcome

    def _log_reservations(self) -> None:
        """Log the reservations once per process, which is enough for a long-lived one."""
        for reservation in self._unlogged:
            log.warning("%s", reservation)
        self._unlogged = []

    # -- snapshot and acknowledge

    def snapshot(self, checkpoint_id: int, region: Region) -> CheckpointRecord:
        """See `Snapshotting.snapshot`: a region snapshots its subtasks, as a new attempt for those that have not
        acknowledged."""
        return self.snapshotting.snapshot(checkpoint_id, region)

    def record_acknowledgements(
        self, checkpoint_id: int, acknowledgements: Sequence[Acknowledgement]
    ) -> Mapping[SubtaskId, AcknowledgeResult]:
        """See `Snapshotting.record`."""
        return self.snapshotting.record(checkpoint_id, acknowledgements)

    def acknowledge(self, checkpoint_id: int) -> CheckpointRecord:
        """See `Snapshotting.poll`: return the checkpoint. Its `phase` shows whether all subtasks have acknowledged."""
        return self.snapshotting.poll(checkpoint_id)

    # -- validate

    def validate(self, checkpoint_id: int, validator: Validator) -> ValidatedCheckpoint:
        """See `Validation.validate`."""
        return self.validation.validate(checkpoint_id, validator)

    # -- finalize

    def finalize(self, checkpoint_id: int, notifies: bool = False) -> CheckpointRecord:
        """Complete a validated checkpoint: write `_metadata`, then pass the commit point, which is one transaction
        (protocol.md section 6). With `notifies`, this process begins the notify step in the same transaction, and
        others wait for it.

        Raises as `permit` does if the checkpoint is not validated, `FinalizeError` if the commit did not land, and
        `UnknownOutcomeError` if that cannot be found out. Repeating is safe.
        """
        record = self._commit_point.reach(checkpoint_id, notifies)
        self.reporting.report()
        return record

    # -- notify

    def notify(self, checkpoint_id: int) -> list[Delivered]:
        """Commit the sinks of every completed checkpoint up to this one, then delete garbage. Idempotent: return the
        deliveries of this checkpoint, also those made before."""
        return self._delivery.deliver_up_to(checkpoint_id)

    # -- a continuous region

    def start_region(self) -> RegionStart | CheckpointRecord:
        """See `RegionControl.start`: the caller becomes the pipeline's region, and supersedes the previous one. A
        checkpoint with manual approval must be completed first, and is returned instead."""
        return self._regions.start()

    def begin_snapshot(self, attempt: int, checkpoint_id: int) -> SnapshotTask | None:
        """See `RegionControl.begin_snapshot`. `restored` is empty, because a region has its own state."""
        return self._regions.begin_snapshot(attempt, checkpoint_id)

    def poll_region(self, attempt: int, lag: Sequence[SourceLag] = ()) -> RegionPoll:
        """See `RegionControl.poll`. Must be called well within `regions.REGION_LEASE`."""
        return self._regions.poll(attempt, lag)

    def keep_region(self, attempt: int) -> PipelineRecord:
        """Return the pipeline's record, and renew the region's lease."""
        return self.poll_region(attempt).pipeline

    def end_region(self, attempt: int) -> None:
        """See `RegionControl.end`. Idempotent. Files that the region leaves behind are deleted."""
        self._regions.end(attempt)
        self.clean()

    def has_live_region(self) -> bool:
        """Whether a continuous region currently takes this pipeline's snapshots."""
        return self._regions.is_live()

    # -- restore

    def plan_restore(self, target: Target) -> RestorePlan:
        """See `Restoring.plan`: plan a `restore`, without changing anything."""
        return self._restoring.plan(target)

    def restore(
        self,
        target: Target,
        accepted: Accepted | None = None,
        planned: RestorePlan | None = None,
        action: UserAction | None = None,
    ) -> RestorePlan:
        """See `Restoring.restore`: return to an earlier checkpoint, with state, positions and tables. Files of aborted
        checkpoints are deleted. Raises `ActionRepeatedError` for a user action that was carried out before."""
        with self.auditing.attempt(action) as entry:
            plan = self._restoring.restore(target, accepted or Accepted(), planned, entry)
        self.clean()
        return plan

    def skip(self, source: str, planned: SkipPlan | None = None, action: UserAction | None = None) -> SkipPlan:
        """See `Skipping.skip`: a source continues behind rows that it has lost. `skipping.plan` lists them."""
        with self.auditing.attempt(action) as entry:
            return self.skipping.skip(source, planned, entry)

    def plan_restore_from(self, url: str) -> ImportPlan:
        """See `Importing.plan`: plan a `restore_from`, without changing anything."""
        return self._importing.plan(url)

    def restore_from(
        self,
        url: str,
        claim: ClaimMode = ClaimMode.NO_CLAIM,
        accepted: Accepted | None = None,
        planned: ImportPlan | None = None,
        action: UserAction | None = None,
    ) -> ImportPlan:
        """See `Importing.restore`: restore from a savepoint's directory. Unreferenced files are deleted, also copies of
        a restore that failed."""
        try:
            with self.auditing.attempt(action) as entry:
                return self._importing.restore(url, claim, accepted, planned, entry)
        finally:
            self.clean()

    def fork(self, planned: PlannedFork, accepted: Accepted | None = None, action: UserAction | None = None) -> None:
        """See `Forking.fork`: begin with another pipeline's state. Copies of a fork that failed are deleted."""
        try:
            with self.auditing.attempt(action) as entry:
                self.forking.fork(planned, accepted or Accepted(), entry)
        finally:
            self.clean()

    # -- the pipeline as a whole

    def cancel(self, action: UserAction | None = None) -> PipelineRecord:
        """See `PipelineControl`. The sinks first commit every completed checkpoint. State that is not retained is
        deleted."""
        with self.auditing.attempt(action) as entry:
            self._identification.check()
            self._delivery.deliver_pending()
            cancelled = self.operations.control.cancel(self.config.retention, entry)
        self.clean()
        return cancelled

    def check(self) -> None:
        """Check that this is the pipeline in the database. Raises `PipelineIdentityError`."""
        self._identification.check_to_begin()

    def moved(self, take_over: bool = False) -> list[Moved | Place]:
        """Return the changes that `relocate` would make."""
        return self._identification.moved(take_over)

    def relocate(self, action: UserAction | None = None, take_over: bool = False) -> list[Moved | Place]:
        """See `Identification`: record moved places as intended."""
        with self.auditing.attempt(action) as entry:
            return self._identification.relocate(entry, take_over)

    # -- abort and housekeeping

    def abort(self, checkpoint_id: int, reason: FailureReason, message: str) -> CheckpointRecord:
        """See `CheckpointFailureManager`. Files of aborted checkpoints are deleted."""
        record = self._failures.abort(checkpoint_id, reason, message)
        self.clean()
        return record

    def abort_request(
        self, request_id: str, reason: FailureReason, message: str, action: UserAction | None = None
    ) -> CheckpointRecord | None:
        """See `CheckpointFailureManager`. Files of aborted checkpoints are deleted."""
        record = self._failures.abort_request(request_id, reason, message, AuditEntry(action))
        self.clean()
        return record

    def clean(self) -> None:
        """Delete unreferenced files. Errors are only logged: a deletion is retried later, and never
        fails a checkpoint."""
        self._housekeeping.clean()
