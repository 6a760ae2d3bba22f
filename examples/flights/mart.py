"""The table in Postgres that changes together with the checkpoint: what is in it, and which transaction wrote it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, create_engine, text

TABLE = "carrier_delays"
_ROWS = text("SELECT carrier, flights, minutes, worst FROM carrier_delays ORDER BY carrier")
#: `figures` gets its row when a checkpoint completes, and keeps it as it is.
_TRANSACTIONS = text("""
SELECT (SELECT max(xmin::text::bigint) FROM carrier_delays) AS mart,
    (SELECT xmin::text::bigint FROM tidegate.figures
     WHERE pipeline_id = :pipeline_id AND checkpoint_id = :checkpoint_id) AS checkpoint
""")


def rows(url: str) -> list[tuple[Any, ...]]:
    """All rows, by carrier; none before the first checkpoint has made the table."""
    with _connected(url) as connection:
        if connection.execute(text("SELECT to_regclass(:name)"), {"name": TABLE}).scalar() is None:
            return []
        return [tuple(row) for row in connection.execute(_ROWS)]


def transactions(url: str, pipeline_id: str, checkpoint_id: int) -> tuple[int, int]:
    """The transaction that wrote the newest rows, and the one that completed the checkpoint."""
    with _connected(url) as connection:
        asked = {"pipeline_id": pipeline_id, "checkpoint_id": checkpoint_id}
        found = connection.execute(_TRANSACTIONS, asked).one()
    return found.mart, found.checkpoint


@contextmanager
def _connected(url: str) -> Iterator[Connection]:
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()
