"""Loads staged rows into a table of their own, from which one statement takes them over.

That table is unlogged, so it is empty after a crash of the server. The statement that takes the rows over counts them.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Identity,
    MetaData,
    Table,
    cast,
    inspect,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.schema import CreateTable, DropTable

from tidegate.ports import StatementError
from tidegate.postgres_sink.columns import RowColumn, ZeroCharacterError, as_loaded
from tidegate.postgres_sink.copying import copying
from tidegate.postgres_sink.databases import connected, url_of
from tidegate.postgres_sink.names import SCHEMA, Target
from tidegate.postgres_sink.positions import numbers
from tidegate.postgres_sink.refusals import Occasion, away, outside, refused
from tidegate.protocol.facts.errors import RowsRefusedError, SinkError
from tidegate.protocol.text.installed import not_installed

if TYPE_CHECKING:
    import pyarrow as pa

#: The order in which rows were loaded. Of several rows of a key, the last one counts.
NUMBER = "_number"
#: Suffix of the name of a table with loaded rows, among the files of its checkpoint.
LOADED = ".loaded"
_NO_TEXT = "22021"
#: The number of rows from which the table is analyzed for the planner.
_MANY = 1000


@dataclass(frozen=True, slots=True)
class Loaded:
    """Loaded rows, and how many there must be."""

    table: Table
    columns: tuple[RowColumn, ...]
    rows: int

    def values(self, names: Collection[str]) -> list[ColumnElement[Any]]:
        """Return the columns of these names, as a statement takes them over."""
        taken = [column for column in self.columns if column.name in names]
        return [cast(self.table.c[c.name], JSONB) if c.is_json else self.table.c[c.name] for c in taken]


def load(
    connection: str | None,
    target: Target,
    checkpoint_id: int,
    columns: Sequence[RowColumn],
    batches: Iterable["pa.RecordBatch"],
    occasion: Occasion,
) -> Loaded:
    """Load batches of rows, which have exactly these columns. `occasion` is the use of the rows.

    Raise `SinkError`, `NotInstalledError`.
    """
    name = target.loaded(checkpoint_id, uuid4().hex[:12])
    own = Column(NUMBER, BigInteger, Identity(always=True))
    table = Table(
        name, MetaData(), own, *(Column(c.name, c.loaded) for c in columns), schema=SCHEMA, prefixes=["UNLOGGED"]
    )
    with connected(connection, target, occasion) as opened:
        opened.execute(CreateTable(table))
    rows = _copy(url_of(connection), name, target, _Counted(batches), occasion)
    if rows >= _MANY:
        with connected(connection, target, occasion) as opened:
            opened.execute(text(f"ANALYZE {SCHEMA}.{name}"))
    return Loaded(table, tuple(columns), rows)


class _Counted:
    """Batches as they are loaded, with the error raised among them. A reader of Arrow passes on only its text."""

    def __init__(self, batches: Iterable["pa.RecordBatch"]) -> None:
        self._batches = batches
        self.rows = 0
        self.error: Exception | None = None

    def __iter__(self) -> Iterator["pa.RecordBatch"]:
        try:
            for batch in self._batches:
                self.rows += batch.num_rows
                yield as_loaded(batch)
        except Exception as error:
            self.error = error
            raise


def _copy(url: URL, name: str, target: Target, counted: _Counted, occasion: Occasion) -> int:
    require_driver()
    import pyarrow as pa
    from adbc_driver_manager import Error

    try:
        batches = iter(counted)
        first = next(batches, None)
        if first is None:
            return 0
        reader = pa.RecordBatchReader.from_batches(first.schema, chain([first], batches))
        with copying(url) as opened, opened.cursor() as cursor:
            cursor.adbc_ingest(name, reader, mode="append", db_schema_name=SCHEMA)
            opened.commit()
    except (Error, ZeroCharacterError) as error:
        cause = counted.error or error
        known = isinstance(cause, Error | ZeroCharacterError)
        raise (_explained(cause, target, url.username or "", occasion) if known else cause) from error
    return counted.rows


def require_driver() -> None:
    """Raise `NotInstalledError` if the driver that loads rows is not installed."""
    for module in ("adbc_driver_manager", "adbc_driver_postgresql"):
        if find_spec(module) is None:
            missing = not_installed(module)
            assert missing is not None
            raise missing


def _explained(error: Exception, target: Target, role: str, occasion: Occasion) -> SinkError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no message"]
    message = lines[0].rpartition("ERROR:")[2].removeprefix("IO: [libpq] ").strip()
    state = getattr(error, "sqlstate", None) or ""
    if state == _NO_TEXT or isinstance(error, ZeroCharacterError):
        return RowsRefusedError(
            f"Rows for table {target} cannot be loaded: {message}. Text in Postgres cannot have a character zero. "
            f"{outside(target).safe} Take that character out in a transform, then run again."
        )
    if not state or state[:2] in ("08", "57"):
        return away(target, message)
    return refused(StatementError(state, message, role=role), target, occasion)


def left_over(connection: Connection, target: Target) -> dict[int, list[str]]:
    """Return tables with loaded rows of checkpoints up to the one that the table shows, by checkpoint and as files.
    Crashed attempts have left them, and nothing needs them."""
    newest, _ = numbers(connection, target)
    found: dict[int, list[str]] = {}
    for name in sorted(inspect(connection).get_table_names(schema=SCHEMA)):
        if name.startswith(target.loaded_prefix) and (id_ := target.checkpoint_of(name)) <= newest:
            found.setdefault(id_, []).append(f"{name}{LOADED}")
    return found


def drop(connection: Connection, target: Target, paths: Sequence[str]) -> None:
    """Drop left-over tables. Missing ones are ignored, and other tables are not touched."""
    for path in paths:
        name = path.rpartition("/")[2].removesuffix(LOADED)
        if name.startswith(target.loaded_prefix):
            connection.execute(DropTable(Table(name, MetaData(), schema=SCHEMA), if_exists=True))
