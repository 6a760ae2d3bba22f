"""An own sink in the commit, as somebody would write it: a table in the store's database, whose rows say which
checkpoint they are of and whether they are shown."""

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tidegate import StagedParquet
from tidegate.ports import (
    Branch,
    CommitAttempt,
    CommitStatements,
    Participant,
    SinkCommit,
    StateHandle,
    StatementError,
    Withdrawn,
)
from tidegate.postgres_sink.positions import OwnStatements
from tidegate.protocol.facts.errors import CheckpointError, SinkError

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class LedgerSink(StagedParquet):
    """Few rows at a time: they are kept in memory between `prepare` and the transaction."""

    name: str
    commits = SinkCommit.IN_THE_COMMIT

    @property
    def table(self) -> sa.Table:
        kinds = {"k": sa.BigInteger, "v": sa.Text, "checkpoint": sa.BigInteger, "shown": sa.Boolean}
        return sa.Table(self.name, sa.MetaData(), *(sa.Column(name, kind()) for name, kind in kinds.items()))

    def prepare(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> Participant:
        rows = [row for batch in self.batches(staged) for row in batch.to_pylist()]
        return Adding(self.table, checkpoint_id, rows)

    def prepare_rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle]) -> Participant:
        return Showing(self.table, branch)

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        self._afterwards(self.prepare(checkpoint_id, staged), attempt)

    def rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        self._afterwards(self.prepare_rewind(checkpoint_id, branch, staged), attempt)

    def _afterwards(self, participant: Participant, attempt: CommitAttempt) -> None:
        """In a transaction of its own: the table is locked first, and then nobody can overtake the attempt."""
        with self.connected() as statements:
            lock(statements, self.table)
            attempt.confirm()
            participant.run(statements)

    @contextmanager
    def connected(self) -> Iterator[OwnStatements]:
        engine = sa.create_engine(os.environ["TIDEGATE_DATABASE_URL"], poolclass=sa.NullPool)
        try:
            with engine.begin() as connection:
                yield OwnStatements(connection)
        except sa.exc.DBAPIError as error:
            raise SinkError(f"Table {self.name} was not changed: {error.orig}") from error

    def rows(self, shown: bool = True) -> list[Any]:
        table = self.table
        with self.connected() as statements:
            lock(statements, table)
            return list(statements.query(sa.select(table).where(table.c.shown.is_(shown))))

    def shown_outside(self, branch: Branch) -> list[Withdrawn]:
        found = sorted({row.checkpoint for row in self.rows() if row.checkpoint not in branch})
        return [Withdrawn(checkpoint_id, 0, 0) for checkpoint_id in found]

    def withdrawn(self) -> list[int]:
        return sorted({row.checkpoint for row in self.rows(shown=False)})

    def delete_withdrawn(self, checkpoint_ids: Collection[int], attempt: CommitAttempt) -> None:
        table = self.table
        with self.connected() as statements:
            lock(statements, table)
            attempt.confirm()
            statements.execute(sa.delete(table).where(table.c.checkpoint.in_(checkpoint_ids), table.c.shown.is_(False)))

    def describe(self) -> dict[str, Any]:
        return {"type": type(self).__name__, "path": self.name}


def lock(statements: CommitStatements, table: sa.Table) -> None:
    statements.execute(sa.schema.CreateTable(table, if_not_exists=True))
    statements.execute(sa.text(f"LOCK TABLE {table.name} IN EXCLUSIVE MODE"))


@dataclass(frozen=True)
class Step:
    table: sa.Table

    def explain(self, error: StatementError) -> CheckpointError:
        return SinkError(f"Table {self.table.name} was not changed: {error.message}")


@dataclass(frozen=True)
class Adding(Step):
    """Adds the rows of a checkpoint, once."""

    checkpoint_id: int
    rows: Rows

    def run(self, statements: CommitStatements) -> None:
        lock(statements, self.table)
        if statements.query(sa.select(1).where(self.table.c.checkpoint == self.checkpoint_id).limit(1)):
            return
        for at in range(0, len(self.rows), 1000):
            rows = [{**row, "checkpoint": self.checkpoint_id, "shown": True} for row in self.rows[at : at + 1000]]
            statements.execute(sa.insert(self.table).values(rows))


@dataclass(frozen=True)
class Showing(Step):
    """Shows the rows of a branch, and no others."""

    branch: Branch

    def run(self, statements: CommitStatements) -> None:
        lock(statements, self.table)
        ids = sorted({row[0] for row in statements.query(sa.select(self.table.c.checkpoint).distinct())})
        shown = self.table.c.checkpoint.in_([id_ for id_ in ids if id_ in self.branch])
        statements.execute(sa.update(self.table).values(shown=shown))
