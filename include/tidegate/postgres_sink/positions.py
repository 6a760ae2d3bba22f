"""What a table shows, whose it is, and which attempt was here last: a row for each table, in its own database."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    DateTime,
    Executable,
    MetaData,
    Select,
    Table,
    Text,
    cast,
    func,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import OID, insert
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.schema import CreateTable

from tidegate.ports import CommitStatements
from tidegate.postgres_sink.names import SCHEMA, Target
from tidegate.postgres_sink.tables import quoted
from tidegate.protocol.facts.errors import SinkError, SupersededAttemptError
from tidegate.protocol.recovery.ownership import Owner

positions = Table(
    "positions",
    MetaData(),
    Column("target", Text, primary_key=True),
    Column("pipeline", Text, nullable=False),
    Column("sink", Text, nullable=False),
    Column("database", Text, nullable=False),
    Column("checkpoint_id", BigInteger, nullable=False, server_default=text("0")),
    Column("shows", BigInteger),
    Column("content", Text),
    Column("attempt", BigInteger, nullable=False, server_default=text("0")),
    Column("shown_at", DateTime(timezone=True)),
    # What checkpoints up to this one have replaced is not kept any more.
    Column("forgotten", BigInteger, nullable=False, server_default=text("0")),
    # The file of the table that has these rows: a table made anew, emptied by TRUNCATE or brought back from a copy has
    # another one.
    Column("relation", BigInteger),
    schema=SCHEMA,
)


class OwnStatements:
    """`ports.CommitStatements` in a transaction of the sink's own."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def execute(self, statement: Executable, parameters: Mapping[str, Any] | None = None) -> int:
        return self._connection.execute(statement, dict(parameters or {})).rowcount

    def query(self, statement: Executable, parameters: Mapping[str, Any] | None = None) -> Sequence[Sequence[Any]]:
        return self._connection.execute(statement, dict(parameters or {})).all()


@dataclass(frozen=True, slots=True)
class Position:
    """The newest checkpoint that was applied, the one that the table shows since a restore, the newest attempt, of a
    table that is replaced what it has, and whether all this is of the table that is there now."""

    checkpoint_id: int
    shows: int | None
    attempt: int
    content: str | None
    is_of_table: bool


def exists(connection: Connection) -> bool:
    """Whether there are positions in this database."""
    return connection.execute(text("SELECT to_regclass(:name)"), {"name": f"{SCHEMA}.positions"}).scalar() is not None


def make(connection: Connection) -> None:
    """Make what sinks keep in this database, unless it is there."""
    if exists(connection):
        return
    if connection.execute(text("SELECT to_regnamespace(:name)"), {"name": SCHEMA}).scalar() is None:
        connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
    with suppress(ProgrammingError), connection.begin_nested():  # another process was faster
        connection.execute(CreateTable(positions, if_not_exists=True))


def owner(connection: Connection, target: Target) -> Owner | None:
    if not exists(connection):
        return None
    asked = select(positions.c.pipeline, positions.c.sink, positions.c.database).where(_is(target))
    row = connection.execute(asked).one_or_none()
    return None if row is None else Owner(row.pipeline, row.sink, row.database)


def mark(connection: Connection, target: Target, owner_: Owner, anew: bool = False) -> Owner:
    """Make the table the owner's, if it is nobody's; `anew`, whosever it is. Returns whose it is."""
    make(connection)
    said = {"pipeline": owner_.pipeline, "sink": owner_.sink, "database": owner_.database}
    marking = insert(positions).values(target=str(target), **said)
    connection.execute(
        marking.on_conflict_do_update(index_elements=["target"], set_=said)
        if anew
        else marking.on_conflict_do_nothing(index_elements=["target"])
    )
    return owner(connection, target) or owner_


