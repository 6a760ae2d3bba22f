"""Plan a restore from the facts of the store, the sources and the sinks. Changes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.coordination.context import DefinedContext
from tidegate.coordination.recovery.change_plan import Planning
from tidegate.pipeline.graph import Graph
from tidegate.ports import ReadableStorage, RereadingSource, RewindableSink
from tidegate.protocol.facts.branches import Branch, Restore, branch_of, choose_off_branch
from tidegate.protocol.facts.names import is_sink, sink_of_operator
from tidegate.protocol.facts.records import (
    CheckpointRecord,
    CompactedRun,
    HandleKind,
    Snapshot,
    StateHandle,
    SubtaskId,
    SubtaskRecord,
)
from tidegate.protocol.recovery.restore_plan import Reread, RestorePlan, ReturningState, RewoundSink
from tidegate.protocol.recovery.skipping import SourceSkip, apply_skips, skipped_since
from tidegate.protocol.schema.state_schema import SchemaChange, StateSchema
from tidegate.protocol.steps.finished import require_legal_restore
from tidegate.protocol.steps.restored_snapshots import Renamed, assign_snapshots, former_names, restore_snapshots

Snapshots = Mapping[SubtaskId, Snapshot]

_UNCHANGED = SchemaChange(StateSchema((), None))


@dataclass(frozen=True, slots=True)
class RestoreFacts:
    """The facts of a plan, as of one transaction. `restore` is the one to be recorded."""

    record: CheckpointRecord
    previous: CheckpointRecord | None
    restore: Restore
    restores: Sequence[Restore]
    retained: Sequence[CheckpointRecord]
    abandoned: Sequence[CheckpointRecord]
    in_progress: Sequence[CheckpointRecord]
    skips: Sequence[SourceSkip] = ()

    @property
    def present(self) -> Branch:
        """The pipeline's branch after the restore."""
        return branch_of(None, [*self.restores, self.restore])

    @property
    def left_behind(self) -> list[int]:
        """The retained checkpoints that are abandoned after the restore."""
        return choose_off_branch((*self.retained, *self.abandoned), self.present)


