"""The store's queries, one statement each, so that each answer is of one moment. Subtasks are in `snapshots`."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    Connection,
    Select,
    func,
    select,
    text,
)

from tidegate.postgres.lag import lag_of
from tidegate.postgres.rollup import BY_STATUS
from tidegate.postgres.rows import (
    checkpoint_record,
    committer_record,
    compaction_record,
    pipeline_record,
    region_record,
    request_record,
    restore_record,
    verdict_record,
)
from tidegate.postgres.tables import (
    checkpoints,
    compactions,
    database_identity,
    endpoints,
    pipelines,
    requests,
    restores,
    verdicts,
)
from tidegate.protocol.continuous.regions import RegionRecord
from tidegate.protocol.facts.branches import Restore
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineRecord, PipelineStatus
from tidegate.protocol.facts.records import (
    CheckpointKind,
    CheckpointRecord,
    CheckpointRequest,
    CompactedRun,
    Verdict,
)
from tidegate.protocol.observing.statistics import LatestFigures, LatestRestore, Measurement
from tidegate.protocol.recovery.identity import Endpoint, Role
from tidegate.protocol.steps.committing import CommitterRecord


def identity(connection: Connection) -> str:
    return str(connection.execute(select(database_identity.c.id)).scalar_one())


def pipeline_ids(connection: Connection) -> list[str]:
    """Return the names of pipelines that ever had a checkpoint or a change of status."""
    used = (pipelines.c.last_checkpoint_id > 0) | (pipelines.c.status != PipelineStatus.CREATED.value)
    return list(
        connection.execute(select(pipelines.c.pipeline_id).where(used).order_by(pipelines.c.pipeline_id)).scalars()
    )


def checkpoint(connection: Connection, pipeline_id: str, checkpoint_id: int) -> CheckpointRecord | None:
    records = _checkpoints(connection, _of(pipeline_id).where(checkpoints.c.checkpoint_id == checkpoint_id))
    return records[0] if records else None


def latest_by_request(connection: Connection, pipeline_id: str, request_id: str) -> CheckpointRecord | None:
    of_request = _of(pipeline_id).where(checkpoints.c.request_id == request_id)
    counts = (checkpoints.c.status != Status.FAILED.value) & checkpoints.c.abandoned_by.is_(None)
    records = _checkpoints(connection, of_request.order_by(counts.desc(), checkpoints.c.checkpoint_id.desc()).limit(1))
    return records[0] if records else None


def with_status(connection: Connection, pipeline_id: str, status: Status) -> list[CheckpointRecord]:
    """Return the checkpoints of one status, oldest first."""
    held = _of(pipeline_id).where(checkpoints.c.status == status.value)
    return _checkpoints(connection, held.order_by(checkpoints.c.checkpoint_id))


def named(connection: Connection, pipeline_id: str, name: str) -> CheckpointRecord | None:
    in_use = checkpoints.c.status.in_([Status.IN_PROGRESS.value, Status.COMPLETED.value])
    records = _checkpoints(connection, _of(pipeline_id).where(checkpoints.c.name == name, in_use))
    return records[0] if records else None


def written_to(connection: Connection, pipeline_id: str, location: str) -> list[CheckpointRecord]:
    """Return the savepoints that were written to a directory, oldest first."""
    at_location = _of(pipeline_id).where(checkpoints.c.location == location)
    return _checkpoints(connection, at_location.order_by(checkpoints.c.checkpoint_id))


def restores_of(connection: Connection, pipeline_id: str) -> list[Restore]:
    """Return the restores of a pipeline, oldest first."""
    ordered = select(restores).where(restores.c.pipeline_id == pipeline_id).order_by(restores.c.number)
    return [restore_record(row) for row in connection.execute(ordered).mappings()]


def pipeline(connection: Connection, pipeline_id: str) -> PipelineRecord | None:
    row = connection.execute(select(pipelines).where(pipelines.c.pipeline_id == pipeline_id)).mappings().first()
    return None if row is None else pipeline_record(row)


def endpoints_of(connection: Connection, pipeline_id: str) -> list[Endpoint]:
    columns = (endpoints.c.role, endpoints.c.name, endpoints.c.type, endpoints.c.place)
    rows = connection.execute(select(*columns).where(endpoints.c.pipeline_id == pipeline_id))
    return [Endpoint(Role(role), *rest) for role, *rest in rows]


def region(connection: Connection, pipeline_id: str) -> RegionRecord:
    row = connection.execute(select(pipelines).where(pipelines.c.pipeline_id == pipeline_id)).mappings().first()
    return RegionRecord() if row is None else region_record(row)


def requests_of(connection: Connection, pipeline_id: str) -> list[CheckpointRequest]:
    rows = connection.execute(select(requests).where(requests.c.pipeline_id == pipeline_id))
    return [request_record(row) for row in rows.mappings()]


def failed_after(connection: Connection, pipeline_id: str, checkpoint_id: int) -> list[CheckpointRecord]:
    """Return the checkpoints that failed after this one, oldest first."""
    failed = _of(pipeline_id).where(
        checkpoints.c.status == Status.FAILED.value, checkpoints.c.checkpoint_id > checkpoint_id
    )
    return _checkpoints(connection, failed.order_by(checkpoints.c.checkpoint_id))


def latest_subsumed(connection: Connection, pipeline_id: str) -> int | None:
    gone = select(func.max(checkpoints.c.checkpoint_id)).where(
        checkpoints.c.pipeline_id == pipeline_id,
        checkpoints.c.status.in_([Status.SUBSUMED.value, Status.DISCARDED.value]),
        checkpoints.c.abandoned_by.is_(None),
    )
    newest: int | None = connection.execute(gone).scalar_one()
    return newest


def unnotified(connection: Connection, pipeline_id: str, limit: int) -> list[CheckpointRecord]:
    """Return the completed checkpoints that are not abandoned, and whose sinks were not all notified; oldest first."""
    waiting = _of(pipeline_id).where(
        checkpoints.c.completed_at.is_not(None),
        checkpoints.c.notified_at.is_(None),
        checkpoints.c.abandoned_by.is_(None),
    )
    return _checkpoints(connection, waiting.order_by(checkpoints.c.checkpoint_id).limit(limit))


def newest_notified(connection: Connection, pipeline_id: str) -> int | None:
    """Return the newest checkpoint that all sinks were notified of, of those that are not abandoned."""
    notified = select(checkpoints.c.checkpoint_id).where(
        checkpoints.c.pipeline_id == pipeline_id,
        checkpoints.c.completed_at.is_not(None),
        checkpoints.c.notified_at.is_not(None),
        checkpoints.c.abandoned_by.is_(None),
    )
    newest: int | None = connection.execute(notified.order_by(checkpoints.c.checkpoint_id.desc()).limit(1)).scalar()
    return newest


def committer(connection: Connection, pipeline_id: str) -> CommitterRecord:
    row = connection.execute(select(pipelines).where(pipelines.c.pipeline_id == pipeline_id)).mappings().first()
    return CommitterRecord() if row is None else committer_record(row)


def latest_completed(connection: Connection, pipeline_id: str) -> CheckpointRecord | None:
    """Return the latest completed checkpoint, of those that are not abandoned."""
    return latest(connection, pipeline_id, Status.COMPLETED)


def figures(connection: Connection, pipeline_id: str) -> LatestFigures:
    record = latest(connection, pipeline_id, Status.COMPLETED)
    measured = None
    if record is not None:
        of = {"pipeline_id": pipeline_id, "checkpoint_id": record.checkpoint_id}
        measured = connection.execute(_MEASUREMENT, of).mappings().first()
    restores, latest_restore = restore_count(connection, pipeline_id)
    return LatestFigures(
        _by_status(connection, pipeline_id),
        restores,
        latest_restore,
        record,
        None if measured is None else Measurement(**measured),
        tuple(lag_of(connection, pipeline_id)),
        0 if record is None else int(connection.execute(_EXPIRED_ROWS, of).scalar_one()),
    )


def _by_status(connection: Connection, pipeline_id: str) -> dict[Status, int]:
    counted = connection.execute(BY_STATUS, {"pipeline_id": pipeline_id})
    return {Status(row.status): row.number for row in counted}


def latest_savepoint(connection: Connection, pipeline_id: str) -> CheckpointRecord | None:
    """Return the latest savepoint. Savepoints stay COMPLETED until they are disposed of."""
    kept = _of(pipeline_id).where(
        (checkpoints.c.status == Status.COMPLETED.value) & (checkpoints.c.kind != CheckpointKind.CHECKPOINT.value)
    )
    records = _checkpoints(connection, kept.order_by(checkpoints.c.checkpoint_id.desc()).limit(1))
    return records[0] if records else None


def restore_count(connection: Connection, pipeline_id: str) -> tuple[int, LatestRestore | None]:
    columns = (pipelines.c.restores, pipelines.c.restored_checkpoint, pipelines.c.restored_at)
    row = connection.execute(select(*columns).where(pipelines.c.pipeline_id == pipeline_id)).first()
    if row is None or row.restores == 0:
        return 0, None
    record = checkpoint(connection, pipeline_id, row.restored_checkpoint)
    assert record is not None  # rows of checkpoints are never deleted
    return row.restores, LatestRestore(record, row.restored_at.astimezone(UTC))


_MEASUREMENT = text("""
SELECT checkpoint_id, end_to_end_duration, checkpointed_size, state_size, processed_data, persisted_data
FROM tidegate.figures WHERE pipeline_id = :pipeline_id AND checkpoint_id = :checkpoint_id
""")

# Like `protocol.schema.expiry.count_removed`: a run shared by several subtasks counts where its smallest hash is.
_EXPIRED_ROWS = text("""
SELECT coalesce(sum((details -> 'ttl' ->> 'removed')::bigint), 0) FROM tidegate.handles
WHERE pipeline_id = :pipeline_id AND checkpoint_id = :checkpoint_id AND details -> 'ttl' ->> 'removed' <> '0'
AND (first_key_group IS NULL OR
    (('x' || left(details ->> 'min_hash', 8))::bit(32)::bigint * (details ->> 'max_parallelism')::bigint) >> 32
    BETWEEN first_key_group AND last_key_group)
