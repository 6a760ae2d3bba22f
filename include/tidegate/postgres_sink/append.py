"""A table to which each checkpoint adds rows. A restore takes them back."""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Table,
    and_,
    column,
    delete,
    insert,
    literal,
    not_,
    select,
)
from sqlalchemy.schema import DropTable

from tidegate.ports import Branch, CommitStatements, StatementError, Withdrawn
from tidegate.postgres_sink import positions, side_tables
from tidegate.postgres_sink.loading import Loaded
from tidegate.postgres_sink.names import CHECKPOINT, SCHEMA, Target
from tidegate.postgres_sink.refusals import forward, lost_rows, refused, rewind
from tidegate.postgres_sink.side_tables import is_in, readable
from tidegate.postgres_sink.tables import Existing
from tidegate.protocol.facts.errors import CheckpointError


@dataclass(frozen=True, slots=True)
class Append:
    """See `ports.Participant`. Adds the rows of a checkpoint, once. Without `loaded` there are none."""

    target: Target
    checkpoint_id: int
    loaded: Loaded | None
    attempt: int | None = None

    def run(self, statements: CommitStatements) -> None:
        """See `ports.Participant`. Raise `SinkError`, `SupersededAttemptError`."""
        found = positions.lock(statements, self.target, self.attempt)
        if found.applied.has(self.checkpoint_id):
            return
        if self.loaded is not None:
            self._add(statements, self.loaded)
        applied = found.applied.with_commit(self.checkpoint_id)
        positions.show(statements, self.target, self.checkpoint_id, applied, self.attempt)

    def _add(self, statements: CommitStatements, loaded: Loaded) -> None:
        names = [column.name for column in loaded.columns]
        table = readable(self.target, [*names, CHECKPOINT])
        taken = select(*loaded.values(names), literal(self.checkpoint_id, BigInteger))
        added = statements.execute(table.insert().from_select([*names, CHECKPOINT], taken))
        if added != loaded.rows:
            raise lost_rows(self.target, self.checkpoint_id, added, loaded.rows)
        statements.execute(DropTable(loaded.table))

    def explain(self, error: StatementError) -> CheckpointError:
        return refused(error, self.target, forward(self.target, self.checkpoint_id, self.attempt))


@dataclass(frozen=True, slots=True)
class RewindAppended:
    """See `ports.Participant`. Moves the rows of other checkpoints out of the table, and withdrawn rows of the branch
    back into it. Withdrawn rows are kept in a second table, so an undo costs as much as the restore did. `columns` are
    those that the database does not fill by itself."""

    target: Target
    columns: tuple[str, ...]
    checkpoint_id: int
    branch: Branch
    attempt: int | None = None

    def run(self, statements: CommitStatements) -> None:
        """See `ports.Participant`. Raise `SinkError`, `SupersededAttemptError`."""
        found = positions.lock(statements, self.target, self.attempt)
        if self.columns:
            shown = readable(self.target, self.columns)
            away = readable(Target(SCHEMA, self.target.withdrawn), self.columns)
            self._move(statements, shown, away, not_(is_in(self.branch)))
            self._move(statements, away, shown, is_in(self.branch))
        applied = found.applied.without(self.checkpoint_id)
        positions.show(statements, self.target, self.checkpoint_id, applied, self.attempt)

    def _move(self, statements: CommitStatements, source: Table, into: Table, which: ColumnElement[bool]) -> None:
        gone = delete(source).where(source.c[CHECKPOINT] > 0, which).returning(*source.c).cte("moved")
        statements.execute(insert(into).from_select(list(self.columns), select(*gone.c)))

    def explain(self, error: StatementError) -> CheckpointError:
        return refused(error, self.target, rewind(self.target, self.checkpoint_id, self.attempt))


def make_withdrawn(connection: Connection, target: Target, existing: Existing) -> None:
    """Make the table for withdrawn rows, with the columns of the sink's table as they are now."""
    side_tables.make(connection, Target(SCHEMA, target.withdrawn), (), existing)


def shown_outside(connection: Connection, target: Target, branch: Branch) -> list[Withdrawn]:
    """Return the visible rows of other checkpoints: their number and bytes."""
    return side_tables.count(connection, target, and_(column(CHECKPOINT) > 0, not_(is_in(branch))))


def withdrawn(connection: Connection, target: Target) -> list[int]:
    return side_tables.checkpoints(connection, Target(SCHEMA, target.withdrawn))


def delete_withdrawn(connection: Connection, target: Target, checkpoint_ids: Collection[int]) -> None:
    side_tables.delete_checkpoints(connection, Target(SCHEMA, target.withdrawn), checkpoint_ids)
