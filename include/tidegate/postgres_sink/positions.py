"""The checkpoint, the owner and the last attempt of each table, as a row in the table's own database."""

import json
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
from tidegate.protocol.steps.applied import Applied

positions = Table(
    "positions",
    MetaData(),
    Column("target", Text, primary_key=True),
    Column("pipeline", Text, nullable=False),
    Column("sink", Text, nullable=False),
    Column("database", Text, nullable=False),
    Column("checkpoint_id", BigInteger, nullable=False, server_default=text("0")),
    # Ranges of ids up to that one that were not applied, as JSON.
    Column("passed", Text, nullable=False, server_default=text("'[]'")),
    Column("shows", BigInteger),
    Column("content", Text),
    Column("attempt", BigInteger, nullable=False, server_default=text("0")),
    Column("shown_at", DateTime(timezone=True)),
    # The previous rows of changes by checkpoints up to this one are not kept any more.
    Column("forgotten", BigInteger, nullable=False, server_default=text("0")),
    # The file of the table with these rows. A table that was made anew, emptied by TRUNCATE or restored from a copy has
    # another one.
    Column("relation", BigInteger),
    schema=SCHEMA,
)


_APPLIED = positions.c.checkpoint_id, positions.c.passed


class OwnStatements:
    """See `ports.CommitStatements`. Executes in a transaction of the sink's own."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def execute(self, statement: Executable, parameters: Mapping[str, Any] | None = None) -> int:
        return self._connection.execute(statement, dict(parameters or {})).rowcount

    def query(self, statement: Executable, parameters: Mapping[str, Any] | None = None) -> Sequence[Sequence[Any]]:
        return self._connection.execute(statement, dict(parameters or {})).all()


@dataclass(frozen=True, slots=True)
class Position:
    """The applied checkpoints, the one that the table shows since a restore, and the newest attempt. For a replaced
    table also its content, and whether the record is about the present table and not a former one."""

    applied: Applied
    shows: int | None
    attempt: int
    content: str | None
    is_of_table: bool


def exists(connection: Connection) -> bool:
    """Whether there are positions in this database."""
    return connection.execute(text("SELECT to_regclass(:name)"), {"name": f"{SCHEMA}.positions"}).scalar() is not None


def make(connection: Connection) -> None:
    """Make the schema and the table of positions, unless they exist."""
    if exists(connection):
        return
    if connection.execute(text("SELECT to_regnamespace(:name)"), {"name": SCHEMA}).scalar() is None:
        connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
    with suppress(ProgrammingError), connection.begin_nested():  # another process was faster
        connection.execute(CreateTable(positions, if_not_exists=True))


def owner(connection: Connection, target: Target) -> Owner | None:
    if not exists(connection):
        return None
    query = select(positions.c.pipeline, positions.c.sink, positions.c.database).where(_is(target))
    row = connection.execute(query).one_or_none()
    return None if row is None else Owner(row.pipeline, row.sink, row.database)


def mark(connection: Connection, target: Target, owner_: Owner, anew: bool = False) -> Owner:
    """Make `owner_` the owner of a table that has none; with `anew`, of any table. Return its owner."""
    make(connection)
    values = {"pipeline": owner_.pipeline, "sink": owner_.sink, "database": owner_.database}
    marking = insert(positions).values(target=str(target), **values)
    connection.execute(
        marking.on_conflict_do_update(index_elements=["target"], set_=values)
        if anew
        else marking.on_conflict_do_nothing(index_elements=["target"])
    )
    return owner(connection, target) or owner_


def lock(statements: CommitStatements, target: Target, attempt: int | None) -> Position:
    """Wait for other writers of the table, and return its position. Raise `SupersededAttemptError` if a newer attempt
    has changed it."""
    columns = *_APPLIED, positions.c.shows, positions.c.attempt, positions.c.content
    rows = statements.query(select(*columns, _is_of_table(target)).where(_is(target)).with_for_update())
    if not rows:
        raise SinkError(
            f"The table {target} has lost its row in {SCHEMA}.positions, which has its owner and its checkpoint. "
            "Nothing was changed. Bring that row back from a copy of the database, or give the sink another table."
        )
    newest, passed, *rest = rows[0]
    found = Position(_applied(newest, passed), *rest)
    if attempt is not None and found.attempt > attempt:
        raise SupersededAttemptError(
            f"Attempt {attempt} at the table {target} was overtaken by attempt {found.attempt}. Nothing was changed."
        )
    return found


def show(
    statements: CommitStatements,
    target: Target,
    checkpoint_id: int,
    applied: Applied,
    attempt: int | None,
    content: str | None = None,
    has_all: bool = False,
) -> None:
    """Record the checkpoint that the table shows, and those `applied` by now. `has_all`: the table now has all rows,
    whatever it had before."""
    relation = _relation(target) if has_all else func.coalesce(positions.c.relation, _relation(target))
    statements.execute(
        update(positions)
        .where(_is(target))
        .values(
            checkpoint_id=applied.newest,
            passed=json.dumps(applied.passed),
            shows=checkpoint_id,
            content=content,
            relation=relation,
            attempt=func.greatest(positions.c.attempt, attempt or 0),
            shown_at=func.now(),
        )
    )


def record(statements: CommitStatements, target: Target, content: str) -> None:
    """Record the content only."""
    statements.execute(update(positions).where(_is(target)).values(content=content))


@dataclass(frozen=True, slots=True)
class Kept:
    """The newest applied checkpoint, the one that the table shows, and the newest one whose previous rows are not kept
    any more."""

    checkpoint_id: int
    shows: int | None
    forgotten: int


def kept_rows(target: Target) -> Select[tuple[int, int | None, int]]:
    """Return the query for `Kept`."""
    return select(positions.c.checkpoint_id, positions.c.shows, positions.c.forgotten).where(_is(target))


def forget(connection: Connection, target: Target, checkpoint_id: int) -> None:
    """Record that the previous rows of checkpoints up to this one are not kept any more."""
    newest = func.greatest(positions.c.forgotten, checkpoint_id)
    connection.execute(update(positions).where(_is(target)).values(forgotten=newest))


@dataclass(frozen=True, slots=True)
class Shown:
    """The checkpoint that the table shows. For a replaced table also its content, and whether the record is about the
    present table and not a former one."""

    checkpoint_id: int | None = None
    content: str | None = None
    is_of_table: bool = False


def shown(connection: Connection, target: Target) -> Shown:
    if not exists(connection):
        return Shown()
    query = select(positions.c.shows, positions.c.content, _is_of_table(target)).where(_is(target))
    row = connection.execute(query).one_or_none()
    return Shown() if row is None else Shown(*row)


def shown_by_table(connection: Connection, target: Target) -> int | None:
    """See `ports.PositionedSink`."""
    found = shown(connection, target)
    return found.checkpoint_id if found.is_of_table else None


def numbers(connection: Connection, target: Target) -> tuple[int, int]:
    """Return the highest numbers of a checkpoint and of an attempt; 0 for none."""
    if not exists(connection):
        return 0, 0
    query = select(positions.c.checkpoint_id, positions.c.attempt).where(_is(target))
    row = connection.execute(query).one_or_none()
    return (0, 0) if row is None else (row.checkpoint_id, row.attempt)


def applied(connection: Connection, target: Target) -> Applied:
    """Return the checkpoints whose rows the table was given."""
    if not exists(connection):
        return Applied()
    row = connection.execute(select(*_APPLIED).where(_is(target))).one_or_none()
    return Applied() if row is None else _applied(*row)


def _applied(newest: int, passed: str) -> Applied:
    return Applied(newest, tuple((first, last) for first, last in json.loads(passed)))


def _relation(target: Target) -> ColumnElement[int | None]:
    """Return a number that identifies the present table among all of its name; NULL if there is none. A partitioned
    table has no file, so its OID is used."""
    table = func.to_regclass(quoted(target))
    return cast(func.coalesce(func.pg_relation_filenode(table), cast(table, OID)), BigInteger)


def _is_of_table(target: Target) -> ColumnElement[bool]:
    return positions.c.relation.is_not_distinct_from(_relation(target))


def _is(target: Target) -> Any:
    return positions.c.target == str(target)
