"""A pipeline as a whole: its graph at a checkpoint, the requests that wait, and its options."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select, text

from tidegate.postgres import reads
from tidegate.postgres.rows import checkpoint_record
from tidegate.postgres.tables import checkpoints
from tidegate.protocol.facts.branches import Restore, choose_undone
from tidegate.protocol.facts.errors import NothingToUndoError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.names import is_sink, sink_of_operator
from tidegate.protocol.facts.records import CheckpointRecord
from tidegate.protocol.recovery.identity import Endpoint, Role
from tidegate.reading.answer import RestoreAt
from tidegate.reading.checkpoint_answers import Task
from tidegate.reading.dags import dags_of
from tidegate.reading.described import Described, MetadataFiles
from tidegate.reading.need import one_pipeline, utc
from tidegate.reading.parts import tasks
from tidegate.reading.pipeline_answers import (
    Configuration,
    Externalization,
    Option,
    OptionsAt,
    Overview,
    PipelineAt,
    Vertex,
    WaitingRequest,
)

_MOST_CONFIGURATIONS = 50

_WAITING = text("SELECT count(*) FROM tidegate.deletion_queue WHERE pipeline_id = :pipeline_id")
_STATE_ROWS = text("""
SELECT operator_id, sum(rows)::bigint AS rows FROM (
    SELECT DISTINCT ON (operator_id, path) operator_id, rows FROM tidegate.handles
    WHERE pipeline_id = :pipeline_id AND checkpoint_id = :checkpoint_id AND kind = 'RUN') AS each_once
