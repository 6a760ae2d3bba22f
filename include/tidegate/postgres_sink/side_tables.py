"""Side tables of a sink's table, with rows by checkpoint: made, counted, listed and emptied."""

from collections.abc import Collection, Sequence

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    MetaData,
    Table,
    delete,
    func,
    literal_column,
    or_,
    select,
)
from sqlalchemy import column as column_of

from tidegate.ports import Branch, Withdrawn
from tidegate.postgres_sink.names import CHECKPOINT, Target
from tidegate.postgres_sink.tables import Existing, find_table, quoted, quoted_name, statement


def readable(target: Target, names: Sequence[str]) -> Table:
    """Return a table for use in statements."""
    return Table(target.name, MetaData(), *(Column(name) for name in names), schema=target.schema)


def is_in(branch: Branch) -> ColumnElement[bool]:
    """Return the condition that a row is of a checkpoint of the branch."""
    id_: ColumnElement[int] = column_of(CHECKPOINT, BigInteger)
    return or_(*(id_ >= first if last is None else id_.between(first, last) for first, last in branch.spans))


def make(connection: Connection, target: Target, own: Sequence[str], existing: Existing) -> bool:
    """Make a side table with columns of its `own`, and those of the sink's table that the database does not fill
    by itself, without their constraints. If it exists, add the missing columns. Return whether it is new."""
    known = find_table(connection, target)
    declared = {
        column.name: f"{quoted_name(column.name)} {column.type}" for column in existing.columns if not column.generated
    }
    if known is None:
        listed = ", ".join([*own, *declared.values()])
        connection.execute(statement(f"CREATE TABLE IF NOT EXISTS {quoted(target)} ({listed})"))
        return True
    for name, column in declared.items():
        if known.column(name) is None:
            connection.execute(statement(f"ALTER TABLE {quoted(target)} ADD COLUMN {column}"))
    return False


def count(connection: Connection, target: Target, which: ColumnElement[bool]) -> list[Withdrawn]:
    """Return the number of rows and their bytes, by checkpoint."""
    table = readable(target, [CHECKPOINT]).alias("t")
    id_ = table.c[CHECKPOINT]
    size = func.sum(func.pg_column_size(literal_column("t.*")))
    query = select(id_, func.count(), size).where(which).group_by(id_).order_by(id_)
    return [Withdrawn(checkpoint_id, 0, int(bytes_), rows) for checkpoint_id, rows, bytes_ in connection.execute(query)]


def checkpoints(connection: Connection, target: Target) -> list[int]:
    """Return the checkpoints that have rows in a side table; none if it does not exist."""
    if find_table(connection, target) is None:
        return []
    return sorted(connection.execute(select(readable(target, [CHECKPOINT]).c[CHECKPOINT]).distinct()).scalars())


def delete_checkpoints(connection: Connection, target: Target, checkpoint_ids: Collection[int]) -> None:
    table = readable(target, [CHECKPOINT])
    connection.execute(delete(table).where(table.c[CHECKPOINT].in_(checkpoint_ids)))
