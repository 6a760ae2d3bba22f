"""What most transactions ask about a pipeline, in one statement: what is under way, and what there is beside it.

Its size does not grow with the history. Checkpoints are rows; the little there is of everything else travels beside
each of them as JSON, and there is one row at least.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import BindParameter, Connection, ScalarSelect, Select, Table, bindparam, func, select, true, union_all
from sqlalchemy.dialects.postgresql import aggregate_order_by

from tidegate.postgres.rows import checkpoint_record, request_record, restore_record
from tidegate.postgres.tables import checkpoints, endpoints, imports, requests, restores
from tidegate.protocol.branches import Restore
from tidegate.protocol.identity import Endpoint, Role
from tidegate.protocol.lifecycle import Status
from tidegate.protocol.records import CheckpointRecord, CheckpointRequest

Imports = tuple[dict[int, datetime], dict[int, datetime]]


@dataclass(frozen=True, slots=True)
class Picture:
    """`unnotified` are completed checkpoints that no restore has left behind and whose sinks have not committed, and
    `latest` is the newest completed one; `cleaning` counts those whose files are still to be deleted."""

    in_progress: list[CheckpointRecord]
    unnotified: list[CheckpointRecord]
    latest: CheckpointRecord | None
    cleaning: int
    restores: list[Restore]
    endpoints: list[Endpoint]
    requests: list[CheckpointRequest]
    imports: Imports


def read(connection: Connection, pipeline_id: str) -> Picture:
    rows = connection.execute(_PICTURE, {"pipeline_id": pipeline_id}).mappings().all()
    records = [checkpoint_record(row) for row in rows if row["checkpoint_id"] is not None]
    present = [r for r in records if r.status is Status.COMPLETED and r.abandoned_by is None]
    beside = rows[0]
    return Picture(
        [record for record in records if record.status is Status.IN_PROGRESS],
        [record for record in present if record.notified_at is None],
        present[-1] if present else None,
        beside["cleaning"],
        [restore_record(_with_times(row, "restored_at", "rewound_at")) for row in beside["restores"]],
        [Endpoint(Role(row["role"]), row["name"], row["type"], row["place"]) for row in beside["endpoints"]],
        [request_record(_with_times(row, "asked_at", "seen_at")) for row in beside["requests"]],
        _imports([_with_times(row, "seen_at", "ended_at") for row in beside["imports"]]),
    )


def _imports(rows: Sequence[dict[str, Any]]) -> Imports:
    under_way = {row["checkpoint_id"]: row["seen_at"] for row in rows if row["ended_at"] is None}
    return under_way, {row["checkpoint_id"]: row["ended_at"] for row in rows if row["ended_at"] is not None}


def _with_times(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return row | {name: datetime.fromisoformat(row[name]) for name in names if row[name] is not None}


_PIPELINE: BindParameter[Any] = bindparam("pipeline_id")


def _all_of(table: Table, order: str) -> ScalarSelect[Any]:
    """The pipeline's rows of a small table, as JSON."""
    each = table.alias()
    rows = func.jsonb_agg(aggregate_order_by(func.to_jsonb(each.table_valued()), each.c[order]))
    found = select(func.coalesce(rows, func.jsonb_build_array())).where(each.c.pipeline_id == _PIPELINE)
    return found.scalar_subquery()


def _ids(*where: Any) -> Select[Any]:
    return select(checkpoints.c.checkpoint_id).where(checkpoints.c.pipeline_id == _PIPELINE, *where)


def _picture() -> Select[Any]:
    present = (checkpoints.c.status == Status.COMPLETED.value) & checkpoints.c.abandoned_by.is_(None)
    in_doubt = checkpoints.c.completed_at.is_not(None) & checkpoints.c.notified_at.is_(None)
    newest = _ids(present).order_by(checkpoints.c.checkpoint_id.desc()).limit(1).subquery()
    asked = union_all(
        _ids(checkpoints.c.status == Status.IN_PROGRESS.value),
        _ids(in_doubt, present),
        select(newest.c.checkpoint_id),
    )
    cleaning = select(func.count()).where(
        checkpoints.c.pipeline_id == _PIPELINE, checkpoints.c.status == Status.SUBSUMED.value
    )
    beside = select(
        cleaning.scalar_subquery().label("cleaning"),
        _all_of(restores, "number").label("restores"),
        _all_of(endpoints, "name").label("endpoints"),
        _all_of(requests, "request_id").label("requests"),
        _all_of(imports, "checkpoint_id").label("imports"),
    ).subquery("beside")
    under_way = select(checkpoints).where(
        checkpoints.c.pipeline_id == _PIPELINE, checkpoints.c.checkpoint_id.in_(asked)
    )
    found = under_way.subquery("found")
    joined = beside.outerjoin(found, true())
    return select(found, *beside.c).select_from(joined).order_by(found.c.checkpoint_id)


_PICTURE = _picture()
