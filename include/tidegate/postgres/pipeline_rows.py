"""Read the rows of a pipeline that most transactions need, in one statement: its checkpoints in progress or not yet
notified, and the rows of its other tables.

The result does not grow with the history. Checkpoints are rows. The few rows of the other tables are attached to
each of them as JSON, and there is at least one row.

The lock that a transaction begins with is taken here too. A statement sees the commits before its beginning. If one
statement waited for the lock and read as well, it would not see the changes of the transaction that held the lock.
So the reading statement is separate, and is sent in one request with the lock's.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Table, TextClause, text

from tidegate.ports import Prefetch
from tidegate.postgres.rows import checkpoint_record, request_record, restore_record, skip_record
from tidegate.postgres.tables import checkpoints, pipelines
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.records import CheckpointRecord
from tidegate.protocol.recovery.identity import Endpoint, Role


def _columns(table: Table, alias: str) -> str:
    return ", ".join(f"{alias}.{column.name}" for column in table.columns)


_LOCK = """
SELECT COLUMNS FROM tidegate.pipelines p WHERE p.pipeline_id = :pipeline_id FOR UPDATE
""".replace("COLUMNS", _columns(pipelines, "p"))


# The checkpoint of a request is chosen as in `reads.latest_by_request`. LATERAL and OFFSET look up the chosen
# checkpoints one by one. Without statistics, the planner would evaluate all of this again for each checkpoint of the
# history.
_ROWS = """
SELECT COLUMNS, to_jsonb(p) AS pipeline,
    (SELECT count(*) FROM tidegate.checkpoints s
     WHERE s.pipeline_id = :pipeline_id AND s.status = 'SUBSUMED') AS cleaning,
    EXISTS (SELECT FROM tidegate.compactions k WHERE k.pipeline_id = :pipeline_id) AS compacted,
    (SELECT coalesce(jsonb_agg(to_jsonb(r) ORDER BY r.number), '[]')
     FROM tidegate.restores r WHERE r.pipeline_id = :pipeline_id) AS restores,
    (SELECT coalesce(jsonb_agg(to_jsonb(k) ORDER BY k.number), '[]')
     FROM tidegate.source_skips k WHERE k.pipeline_id = :pipeline_id) AS skips,
    (SELECT coalesce(jsonb_agg(to_jsonb(e) ORDER BY e.name), '[]')
     FROM tidegate.endpoints e WHERE e.pipeline_id = :pipeline_id) AS endpoints,
    (SELECT coalesce(jsonb_agg(to_jsonb(a) ORDER BY a.request_id), '[]')
     FROM tidegate.requests a WHERE a.pipeline_id = :pipeline_id) AS requests,
    (SELECT coalesce(jsonb_agg(to_jsonb(i) ORDER BY i.checkpoint_id), '[]')
     FROM tidegate.imports i WHERE i.pipeline_id = :pipeline_id) AS imports
FROM tidegate.pipelines p LEFT JOIN (
    SELECT checkpoint_id FROM tidegate.checkpoints WHERE pipeline_id = :pipeline_id AND status = 'IN_PROGRESS'
  UNION
    SELECT checkpoint_id FROM tidegate.checkpoints
    WHERE pipeline_id = :pipeline_id AND completed_at IS NOT NULL AND notified_at IS NULL
      AND status = 'COMPLETED' AND abandoned_by IS NULL
  UNION
    (SELECT checkpoint_id FROM tidegate.checkpoints
     WHERE pipeline_id = :pipeline_id AND status = 'COMPLETED' AND abandoned_by IS NULL
     ORDER BY checkpoint_id DESC LIMIT 1)
  UNION
    SELECT checkpoint_id FROM tidegate.checkpoints
    WHERE :completed AND pipeline_id = :pipeline_id AND status = 'COMPLETED'
  UNION
    (SELECT checkpoint_id FROM tidegate.checkpoints
     WHERE pipeline_id = :pipeline_id AND request_id = CAST(:request_id AS text)
     ORDER BY (status <> 'FAILED' AND abandoned_by IS NULL) DESC, checkpoint_id DESC LIMIT 1)
) AS requested ON true
LEFT JOIN LATERAL (
    SELECT * FROM tidegate.checkpoints c
    WHERE c.pipeline_id = :pipeline_id AND c.checkpoint_id = requested.checkpoint_id
    OFFSET 0
) AS found ON true
WHERE p.pipeline_id = :pipeline_id
ORDER BY found.checkpoint_id
""".replace("COLUMNS", _columns(checkpoints, "found"))

_LOCK_ONLY, _ROWS_ONLY, _BOTH = text(_LOCK), text(_ROWS), text(f"{_LOCK};{_ROWS}")
_CREATE = text("INSERT INTO tidegate.pipelines (pipeline_id) VALUES (:pipeline_id) ON CONFLICT DO NOTHING")


@dataclass(frozen=True, slots=True)
class Locked:
    """The pipeline's row, which serialises all transactions on the pipeline, and the facts that were read with it."""

    pipeline: Mapping[str, Any]
    known: dict[Hashable, Any]


