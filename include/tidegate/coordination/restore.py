"""The restore step: takes a pipeline back to an earlier checkpoint, its state, its positions and its tables.

One transaction is the commit point: it says which checkpoint is the latest, and fences everything that ran before.
Then the sinks are rewound (see `rewind`). A plan comes first, always.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.coordination.identity import Identification
from tidegate.coordination.notify import Delivery, find_outstanding
from tidegate.coordination.pipeline_status import abort_all, find_forgiven
from tidegate.coordination.plan import Planning
from tidegate.pipeline.config import CheckpointConfig
from tidegate.pipeline.graph import Graph
from tidegate.ports import CheckpointStorage, CheckpointStore, Clock, RereadingSource, RewindableSink, StoreTransaction
from tidegate.protocol.branches import (
    Branch,
    Restore,
    branch_of,
    choose_off_branch,
    choose_undone,
    require_restorable,
)
from tidegate.protocol.errors import RestoreRefusedError, StateIntegrityError
from tidegate.protocol.finalize import choose_sample, referred_files
from tidegate.protocol.finished import require_legal_restore
from tidegate.protocol.names import is_sink, sink_of_operator
from tidegate.protocol.notify import committables
from tidegate.protocol.reasons import FailureReason
from tidegate.protocol.records import (
    CheckpointRecord,
    CompactedRun,
    HandleKind,
    Snapshot,
    SubtaskId,
    SubtaskRecord,
)
from tidegate.protocol.restore import Renamed, choose_newer, choose_obsolete, former_names, restore_snapshots
from tidegate.protocol.restore_plan import (
    Accepted,
    Reread,
    RestorePlan,
    ReturningState,
    RewoundSink,
    require_accepted,
)
from tidegate.protocol.state_schema import SchemaChange, StateSchema

Snapshots = Mapping[SubtaskId, Snapshot]

_UNCHANGED = SchemaChange(StateSchema((), None))


@dataclass(frozen=True, slots=True)
class ToCheckpoint:
    """Back to this checkpoint, or to the latest completed one."""

    checkpoint_id: int | None


@dataclass(frozen=True, slots=True)
class Undo:
    """Back to where the pipeline was before it was last restored."""


Target = ToCheckpoint | Undo


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a plan is made of, as of one transaction. `restore` is the one to be recorded."""

    record: CheckpointRecord
    previous: CheckpointRecord | None
    restore: Restore
    restores: Sequence[Restore]
    retained: Sequence[CheckpointRecord]
    abandoned: Sequence[CheckpointRecord]
    in_progress: Sequence[CheckpointRecord]

    @property
    def present(self) -> Branch:
        """What the pipeline has behind it afterwards."""
        return branch_of(None, [*self.restores, self.restore])

    @property
    def left_behind(self) -> list[int]:
        """Of checkpoints whose state is kept, those that are abandoned afterwards."""
        return choose_off_branch((*self.retained, *self.abandoned), self.present)


