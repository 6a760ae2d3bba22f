"""Checkpoints whose files are being copied in, by a restore or a fork. Each is recorded, or comes to nothing."""

from datetime import UTC, datetime

from sqlalchemy import Connection, text

_BEGIN = text("""
INSERT INTO tidegate.imports (pipeline_id, checkpoint_id, seen_at) VALUES (:pipeline_id, :checkpoint_id, :at)
""")

_UNDER_WAY = text("""
SELECT checkpoint_id, seen_at FROM tidegate.imports
WHERE pipeline_id = :pipeline_id AND ended_at IS NULL ORDER BY checkpoint_id
""")

_TOUCH = text("""
UPDATE tidegate.imports SET seen_at = :at
WHERE pipeline_id = :pipeline_id AND checkpoint_id = :checkpoint_id AND ended_at IS NULL
""")

_END = text("""
UPDATE tidegate.imports SET ended_at = :at
WHERE pipeline_id = :pipeline_id AND checkpoint_id = :checkpoint_id AND ended_at IS NULL
""")

_ENDED = text("""
SELECT checkpoint_id, ended_at FROM tidegate.imports WHERE pipeline_id = :pipeline_id AND ended_at IS NOT NULL
""")

_FORGET = text("""
DELETE FROM tidegate.imports
WHERE pipeline_id = :pipeline_id AND checkpoint_id = ANY (CAST(:checkpoint_ids AS bigint[])) AND ended_at IS NOT NULL
""")


def begin(connection: Connection, pipeline_id: str, checkpoint_id: int, at: datetime) -> None:
    connection.execute(_BEGIN, {"pipeline_id": pipeline_id, "checkpoint_id": checkpoint_id, "at": at})


def under_way(connection: Connection, pipeline_id: str) -> dict[int, datetime]:
    """The last sign of life of each."""
    rows = connection.execute(_UNDER_WAY, {"pipeline_id": pipeline_id})
    return {id_: at.astimezone(UTC) for id_, at in rows}


def touch(connection: Connection, pipeline_id: str, checkpoint_id: int, at: datetime) -> bool:
    named = {"pipeline_id": pipeline_id, "checkpoint_id": checkpoint_id, "at": at}
    return connection.execute(_TOUCH, named).rowcount == 1


def end(connection: Connection, pipeline_id: str, checkpoint_id: int, at: datetime) -> bool:
    named = {"pipeline_id": pipeline_id, "checkpoint_id": checkpoint_id, "at": at}
    return connection.execute(_END, named).rowcount == 1


def ended(connection: Connection, pipeline_id: str) -> dict[int, datetime]:
    """When each ended that is not forgotten."""
    rows = connection.execute(_ENDED, {"pipeline_id": pipeline_id})
    return {id_: at.astimezone(UTC) for id_, at in rows}


def forget(connection: Connection, pipeline_id: str, checkpoint_ids: list[int]) -> None:
    connection.execute(_FORGET, {"pipeline_id": pipeline_id, "checkpoint_ids": checkpoint_ids})
