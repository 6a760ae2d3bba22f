"""A table to which each checkpoint adds rows, and from which a restore takes them back."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    MetaData,
    Table,
    cast,
    delete,
    func,
    insert,
    literal,
    literal_column,
    not_,
    or_,
    select,
)
from sqlalchemy import column as column_of
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.schema import DropTable

from tidegate.ports import Branch, CommitStatements, StatementError, Withdrawn
from tidegate.postgres_sink import positions
from tidegate.postgres_sink.loading import Loaded
from tidegate.postgres_sink.names import CHECKPOINT, SCHEMA, Target
from tidegate.postgres_sink.refusals import forward, lost_rows, refused, rewind
from tidegate.postgres_sink.tables import Existing, look, quoted, quoted_name, statement
from tidegate.protocol.facts.errors import CheckpointError


@dataclass(frozen=True, slots=True)
class Append:
    """`ports.Participant`: adds the rows of a checkpoint, once. Without `loaded` there are none."""

    target: Target
    checkpoint_id: int
    loaded: Loaded | None
    attempt: int | None = None

    def run(self, statements: CommitStatements) -> None:
        """See `ports.Participant`. Raises `SinkError`, `SupersededAttemptError`."""
        found = positions.lock(statements, self.target, self.attempt)
        if found.checkpoint_id >= self.checkpoint_id:
            return
        if self.loaded is not None:
            self._add(statements, self.loaded)
        positions.show(statements, self.target, self.checkpoint_id, self.attempt)

    def _add(self, statements: CommitStatements, loaded: Loaded) -> None:
        names = [column.name for column in loaded.columns]
        table = readable(self.target, [*names, CHECKPOINT])
        rows = [cast(loaded.table.c[c.name], JSONB) if c.is_json else loaded.table.c[c.name] for c in loaded.columns]
        taken = select(*rows, literal(self.checkpoint_id, BigInteger))
        added = statements.execute(table.insert().from_select([*names, CHECKPOINT], taken))
        if added != loaded.rows:
            raise lost_rows(self.target, self.checkpoint_id, added, loaded.rows)
        statements.execute(DropTable(loaded.table))

    def explain(self, error: StatementError) -> CheckpointError:
        return refused(error, self.target, forward(self.target, self.checkpoint_id, self.attempt))


@dataclass(frozen=True, slots=True)
class RewindAppended:
    """`ports.Participant`: takes the rows of other checkpoints out of the table, and brings back what of the branch was
    taken out before. Both are kept beside the table, so an undo costs what the restore has cost. `columns` are those
    that the database does not fill by itself."""

    target: Target
    columns: tuple[str, ...]
    checkpoint_id: int
    branch: Branch
    attempt: int | None = None

    def run(self, statements: CommitStatements) -> None:
        """See `ports.Participant`. Raises `SinkError`, `SupersededAttemptError`."""
        positions.lock(statements, self.target, self.attempt)
        if self.columns:
            shown = readable(self.target, self.columns)
            away = readable(Target(SCHEMA, self.target.withdrawn), self.columns)
            self._move(statements, shown, away, not_(is_in(self.branch)))
            self._move(statements, away, shown, is_in(self.branch))
        positions.show(statements, self.target, self.checkpoint_id, self.attempt)

    def _move(self, statements: CommitStatements, source: Table, into: Table, which: ColumnElement[bool]) -> None:
        gone = delete(source).where(source.c[CHECKPOINT] > 0, which).returning(*source.c).cte("moved")
        statements.execute(insert(into).from_select(list(self.columns), select(*gone.c)))

    def explain(self, error: StatementError) -> CheckpointError:
        return refused(error, self.target, rewind(self.target, self.checkpoint_id, self.attempt))


def readable(target: Target, names: Sequence[str]) -> Table:
    """The table as statements name it."""
    return Table(target.name, MetaData(), *(Column(name) for name in names), schema=target.schema)


def is_in(branch: Branch) -> ColumnElement[bool]:
    """Whether a row is of a checkpoint of the branch."""
    id_: ColumnElement[int] = column_of(CHECKPOINT, BigInteger)
    return or_(*(id_ >= first if last is None else id_.between(first, last) for first, last in branch.spans))


def make_withdrawn(connection: Connection, target: Target, existing: Existing) -> None:
    """Where withdrawn rows are kept, with the table's columns as they are now."""
    away = Target(SCHEMA, target.withdrawn)
    known = look(connection, away)
    moved = [column for column in existing.columns if not column.generated]
    if known is None:  # without the table's constraints: what the database fills by itself is not kept
        listed = ", ".join(f"{quoted_name(column.name)} {column.type}" for column in moved)
        connection.execute(statement(f"CREATE TABLE IF NOT EXISTS {quoted(away)} ({listed})"))
        return
    for column in moved:
        if known.column(column.name) is None:
            added = f"ADD COLUMN {quoted_name(column.name)} {column.type}"
            connection.execute(statement(f"ALTER TABLE {quoted(away)} {added}"))


def shown_beside(connection: Connection, target: Target, branch: Branch) -> list[Withdrawn]:
    """What of other checkpoints readers see: rows, and their bytes."""
    table = readable(target, [CHECKPOINT]).alias("t")
    id_ = table.c[CHECKPOINT]
    size = func.sum(func.pg_column_size(literal_column("t.*")))
    asked = select(id_, func.count(), size).where(id_ > 0, not_(is_in(branch))).group_by(id_).order_by(id_)
    return [Withdrawn(checkpoint_id, 0, int(bytes_), rows) for checkpoint_id, rows, bytes_ in connection.execute(asked)]


def withdrawn(connection: Connection, target: Target) -> list[int]:
    away = Target(SCHEMA, target.withdrawn)
    if look(connection, away) is None:
        return []
    id_ = readable(away, [CHECKPOINT]).c[CHECKPOINT]
    return sorted(connection.execute(select(id_).distinct()).scalars())


def delete_withdrawn(connection: Connection, target: Target, checkpoint_ids: Collection[int]) -> None:
    table = readable(Target(SCHEMA, target.withdrawn), [CHECKPOINT])
    connection.execute(delete(table).where(table.c[CHECKPOINT].in_(checkpoint_ids)))
