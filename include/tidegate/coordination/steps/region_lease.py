"""Register the continuous region of a pipeline, fence off older ones, and keep continuous and scheduled runs apart.

While a region is registered, no other process begins a checkpoint, so every begun checkpoint in progress is the
region's. The process that ends the region therefore knows which to abort. It is the region itself, its successor, or
a scheduled attempt that finds it dead.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from tidegate.coordination.context import DefinedContext
from tidegate.coordination.steps.checkpoint_failures import CheckpointFailureManager
from tidegate.coordination.steps.identity import Identification
from tidegate.coordination.steps.lookup import restore_latest, shown_checkpoints
from tidegate.coordination.steps.notify import Delivery
from tidegate.coordination.steps.outstanding import find_outstanding
from tidegate.coordination.steps.pipeline_status import end_if_over
from tidegate.ports import StoreTransaction
from tidegate.protocol.continuous.regions import (
    DeadRegion,
    LiveRegion,
    NoRegion,
    RegionPoll,
    RegionStart,
    decide_presence,
    is_current,
    is_signed_ahead,
    needs_sign,
    require_startable,
    superseded_error,
)
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.pipelines import WITH_REGION, PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointRecord
from tidegate.protocol.observing.lag import SourceLag, needs_recording
from tidegate.protocol.steps.admission import choose_overdue
from tidegate.protocol.steps.hold import held_error, is_approved, is_held, is_with_people
from tidegate.protocol.steps.snapshot import SnapshotTask, plan_attempt, require_same_plan


def find_presence(tx: StoreTransaction, now: datetime) -> NoRegion | LiveRegion | DeadRegion:
    """Return whether a region currently takes the pipeline's snapshots. A sign of life from the future is corrected
    first."""
    if is_signed_ahead(region := tx.region(), now):
        tx.touch_region(region.attempt, now)
    return decide_presence(tx.region(), now)


class RegionControl:
    """The region of one pipeline. `start` makes a new attempt each time. All other methods may be repeated."""

    def __init__(
        self,
        context: DefinedContext,
        failures: CheckpointFailureManager,
        delivery: Delivery,
        identification: Identification,
    ) -> None:
        self._context = context
        self._failures = failures
        self._delivery = delivery
        self._identification = identification

    def start(self) -> RegionStart | CheckpointRecord:
        """Take over from the previous region, dead or alive. Everything in progress is aborted, savepoints included
        (protocol.md section 7), after completed checkpoints have been made visible. A checkpoint with a hold is not
        aborted: while it is held no region starts, and an approved one is returned, to be completed first.

        Raises `PipelineIdentityError`, `PipelineStatusError`, `PipelineFailedError`, `StateSchemaError`,
        `CheckpointHeldError`, and the errors of sinks.
        """
        self._identification.check_to_begin()
        while True:
            shown = shown_checkpoints(self._context.graph)
            with self._context.transaction() as tx:
                self._identification.require(tx)
                outstanding = find_outstanding(tx)
                if not outstanding:
                    if (approved := self._end_others(tx)) is not None:
                        return approved
                    end_if_over(
                        tx, self._context.clock.now()
                    )  # a restore may have returned to the end, where nothing is left to do
                    if (pipeline := tx.pipeline()).status is not PipelineStatus.FINISHED:
                        return self._start(tx, shown)
            if not outstanding:
                require_startable(pipeline)
            self._delivery.deliver(outstanding)

    def _end_others(self, tx: StoreTransaction) -> CheckpointRecord | None:
        """Abort the checkpoints in progress, or return an approved one. The newest has the rows of the others."""
        now, in_progress = self._context.clock.now(), tx.in_progress()
        if approved := [record for record in in_progress if is_approved(record)]:
            return approved[-1]
        for record in in_progress:
            if is_held(record) and choose_overdue([record], now):
                self._failures.expire(tx, record)
            elif is_held(record):
                raise held_error(record)
            else:
                self._abort(tx, record, "A region of the pipeline was started")
        return None

    def _start(self, tx: StoreTransaction, shown: Mapping[str, int | None]) -> RegionStart:
        now = self._context.clock.now()
        require_startable(tx.pipeline())
        if tx.pipeline().status is PipelineStatus.CREATED:
            tx.move_pipeline(PipelineStatus.RUNNING, now)
        self._identification.record(tx, now)
        attempt = tx.begin_region(now)
        latest, restored = restore_latest(tx, self._context, shown)
        if latest is None:
            return RegionStart(attempt, None, restored)
        tx.record_restore(latest.checkpoint_id, now)
        return RegionStart(attempt, latest.checkpoint_id, restored)

    def begin_snapshot(self, attempt: int, checkpoint_id: int) -> SnapshotTask | None:
        """Return the task of the region's next attempt at a checkpoint; None if the checkpoint has all its snapshots,
        has ended or has expired.

        Raises `SupersededAttemptError`, `PipelineDefinitionError`.
        """
        with self._context.transaction() as tx:
            if not is_current(tx.region(), attempt):
                raise superseded_error(self._context.pipeline_id, tx.region(), attempt)
            record = tx.checkpoint(checkpoint_id)
            if record is None or (record.status, record.phase) != (Status.IN_PROGRESS, Phase.TRIGGERED):
                return None
            if choose_overdue([record], self._context.clock.now()):
                self._failures.expire(tx, record)
                return None
            require_same_plan(record, self._context.graph.plan)
            tx.begin_attempt(checkpoint_id)
            return plan_attempt(record, tx.subtasks(checkpoint_id), {})

    def poll(self, attempt: int, lag: Sequence[SourceLag] = ()) -> RegionPoll:
        """Record that the region is alive and its lag, and return the requests to it. If its pipeline is no longer
        running, the region must stop.

        Raises `SupersededAttemptError`.
        """
        with self._context.transaction() as tx:
            now, pipeline, region = self._context.clock.now(), tx.pipeline(), tx.region()
            if pipeline.status not in WITH_REGION:  # the status may have ended the region, but is the better reason
                return RegionPoll(pipeline)
            if not is_current(region, attempt):
                raise superseded_error(self._context.pipeline_id, region, attempt)
            if needs_sign(region, now):
                tx.touch_region(attempt, now)
            if lag and needs_recording(tx.lag(), lag):
                tx.record_lag(lag)
            return RegionPoll(pipeline, tx.requests())

    def end(self, attempt: int) -> None:
        """End the region. Checkpoints that still wait for snapshots are aborted. Those that have all of them continue
        without the region."""
        with self._context.transaction() as tx:
            if tx.end_region(attempt, self._context.clock.now()):
                for record in tx.in_progress():
                    if record.phase is Phase.TRIGGERED:
                        self._abort(tx, record, "The continuous region ended")

    # -- scheduled runs, while a region may be live

    def is_live(self) -> bool:
        """Whether a region runs, which then takes the pipeline's snapshots."""
        now, region = self._context.clock.now(), self._context.store.region(self._context.pipeline_id)
        if not is_signed_ahead(region, now):
            return isinstance(decide_presence(region, now), LiveRegion)
        with self._context.transaction() as tx:
            return isinstance(find_presence(tx, now), LiveRegion)

    def make_way(self, tx: StoreTransaction, checkpoint_id: int) -> NoRegion | LiveRegion | DeadRegion:
        """Let a scheduled attempt begin this checkpoint, unless a region is live. A dead region is ended, so that it
        can begin nothing if it comes back. Everything else in progress is aborted with it, except checkpoints that
        wait for manual approval or have it. This checkpoint is aborted too in two cases. If the region had begun it,
        no other process can continue with its cut. If an earlier one waits for or has approval, both would take the
        same rows.

        Returns the presence that was found.
        """
        now = self._context.clock.now()
        presence = find_presence(tx, now)
        if isinstance(presence, DeadRegion):
            tx.end_region(tx.region().attempt, now)
            in_progress = tx.in_progress()
            others = [record for record in in_progress if not is_with_people(record)]
            some_have_holds = len(others) < len(in_progress)
            for record in others:
                if record.checkpoint_id != checkpoint_id or some_have_holds or _is_begun(tx, record):
                    self._abort(tx, record, f"The continuous region was last seen at {presence.seen_at:%H:%M:%S} UTC")
        return presence

    # -- inside

    def _abort(self, tx: StoreTransaction, record: CheckpointRecord, what: str) -> None:
        """Abort a checkpoint. It does not count as a failure (protocol.md section 8), so it cannot fail the pipeline. A
        stopping pipeline continues to stop."""
        message = (
            f"{what} while checkpoint {record.checkpoint_id} was in progress ({record.num_acknowledged} of "
            f"{record.num_subtasks} subtasks had acknowledged). Committed data and the latest completed checkpoint are "
            "untouched, and the next checkpoint takes the same data."
        )
        self._failures.fail_checkpoint(tx, record.checkpoint_id, FailureReason.JOB_FAILOVER_REGION, message)


def _is_begun(tx: StoreTransaction, record: CheckpointRecord) -> bool:
    return any(subtask.attempt > 0 for subtask in tx.subtasks(record.checkpoint_id).values())
