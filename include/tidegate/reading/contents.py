"""The sources and state of a checkpoint, and the rows that sinks show."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, text

from tidegate.postgres import reads
from tidegate.postgres.lag import lag_of
from tidegate.protocol.facts.branches import find_unfinished
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.names import is_sink, operator_of_sink, sink_of_operator
from tidegate.protocol.facts.records import CheckpointRecord
from tidegate.protocol.recovery.identity import Endpoint, Role
from tidegate.reading.answer import handles_of
from tidegate.reading.described import MetadataFiles
from tidegate.reading.lag_answers import LagOfSource, PartLag
from tidegate.reading.need import utc
from tidegate.reading.parts import subtasks_after
from tidegate.reading.pipeline_answers import SourceAt, Split, StateAt, StateSlice, TableAt

_MOST_SUBTASKS = 1000

_POSITIONED = text("""
SELECT DISTINCT operator_id FROM tidegate.subtasks
WHERE pipeline_id = :pipeline_id AND checkpoint_id = :checkpoint_id AND position IS NOT NULL
""")
_RUNS = text("""
SELECT operator_id, subtask_index AS index, count(*) AS runs, sum(rows)::bigint AS rows, sum(bytes)::bigint AS bytes,
    coalesce(sum(bytes) FILTER (WHERE created_by = checkpoint_id), 0)::bigint AS new_bytes
FROM tidegate.handles
WHERE pipeline_id = :pipeline_id AND checkpoint_id = :checkpoint_id AND kind = 'RUN'
GROUP BY operator_id, subtask_index ORDER BY operator_id, subtask_index
""")
# Subtasks share runs after a rescale: each run counts once.
_RUNS_ONCE = text("""
SELECT operator_id, count(*) AS runs, sum(rows)::bigint AS rows, sum(bytes)::bigint AS bytes,
    coalesce(sum(bytes) FILTER (WHERE created_by = :checkpoint_id), 0)::bigint AS new_bytes,
    min(created_by) AS oldest_run
FROM (
    SELECT DISTINCT ON (operator_id, path) operator_id, rows, bytes, created_by FROM tidegate.handles
    WHERE pipeline_id = :pipeline_id AND checkpoint_id = :checkpoint_id AND kind = 'RUN') AS each_once
