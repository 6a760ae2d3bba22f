"""The rows of the table in Postgres that changes together with the checkpoint."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, create_engine, text

TABLE = "carrier_delays"
_ROWS = text("SELECT carrier, flights, minutes, worst FROM carrier_delays ORDER BY carrier")


def rows(url: str) -> list[tuple[Any, ...]]:
    """All rows, by carrier; none before the first checkpoint has made the table."""
    with connected(url) as connection:
        return rows_of(connection)


def rows_of(connection: Connection) -> list[tuple[Any, ...]]:
    if connection.execute(text("SELECT to_regclass(:name)"), {"name": TABLE}).scalar() is None:
        return []
    return [tuple(row) for row in connection.execute(_ROWS)]


@contextmanager
def connected(url: str, **options: Any) -> Iterator[Connection]:
    engine = create_engine(url, **options)
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()
