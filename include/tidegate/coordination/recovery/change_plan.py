"""Compare a definition with the records of a checkpoint of its pipeline. This only reads, and changes nothing.

`protocol.recovery.change_plan` decides.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from tidegate.coordination.context import DefinedContext
from tidegate.coordination.steps.identity import Identification
from tidegate.coordination.steps.lookup import shown_checkpoints
from tidegate.pipeline.derivations import recorded_sink
from tidegate.pipeline.graph import Graph
from tidegate.pipeline.known_schemas import known_schema
from tidegate.pipeline.vertices import KeyedVertex, SinkVertex, SourceVertex, StepVertex
from tidegate.ports import DirectorySink, EvolvingSink, SelectingSink, Sink, SinkInput, StateSchemas
from tidegate.protocol.facts.branches import drops_unmatched, is_restored
from tidegate.protocol.facts.errors import StateIntegrityError
from tidegate.protocol.facts.records import (
    CheckpointRecord,
    CompactedRun,
    OperatorPlan,
    Snapshot,
    SubtaskId,
    SubtaskRecord,
)
from tidegate.protocol.recovery.change_plan import compare_states, plan_changes
from tidegate.protocol.recovery.changes import ChangePlan, DefinedVertex, Definition, Recorded, VertexKind
from tidegate.protocol.schema.operator_state import state_of
from tidegate.protocol.schema.state_schema import SchemaChange, StateSchema
from tidegate.protocol.schema.table_plan import TableKind
from tidegate.protocol.steps.refusal import require_none, unfit_state
from tidegate.protocol.steps.restored_snapshots import apply_compactions, former_names
from tidegate.protocol.steps.sink_marks import known_marks

Subtasks = Mapping[SubtaskId, SubtaskRecord]


class Planning:
    """Plan changes of one pipeline."""

    def __init__(self, context: DefinedContext, schemas: StateSchemas, identification: Identification) -> None:
        self._context = context
        self._schemas = schemas
        self._identification = identification

    def plan(self) -> ChangePlan:
        """Plan what a run would do with the latest completed checkpoint.

        Raises `PipelineIdentityError` if that checkpoint is not on this storage, or only the storage has one,
        `StateIntegrityError` if one of its files is missing or damaged, and `PipelineDefinitionError`.
        """
        while True:
            self._identification.require_stored_here()
            shown = shown_checkpoints(self._context.graph)
            with self._context.transaction() as tx:
                pipeline, latest = tx.pipeline(), tx.latest_completed()
                refused = self._identification.refused_places(tx)
                if latest is None:
                    break
                subtasks, endpoints = _merged(tx.subtasks(latest.checkpoint_id), tx.compactions()), tx.endpoints()
                targets = [verdict.target for verdict in tx.verdicts(latest.checkpoint_id)]
                restores = tx.restores()
                drop = self._context.config.allow_non_restored_state or drops_unmatched(latest, restores)
            try:
                schemas = self._stored(latest, subtasks)
                options = self._options(latest)
            except StateIntegrityError:  # unless it was replaced meanwhile, and its files were deleted
                if self._is_latest(latest):
                    raise
                continue
            id_, is_back = latest.checkpoint_id, is_restored(latest, restores)
            snapshots = known_marks(_snapshots(subtasks), id_, shown, is_back)
            recorded = Recorded(latest, snapshots, schemas, endpoints, targets, options)
            changes = plan_changes(recorded, self._definition(schemas, drop, latest), refused)
            return ChangePlan(pipeline, latest, changes)
        if not self._context.store.history(self._context.pipeline_id, 1):
            self._identification.require_not_lost()
        return ChangePlan(pipeline, None, plan_changes(None, self._definition({}, True), refused))

    def compare(
        self,
        record: CheckpointRecord,
        subtasks: Subtasks,
        latest: CheckpointRecord | None,
        storage_url: str | None = None,
    ) -> dict[str, SchemaChange]:
        """Return the changes of each operator's state if the pipeline returns to a checkpoint. The state is at
        `storage_url`, by default on the checkpoint storage.

        The definition's types are looked up only where the state's columns differ from those at the `latest`
        checkpoint, because that may take a Spark session. Raises `StateSchemaError` with the message of `plan` if
        the definition cannot continue from the state, and `StateIntegrityError`.
        """
        schemas = self._stored(record, subtasks, storage_url)
        typed = set[str]()
        if schemas and latest is not None and latest.checkpoint_id != record.checkpoint_id:
            typed = self._different(record, schemas, latest)
        return self._compare(Recorded(record, _snapshots(subtasks), schemas), typed)

    def compare_anew(self, record: CheckpointRecord, subtasks: Subtasks, storage_url: str) -> dict[str, SchemaChange]:
        """Return the changes for the state of another pipeline. This pipeline's code has never read it, so all types
        are looked up."""
        schemas = self._stored(record, subtasks, storage_url)
        return self._compare(Recorded(record, _snapshots(subtasks), schemas), set(schemas))

    def _compare(self, recorded: Recorded, typed: Collection[str]) -> dict[str, SchemaChange]:
        changes = compare_states(recorded, self._definition(recorded.schemas, True, recorded.record, typed))
        unfit = [
            unfit_state(self._context.pipeline_id, id_, change.problems)
            for id_, change in changes.items()
            if change.problems
        ]
        require_none(unfit)
        return changes

    def _different(
        self, record: CheckpointRecord, schemas: Mapping[str, StateSchema], latest: CheckpointRecord
    ) -> set[str]:
        """Return the operators whose state has other columns at the latest checkpoint, by their names in `record`."""
        current = self._stored(latest, self._context.store.subtasks(self._context.pipeline_id, latest.checkpoint_id))
        different = set()
        for vertex in self._context.graph.keyed:
            record_id, latest_id = (
                former_names(checkpoint, self._context.graph.renamed).get(vertex.operator_id, vertex.operator_id)
                for checkpoint in (record, latest)
            )
            if record_id in schemas and current.get(latest_id, schemas[record_id]) != schemas[record_id]:
                different.add(record_id)
        return different

    def _is_latest(self, record: CheckpointRecord) -> bool:
        with self._context.transaction() as tx:
            now = tx.latest_completed()
        return now is not None and now.checkpoint_id == record.checkpoint_id

    def _stored(
        self, record: CheckpointRecord, subtasks: Subtasks, storage_url: str | None = None
    ) -> dict[str, StateSchema]:
        schemas = {}
        for plan in record.operators:
            state = state_of(record, subtasks, plan.operator_id)
            schema = None if state is None else self._schemas.stored(state, storage_url)
            if schema is not None:
                schemas[plan.operator_id] = schema
        return schemas

    def _options(self, record: CheckpointRecord) -> dict[str, Mapping[str, Any]]:
        """Return the options of operators, as `_metadata` has them for readers."""
        if record.metadata_path is None:
            return {}
        with suppress(ValueError, KeyError, TypeError):
            document = json.loads(self._context.storage.read(record.metadata_path))
            return {operator["operator_id"]: operator["definition"] for operator in document["operators"]}
        return {}

    def _definition(
        self,
        stored: Mapping[str, StateSchema],
        drop: bool,
        record: CheckpointRecord | None = None,
        typed: Collection[str] | None = None,
    ) -> Definition:
        """Return the definition. `typed` are the operators whose types are looked up, by their stored names; by default
        all with state."""
        renamed = {} if record is None else former_names(record, self._context.graph.renamed)
        return Definition(
            self._context.pipeline_id,
            tuple(self._vertices(stored if typed is None else typed, renamed)),
            self._context.graph.upstreams,
            self._context.graph.renamed,
            self._context.graph.endpoints,
            self._context.graph.targets,
            drop,
            self._context.graph.outputs,
        )

    def _vertices(self, typed: Collection[str], renamed: Mapping[str, str]) -> Iterator[DefinedVertex]:
        plans = {plan.operator_id: plan for plan in self._context.graph.plan}
        for vertex in (*self._context.graph.sources, *self._context.graph.operators):
            plan = plans[vertex.operator_id]
            if isinstance(vertex, KeyedVertex):
                is_typed = renamed.get(vertex.operator_id, vertex.operator_id) in typed
                schema = self._schemas.defined(vertex.operator_id) if is_typed else known_schema(vertex)
                yield DefinedVertex(
                    VertexKind.OPERATOR, vertex.name, plan, schema, vertex.previous.columns, vertex.describe()
                )
            else:
                yield _described(self._context.graph, vertex, plan)


def _described(graph: Graph, vertex: SourceVertex | StepVertex | SinkVertex, plan: OperatorPlan) -> DefinedVertex:
    match vertex:
        case SourceVertex():
            return DefinedVertex(VertexKind.SOURCE, vertex.name, plan, options=_as_json(vertex.source.describe()))
        case SinkVertex():
            options = recorded_sink(graph, vertex)
            appends, upserts = vertex.sink.input is SinkInput.CHANGES, vertex.operator_id in graph.upserted
            return DefinedVertex(
                VertexKind.SINK,
                vertex.name,
                plan,
                options=_as_json(options),
                appends=appends,
                upserts=upserts,
                kind_of_table=_kind_of_table(vertex.sink),
            )
        case StepVertex():
            return DefinedVertex(VertexKind.STEP, vertex.name, plan)


def _kind_of_table(sink: Sink) -> TableKind:
    if isinstance(sink, EvolvingSink):
        return TableKind.EVOLVES
    if isinstance(sink, SelectingSink):
        return TableKind.FIXED
    return TableKind.FILES if isinstance(sink, DirectorySink) else TableKind.UNKNOWN


def _as_json(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options as they are after writing and reading JSON."""
    described: dict[str, Any] = json.loads(json.dumps(options))
    return described


def _merged(subtasks: Subtasks, compactions: Sequence[CompactedRun]) -> Subtasks:
    """Return the subtasks with the runs that a run would start from."""
    merged = apply_compactions(_snapshots(subtasks), compactions)
    return {subtask: replace(known, snapshot=merged[subtask]) for subtask, known in subtasks.items()}


def _snapshots(subtasks: Subtasks) -> dict[SubtaskId, Snapshot]:
    return {subtask: known.snapshot for subtask, known in subtasks.items()}
