"""The previous rows of the keys that checkpoints have changed in a table. A restore takes the table back by them.

They are in two side tables. `before` has, by checkpoint, the previous row of each key that the checkpoint has
changed, or the note that there was none. When a restore leaves a checkpoint behind, the rows of that checkpoint go to
`after`, from which they come back when the restore is undone.
"""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Table,
    and_,
    delete,
    insert,
    literal,
    literal_column,
    not_,
    select,
)

from tidegate.ports import Branch, CommitStatements, Withdrawn
from tidegate.postgres_sink import positions, side_tables
from tidegate.postgres_sink.names import CHECKPOINT, SCHEMA, Target
from tidegate.postgres_sink.side_tables import is_in, readable
from tidegate.postgres_sink.tables import Existing, find_table, quoted, quoted_name, statement

#: The column that tells whether the key had a row.
THERE = "_there"


@dataclass(frozen=True, slots=True)
class Journal:
    """The journal of one table. `columns` are those that the database does not fill by itself."""

    target: Target
    key: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def table(self) -> Table:
        return readable(self.target, self.columns)

    @property
    def before(self) -> Table:
        return readable(Target(SCHEMA, self.target.before), [CHECKPOINT, THERE, *self.columns])

    @property
    def after(self) -> Table:
        return readable(Target(SCHEMA, self.target.after), [CHECKPOINT, THERE, *self.columns])

    def note(self, statements: CommitStatements, into: Table, checkpoint_id: int, keys: FromClause) -> None:
        """Record the table's rows of these keys, each once, and the keys without a row."""
        table = self.table
        found = keys.outerjoin(table, self.same_key(keys, table))
        there = literal_column(f"{quoted(self.target)}.ctid").is_not(None)
        row = [(keys if name in self.key else table).c[name] for name in self.columns]
        noted = select(literal(checkpoint_id), there, *row).select_from(found)
        statements.execute(insert(into).from_select([CHECKPOINT, THERE, *self.columns], noted))

    def same_key(self, left: FromClause, right: FromClause) -> ColumnElement[bool]:
        return and_(*(left.c[name] == right.c[name] for name in self.key))

    def exchange(self, statements: CommitStatements, source: Table, into: Table, checkpoint_id: int) -> None:
        """Put the rows that `source` has of a checkpoint into the table, and the replaced ones into `into`."""
        table = self.table
        is_of_checkpoint = source.c[CHECKPOINT] == checkpoint_id
        noted = select(*source.c).where(is_of_checkpoint).subquery("noted")
        self.note(statements, into, checkpoint_id, noted)
        statements.execute(delete(table).where(is_of_checkpoint, self.same_key(source, table)))
        rows = select(*(source.c[name] for name in self.columns)).where(is_of_checkpoint, source.c[THERE])
        statements.execute(insert(table).from_select(list(self.columns), rows))
        statements.execute(delete(source).where(is_of_checkpoint))

    def rewind(self, statements: CommitStatements, branch: Branch) -> None:
        """Take the table to the state of a branch: undo other checkpoints, newest first, then redo those of the branch,
        oldest first."""
        before, after = self.before, self.after
        for checkpoint_id in self._checkpoints(statements, before, not_(is_in(branch)))[::-1]:
            self.exchange(statements, before, after, checkpoint_id)
        for checkpoint_id in self._checkpoints(statements, after, is_in(branch)):
            self.exchange(statements, after, before, checkpoint_id)

    def _checkpoints(self, statements: CommitStatements, table: Table, which: ColumnElement[bool]) -> list[int]:
        return sorted(row[0] for row in statements.query(select(table.c[CHECKPOINT]).where(which).distinct()))


def make(connection: Connection, target: Target, existing: Existing) -> None:
    """Make both side tables, with the columns of the table as they are now."""
    for name in (target.before, target.after):
        noted = Target(SCHEMA, name)
        if side_tables.make(
            connection, noted, (f"{CHECKPOINT} bigint NOT NULL", f"{THERE} boolean NOT NULL"), existing
        ):
            index = quoted_name(f"{name}_checkpoint")
            indexing = f"CREATE INDEX IF NOT EXISTS {index} ON {quoted(noted)} USING brin ({CHECKPOINT})"
            connection.execute(statement(indexing))


def shown_outside(connection: Connection, target: Target, branch: Branch) -> list[Withdrawn]:
    """Return the rows that other checkpoints have changed, and their bytes before the change."""
    noted = Target(SCHEMA, target.before)
    return [] if find_table(connection, noted) is None else side_tables.count(connection, noted, not_(is_in(branch)))


def withdrawn(connection: Connection, target: Target) -> list[int]:
    return side_tables.checkpoints(connection, Target(SCHEMA, target.after))


def delete_withdrawn(connection: Connection, target: Target, checkpoint_ids: Collection[int]) -> None:
    side_tables.delete_checkpoints(connection, Target(SCHEMA, target.after), checkpoint_ids)


def forget(connection: Connection, target: Target, oldest: int) -> None:
    """Delete rows that only a restore to a checkpoint older than `oldest` would need."""
    noted = Target(SCHEMA, target.before)
    if find_table(connection, noted) is not None:
        table = readable(noted, [CHECKPOINT])
        connection.execute(delete(table).where(table.c[CHECKPOINT] <= oldest))
        positions.forget(connection, target, oldest)


def columns_of(existing: Existing) -> tuple[str, ...]:
    return tuple(each.name for each in existing.columns if not each.generated)