def lock(connection: Connection, pipeline_id: str, prefetch: Prefetch | None) -> Locked:
    """Wait for the lock, and take it. If the pipeline has no row yet, create it."""
    locked = _lock(connection, pipeline_id, prefetch)
    if locked is None:
        connection.execute(_CREATE, {"pipeline_id": pipeline_id})
        locked = _lock(connection, pipeline_id, prefetch)
    assert locked is not None  # rows of pipelines are never deleted
    return locked


def _lock(connection: Connection, pipeline_id: str, prefetch: Prefetch | None) -> Locked | None:
    if prefetch is not None:
        return _read(connection, _BOTH, pipeline_id, prefetch)
    row = connection.execute(_LOCK_ONLY, {"pipeline_id": pipeline_id}).mappings().one_or_none()
    return None if row is None else Locked(dict(row), {})


def read(connection: Connection, pipeline_id: str) -> dict[Hashable, Any]:
    """Read with the lock, and return the facts by their names in `facts`. `unnotified` are completed checkpoints that
    are not abandoned and whose sinks have not committed. `latest` is the newest completed one. `cleaning` is the
    number of checkpoints whose files are still to be deleted. `compacted`: whether there are compacted runs."""
    prefetched = _read(connection, _ROWS_ONLY, pipeline_id, Prefetch())
    assert prefetched is not None
    return prefetched.known


def _read(connection: Connection, statement: TextClause, pipeline_id: str, prefetch: Prefetch) -> Locked | None:
    parameters = {"pipeline_id": pipeline_id, "completed": prefetch.completed, "request_id": prefetch.request_id}
    rows = connection.execute(statement, parameters).mappings().all()
    if not rows:
        return None
    records = [checkpoint_record(row) for row in rows if row["checkpoint_id"] is not None]
    completed = [record for record in records if record.status is Status.COMPLETED]
    present = [record for record in completed if record.abandoned_by is None]
    first = rows[0]
    known: dict[Hashable, Any] = {
        "in progress": [record for record in records if record.status is Status.IN_PROGRESS],
        "unnotified": [record for record in present if record.notified_at is None],
        "latest": present[-1] if present else None,
        "cleaning": first["cleaning"],
        "compacted": first["compacted"],
        "restores": [restore_record(_with_times(row, "restored_at", "rewound_at")) for row in first["restores"]],
        "skips": [skip_record(_with_times(row, "skipped_at")) for row in first["skips"]],
        "endpoints": [
            Endpoint(Role(row["role"]), row["name"], row["type"], row["place"]) for row in first["endpoints"]
        ],
        "requests": [request_record(_with_times(row, "asked_at", "seen_at")) for row in first["requests"]],
        "imports": _imports([_with_times(row, "seen_at", "ended_at") for row in first["imports"]]),
    }
    if prefetch.completed:
        known["completed"] = completed
    if prefetch.request_id is not None:
        known["request", prefetch.request_id] = _answers(prefetch.request_id, records)
    return Locked(_with_times(first["pipeline"], *_PIPELINE_TIMES), known)


_PIPELINE_TIMES = (
    *("since", "stale_since", "restored_at", "committer_seen_at"),
    *("region_started_at", "region_seen_at", "region_ended_at"),
)


def _answers(request_id: str, records: Sequence[CheckpointRecord]) -> CheckpointRecord | None:
    """Return the checkpoint of the request, of all those that parts of the statement have returned."""
    of_request = (record for record in records if record.request_id == request_id)
    return max(of_request, key=_counts, default=None)


def _counts(record: CheckpointRecord) -> tuple[bool, int]:
    return record.status is not Status.FAILED and record.abandoned_by is None, record.checkpoint_id


def _imports(rows: Sequence[dict[str, Any]]) -> tuple[dict[int, datetime], dict[int, datetime]]:
    under_way = {row["checkpoint_id"]: row["seen_at"] for row in rows if row["ended_at"] is None}
    return under_way, {row["checkpoint_id"]: row["ended_at"] for row in rows if row["ended_at"] is not None}


def _with_times(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return row | {name: datetime.fromisoformat(row[name]) for name in names if row[name] is not None}
