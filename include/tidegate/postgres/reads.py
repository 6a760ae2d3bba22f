"""The store's queries: one statement each, so that each answer is of one moment. Subtasks are in `snapshots`."""

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
    """Pipelines that ever had a checkpoint or a change of status, by name."""
    asked = (pipelines.c.last_checkpoint_id > 0) | (pipelines.c.status != PipelineStatus.CREATED.value)
    return list(
        connection.execute(select(pipelines.c.pipeline_id).where(asked).order_by(pipelines.c.pipeline_id)).scalars()
    )


def checkpoint(connection: Connection, pipeline_id: str, checkpoint_id: int) -> CheckpointRecord | None:
    found = _checkpoints(connection, _of(pipeline_id).where(checkpoints.c.checkpoint_id == checkpoint_id))
    return found[0] if found else None


def latest_by_request(connection: Connection, pipeline_id: str, request_id: str) -> CheckpointRecord | None:
    asked = _of(pipeline_id).where(checkpoints.c.request_id == request_id)
    counts = (checkpoints.c.status != Status.FAILED.value) & checkpoints.c.abandoned_by.is_(None)
    found = _checkpoints(connection, asked.order_by(counts.desc(), checkpoints.c.checkpoint_id.desc()).limit(1))
    return found[0] if found else None


def with_status(connection: Connection, pipeline_id: str, status: Status) -> list[CheckpointRecord]:
    """Oldest first."""
    held = _of(pipeline_id).where(checkpoints.c.status == status.value)
    return _checkpoints(connection, held.order_by(checkpoints.c.checkpoint_id))


def named(connection: Connection, pipeline_id: str, name: str) -> CheckpointRecord | None:
    in_use = checkpoints.c.status.in_([Status.IN_PROGRESS.value, Status.COMPLETED.value])
    found = _checkpoints(connection, _of(pipeline_id).where(checkpoints.c.name == name, in_use))
    return found[0] if found else None


def written_to(connection: Connection, pipeline_id: str, location: str) -> list[CheckpointRecord]:
    """Oldest first."""
    there = _of(pipeline_id).where(checkpoints.c.location == location)
    return _checkpoints(connection, there.order_by(checkpoints.c.checkpoint_id))


def restores_of(connection: Connection, pipeline_id: str) -> list[Restore]:
    """Oldest first."""
    found = select(restores).where(restores.c.pipeline_id == pipeline_id).order_by(restores.c.number)
    return [restore_record(row) for row in connection.execute(found).mappings()]


def pipeline(connection: Connection, pipeline_id: str) -> PipelineRecord | None:
    known = connection.execute(select(pipelines).where(pipelines.c.pipeline_id == pipeline_id)).mappings().first()
    return None if known is None else pipeline_record(known)


def endpoints_of(connection: Connection, pipeline_id: str) -> list[Endpoint]:
    known = (endpoints.c.role, endpoints.c.name, endpoints.c.type, endpoints.c.place)
    found = connection.execute(select(*known).where(endpoints.c.pipeline_id == pipeline_id))
    return [Endpoint(Role(role), *rest) for role, *rest in found]


def region(connection: Connection, pipeline_id: str) -> RegionRecord:
    known = connection.execute(select(pipelines).where(pipelines.c.pipeline_id == pipeline_id)).mappings().first()
    return RegionRecord() if known is None else region_record(known)


def requests_of(connection: Connection, pipeline_id: str) -> list[CheckpointRequest]:
    found = connection.execute(select(requests).where(requests.c.pipeline_id == pipeline_id))
    return [request_record(row) for row in found.mappings()]


def failed_after(connection: Connection, pipeline_id: str, checkpoint_id: int) -> list[CheckpointRecord]:
    """Oldest first."""
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
    """Those that have completed, that no restore has left behind, and whose sinks were not all told; oldest first."""
    waiting = _of(pipeline_id).where(
        checkpoints.c.completed_at.is_not(None),
        checkpoints.c.notified_at.is_(None),
        checkpoints.c.abandoned_by.is_(None),
    )
    return _checkpoints(connection, waiting.order_by(checkpoints.c.checkpoint_id).limit(limit))


def newest_notified(connection: Connection, pipeline_id: str) -> int | None:
    """The newest checkpoint that all sinks were told to show, of those that no restore has left behind."""
    told = select(checkpoints.c.checkpoint_id).where(
        checkpoints.c.pipeline_id == pipeline_id,
        checkpoints.c.completed_at.is_not(None),
        checkpoints.c.notified_at.is_not(None),
        checkpoints.c.abandoned_by.is_(None),
    )
    newest: int | None = connection.execute(told.order_by(checkpoints.c.checkpoint_id.desc()).limit(1)).scalar()
    return newest