class Restoring:
    """Restores one pipeline. Planning changes nothing."""

    def __init__(
        self,
        graph: Graph,
        config: CheckpointConfig,
        store: CheckpointStore,
        storage: CheckpointStorage,
        delivery: Delivery,
        identification: Identification,
        planning: Planning,
        clock: Clock,
    ) -> None:
        self._graph = graph
        self._pipeline_id = graph.pipeline.name
        self._config = config
        self._store = store
        self._storage = storage
        self._delivery = delivery
        self._identification = identification
        self._planning = planning
        self._clock = clock

    # -- the plan

    def plan(self, target: Target) -> RestorePlan:
        """What a restore would do now.

        Raises `CheckpointNotFoundError`, `CheckpointNotRetainedError`, `NothingToUndoError`, `StateSchemaError` if the
        definition cannot go on from that checkpoint, `StateIntegrityError` if a file of it is missing or damaged.
        """
        self._identification.check()
        while True:
            with self._store.transaction(self._pipeline_id) as tx:
                facts, compactions = self._facts(tx, target), tx.compactions()
            try:
                return self._plan(facts, compactions)
            except StateIntegrityError:  # unless it was replaced meanwhile, which is what to say, or another is meant
                with self._store.transaction(self._pipeline_id) as tx:
                    now = self._facts(tx, target)
                if _ends(now) == _ends(facts):
                    raise

    def _plan(self, facts: _Facts, compactions: Sequence[CompactedRun]) -> RestorePlan:
        subtasks = self._store.subtasks(self._pipeline_id, facts.record.checkpoint_id)
        snapshots = {subtask: known.snapshot for subtask, known in subtasks.items()}
        self._verify(subtasks, facts.restore.last_checkpoint_id + 1)
        renamed = former_names(facts.record, self._graph.renamed)
        restored = restore_snapshots(facts.record, snapshots, self._graph.plan, compactions, True, renamed)
        require_legal_restore(facts.record, self._graph.plan, restored, self._graph.upstreams, renamed)
        changes = self._planning.compare(facts.record, subtasks, facts.previous)
        left = facts.left_behind
        return RestorePlan(
            facts.record,
            facts.previous,
            facts.restore.undoes,
            tuple(id_ for id_ in left if id_ not in {record.checkpoint_id for record in facts.abandoned}),
            tuple(record.checkpoint_id for record in facts.abandoned if record.checkpoint_id not in left),
            tuple(record.checkpoint_id for record in facts.in_progress),
            tuple(self._sources(facts, restored)),
            tuple(self._operators(snapshots, renamed, changes)),
            tuple(self._sinks(facts)),
        )

    def _verify(self, subtasks: Mapping[SubtaskId, SubtaskRecord], turn: int) -> None:
        """The files that the pipeline would go on from, and those that tables of current rows would show: once the
        restore is recorded, it is too late. A sample is read in full. Raises `StateIntegrityError`."""
        files = referred_files(known.snapshot for known in subtasks.values())
        self._storage.verify(files, choose_sample(turn, files))
        for vertex in self._graph.sinks:
            if vertex.operator_id in self._graph.restaged and isinstance(vertex.sink, RewindableSink):
                shown = committables(subtasks, vertex.operator_id)
                vertex.sink.verify(shown, choose_sample(turn, shown))

    def _facts(self, tx: StoreTransaction, target: Target) -> _Facts:
        self._identification.require(tx)
        restores, retained, abandoned = tx.restores(), tx.retained(), tx.abandoned()
        previous = tx.latest_completed()
        undone = choose_undone(self._pipeline_id, restores) if isinstance(target, Undo) else None
        wanted = undone.previous_checkpoint_id if undone is not None else _wanted(target, previous)
        completed = sorted((*retained, *abandoned), key=lambda record: record.checkpoint_id)
        record = require_restorable(
            self._pipeline_id, wanted or 0, None if wanted is None else tx.checkpoint(wanted), completed
        )
        restore = Restore(
            len(restores) + 1,
            record.checkpoint_id,
            tx.last_checkpoint_id(),
            None if previous is None else previous.checkpoint_id,
            self._clock.now(),
            None if undone is None else undone.number,
        )
        return _Facts(record, previous, restore, restores, retained, abandoned, tx.in_progress())

    def _snapshots(self, record: CheckpointRecord) -> dict[SubtaskId, Snapshot]:
        known = self._store.subtasks(self._pipeline_id, record.checkpoint_id)
        return {subtask: each.snapshot for subtask, each in known.items()}

    def _sources(self, facts: _Facts, restored: Snapshots) -> list[Reread]:
        """What each source has read since, and so reads again. What was read on a branch that comes back is not."""
        latest = {} if facts.previous is None else self._snapshots(facts.previous)
        now = restore_snapshots(facts.previous, latest, self._graph.plan, (), True, self._graph.renamed)
        found = []
        for vertex in self._graph.sources:
            if not isinstance(vertex.source, RereadingSource):
                continue
            pieces, size, missing = 0, 0, list[str]()
            for split in range(vertex.source.num_splits()):
                subtask = SubtaskId(vertex.operator_id, split)
                again = vertex.source.read_since(split, restored.get(subtask), now.get(subtask), self._storage)
                pieces, size = pieces + again.pieces, size + again.bytes
                missing += again.missing
            found.append(Reread(vertex.name, pieces, size, tuple(missing)))
        return found

    def _operators(
        self, snapshots: Snapshots, renamed: Renamed, changes: Mapping[str, SchemaChange]
    ) -> list[ReturningState]:
        """Those with keyed state, and what the definition does not have any more."""
        known = {plan.operator_id for plan in self._graph.plan} | set(renamed.values())
        now = {former: name for name, former in renamed.items()}
        found: dict[str, ReturningState] = {}
        for subtask, snapshot in sorted(snapshots.items()):
            runs = [handle for handle in snapshot.handles if handle.kind is HandleKind.RUN]
            matched = subtask.operator_id in known
            if not runs and (matched or not snapshot.position):
                continue
            change = changes.get(now.get(subtask.operator_id, subtask.operator_id), _UNCHANGED)
            fresh = ReturningState(subtask.operator_id, matched, 0, 0, change.changes)
            before = found.get(subtask.operator_id, fresh)
            rows, size = sum(handle.rows for handle in runs), sum(handle.bytes for handle in runs)
            found[subtask.operator_id] = replace(before, rows=before.rows + rows, bytes=before.bytes + size)
        return list(found.values())

    def _sinks(self, facts: _Facts) -> list[RewoundSink]:
        found = []
        for vertex in self._graph.sinks:
            if not isinstance(vertex.sink, RewindableSink):
                found.append(RewoundSink(vertex.name, False))
                continue
            shown = vertex.sink.shown_beside(facts.present)
            ids = tuple(each.checkpoint_id for each in shown)
            files, size = sum(each.files for each in shown), sum(each.bytes for each in shown)
            found.append(RewoundSink(vertex.name, True, ids, files, size))
        return [*found, *(RewoundSink(name, False) for name in self._removed_sinks(facts))]

    def _removed_sinks(self, facts: _Facts) -> list[str]:
        """Those that checkpoints left behind had, and the definition does not have: nobody can rewind them."""
        now = {vertex.operator_id for vertex in self._graph.sinks}
        left = facts.left_behind
        operators = {
            plan.operator_id
            for record in (*facts.retained, *facts.abandoned)
            if record.checkpoint_id in left
            for plan in record.operators
        }
        return sorted(sink_of_operator(id_) for id_ in operators - now if is_sink(id_))

    # -- the restore itself

    def restore(self, target: Target, accepted: Accepted, planned: RestorePlan | None = None) -> RestorePlan:
        """Carry out a plan: the one that was shown, if any. Returns it. Repeating after a crash is safe: either nothing
        has happened, or the restore is recorded and the next process rewinds its sinks.

        Raises as `plan` does, `RestoreRefusedError` for what is not accepted, or if a checkpoint has completed since
        the plan was made, and what sinks raise: then the restore holds, and the sinks are rewound later.
        """
        plan = planned or self.plan(target)
        if self._config.allow_non_restored_state:
            accepted = replace(accepted, non_restored_state=True)
        require_accepted(plan, accepted)
        with self._store.transaction(self._pipeline_id) as tx:
            facts = self._facts(tx, target)
            self._require_as_planned(plan, facts)
            self._commit(tx, facts, accepted)
        with self._store.transaction(self._pipeline_id) as tx:
            outstanding = find_outstanding(tx)
        self._delivery.deliver(outstanding)
        return plan

    def _require_as_planned(self, plan: RestorePlan, facts: _Facts) -> None:
        if _ends(facts) != (plan.checkpoint.checkpoint_id, plan.previous and plan.previous.checkpoint_id):
            raise RestoreRefusedError(
                f"Pipeline {self._pipeline_id} was not restored: since the plan was made, its latest completed "
                f"checkpoint has changed to {facts.previous and facts.previous.checkpoint_id}. Nothing was changed. "
                f"Look at the plan again, and stop what runs with `tidegate suspend {self._pipeline_id}` first if "
                "checkpoints follow each other quickly."
            )

    def _commit(self, tx: StoreTransaction, facts: _Facts, accepted: Accepted) -> None:
        """The transaction that is the restore. What runs loses its region, and its checkpoint is aborted."""
        restore = replace(facts.restore, allows_non_restored_state=accepted.non_restored_state)
        now = restore.restored_at
        why = f"The pipeline was restored to checkpoint {restore.checkpoint_id}."
        abort_all(tx, FailureReason.COORDINATOR_SUSPEND, now, why)
        tx.end_region(tx.region().attempt, now)
        tx.begin_restore(restore, facts.present, why, find_forgiven(tx))
        snapshots = {id_: known.snapshot for id_, known in tx.subtasks(restore.checkpoint_id).items()}
        compactions = tx.compactions()
        if obsolete := [*choose_obsolete(snapshots, compactions), *choose_newer(snapshots, compactions)]:
            tx.remove_compactions(sorted({compaction.handle.path for compaction in obsolete}))
        tx.record_restore(restore.checkpoint_id, now)


def _ends(facts: _Facts) -> tuple[int, int | None]:
    """Where the restore leads, and from where."""
    return facts.record.checkpoint_id, None if facts.previous is None else facts.previous.checkpoint_id


def _wanted(target: ToCheckpoint | Undo, latest: CheckpointRecord | None) -> int | None:
    assert isinstance(target, ToCheckpoint)
    if target.checkpoint_id is not None:
        return target.checkpoint_id
    return None if latest is None else latest.checkpoint_id
