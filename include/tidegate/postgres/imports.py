"""The checkpoints whose files a restore or a fork is copying. Each is finally recorded or discarded."""

from datetime import UTC, datetime

from sqlalchemy import Connection, text

_BEGIN = text("""
INSERT INTO tidegate.imports (pipeline_id, checkpoint_id, seen_at) VALUES (:pipeline_id, :checkpoint_id, :at)
""")

_KNOWN = text("""
SELECT checkpoint_id, seen_at, ended_at FROM tidegate.imports WHERE pipeline_id = :pipeline_id ORDER BY checkpoint_id
""")

_TOUCH = text("""
UPDATE tidegate.imports SET seen_at = :at
WHERE pipeline_id = :pipeline_id AND checkpoint_id = :checkpoint_id AND ended_at IS NULL
""")

_END = text("""
UPDATE tidegate.imports SET ended_at = :at
WHERE pipeline_id = :pipeline_id AND checkpoint_id = :checkpoint_id AND ended_at IS NULL
""")

_FORGET = text("""
DELETE FROM tidegate.imports
WHERE pipeline_id = :pipeline_id AND checkpoint_id = ANY (CAST(:checkpoint_ids AS bigint[])) AND ended_at IS NOT NULL
""")


def begin(connection: Connection, pipeline_id: str, checkpoint_id: int, at: datetime) -> None:
    connection.execute(_BEGIN, {"pipeline_id": pipeline_id, "checkpoint_id": checkpoint_id, "at": at})


def known(connection: Connection, pipeline_id: str) -> tuple[dict[int, datetime], dict[int, datetime]]:
    """Return the last sign of life of each running import, and when each ended that is not forgotten."""
    under_way, ended = {}, {}
    for id_, seen_at, ended_at in connection.execute(_KNOWN, {"pipeline_id": pipeline_id}):
        if ended_at is None:
            under_way[id_] = seen_at.astimezone(UTC)
        else:
            ended[id_] = ended_at.astimezone(UTC)
    return under_way, ended


def touch(connection: Connection, pipeline_id: str, checkpoint_id: int, at: datetime) -> bool:
    named = {"pipeline_id": pipeline_id, "checkpoint_id": checkpoint_id, "at": at}
    return connection.execute(_TOUCH, named).rowcount == 1


def end(connection: Connection, pipeline_id: str, checkpoint_id: int, at: datetime) -> bool:
    named = {"pipeline_id": pipeline_id, "checkpoint_id": checkpoint_id, "at": at}
    return connection.execute(_END, named).rowcount == 1


def forget(connection: Connection, pipeline_id: str, checkpoint_ids: list[int]) -> None:
    connection.execute(_FORGET, {"pipeline_id": pipeline_id, "checkpoint_ids": checkpoint_ids})
