"""Find the files that are garbage, derived from references, never from counters.

The view `tidegate.live_references` lists the live files (see `rules.LIVE_REFERENCES`). A file is deleted in two
steps. It is queued when its last reference ends, and handed out for deletion only while nothing live refers to it.

The statements compare sets (EXCEPT) where NOT EXISTS would be equivalent. Right after a large checkpoint the planner
has no statistics yet, and a set operation cannot be planned as a nested loop.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import Connection, RowMapping, text

from tidegate.protocol.facts.records import Deletion

# The view shows the state before the statement. Without the checkpoints that end here, that is the state after it.
_RELEASE = """
, released AS (
    SELECT h.owner, h.path
    FROM tidegate.handles h
    WHERE h.pipeline_id = :pipeline_id AND h.checkpoint_id IN (SELECT checkpoint_id FROM ended)
  UNION
    SELECT 'storage', metadata_path FROM ended WHERE metadata_path IS NOT NULL
), queued AS (
    INSERT INTO tidegate.deletion_queue (pipeline_id, owner, path, given_up_by)
    SELECT :pipeline_id, owner, path, :given_up_by FROM (
        SELECT owner, path FROM released
      EXCEPT
        SELECT owner, path FROM tidegate.live_references
        WHERE pipeline_id = :pipeline_id AND checkpoint_id NOT IN (SELECT checkpoint_id FROM ended)
      ORDER BY owner, path) garbage
    ON CONFLICT DO NOTHING
)
SELECT * FROM ended
"""

_ENDED_BY_A_NEWER_ONE = """
WITH ended AS (
    UPDATE tidegate.checkpoints SET status = 'SUBSUMED'
    WHERE pipeline_id = :pipeline_id AND checkpoint_id = ANY (CAST(:checkpoint_ids AS bigint[]))
      AND status = 'COMPLETED'
    RETURNING *
)"""

_ENDED_BY_FAILING = """
WITH ended AS (
    UPDATE tidegate.checkpoints SET status = 'FAILED', failure_reason = :reason, failure_message = :message,
        failed_at = :at
    WHERE pipeline_id = :pipeline_id AND checkpoint_id = :checkpoint_id AND status = 'IN_PROGRESS'
    RETURNING *
)"""

_SUBSUME, _FAIL = text(_ENDED_BY_A_NEWER_ONE + _RELEASE), text(_ENDED_BY_FAILING + _RELEASE)

_FORGET_COMPACTIONS = text("""
DELETE FROM tidegate.compactions
WHERE pipeline_id = :pipeline_id AND path = ANY (CAST(:paths AS text[]))
RETURNING path
""")

_RELEASE_PATHS = text("""
INSERT INTO tidegate.deletion_queue (pipeline_id, owner, path)
SELECT :pipeline_id, owner, path FROM (
    SELECT 'storage' AS owner, unnest(CAST(:paths AS text[])) AS path
  EXCEPT
    SELECT owner, path FROM tidegate.live_references WHERE pipeline_id = :pipeline_id) garbage
ON CONFLICT DO NOTHING
""")

_ENQUEUE = text("""
INSERT INTO tidegate.deletion_queue (pipeline_id, owner, path, given_up_by)
SELECT :pipeline_id, d.owner, d.path, :given_up_by
FROM unnest(CAST(:owners AS text[]), CAST(:paths AS text[])) WITH ORDINALITY AS d (owner, path, place)
ORDER BY d.place
ON CONFLICT DO NOTHING
""")

_DROP = text("""
DELETE FROM tidegate.handles h
USING unnest(CAST(:owners AS text[]), CAST(:paths AS text[])) AS d (owner, path)
WHERE h.pipeline_id = :pipeline_id AND h.checkpoint_id = :checkpoint_id AND h.owner = d.owner AND h.path = d.path
""")

# The running region may still refer to files that checkpoints released, until a later one completes without them.
_PENDING = text("""
(SELECT q.position, q.owner, q.path, NULL AS checkpoint_id, NULL AS ended_at
FROM tidegate.deletion_queue q JOIN (
    SELECT owner, path FROM tidegate.deletion_queue WHERE pipeline_id = :pipeline_id
  EXCEPT
    SELECT owner, path FROM tidegate.live_references WHERE pipeline_id = :pipeline_id) garbage USING (owner, path)
WHERE q.pipeline_id = :pipeline_id AND NOT coalesce(
    q.owner = 'storage' AND starts_with(q.path, :in_use || '/') AND q.given_up_by >= (
        SELECT coalesce(max(c.checkpoint_id), 0) FROM tidegate.checkpoints c
        WHERE c.pipeline_id = :pipeline_id AND c.status = 'COMPLETED'), false)
ORDER BY q.position
LIMIT :limit)
UNION ALL
SELECT NULL, NULL, NULL, checkpoint_id, coalesce(completed_at, failed_at) FROM tidegate.checkpoints
WHERE pipeline_id = :pipeline_id AND status <> 'IN_PROGRESS' AND NOT swept
ORDER BY position, checkpoint_id
""")

# LATERAL and OFFSET look up each file by the primary key. Else the planner would read the whole queue for each batch.
_REMOVE = """
DELETE FROM tidegate.deletion_queue q
USING unnest(CAST(:owners AS text[]), CAST(:paths AS text[])) AS d (owner, path)
    CROSS JOIN LATERAL (
        SELECT k.ctid FROM tidegate.deletion_queue k
        WHERE k.pipeline_id = :pipeline_id AND k.owner = d.owner AND k.path = d.path
        OFFSET 0
    ) AS found
