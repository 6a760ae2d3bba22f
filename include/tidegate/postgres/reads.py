"""The store's questions to the database: one statement each, so that each answer is of one moment.

Subtasks take two, because their join with the handles may be planned badly before there are statistics. They are of one
moment all the same: an acknowledgement and its handles are written together and never change, so those read later
belong to the subtasks read before, and a subtask that was not acknowledged then has none.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, CursorResult, Select, Table, func, select, text, tuple_

from tidegate.postgres.rows import (
    checkpoint_record,
    compaction_record,
    pipeline_record,
    request_record,
    subtask_records,
    verdict_record,
)
from tidegate.postgres.tables import checkpoints, compactions, handles, pipelines, requests, subtasks, verdicts
from tidegate.protocol.lifecycle import Status
from tidegate.protocol.pipelines import PipelineRecord, PipelineStatus
from tidegate.protocol.records import (
    CheckpointRecord,
    CheckpointRequest,
    CompactedRun,
    SubtaskId,
    SubtaskRecord,
    Verdict,
)
from tidegate.protocol.statistics import Measurement, Statistics


def pipeline_ids(connection: Connection) -> list[str]:
    """Pipelines that ever had a checkpoint or were told what to do, by name."""
    asked = (pipelines.c.last_checkpoint_id > 0) | (pipelines.c.status != PipelineStatus.CREATED.value)
    return list(
        connection.execute(select(pipelines.c.pipeline_id).where(asked).order_by(pipelines.c.pipeline_id)).scalars()
    )


def checkpoint(connection: Connection, pipeline_id: str, checkpoint_id: int) -> CheckpointRecord | None:
    found = _checkpoints(connection, _of(pipeline_id).where(checkpoints.c.checkpoint_id == checkpoint_id))
    return found[0] if found else None


def latest_by_request(connection: Connection, pipeline_id: str, request_id: str) -> CheckpointRecord | None:
    asked = _of(pipeline_id).where(checkpoints.c.request_id == request_id)
    found = _checkpoints(connection, asked.order_by(checkpoints.c.checkpoint_id.desc()).limit(1))
    return found[0] if found else None


def with_status(connection: Connection, pipeline_id: str, status: Status) -> list[CheckpointRecord]:
    """Oldest first."""
    held = _of(pipeline_id).where(checkpoints.c.status == status.value)
    return _checkpoints(connection, held.order_by(checkpoints.c.checkpoint_id))


def pipeline(connection: Connection, pipeline_id: str) -> PipelineRecord | None:
    known = connection.execute(select(pipelines).where(pipelines.c.pipeline_id == pipeline_id)).mappings().first()
    return None if known is None else pipeline_record(known)


def requests_of(connection: Connection, pipeline_id: str) -> list[CheckpointRequest]:
    found = connection.execute(select(requests).where(requests.c.pipeline_id == pipeline_id))
    return [request_record(row) for row in found.mappings()]


def failed_after(connection: Connection, pipeline_id: str, checkpoint_id: int) -> list[CheckpointRecord]:
    """Oldest first."""
    failed = _of(pipeline_id).where(
        checkpoints.c.status == Status.FAILED.value, checkpoints.c.checkpoint_id > checkpoint_id
    )
    return _checkpoints(connection, failed.order_by(checkpoints.c.checkpoint_id))


def count_with_status(connection: Connection, pipeline_id: str, status: Status) -> int:
    held = select(func.count()).where(checkpoints.c.pipeline_id == pipeline_id, checkpoints.c.status == status.value)
    return int(connection.execute(held).scalar_one())


def latest_completed(connection: Connection, pipeline_id: str) -> CheckpointRecord | None:
    return _latest(connection, pipeline_id, Status.COMPLETED)


def statistics(connection: Connection, pipeline_id: str) -> Statistics:
    """The statements are of moments that follow each other closely; each figure is right for its own."""
    counted = connection.execute(_BY_STATUS, {"pipeline_id": pipeline_id})
    measured = connection.execute(_MEASUREMENTS, {"pipeline_id": pipeline_id})
    return Statistics(
        {Status(row.status): row.number for row in counted},
        [Measurement(**row) for row in measured.mappings()],
        _latest(connection, pipeline_id, Status.COMPLETED),
        _latest(connection, pipeline_id, Status.FAILED),
    )


_BY_STATUS = text("""
SELECT status, count(*) AS number FROM tidegate.checkpoints WHERE pipeline_id = :pipeline_id GROUP BY status
""")

# In-flight bytes that a subtask did not report are -1 and count as nothing.
_MEASUREMENTS = text("""
SELECT c.checkpoint_id, c.checkpointed_size, c.state_size,
       greatest(0, round(extract(epoch FROM c.acknowledged_at - c.triggered_at) * 1000))::bigint AS end_to_end_duration,
       coalesce(sum(greatest(s.processed_bytes, 0)), 0)::bigint AS processed_data,
       coalesce(sum(greatest(s.persisted_bytes, 0)), 0)::bigint AS persisted_data