class RestorePlanner:
    """Plan the restores of one pipeline."""

    def __init__(self, context: DefinedContext, planning: Planning) -> None:
        self._context = context
        self._planning = planning

    def plan(
        self,
        facts: RestoreFacts,
        subtasks: Mapping[SubtaskId, SubtaskRecord],
        compactions: Sequence[CompactedRun],
        storage: ReadableStorage,
        state_url: str | None = None,
    ) -> RestorePlan:
        """Plan a restore. `subtasks` are those of the checkpoint to restore. `storage` has their files, and the
        pipeline's. Their state is at `state_url`, by default on the checkpoint storage.

        Raises `StateSchemaError` if the definition cannot continue from them.
        """
        recorded = {subtask: known.snapshot for subtask, known in subtasks.items()}
        snapshots = apply_skips(recorded, facts.record.checkpoint_id, facts.skips)
        renamed = former_names(facts.record, self._context.graph.renamed)
        operators = self._context.graph.plan_from(facts.record)
        restored = restore_snapshots(facts.record, snapshots, operators, compactions, True, renamed)
        require_legal_restore(facts.record, operators, restored, self._context.graph.upstreams, renamed)
        changes = self._planning.compare(facts.record, subtasks, facts.previous, state_url)
        left = facts.left_behind
        return RestorePlan(
            facts.record,
            facts.previous,
            facts.restore.undoes,
            tuple(id_ for id_ in left if id_ not in {record.checkpoint_id for record in facts.abandoned}),
            tuple(record.checkpoint_id for record in facts.abandoned if record.checkpoint_id not in left),
            tuple(record.checkpoint_id for record in facts.in_progress),
            tuple(self._sources(facts, restored, storage)),
            tuple(returning_states(self._context.graph, snapshots, renamed, changes)),
            tuple(self._sinks(facts)),
            skipped=skipped_since(facts.skips, facts.record.checkpoint_id, branch_of(None, facts.restores)),
        )

    def _snapshots(self, record: CheckpointRecord) -> dict[SubtaskId, Snapshot]:
        known = self._context.store.subtasks(self._context.pipeline_id, record.checkpoint_id)
        return {subtask: record.snapshot for subtask, record in known.items()}

    def _sources(self, facts: RestoreFacts, restored: Snapshots, storage: ReadableStorage) -> list[Reread]:
        """Return the files that each source has read since, and so reads again, except those of a branch that comes
        back."""
        now: Snapshots = {}
        if (previous := facts.previous) is not None:
            renamed = former_names(previous, self._context.graph.renamed)
            now = assign_snapshots(previous, self._snapshots(previous), self._context.graph.plan, renamed)
        sources = []
        for vertex in self._context.graph.sources:
            if not isinstance(vertex.source, RereadingSource):
                continue
            pieces, size, missing = 0, 0, list[str]()
            for split in range(vertex.source.num_splits()):
                subtask = SubtaskId(vertex.operator_id, split)
                again = vertex.source.read_since(split, restored.get(subtask), now.get(subtask), storage)
                pieces, size = pieces + again.pieces, size + again.bytes
                missing += again.missing
            sources.append(Reread(vertex.name, pieces, size, tuple(missing)))
        return sources

    def _sinks(self, facts: RestoreFacts) -> list[RewoundSink]:
        sinks = []
        for vertex in self._context.graph.sinks:
            if not isinstance(vertex.sink, RewindableSink):
                sinks.append(RewoundSink(vertex.name, False))
                continue
            shown = vertex.sink.shown_outside(facts.present)
            ids = tuple(rows.checkpoint_id for rows in shown)
            files, size = sum(rows.files for rows in shown), sum(rows.bytes for rows in shown)
            counted = [rows.rows for rows in shown if rows.rows is not None]
            sinks.append(RewoundSink(vertex.name, True, ids, files, size, sum(counted) if counted else None))
        return [*sinks, *(RewoundSink(name, False) for name in self._removed_sinks(facts))]

    def _removed_sinks(self, facts: RestoreFacts) -> list[str]:
        """Return the sinks of abandoned checkpoints that the definition no longer has, and that cannot be rewound."""
        now = {vertex.operator_id for vertex in self._context.graph.sinks}
        left = facts.left_behind
        operators = {
            plan.operator_id
            for record in (*facts.retained, *facts.abandoned)
            if record.checkpoint_id in left
            for plan in record.operators
        }
        return sorted(sink_of_operator(id_) for id_ in operators - now if is_sink(id_))


def returning_states(
    graph: Graph, snapshots: Snapshots, renamed: Renamed, changes: Mapping[str, SchemaChange]
) -> list[ReturningState]:
    """Return the state that the operators of a checkpoint get back: those with keyed state, and those that the
    definition no longer has. `renamed` are the current names, `changes` the changes of the columns."""
    known = {plan.operator_id for plan in graph.plan} | set(renamed.values())
    now = {former: name for name, former in renamed.items()}
    runs: dict[str, dict[str, StateHandle]] = {}  # by operator and path: after a rescale subtasks share them
    for subtask, snapshot in sorted(snapshots.items()):
        runs_of_subtask = {handle.path: handle for handle in snapshot.handles if handle.kind is HandleKind.RUN}
        is_gone = subtask.operator_id not in known and not is_sink(subtask.operator_id)
        if runs_of_subtask or (is_gone and snapshot.position):
            runs.setdefault(subtask.operator_id, {}).update(runs_of_subtask)
    return [
        ReturningState(
            operator_id,
            operator_id in known,
            sum(handle.rows for handle in handles.values()),
            sum(handle.bytes for handle in handles.values()),
            changes.get(now.get(operator_id, operator_id), _UNCHANGED).changes,
        )
        for operator_id, handles in runs.items()
    ]