""")


def latest(connection: Connection, pipeline_id: str, status: Status) -> CheckpointRecord | None:
    held = _of(pipeline_id).where(checkpoints.c.status == status.value, checkpoints.c.abandoned_by.is_(None))
    records = _checkpoints(connection, held.order_by(checkpoints.c.checkpoint_id.desc()).limit(1))
    return records[0] if records else None


def unswept(connection: Connection, pipeline_id: str) -> dict[int, datetime]:
    """Return when each checkpoint ended that is not swept yet, oldest first. It reads few columns, because every
    cleaning needs it."""
    ended_at = func.coalesce(checkpoints.c.completed_at, checkpoints.c.failed_at)
    ended = select(checkpoints.c.checkpoint_id, ended_at).where(
        checkpoints.c.pipeline_id == pipeline_id,
        checkpoints.c.status != Status.IN_PROGRESS.value,
        ~checkpoints.c.swept,
    )
    return {id_: at.astimezone(UTC) for id_, at in connection.execute(ended.order_by(checkpoints.c.checkpoint_id))}


def history(connection: Connection, pipeline_id: str, limit: int) -> list[CheckpointRecord]:
    """Return the newest checkpoints, newest first."""
    newest = _of(pipeline_id).order_by(checkpoints.c.checkpoint_id.desc()).limit(limit)
    return _checkpoints(connection, newest)


def _of(pipeline_id: str) -> Select[Any]:
    return select(checkpoints).where(checkpoints.c.pipeline_id == pipeline_id)


def _checkpoints(connection: Connection, query: Select[Any]) -> list[CheckpointRecord]:
    return [checkpoint_record(row) for row in connection.execute(query).mappings()]


def verdicts_of(connection: Connection, pipeline_id: str, checkpoint_id: int) -> list[Verdict]:
    """Return the verdicts on a checkpoint, in the order they were recorded."""
    of_checkpoint = select(verdicts).where(
        verdicts.c.pipeline_id == pipeline_id, verdicts.c.checkpoint_id == checkpoint_id
    )
    return [verdict_record(row) for row in connection.execute(of_checkpoint.order_by(verdicts.c.ordinal)).mappings()]


def compactions_of(connection: Connection, pipeline_id: str) -> list[CompactedRun]:
    """Return the compacted runs of a pipeline, oldest first."""
    ordered = select(compactions).where(compactions.c.pipeline_id == pipeline_id).order_by(compactions.c.position)
    return [compaction_record(row) for row in connection.execute(ordered).mappings()]