GROUP BY operator_id
""")
_COMPACTED = text("""
SELECT operator_id, count(*) AS number FROM tidegate.compactions WHERE pipeline_id = :pipeline_id GROUP BY operator_id
""")
_SHOWN = text("""
SELECT checkpoint_id, notified_at FROM tidegate.checkpoints
WHERE pipeline_id = :pipeline_id AND completed_at IS NOT NULL AND notified_at IS NOT NULL AND abandoned_by IS NULL
ORDER BY checkpoint_id DESC LIMIT 1
""")
_IN_DOUBT = text("""
SELECT checkpoint_id, completed_at, committed_sinks FROM tidegate.checkpoints
WHERE pipeline_id = :pipeline_id AND completed_at IS NOT NULL AND notified_at IS NULL AND abandoned_by IS NULL
ORDER BY checkpoint_id LIMIT 1000
""")
_STAGED = text("""
SELECT operator_id, sum(rows)::bigint AS rows FROM tidegate.handles
WHERE pipeline_id = :pipeline_id AND checkpoint_id = :checkpoint_id AND kind = 'STAGED' GROUP BY operator_id
""")


class _Shown(NamedTuple):
    checkpoint_id: int
    since: datetime


def sources_at(connection: Connection, record: CheckpointRecord) -> tuple[SourceAt, ...]:
    """See `Readings.sources`."""
    parameters = {"pipeline_id": record.pipeline_id, "checkpoint_id": record.checkpoint_id}
    recorded = {e.name: e for e in reads.endpoints_of(connection, record.pipeline_id) if e.role is Role.SOURCE}
    positioned = set(connection.execute(_POSITIONED, parameters).scalars())
    names_of_sources = {name for name in positioned if not is_sink(name)} | recorded.keys()
    names = [plan.operator_id for plan in record.operators if plan.operator_id in names_of_sources]
    behind = {lag.source: LagOfSource.model_validate(lag) for lag in lag_of(connection, record.pipeline_id)}
    return tuple(_source(connection, record, name, recorded.get(name), behind.get(name)) for name in names)


def parts_behind(connection: Connection, pipeline_id: str) -> tuple[PartLag, ...]:
    """See `Readings.parts_behind`."""
    return tuple(
        PartLag(source=lag.source, part=part, pending=pending, unit=lag.unit)
        for lag in lag_of(connection, pipeline_id)
        for part, pending in lag.parts.items()
    )


def _source(
    connection: Connection, record: CheckpointRecord, name: str, endpoint: Endpoint | None, lag: LagOfSource | None
) -> SourceAt:
    splits, _ = subtasks_after(connection, record, name, -1, _MOST_SUBTASKS)
    return SourceAt(
        operator_id=name,
        name=name,
        type=None if endpoint is None else endpoint.type,
        place=None if endpoint is None else endpoint.place,
        splits=tuple(
            Split(
                index=split.subtask.subtask_index,
                position=split.snapshot.position,
                finished=split.snapshot.finished,
                rows_out=split.metrics.rows_out,
                files=handles_of(split.snapshot.handles),
            )
            for split in splits
        ),
        lag=lag,
    )


def state_at(connection: Connection, record: CheckpointRecord) -> tuple[StateAt, ...]:
    """See `Readings.state`; operators without keyed state are left out."""
    parameters = {"pipeline_id": record.pipeline_id, "checkpoint_id": record.checkpoint_id}
    slices: dict[str, list[StateSlice]] = defaultdict(list)
    for row in connection.execute(_RUNS, parameters):
        slices[row.operator_id].append(StateSlice.model_validate(row))
    once = {row["operator_id"]: row for row in connection.execute(_RUNS_ONCE, parameters).mappings()}
    waiting = {row.operator_id: row.number for row in connection.execute(_COMPACTED, parameters)}
    return tuple(
        StateAt(
            **once[plan.operator_id],
            parallelism=plan.parallelism,
            max_parallelism=plan.max_parallelism,
            compacted=waiting.get(plan.operator_id, 0),
            slices=tuple(slices[plan.operator_id]),
        )
        for plan in record.operators
        if plan.operator_id in once
    )


def tables_of(connection: Connection, pipeline_id: str, files: MetadataFiles) -> tuple[TableAt, ...]:
    """See `Readings.tables`.

    A sink in the commit shows a checkpoint once it has completed. The others are notified together, so all of them show
    the same one.
    """
    parameters = {"pipeline_id": pipeline_id}
    shown = connection.execute(_SHOWN, parameters).first()
    unnotified = connection.execute(_IN_DOUBT, parameters).all()
    restore = find_unfinished(reads.restores_of(connection, pipeline_id))
    restored = None if restore is None else reads.checkpoint(connection, pipeline_id, restore.goes_on_from)
    at_rest = () if restored is None else restored.committed_sinks
    notified = None if shown is None else _Shown(shown.checkpoint_id, shown.notified_at)
    at_once = {id_: _Shown(row.checkpoint_id, row.completed_at) for row in unnotified for id_ in row.committed_sinks}
    rows = {
        point.checkpoint_id: _staged(connection, pipeline_id, point.checkpoint_id)
        for point in {notified, *at_once.values()}
        if point is not None
    }
    definitions = _definitions(reads.latest(connection, pipeline_id, Status.COMPLETED), files)
    recorded = [endpoint for endpoint in reads.endpoints_of(connection, pipeline_id) if endpoint.role is Role.SINK]
    endpoints = {operator_of_sink(endpoint.name): endpoint for endpoint in recorded}

    def table(operator_id: str) -> TableAt:
        shows = at_once.get(operator_id, notified)
        return TableAt(
            sink=sink_of_operator(operator_id),
            operator_id=operator_id,
            type=endpoints[operator_id].type if operator_id in endpoints else None,
            place=endpoints[operator_id].place if operator_id in endpoints else None,
            guarantee=_promise(definitions.get(operator_id, {}), "guarantee"),
            commits=_promise(definitions.get(operator_id, {}), "commits"),
            shows=None if shows is None else shows.checkpoint_id,
            shown_at=None if shows is None else utc(shows.since),
            rows=0 if shows is None else rows[shows.checkpoint_id].get(operator_id, 0),
            in_doubt=tuple(row.checkpoint_id for row in unnotified if operator_id not in row.committed_sinks),
            rewinding=None if restore is None or operator_id in at_rest else restore.number,
        )

    return tuple(map(table, sorted(endpoints.keys() | {id_ for staged in rows.values() for id_ in staged})))


def _staged(connection: Connection, pipeline_id: str, checkpoint_id: int) -> dict[str, int]:
    staged = connection.execute(_STAGED, {"pipeline_id": pipeline_id, "checkpoint_id": checkpoint_id})
    return {row.operator_id: row.rows for row in staged}


def _definitions(latest: CheckpointRecord | None, files: MetadataFiles) -> Mapping[str, Mapping[str, object]]:
    return {} if latest is None else files.described(latest.pipeline_id, latest.checkpoint_id).definitions


def _promise(definition: Mapping[str, object], name: str) -> str | None:
    value = definition.get(name)
    return value if isinstance(value, str) else None