GROUP BY operator_id
""")
_POSITIONS = text("""
SELECT operator_id, position FROM tidegate.subtasks
WHERE pipeline_id = :pipeline_id AND checkpoint_id = :checkpoint_id AND operator_id = ANY (CAST(:sources AS text[]))
ORDER BY operator_id, subtask_index LIMIT 10000
""")


def overview(connection: Connection, pipeline_id: str, now: datetime, files: MetadataFiles) -> Overview | None:
    """See `Readings.overview`."""
    pipeline, line = reads.pipeline(connection, pipeline_id), one_pipeline(connection, now, pipeline_id)
    if pipeline is None or line is None:
        return None
    record = shown_checkpoint(connection, pipeline_id)
    region, restores = reads.region(connection, pipeline_id), reads.restores_of(connection, pipeline_id)
    return Overview(
        pipeline=PipelineAt.model_validate(pipeline),
        line=line,
        dags=tuple(dags_of(connection, pipeline_id)),
        checkpoint_id=None if record is None else record.checkpoint_id,
        vertices=() if record is None else _vertices(connection, record, files),
        region_attempt=region.attempt,
        region_seen_at=region.seen_at,
        region_ended_at=region.ended_at,
        restores=tuple(RestoreAt.model_validate(restore) for restore in restores),
        can_undo=_can_undo(pipeline_id, restores),
        waiting_requests=tuple(_requests(connection, pipeline_id)),
        files_to_delete=int(connection.execute(_WAITING, {"pipeline_id": pipeline_id}).scalar_one()),
    )


def _can_undo(pipeline_id: str, restores: Sequence[Restore]) -> bool:
    with suppress(NothingToUndoError):
        choose_undone(pipeline_id, restores)
        return True
    return False


def shown_checkpoint(connection: Connection, pipeline_id: str) -> CheckpointRecord | None:
    """Return the latest completed checkpoint, or the newest if none has completed."""
    latest = reads.latest_completed(connection, pipeline_id)
    return latest or next(iter(reads.history(connection, pipeline_id, 1)), None)


def _requests(connection: Connection, pipeline_id: str) -> Sequence[WaitingRequest]:
    requests = sorted(
        reads.requests_of(connection, pipeline_id), key=lambda request: (request.asked_at, request.request_id)
    )
    return [
        WaitingRequest(
            request_id=request.request_id,
            kind=request.kind,
            asked_at=request.asked_at,
            seen_at=request.seen_at,
            name=request.name,
            dropped=request.dropped.name if request.dropped else None,
            message=request.dropped_message,
        )
        for request in requests
    ]


def _vertices(connection: Connection, record: CheckpointRecord, files: MetadataFiles) -> tuple[Vertex, ...]:
    parameters = {"pipeline_id": record.pipeline_id, "checkpoint_id": record.checkpoint_id}
    endpoints = {endpoint.key: endpoint for endpoint in reads.endpoints_of(connection, record.pipeline_id)}
    parts = tasks(connection, record, {name for role, name in endpoints if role is Role.SOURCE})
    sources = [part.id for part in parts if part.role == "source"]
    positions: dict[str, list[Mapping[str, object] | None]] = {}
    for row in connection.execute(_POSITIONS, parameters | {"sources": sources}):
        positions.setdefault(row.operator_id, []).append(row.position)
    rows = {row.operator_id: row.rows for row in connection.execute(_STATE_ROWS, parameters)}
    committed = record.status is Status.COMPLETED
    described = files.described(record.pipeline_id, record.checkpoint_id) if committed else Described({}, {})
    return tuple(
        _vertex(part, endpoints, described, rows.get(part.id, 0), tuple(positions.get(part.id, ()))) for part in parts
    )


def _vertex(
    part: Task,
    endpoints: Mapping[tuple[Role, str], Endpoint],
    described: Described,
    state_rows: int,
    positions: tuple[Mapping[str, object] | None, ...],
) -> Vertex:
    name = sink_of_operator(part.id) if is_sink(part.id) else part.id
    roles = {"source": Role.SOURCE, "sink": Role.SINK}
    endpoint = endpoints.get((roles[part.role], name)) if part.role in roles else None
    definition = described.definitions.get(part.id, {})
    inputs = definition.get("inputs")
    guarantee, commits = definition.get("guarantee"), definition.get("commits")
    return Vertex(
        operator_id=part.id,
        name=name,
        role=part.role,
        parallelism=part.parallelism,
        max_parallelism=part.max_parallelism,
        inputs=tuple(map(str, inputs)) if isinstance(inputs, list) else None,
        type=None if endpoint is None else endpoint.type,
        place=None if endpoint is None else endpoint.place,
        guarantee=guarantee if isinstance(guarantee, str) else None,
        commits=commits if isinstance(commits, str) else None,
        definition={key: value for key, value in definition.items() if key not in ("inputs", "guarantee", "commits")},
        num_acknowledged=part.num_acknowledged_subtasks,
        num_finished=part.num_finished_subtasks,
        rows_in=part.rows_in,
        rows_out=part.rows_out,
        state_size=part.state_size,
        state_rows=state_rows,
        checkpointed_size=part.checkpointed_size,
        positions=positions,
    )


def newest_kept(connection: Connection, pipeline_id: str) -> list[CheckpointRecord]:
    """Return the newest checkpoints whose `_metadata` is kept, oldest first."""
    wanted = (
        select(checkpoints)
        .where(checkpoints.c.pipeline_id == pipeline_id, checkpoints.c.status == Status.COMPLETED.value)
        .order_by(checkpoints.c.checkpoint_id.desc())
        .limit(_MOST_CONFIGURATIONS)
    )
    return [checkpoint_record(row) for row in connection.execute(wanted).mappings()][::-1]


def configuration(kept: Sequence[CheckpointRecord], files: MetadataFiles) -> Configuration:
    """See `Readings.configuration`; `kept` are the completed checkpoints whose `_metadata` exists, oldest first."""
    configurations: list[OptionsAt] = []
    unreadable: dict[int, str] = {}
    before: CheckpointRecord | None = None
    options: Mapping[str, object] = {}
    for record in kept:
        described = files.described(record.pipeline_id, record.checkpoint_id)
        if described.problem is not None:
            unreadable[record.checkpoint_id] = described.problem
            continue
        at = OptionsAt(
            checkpoint_id=record.checkpoint_id,
            completed_at=utc(record.completed_at),
            against=None if before is None else before.checkpoint_id,
            options=_compared(described.options, described.options if before is None else options),
        )
        configurations.append(at)
        before, options = record, described.options
    configurations.reverse()
    return _as_flink(options, configurations, unreadable)


def _compared(now: Mapping[str, object], before: Mapping[str, object]) -> tuple[Option, ...]:
    """Compare options by name. The value of one that was removed is None."""
    return tuple(
        Option(name=name, value=now.get(name), before=before.get(name), changed=True)
        if now.get(name) != before.get(name)
        else Option(name=name, value=now.get(name))
        for name in sorted({*now, *before})
    )


def _as_flink(options: Mapping[str, Any], found: Sequence[OptionsAt], unreadable: Mapping[int, str]) -> Configuration:
    """Build the configuration. `options` are those of the latest checkpoint, `found` those of all, newest first."""
    latest, retention = next(iter(found), None), options.get("retention")
    return Configuration(
        mode=str(options["mode"]).lower() if "mode" in options else None,
        interval=options.get("interval"),
        timeout=options.get("timeout"),
        min_pause=options.get("min_pause"),
        max_concurrent=options.get("max_concurrent"),
        externalization=Externalization(
            enabled=retention is not None and retention != "NO_EXTERNALIZED_CHECKPOINTS",
            delete_on_cancellation=retention != "RETAIN_ON_CANCELLATION",
        ),
        state_backend="sorted runs",
        checkpoint_storage="files",
        unaligned_checkpoints=options.get("unaligned"),
        aligned_checkpoint_timeout=options.get("aligned_checkpoint_timeout"),
        tolerable_failed_checkpoints=options.get("tolerable_failed_checkpoints"),
        checkpoints_after_tasks_finish=options.get("checkpoints_after_tasks_finish"),
        state_changelog_enabled=False,
        options={} if latest is None else {option.name: option.value for option in latest.options},
        checkpoint=None if latest is None else latest.checkpoint_id,
        changes=tuple(options_at for options_at in found if options_at.changes),
        unreadable=unreadable,
        latest=latest,
    )
