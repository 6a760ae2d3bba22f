"""Begin a pipeline with the state of another one, which is only read.

The files are copied as those of a future checkpoint. The database does not list it, and a sweep deletes the files if
it never completes. One transaction is the fork: the new pipeline's first checkpoint, which has the state and the
positions and adds no rows. Afterwards the checkpoint differs from others only in its request, which names the
original.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.coordination.context import DefinedContext
from tidegate.coordination.observing.audit import UNAUDITED, AuditEntry
from tidegate.coordination.observing.history import History
from tidegate.coordination.recovery.change_plan import Planning
from tidegate.coordination.recovery.import_lease import ImportLease
from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.coordination.recovery.restore_plan import Snapshots, returning_states
from tidegate.coordination.recovery.savepoint_directory import CopiedFiles, SavepointDirectory
from tidegate.coordination.steps.finalize import write_metadata
from tidegate.coordination.steps.identity import Identification
from tidegate.coordination.steps.notify import Delivery
from tidegate.coordination.steps.outstanding import find_outstanding
from tidegate.coordination.steps.ownership import is_used
from tidegate.pipeline.graph import Graph
from tidegate.ports import (
    RereadingSource,
    StoreTransaction,
)
from tidegate.protocol.facts.branches import require_restorable
from tidegate.protocol.facts.errors import StateIntegrityError
from tidegate.protocol.facts.names import STORAGE, Fork
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.records import CheckpointRecord, SubtaskId, SubtaskRecord
from tidegate.protocol.recovery.fork import (
    ForkPlan,
    NewTable,
    TakenOver,
    find_moved_sources,
    forked,
    not_forked,
    require_another,
    require_fork_accepted,
    require_nothing_in_flight,
    require_own_tables,
    require_unknown,
)
from tidegate.protocol.recovery.identity import Endpoint
from tidegate.protocol.recovery.imports import recorded
from tidegate.protocol.recovery.lost_database import Recovered
from tidegate.protocol.recovery.metadata import Metadata
from tidegate.protocol.recovery.ownership import require_own_places
from tidegate.protocol.recovery.restore_plan import Accepted
from tidegate.protocol.steps.finalize import referred_files
from tidegate.protocol.steps.finished import require_legal_restore
from tidegate.protocol.steps.restored_snapshots import find_unmatched, former_names, restore_snapshots


@dataclass(frozen=True, slots=True)
class Origin:
    """A checkpoint of the original, as it was read, and its files."""

    record: CheckpointRecord
    subtasks: Mapping[SubtaskId, SubtaskRecord]
    endpoints: Sequence[Endpoint]
    files: CopiedFiles

    @property
    def fork(self) -> Fork:
        return Fork(self.record.pipeline_id, self.record.checkpoint_id, self.record.name)

    @property
    def snapshots(self) -> Snapshots:
        return {subtask: known.snapshot for subtask, known in self.subtasks.items()}


@dataclass(frozen=True, slots=True)
class PlannedFork:
    plan: ForkPlan
    origin: Origin


class Forking:
    """Fork other pipelines into this one. Planning changes nothing."""

    def __init__(
        self, context: DefinedContext, delivery: Delivery, identification: Identification, planning: Planning
    ) -> None:
        self._context = context
        self._delivery = delivery
        self._identification = identification
        self._planning = planning

    # -- the plan

    def plan(self, original: Graph, where: ToCheckpoint | str) -> PlannedFork:
        """Plan a fork from a checkpoint of the original in this database, or from the directory of a canonical
        savepoint, a URL.

        Raises `ForkRefusedError`, `CheckpointNotFoundError`, `CheckpointNotRetainedError`, `PipelineIdentityError`
        if the new pipeline has completed checkpoints on its storage, and `StateSchemaError` if its definition cannot
        continue from that state.
        """
        require_another(self._context.pipeline_id, original.pipeline.name)
        origin = self._saved(original, where) if isinstance(where, str) else self._native(original, where)
        self._require_unknown(origin.fork)
        refusals = self._identification.find_refusals()
        theirs = [*origin.endpoints, *original.endpoints]
        require_own_tables(
            self._context.pipeline_id, origin.fork, theirs, self._context.graph.endpoints, self._used_sinks()
        )
        require_own_places(self._context.pipeline_id, refusals)
        require_nothing_in_flight(self._context.pipeline_id, origin.fork, origin.snapshots.values())
        files = referred_files(origin.snapshots.values())
        origin.files.verify(files, in_full=False)
        try:
            return PlannedFork(self._plan(origin), origin)
        except StateIntegrityError:
            origin.files.verify(files, in_full=False)  # if a file was deleted meanwhile, that is the error to raise
            raise

    def _native(self, original: Graph, where: ToCheckpoint) -> Origin:
        """Return the origin of a checkpoint in this database. Both pipelines have this process's checkpoint storage."""
        pipeline_id = original.pipeline.name
        Identification(replace(self._context, pipeline_id=pipeline_id, graph=original)).require_stored_here()
        with self._context.store.transaction(pipeline_id) as tx:
            latest = tx.latest_completed()
            wanted = latest.checkpoint_id if where.checkpoint_id is None and latest is not None else where.checkpoint_id
            completed = sorted((*tx.retained(), *tx.abandoned()), key=lambda record: record.checkpoint_id)
            found = None if wanted is None else tx.checkpoint(wanted)
            record = require_restorable(pipeline_id, wanted or 0, found, completed)
            subtasks, endpoints = tx.subtasks(record.checkpoint_id), tx.endpoints()
        return Origin(record, subtasks, endpoints, self._files(record))

    def _files(self, record: CheckpointRecord) -> CopiedFiles:
        where = Fork(record.pipeline_id, record.checkpoint_id, record.name).describe()
        return CopiedFiles(self._context.storage, lambda reason: not_forked(self._context.pipeline_id, where, reason))

    def _saved(self, original: Graph, url: str) -> Origin:
        directory = SavepointDirectory(
            url, self._context.storage, lambda reason: not_forked(self._context.pipeline_id, url, reason)
        )
        metadata = directory.read().metadata
        record = metadata.record
        if record.pipeline_id != original.pipeline.name:
            reason = (
                f"it is a savepoint of pipeline {record.pipeline_id}, not of {original.pipeline.name}. Name that one"
            )
            raise not_forked(self._context.pipeline_id, url, reason)
        return Origin(record, metadata.subtasks, metadata.endpoints, directory)

    def _require_unknown(self, fork: Fork) -> None:
        with self._context.transaction() as tx:
            self._require_to_begin(tx, fork)

    def _require_to_begin(self, tx: StoreTransaction, fork: Fork) -> None:
        """Require that the fork may begin. Only checkpoints count: an id alone may come from a fork that failed."""
        known = self._context.store.history(self._context.pipeline_id, 1)
        require_unknown(tx.pipeline(), fork, known[0] if known else None)

    def _used_sinks(self) -> list[str]:
        """Return the sinks whose places have files or rows already."""
        return [vertex.name for vertex in self._context.graph.sinks if is_used(vertex.sink)]

    def _plan(self, origin: Origin) -> ForkPlan:
        record, snapshots, graph = origin.record, origin.snapshots, self._context.graph
        renamed, plans = former_names(record, graph.renamed), graph.plan_from(record)
        restored = restore_snapshots(record, snapshots, plans, (), True, renamed)
        require_legal_restore(record, plans, restored, graph.upstreams, renamed)
        changes = self._planning.compare_anew(record, origin.subtasks, origin.files.storage.url)
        operators = returning_states(graph, snapshots, renamed, changes)
        stated = {state.operator_id for state in operators}
        return ForkPlan(
            self._context.pipeline_id,
            origin.fork,
            record,
            origin.files.storage.url,
            tuple(self._sources(restored, origin)),
            tuple(operators),
            tuple(v.name for v in graph.keyed if renamed.get(v.operator_id, v.operator_id) not in stated),
            tuple(NewTable(v.name, v.operator_id in graph.showing_state) for v in graph.sinks),
            tuple(find_moved_sources(origin.endpoints, graph.endpoints, graph.renamed)),
            tuple(find_unmatched(snapshots, plans, renamed)),
        )

    def _sources(self, restored: Snapshots, origin: Origin) -> list[TakenOver]:
        sources = []
        for vertex in self._context.graph.sources:
            ids = [SubtaskId(vertex.operator_id, split) for split in range(vertex.source.num_splits())]
            is_known, pieces, size = any(id_ in restored for id_ in ids), 0, 0
            if not is_known or not isinstance(vertex.source, RereadingSource):
                sources.append(TakenOver(vertex.name, is_known))
                continue
            for id_ in ids:
                read = vertex.source.read_since(id_.subtask_index, None, restored.get(id_), origin.files.storage)
                pieces, size = pieces + read.pieces, size + read.bytes
            sources.append(TakenOver(vertex.name, True, pieces, size))
        return sources

    # -- the fork itself

    def fork(self, planned: PlannedFork, accepted: Accepted, entry: AuditEntry = UNAUDITED) -> None:
        """Carry out a plan. If the process dies before the fork is recorded, nothing has happened, and copied files are
        swept. After that, the next process finishes.

        Raises `ForkRefusedError` for consequences that are not accepted, if a file of the original was deleted
        meanwhile, or if the database has a checkpoint by now, `CopyInterruptedError`, `StorageError`, and the errors
        of sinks. After an error of a sink the fork is valid.
        """
        if self._context.config.allow_non_restored_state:
            accepted = replace(accepted, non_restored_state=True)
        require_fork_accepted(planned.plan, accepted)
        fork = planned.plan.fork
        lease = ImportLease(self._context, f"forked from {fork.describe()}")
        with self._context.transaction() as tx:
            self._require_to_begin(tx, fork)
            lease.begin(tx, fork.checkpoint_id)  # read files and rows carry the original's ids
        with lease.held():
            self._commit(fork, self._prepare(planned, lease), lease, entry)
        with self._context.transaction() as tx:
            outstanding = find_outstanding(tx)
        self._delivery.deliver(outstanding)

    def _prepare(self, planned: PlannedFork, lease: ImportLease) -> Metadata:
        """Copy the files, and write the metadata of the checkpoint that will have them."""
        origin, checkpoint_id = planned.origin, lease.checkpoint_id
        copied = forked(origin.snapshots, planned.plan.dropped, self._context.pipeline_id, checkpoint_id)
        origin.files.copy(copied.copies, {STORAGE: self._context.storage}, lease.keep)
        now = self._context.clock.now()
        with self._context.transaction() as tx:
            region_attempt = tx.region().attempt
        record = recorded(
            origin.record,
            self._context.pipeline_id,
            checkpoint_id,
            str(planned.plan.fork),
            self._context.config.timeout,
            now,
        )
        metadata = Metadata(
            record.moved(num_finished=sum(snapshot.finished for snapshot in copied.snapshots.values())),
            {id_: SubtaskRecord(id_, 1, now, snapshot) for id_, snapshot in copied.snapshots.items()},
            endpoints=self._context.graph.endpoints,
            region_attempt=region_attempt,
        )
        write_metadata(self._context.graph, self._context.config, self._context.storage, metadata)
        return metadata

    def _commit(self, fork: Fork, metadata: Metadata, lease: ImportLease, entry: AuditEntry) -> None:
        """Commit the fork in one transaction. A running region of the new pipeline began without state, and loses its
        lease."""
        with self._context.transaction() as tx:
            now = self._context.clock.now()
            self._require_to_begin(tx, fork)
            self._identification.require(tx)
            lease.end(tx, now)
            tx.end_region(tx.region().attempt, now)
            if tx.pipeline().status is PipelineStatus.CREATED:
                tx.move_pipeline(PipelineStatus.RUNNING, now, f"It was forked from {fork.describe()}.")
            self._identification.record(tx, now)
            History(tx, now).record(Recovered(metadata, None, False))
            tx.record_restore(metadata.record.checkpoint_id, now)
            sentence = f"Pipeline {self._context.pipeline_id} was forked from {fork.describe()}."
            entry.done(tx, now, sentence, metadata.record.checkpoint_id)