FROM tidegate.checkpoints c LEFT JOIN tidegate.subtasks s USING (pipeline_id, checkpoint_id)
WHERE c.pipeline_id = :pipeline_id AND c.completed_at IS NOT NULL
GROUP BY c.pipeline_id, c.checkpoint_id
ORDER BY c.checkpoint_id DESC
""")


def _latest(connection: Connection, pipeline_id: str, status: Status) -> CheckpointRecord | None:
    held = _of(pipeline_id).where(checkpoints.c.status == status.value)
    found = _checkpoints(connection, held.order_by(checkpoints.c.checkpoint_id.desc()).limit(1))
    return found[0] if found else None


def unswept(connection: Connection, pipeline_id: str) -> dict[int, datetime]:
    """When each checkpoint ended that nobody has swept, oldest first. Every step that cleans asks: no whole rows."""
    ended_at = func.coalesce(checkpoints.c.completed_at, checkpoints.c.failed_at)
    ended = select(checkpoints.c.checkpoint_id, ended_at).where(
        checkpoints.c.pipeline_id == pipeline_id,
        checkpoints.c.status != Status.IN_PROGRESS.value,
        ~checkpoints.c.swept,
    )
    return {id_: at.astimezone(UTC) for id_, at in connection.execute(ended.order_by(checkpoints.c.checkpoint_id))}


def history(connection: Connection, pipeline_id: str, limit: int) -> list[CheckpointRecord]:
    """Newest first."""
    newest = _of(pipeline_id).order_by(checkpoints.c.checkpoint_id.desc()).limit(limit)
    return _checkpoints(connection, newest)


def _of(pipeline_id: str) -> Select[Any]:
    return select(checkpoints).where(checkpoints.c.pipeline_id == pipeline_id)


def _checkpoints(connection: Connection, query: Select[Any]) -> list[CheckpointRecord]:
    return [checkpoint_record(row) for row in connection.execute(query).mappings()]


_ONLY = text("SELECT * FROM unnest(CAST(:operator_ids AS text[]), CAST(:subtask_indexes AS integer[]))")


def subtasks_of(
    connection: Connection, pipeline_id: str, checkpoint_id: int, only: Iterable[SubtaskId] | None = None
) -> dict[SubtaskId, SubtaskRecord]:
    """By operator and index; `only` those named, and of them those that exist."""
    named = None if only is None else list(only)
    found = [
        _of_subtasks(connection, table, pipeline_id, checkpoint_id, named).mappings().all()
        for table in (subtasks, handles)
    ]
    return subtask_records(*found)


def _of_subtasks(
    connection: Connection, table: Table, pipeline_id: str, checkpoint_id: int, only: list[SubtaskId] | None
) -> CursorResult[Any]:
    query = select(table).where(table.c.pipeline_id == pipeline_id, table.c.checkpoint_id == checkpoint_id)
    parameters: dict[str, Any] = {}
    if only is not None:
        parameters["operator_ids"] = [subtask.operator_id for subtask in only]
        parameters["subtask_indexes"] = [subtask.subtask_index for subtask in only]
        query = query.where(tuple_(table.c.operator_id, table.c.subtask_index).in_(_ONLY))
    return connection.execute(query.order_by(*table.primary_key.columns), parameters)


def verdicts_of(connection: Connection, pipeline_id: str, checkpoint_id: int) -> list[Verdict]:
    """In the order they were recorded."""
    found = select(verdicts).where(verdicts.c.pipeline_id == pipeline_id, verdicts.c.checkpoint_id == checkpoint_id)
    return [verdict_record(row) for row in connection.execute(found.order_by(verdicts.c.ordinal)).mappings()]


def compactions_of(connection: Connection, pipeline_id: str) -> list[CompactedRun]:
    """Oldest first."""
    found = select(compactions).where(compactions.c.pipeline_id == pipeline_id).order_by(compactions.c.position)
    return [compaction_record(row) for row in connection.execute(found).mappings()]