def committer(connection: Connection, pipeline_id: str) -> CommitterRecord:
    known = connection.execute(select(pipelines).where(pipelines.c.pipeline_id == pipeline_id)).mappings().first()
    return CommitterRecord() if known is None else committer_record(known)


def latest_completed(connection: Connection, pipeline_id: str) -> CheckpointRecord | None:
    """Of those that no restore has left behind."""
    return latest(connection, pipeline_id, Status.COMPLETED)


def figures(connection: Connection, pipeline_id: str) -> LatestFigures:
    found = latest(connection, pipeline_id, Status.COMPLETED)
    measured = None
    if found is not None:
        of = {"pipeline_id": pipeline_id, "checkpoint_id": found.checkpoint_id}
        measured = connection.execute(_MEASUREMENT, of).mappings().first()
    restores, latest_restore = restore_count(connection, pipeline_id)
    return LatestFigures(
        _by_status(connection, pipeline_id),
        restores,
        latest_restore,
        found,
        None if measured is None else Measurement(**measured),
        tuple(lag_of(connection, pipeline_id)),
        0 if found is None else int(connection.execute(_EXPIRED_ROWS, of).scalar_one()),
    )


def _by_status(connection: Connection, pipeline_id: str) -> dict[Status, int]:
    counted = connection.execute(BY_STATUS, {"pipeline_id": pipeline_id})
    return {Status(row.status): row.number for row in counted}


def latest_savepoint(connection: Connection, pipeline_id: str) -> CheckpointRecord | None:
    """Savepoints stay COMPLETED until they are disposed of."""
    kept = _of(pipeline_id).where(
        (checkpoints.c.status == Status.COMPLETED.value) & (checkpoints.c.kind != CheckpointKind.CHECKPOINT.value)
    )
    found = _checkpoints(connection, kept.order_by(checkpoints.c.checkpoint_id.desc()).limit(1))
    return found[0] if found else None


def restore_count(connection: Connection, pipeline_id: str) -> tuple[int, LatestRestore | None]:
    columns = (pipelines.c.restores, pipelines.c.restored_checkpoint, pipelines.c.restored_at)
    known = connection.execute(select(*columns).where(pipelines.c.pipeline_id == pipeline_id)).first()
    if known is None or known.restores == 0:
        return 0, None
    record = checkpoint(connection, pipeline_id, known.restored_checkpoint)
    assert record is not None  # rows of checkpoints are never deleted
    return known.restores, LatestRestore(record, known.restored_at.astimezone(UTC))


_MEASUREMENT = text("""
SELECT checkpoint_id, end_to_end_duration, checkpointed_size, state_size, processed_data, persisted_data
FROM tidegate.figures WHERE pipeline_id = :pipeline_id AND checkpoint_id = :checkpoint_id
""")

# As `protocol.schema.expiry.count_removed`: a run that several subtasks share counts where its smallest hash is.
_EXPIRED_ROWS = text("""
SELECT coalesce(sum((details -> 'ttl' ->> 'removed')::bigint), 0) FROM tidegate.handles
WHERE pipeline_id = :pipeline_id AND checkpoint_id = :checkpoint_id AND details -> 'ttl' ->> 'removed' <> '0'
AND (first_key_group IS NULL OR
    (('x' || left(details ->> 'min_hash', 8))::bit(32)::bigint * (details ->> 'max_parallelism')::bigint) >> 32
    BETWEEN first_key_group AND last_key_group)
""")


def latest(connection: Connection, pipeline_id: str, status: Status) -> CheckpointRecord | None:
    held = _of(pipeline_id).where(checkpoints.c.status == status.value, checkpoints.c.abandoned_by.is_(None))
    found = _checkpoints(connection, held.order_by(checkpoints.c.checkpoint_id.desc()).limit(1))
    return found[0] if found else None


def unswept(connection: Connection, pipeline_id: str) -> dict[int, datetime]:
    """When each checkpoint ended that is not swept yet, oldest first. No whole rows, as every cleaning step asks."""
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


def verdicts_of(connection: Connection, pipeline_id: str, checkpoint_id: int) -> list[Verdict]:
    """In the order they were recorded."""
    found = select(verdicts).where(verdicts.c.pipeline_id == pipeline_id, verdicts.c.checkpoint_id == checkpoint_id)
    return [verdict_record(row) for row in connection.execute(found.order_by(verdicts.c.ordinal)).mappings()]


def compactions_of(connection: Connection, pipeline_id: str) -> list[CompactedRun]:
    """Oldest first."""
    found = select(compactions).where(compactions.c.pipeline_id == pipeline_id).order_by(compactions.c.position)
    return [compaction_record(row) for row in connection.execute(found).mappings()]