def lock(statements: CommitStatements, target: Target, attempt: int | None) -> Position:
    """Wait for others that change the table, and find out where it is. Raises `SupersededAttemptError` if a newer
    attempt was here."""
    columns = positions.c.checkpoint_id, positions.c.shows, positions.c.attempt, positions.c.content
    rows = statements.query(select(*columns, _is_of_table(target)).where(_is(target)).with_for_update())
    if not rows:
        raise SinkError(
            f"The table {target} has lost its row in {SCHEMA}.positions, which says whose it is and what it shows. "
            "Nothing was changed. Bring that row back from a copy of the database, or give the sink another table."
        )
    found = Position(*rows[0])
    if attempt is not None and found.attempt > attempt:
        raise SupersededAttemptError(
            f"Attempt {attempt} at the table {target} was overtaken by attempt {found.attempt}. Nothing was changed."
        )
    return found


def show(
    statements: CommitStatements,
    target: Target,
    checkpoint_id: int,
    attempt: int | None,
    content: str | None = None,
    has_all: bool = False,
) -> None:
    """Record what the table shows from here on. `has_all`: whatever became of the table before, it has all rows now."""
    relation = _relation(target) if has_all else func.coalesce(positions.c.relation, _relation(target))
    statements.execute(
        update(positions)
        .where(_is(target))
        .values(
            checkpoint_id=func.greatest(positions.c.checkpoint_id, checkpoint_id),
            shows=checkpoint_id,
            content=content,
            relation=relation,
            attempt=func.greatest(positions.c.attempt, attempt or 0),
            shown_at=func.now(),
        )
    )


def record(statements: CommitStatements, target: Target, content: str) -> None:
    """Record something beside what the table shows."""
    statements.execute(update(positions).where(_is(target)).values(content=content))


@dataclass(frozen=True, slots=True)
class Kept:
    """The newest checkpoint that was applied, the one that the table shows, and the newest of which it is not kept any
    more what that has replaced."""

    checkpoint_id: int
    shows: int | None
    forgotten: int


def kept_rows(target: Target) -> Select[tuple[int, int | None, int]]:
    """The statement that reads `Kept`."""
    return select(positions.c.checkpoint_id, positions.c.shows, positions.c.forgotten).where(_is(target))


def forget(connection: Connection, target: Target, checkpoint_id: int) -> None:
    """Record that it is not kept any more what checkpoints up to this one have replaced."""
    newest = func.greatest(positions.c.forgotten, checkpoint_id)
    connection.execute(update(positions).where(_is(target)).values(forgotten=newest))


@dataclass(frozen=True, slots=True)
class Shown:
    """Which checkpoint the table shows, of a table that is replaced what it has, and whether that is of the table that
    is there now."""

    checkpoint_id: int | None = None
    content: str | None = None
    is_of_table: bool = False


def shown(connection: Connection, target: Target) -> Shown:
    if not exists(connection):
        return Shown()
    asked = select(positions.c.shows, positions.c.content, _is_of_table(target)).where(_is(target))
    row = connection.execute(asked).one_or_none()
    return Shown() if row is None else Shown(*row)


def shown_by_table(connection: Connection, target: Target) -> int | None:
    """See `ports.PositionedSink`."""
    found = shown(connection, target)
    return found.checkpoint_id if found.is_of_table else None


def numbers(connection: Connection, target: Target) -> tuple[int, int]:
    """The highest numbers of a checkpoint and of an attempt; 0 for none."""
    if not exists(connection):
        return 0, 0
    asked = select(positions.c.checkpoint_id, positions.c.attempt).where(_is(target))
    row = connection.execute(asked).one_or_none()
    return (0, 0) if row is None else (row.checkpoint_id, row.attempt)


def _relation(target: Target) -> ColumnElement[int | None]:
    """What tells the table that is there apart from all others of its name; NULL if there is none. A partitioned table
    has no file."""
    table = func.to_regclass(quoted(target))
    return cast(func.coalesce(func.pg_relation_filenode(table), cast(table, OID)), BigInteger)


def _is_of_table(target: Target) -> ColumnElement[bool]:
    return positions.c.relation.is_not_distinct_from(_relation(target))


def _is(target: Target) -> Any:
    return positions.c.target == str(target)