WHERE q.ctid = found.ctid
"""
_REMOVE_ONLY = text(_REMOVE)

_DISCARD = """
    RETURNING q.owner, q.path
), waiting AS (
    SELECT owner, path FROM tidegate.deletion_queue WHERE pipeline_id = :pipeline_id
  EXCEPT
    SELECT owner, path FROM gone
)
UPDATE tidegate.checkpoints c SET status = 'DISCARDED'
WHERE c.pipeline_id = :pipeline_id AND c.status = 'SUBSUMED'
  AND c.checkpoint_id NOT IN (
    SELECT h.checkpoint_id
    FROM tidegate.checkpoints s
        JOIN tidegate.handles h USING (pipeline_id, checkpoint_id)
        JOIN waiting USING (owner, path)
    WHERE s.pipeline_id = :pipeline_id AND s.status = 'SUBSUMED')
  AND c.metadata_path NOT IN (SELECT path FROM waiting WHERE owner = 'storage')
"""
_REMOVE_AND_DISCARD = text("WITH gone AS (" + _REMOVE + _DISCARD)

_LIVE_OF_CREATORS = text("""
SELECT DISTINCT owner, path FROM tidegate.live_references
WHERE pipeline_id = :pipeline_id AND created_by = ANY (CAST(:checkpoint_ids AS bigint[]))
""")

_LIVE_BELOW = text("""
SELECT DISTINCT owner, path FROM tidegate.live_references
WHERE pipeline_id = :pipeline_id AND owner = 'storage' AND starts_with(path, :directory || '/')
""")


def subsume(connection: Connection, pipeline_id: str, checkpoint_ids: Sequence[int]) -> list[int]:
    """End completed checkpoints, and enqueue their files except those that something live refers to. Return the
    checkpoints that were completed until now."""
    parameters = {"pipeline_id": pipeline_id, "checkpoint_ids": list(checkpoint_ids), "given_up_by": None}
    return [row["checkpoint_id"] for row in connection.execute(_SUBSUME, parameters).mappings()]


def fail(
    connection: Connection, pipeline_id: str, checkpoint_id: int, reason: str, message: str, at: datetime
) -> RowMapping | None:
    """End a checkpoint in progress, and enqueue its files except those that something live refers to. Return its row
    afterwards; None if it was not in progress."""
    ended = {"checkpoint_id": checkpoint_id, "given_up_by": checkpoint_id, "pipeline_id": pipeline_id}
    failed = {"reason": reason, "message": message, "at": at}
    return connection.execute(_FAIL, ended | failed).mappings().one_or_none()


def forget_compactions(connection: Connection, pipeline_id: str, paths: Sequence[str]) -> None:
    """Remove compacted runs, and enqueue their files except those that something live refers to."""
    named = {"pipeline_id": pipeline_id, "paths": list(paths)}
    removed = list(connection.execute(_FORGET_COMPACTIONS, named).scalars())
    if removed:
        connection.execute(_RELEASE_PATHS, {"pipeline_id": pipeline_id, "paths": removed})


def enqueue(connection: Connection, pipeline_id: str, deletions: Sequence[Deletion], given_up_by: int | None) -> None:
    connection.execute(_ENQUEUE, {**_named(pipeline_id, deletions), "given_up_by": given_up_by})


def drop(connection: Connection, pipeline_id: str, checkpoint_id: int, files: Sequence[Deletion]) -> None:
    """Forget files that a checkpoint refers to, and enqueue them. Nothing else ever referred to them."""
    connection.execute(_DROP, {**_named(pipeline_id, files), "checkpoint_id": checkpoint_id})
    enqueue(connection, pipeline_id, files, None)


def garbage(
    connection: Connection, pipeline_id: str, limit: int, in_use: str | None
) -> tuple[list[Deletion], dict[int, datetime]]:
    """Return the queued files, and when each checkpoint ended that is not swept yet, because a cleaning needs both.
    `in_use` is the directory of the running region."""
    parameters = {"pipeline_id": pipeline_id, "limit": limit, "in_use": in_use}
    queued: list[Deletion] = []
    unswept: dict[int, datetime] = {}
    for _, owner, path, checkpoint_id, ended_at in connection.execute(_PENDING, parameters):
        if checkpoint_id is None:
            queued.append(Deletion(owner, path))
        else:
            unswept[checkpoint_id] = ended_at.astimezone(UTC)
    return queued, unswept


def remove(connection: Connection, pipeline_id: str, deletions: Sequence[Deletion]) -> None:
    connection.execute(_REMOVE_ONLY, _named(pipeline_id, deletions))


def discard_subsumed(connection: Connection, pipeline_id: str, gone: Sequence[Deletion]) -> int:
    """Remove files from the queue, and move checkpoints from SUBSUMED to DISCARDED if none of their files waits for
    deletion. Return how many were moved."""
    return connection.execute(_REMOVE_AND_DISCARD, _named(pipeline_id, gone)).rowcount


def live_paths(connection: Connection, pipeline_id: str, checkpoint_ids: Sequence[int]) -> set[Deletion]:
    named = {"pipeline_id": pipeline_id, "checkpoint_ids": list(checkpoint_ids)}
    return {Deletion(owner, path) for owner, path in connection.execute(_LIVE_OF_CREATORS, named)}


def live_below(connection: Connection, pipeline_id: str, directory: str) -> set[Deletion]:
    named = {"pipeline_id": pipeline_id, "directory": directory}
    return {Deletion(owner, path) for owner, path in connection.execute(_LIVE_BELOW, named)}


def _named(pipeline_id: str, deletions: Sequence[Deletion]) -> dict[str, object]:
    return {
        "pipeline_id": pipeline_id,
        "owners": [deletion.owner for deletion in deletions],
        "paths": [deletion.path for deletion in deletions],
    }
