"""Loads staged rows into a table of their own, from which one statement takes them over.

The table is unlogged: after a crash of the server it is empty, so whoever takes rows over counts them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from sqlalchemy import URL, BigInteger, Column, Connection, Identity, MetaData, Table, inspect, text
from sqlalchemy.schema import CreateTable

from tidegate.postgres_sink.columns import RowColumn, as_loaded
from tidegate.postgres_sink.databases import connected, url_of
from tidegate.postgres_sink.names import SCHEMA, Target
from tidegate.protocol.facts.errors import NotInstalledError, SinkError
from tidegate.protocol.text.installed import not_installed

if TYPE_CHECKING:
    import pyarrow as pa

#: The order in which rows were loaded: of several rows of a key, the last one counts.
NUMBER = "_number"


@dataclass(frozen=True, slots=True)
class Loaded:
    """Rows that are loaded, and how many there must be."""

    table: Table
    columns: tuple[RowColumn, ...]
    rows: int


def load(
    connection: str | None,
    target: Target,
    checkpoint_id: int,
    columns: Sequence[RowColumn],
    batches: Iterable["pa.RecordBatch"],
) -> Loaded:
    """Load batches of rows, which have exactly these columns. Raises `SinkError`, `NotInstalledError`."""
    name = target.loaded(checkpoint_id, uuid4().hex[:12])
    own = Column(NUMBER, BigInteger, Identity(always=True))
    table = Table(
        name, MetaData(), own, *(Column(c.name, c.loaded) for c in columns), schema=SCHEMA, prefixes=["UNLOGGED"]
    )
    with connected(connection, f"table {target}") as opened:
        opened.execute(CreateTable(table))
    rows = _copy(url_of(connection), name, target, batches)
    with connected(connection, f"table {target}") as opened:
        opened.execute(text(f"ANALYZE {SCHEMA}.{name}"))
    return Loaded(table, tuple(columns), rows)


def _copy(url: URL, name: str, target: Target, batches: Iterable["pa.RecordBatch"]) -> int:
    try:
        from adbc_driver_manager import Error
        from adbc_driver_postgresql import dbapi
    except ModuleNotFoundError as error:
        missing: NotInstalledError | None = not_installed(error.name)
        raise missing or error from None
    import pyarrow as pa

    rows = 0

    def counted() -> Iterator["pa.RecordBatch"]:
        nonlocal rows
        for batch in batches:
            rows += batch.num_rows
            yield as_loaded(batch)

    reading = counted()
    first = next(reading, None)
    if first is None:
        return 0
    reader = pa.RecordBatchReader.from_batches(first.schema, _with(first, reading))
    try:
        with dbapi.connect(libpq(url)) as opened, opened.cursor() as cursor:
            cursor.adbc_ingest(name, reader, mode="append", db_schema_name=SCHEMA)
            opened.commit()
    except Error as error:
        raise _explained(error, target) from error
    return rows


def _with(first: "pa.RecordBatch", rest: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
    yield first
    yield from rest


def libpq(url: URL) -> str:
    """The URL as libpq takes it."""
    return url.set(drivername="postgresql").render_as_string(hide_password=False)


def _explained(error: Exception, target: Target) -> SinkError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[0].rpartition("ERROR:")[2].strip() if lines else "no message"
    if getattr(error, "sqlstate", None) == "22021":
        return SinkError(
            f"Rows for table {target} cannot be loaded: {said}. Text in Postgres holds no character zero. Nothing is "
            "visible. Take that character out in a transform, then run again."
        )
    return SinkError(
        f"Rows for table {target} could not be loaded ({said}). They are staged and safe, and readers see what they "
        "saw before. Fix the cause, then repeat the step."
    )


def loaded_tables(connection: Connection, target: Target) -> list[str]:
    """All tables with loaded rows of a target, those of crashed attempts too."""
    names = inspect(connection).get_table_names(schema=SCHEMA)
    return sorted(name for name in names if name.startswith(target.loaded_prefix))
