"""Restore a pipeline from a savepoint's directory, into any database.

The savepoint's files are copied first, as those of a future checkpoint. The database does not list it, and a sweep
deletes the files if it never completes. One transaction is the restore. It returns to the savepoint's checkpoint,
and adds a new checkpoint after it that has its state and adds no rows. Then the sinks are rewound, as after any
restore.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tidegate.coordination.context import DefinedContext
from tidegate.coordination.observing.audit import UNAUDITED, AuditEntry
from tidegate.coordination.observing.history import History
from tidegate.coordination.recovery.change_plan import Planning
from tidegate.coordination.recovery.import_lease import ImportLease
from tidegate.coordination.recovery.overlaid_storage import OverlaidStorage
from tidegate.coordination.recovery.restore_plan import RestoreFacts, RestorePlanner
from tidegate.coordination.recovery.savepoint_directory import SavepointDirectory
from tidegate.coordination.steps.finalize import write_metadata
from tidegate.coordination.steps.identity import Identification
from tidegate.coordination.steps.notify import Delivery
from tidegate.coordination.steps.outstanding import find_outstanding
from tidegate.coordination.steps.pipeline_status import abort_all, find_forgiven
from tidegate.ports import (
    NumberedSink,
    PortableSink,
    RewindableSink,
    StoreTransaction,
)
from tidegate.protocol.facts.branches import Restore, branch_of
from tidegate.protocol.facts.errors import StateIntegrityError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.names import STORAGE, request_of_import, staged_by
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointRecord, SubtaskRecord
from tidegate.protocol.recovery.canonical import Savepoint
from tidegate.protocol.recovery.identity import find_moved
from tidegate.protocol.recovery.imports import (
    ClaimMode,
    files_in_order,
    imported,
    not_restored,
    recorded,
    require_own,
    require_rows_kept,
)
from tidegate.protocol.recovery.lost_database import WITHOUT_TRACE, Numbers, Recovered, find_numbers
from tidegate.protocol.recovery.metadata import Metadata
from tidegate.protocol.recovery.restore_plan import Accepted, RestorePlan, require_accepted


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """The plan of a restore from `url`, as the pipeline's restore `number`. `numbers` are those not to be given out
    again, if the database has no checkpoint of the pipeline; else None."""

    url: str
    savepoint: Savepoint
    number: int
    numbers: Numbers | None
    restore: RestorePlan


class Importing:
    """Restore one pipeline from savepoints' directories. Planning changes nothing."""

    def __init__(
        self, context: DefinedContext, delivery: Delivery, identification: Identification, planning: Planning
    ) -> None:
        self._context = context
        self._delivery = delivery
        self._identification = identification
        self._planner = RestorePlanner(context, planning)

    # -- the plan

    def plan(self, url: str) -> ImportPlan:
        """Plan a restore. Reads every file of the directory in full.

        Raises `RestoreRefusedError` if the directory is not a complete savepoint of this pipeline, of the history in
        this database, `PipelineIdentityError`, `StateSchemaError` if the definition cannot continue from it, and
        `StorageError`.
        """
        self._identification.check(regains=not self._knows_checkpoints())
        directory = self._directory(url)
        savepoint = directory.read()
        numbers = None if self._knows_checkpoints() else self._numbers(savepoint)
        with self._context.transaction() as tx:
            facts = self._facts(tx, url, savepoint, numbers)
        directory.verify(savepoint.files, in_full=True)
        overlaid = OverlaidStorage(
            self._context.storage, directory.storage, {handle.path for handle in savepoint.files}
        )
        try:
            planned = self._planner.plan(facts, savepoint.metadata.subtasks, (), overlaid, directory.storage.url)
        except StateIntegrityError:
            directory.verify(
                savepoint.files, in_full=True
            )  # if the directory was emptied meanwhile, that is the error to raise
            if not self._is_latest(facts.previous):  # the latest checkpoint was replaced, and its files were deleted
                return self.plan(url)
            raise
        plan = replace(
            planned,
            origin=url,
            edited=savepoint.metadata.edited,
            moved=()
            if numbers is None
            else tuple(find_moved(savepoint.metadata.endpoints, self._context.graph.endpoints)),
        )
        return ImportPlan(url, savepoint, facts.restore.number, numbers, plan)

    def _is_latest(self, record: CheckpointRecord | None) -> bool:
        with self._context.transaction() as tx:
            now = tx.latest_completed()
        return (now and now.checkpoint_id) == (record and record.checkpoint_id)

    def _directory(self, url: str) -> SavepointDirectory:
        return SavepointDirectory(
            url, self._context.storage, lambda reason: not_restored(self._context.pipeline_id, url, reason)
        )

    def _knows_checkpoints(self) -> bool:
        """Whether the database has a checkpoint of the pipeline. An id alone may come from a restore that failed."""
        return bool(self._context.store.history(self._context.pipeline_id, 1))

    def _numbers(self, savepoint: Savepoint) -> Numbers:
        """Return the numbers of storage, sinks and the savepoint, for a database that does not have the pipeline."""
        metadata = savepoint.metadata
        numbers = find_numbers(self._context.pipeline_id, self._context.storage.list(self._context.pipeline_id))
        numbers = numbers.and_(Numbers(metadata.record.checkpoint_id, metadata.region_attempt))
        branch = branch_of(metadata.record.checkpoint_id, metadata.restores)
        for vertex in self._context.graph.sinks:
            if isinstance(vertex.sink, NumberedSink):
                checkpoint_id, attempt = vertex.sink.numbers()
                numbers = numbers.and_(Numbers(checkpoint_id, commit_attempt=attempt))
            if isinstance(vertex.sink, RewindableSink):
                shown = [rows.checkpoint_id for rows in vertex.sink.shown_outside(branch)]
                numbers = numbers.and_(Numbers(max([0, *shown, *vertex.sink.withdrawn()])))
        return numbers

    def _facts(
        self,
        tx: StoreTransaction,
        url: str,
        savepoint: Savepoint,
        numbers: Numbers | None,
        checkpoint_id: int | None = None,
    ) -> RestoreFacts:
        """Read the facts of a restore. `checkpoint_id` is the number of the recorded checkpoint, once it is known."""
        self._identification.require(tx, regains=numbers is not None)
        taken, is_known = savepoint.metadata.record, numbers is None
        last = tx.last_checkpoint_id() if checkpoint_id is None else checkpoint_id - 1
        if numbers is not None:
            last = max(last, numbers.checkpoint_id)
        restores = tx.restores() if is_known else list(savepoint.metadata.restores)
        known = tx.checkpoint(taken.checkpoint_id)
        require_own(self._context.pipeline_id, url, savepoint, known, last if is_known else 0, restores)
        retained, abandoned = tx.retained(), tx.abandoned()
        if is_known:
            kept = [*retained, *abandoned]
            require_rows_kept(self._context.pipeline_id, url, taken.checkpoint_id, self._appended(), kept, restores)
        previous = tx.latest_completed()
        restore = Restore(
            len(restores) + 1,
            taken.checkpoint_id,
            last,
            None if previous is None else previous.checkpoint_id,
            self._context.clock.now(),
            imported=last + 1,
        )
        record = taken.moved(status=Status.COMPLETED, completed_at=savepoint.marker.completed_at)
        return RestoreFacts(record, previous, restore, restores, retained, abandoned, tx.in_progress())

    def _appended(self) -> list[str]:
        """Return the sinks whose rows of an abandoned checkpoint are kept for a while, and then deleted."""
        sinks = [vertex for vertex in self._context.graph.sinks if isinstance(vertex.sink, RewindableSink)]
        return [vertex.name for vertex in sinks if vertex.operator_id not in self._context.graph.restaged]

    # -- the restore itself

    def restore(
        self,
        url: str,
        claim: ClaimMode = ClaimMode.NO_CLAIM,
        accepted: Accepted | None = None,
        planned: ImportPlan | None = None,
        entry: AuditEntry = UNAUDITED,
    ) -> ImportPlan:
        """Carry out a plan, the one that was shown, if any, and return it. If the process dies before the restore is
        recorded, nothing has happened, and copied files are swept. After that, the next process rewinds the sinks.

        Raises as `plan` does, `RestoreRefusedError` for consequences that are not accepted, or if a checkpoint has
        completed since the plan was made, `StorageError` if the files cannot be copied, `CopyInterruptedError`, and
        the errors of sinks. After an error of a sink the restore is valid, and the sinks are rewound later.
        """
        plan = planned or self.plan(url)
        accepted = accepted or Accepted()
        if self._context.config.allow_non_restored_state:
            accepted = replace(accepted, non_restored_state=True)
        require_accepted(plan.restore, accepted)
        if claim is ClaimMode.CLAIM:
            self._require_claimable(url)
        lease = ImportLease(self._context, f"restored from {url}")
        with self._context.transaction() as tx:
            self._require_as_planned(plan, self._facts(tx, url, plan.savepoint, plan.numbers))
            after = 0 if plan.numbers is None else plan.numbers.checkpoint_id
            lease.begin(tx, after)
        with lease.held():
            metadata = self._prepare(plan, lease, accepted)
            self._commit(plan, metadata, claim, lease, entry)
        with self._context.transaction() as tx:
            outstanding = find_outstanding(tx)
        self._delivery.deliver(outstanding)
        return plan

    def _require_claimable(self, url: str) -> None:
        with self._context.transaction() as tx:
            savepoints = [r.name or r.checkpoint_id for r in (*tx.retained(), *tx.abandoned()) if r.location == url]
        if savepoints:
            raise not_restored(
                self._context.pipeline_id,
                url,
                f"it cannot be claimed, because savepoint {savepoints[0]} of this database is there. Restore without "
                "--claim-mode claim, and dispose of the savepoint with `tidegate dispose` when you no longer need it",
            )

    def _require_as_planned(self, plan: ImportPlan, facts: RestoreFacts) -> None:
        planned = plan.restore.previous and plan.restore.previous.checkpoint_id
        is_new = plan.numbers is not None and self._knows_checkpoints()
        if is_new or facts.restore.previous_checkpoint_id != planned:
            raise not_restored(
                self._context.pipeline_id,
                plan.url,
                "since the plan was made, the pipeline's latest completed checkpoint has changed to "
                f"{facts.restore.previous_checkpoint_id}. Check the plan again, and stop the pipeline with `tidegate "
                f"suspend {self._context.pipeline_id}` first if checkpoints follow each other quickly",
            )
        if facts.restore.number != plan.number:  # perhaps to the same checkpoint, with others abandoned
            raise not_restored(
                self._context.pipeline_id, plan.url, "another restore was made since. Check the plan again"
            )

    def _prepare(self, plan: ImportPlan, lease: ImportLease, accepted: Accepted) -> Metadata:
        """Copy the files, and write the metadata of the checkpoint that will have them."""
        directory, checkpoint_id = self._directory(plan.url), lease.checkpoint_id
        if directory.read() != plan.savepoint:
            raise not_restored(self._context.pipeline_id, plan.url, "it has changed since the plan was made")
        sinks = {
            v.operator_id: v.sink for v in self._context.graph.sinks if v.operator_id in self._context.graph.restaged
        }
        staging = {id_: sink.staging() for id_, sink in sinks.items() if isinstance(sink, PortableSink)}
        homes = {STORAGE: self._context.storage} | {staged_by(id_): storage for id_, storage in staging.items()}
        copied = imported(plan.savepoint, self._context.pipeline_id, checkpoint_id, staging)
        directory.copy(copied.copies, homes, lease.keep)
        with self._context.transaction() as tx:
            facts = self._facts(tx, plan.url, plan.savepoint, plan.numbers, checkpoint_id)
            region_attempt = max(tx.region().attempt, plan.savepoint.metadata.region_attempt)
        now, request_id = facts.restore.restored_at, request_of_import(checkpoint_id)
        taken = plan.savepoint.metadata.record
        metadata = Metadata(
            recorded(taken, self._context.pipeline_id, checkpoint_id, request_id, self._context.config.timeout, now),
            {id_: SubtaskRecord(id_, 1, now, snapshot) for id_, snapshot in copied.snapshots.items()},
            (),
            self._context.graph.endpoints,
            [*facts.restores, replace(facts.restore, allows_non_restored_state=accepted.non_restored_state)],
            region_attempt,
            edited=plan.savepoint.metadata.edited,
        )
        write_metadata(self._context.graph, self._context.config, self._context.storage, metadata)
        return metadata

    def _commit(
        self, plan: ImportPlan, metadata: Metadata, claim: ClaimMode, lease: ImportLease, entry: AuditEntry
    ) -> None:
        """Commit the restore in one transaction. A running region loses its lease, and its checkpoint is aborted."""
        restore, checkpoint_id = metadata.restores[-1], metadata.record.checkpoint_id
        with self._context.transaction() as tx:
            facts = self._facts(tx, plan.url, plan.savepoint, plan.numbers, checkpoint_id)
            self._require_as_planned(plan, facts)
            now = restore.restored_at
            lease.end(tx, now)
            message = f"The pipeline was restored to checkpoint {restore.checkpoint_id}, from {plan.url}."
            abort_all(tx, FailureReason.COORDINATOR_SUSPEND, now, message)
            tx.end_region(tx.region().attempt, now)
            history = History(tx, now)
            if plan.numbers is not None:
                self._record_past(tx, plan, plan.numbers, metadata.restores[:-1], history, now)
            self._identification.record(tx, now, regains=plan.numbers is not None)
            tx.begin_restore(restore, facts.present, message, find_forgiven(tx))
            history.record(Recovered(metadata, None, False))
            if obsolete := tx.compactions():
                tx.remove_compactions([compaction.handle.path for compaction in obsolete])
            tx.record_restore(checkpoint_id, now)
            entry.done(tx, now, message, checkpoint_id)
            if claim is ClaimMode.CLAIM:
                tx.enqueue_deletions(files_in_order(plan.url, [handle.path for handle in plan.savepoint.files]))

    def _record_past(
        self,
        tx: StoreTransaction,
        plan: ImportPlan,
        numbers: Numbers,
        restores: Sequence[Restore],
        history: History,
        now: datetime,
    ) -> None:
        """Record the pipeline's past in a database that does not have it, as `recover` does."""
        attempts = numbers.region_attempt + WITHOUT_TRACE, numbers.commit_attempt + WITHOUT_TRACE
        tx.reserve_numbers(tx.last_checkpoint_id(), *attempts, now)
        tx.record_endpoints(plan.savepoint.metadata.endpoints, now)
        tx.record_endpoints([move.defined for move in plan.restore.moved], now)
        history.record_restores(restores, before=tx.last_checkpoint_id())
