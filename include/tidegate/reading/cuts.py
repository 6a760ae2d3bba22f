"""The facts needed to read tables as of one checkpoint: its branch, its sinks, and the staged rows."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from tidegate.postgres import reads, snapshots
from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.names import is_sink, operator_of_sink, sink_of_operator
from tidegate.protocol.facts.records import CheckpointRecord, StateHandle
from tidegate.protocol.observing.cuts import choose_cut, is_shown
from tidegate.protocol.recovery.identity import Role
from tidegate.protocol.steps.notify import committables
from tidegate.reading.described import MetadataFiles


@dataclass(frozen=True, slots=True)
class SinkAt:
    """A sink at a checkpoint. `type`, `place` and `definition` are the current ones; `problem` is the reason if the
    definition is unknown. `staged` is None if it is no longer on record.
    """

    name: str
    type: str | None
    place: str
    definition: Mapping[str, Any]
    problem: str | None
    staged: tuple[StateHandle, ...] | None


@dataclass(frozen=True, slots=True)
class TablesAt:
    """The tables of a pipeline at a checkpoint. `restores` counts the pipeline's restores: while the number is the
    same, rows move at most once.
    """

    pipeline_id: str
    checkpoint_id: int
    completed_at: datetime
    branch: Branch
    restores: int
    sinks: Mapping[str, SinkAt]


def newest_shown(connection: Connection, pipeline_id: str, sinks: Collection[str] = ()) -> CheckpointRecord | None:
    """Return the newest checkpoint that these sinks, or all, were notified to show, among those that no restore
    abandoned.
    """
    newest = reads.latest_completed(connection, pipeline_id)
    if newest is not None and is_shown(newest, sinks):
        return newest
    chosen = reads.newest_notified(connection, pipeline_id)
    return None if chosen is None else reads.checkpoint(connection, pipeline_id, chosen)


def tables_at(
    connection: Connection, pipeline_id: str, wanted: int | None, names: Collection[str], files: MetadataFiles
) -> TablesAt:
    """See `Readings.tables_at`."""
    sinks = set(map(operator_of_sink, names))
    chosen = (
        newest_shown(connection, pipeline_id, sinks)
        if wanted is None
        else reads.checkpoint(connection, pipeline_id, wanted)
    )
    restores = reads.restores_of(connection, pipeline_id)
    cut = choose_cut(pipeline_id, wanted, chosen, restores, sinks)
    assert cut.record.completed_at is not None
    return TablesAt(
        pipeline_id,
        cut.record.checkpoint_id,
        cut.record.completed_at,
        cut.branch,
        len(restores),
        {sink.name: sink for sink in _sinks(connection, cut.record, files)},
    )


def _sinks(connection: Connection, record: CheckpointRecord, files: MetadataFiles) -> Sequence[SinkAt]:
    subtasks = snapshots.subtasks_of(connection, record.pipeline_id, record.checkpoint_id)
    endpoints = {
        operator_of_sink(endpoint.name): endpoint
        for endpoint in reads.endpoints_of(connection, record.pipeline_id)
        if endpoint.role is Role.SINK
    }
    newest = reads.latest(connection, record.pipeline_id, Status.COMPLETED) or record
    described = files.described(record.pipeline_id, newest.checkpoint_id)
    sinks = []
    for plan in record.operators:
        if is_sink(plan.operator_id):
            endpoint = endpoints.get(plan.operator_id)
            definition = described.definitions.get(plan.operator_id, {})
            sinks.append(
                SinkAt(
                    sink_of_operator(plan.operator_id),
                    None if endpoint is None else endpoint.type,
                    "" if endpoint is None else endpoint.place,
                    definition,
                    described.problem,
                    committables(subtasks, plan.operator_id) if subtasks else None,
                )
            )
    return sinks
