"""An own sink in the commit passes the suite, and those with a mistake each do not."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from cases import for_each
from ledger_sink import Adding, LedgerSink, Step, lock

from tidegate.ports import Branch, CommitAttempt, CommitStatements, Participant, StateHandle
from tidegate.testing import SinkSuite
from tidegate.testing.deliveries import Delivery, InTheCommit, KitServer


class TestLedgerSink(SinkSuite[LedgerSink]):
    may_wait = True
    other_columns = False
    many = 3000
    every = 4

    def sink(self, directory: Path) -> LedgerSink:
        return LedgerSink(directory.name)

    def shown(self, sink: LedgerSink) -> list[dict[str, Any]]:
        return [{"k": row.k, "v": row.v} for row in sink.rows()]


class Early(LedgerSink):
    """Its rows are visible when they are prepared."""

    def prepare(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> Participant:
        prepared = super().prepare(checkpoint_id, staged)
        with self.connected() as statements:
            prepared.run(statements)
        return prepared


@dataclass(frozen=True)
class ByItself(Step):
    sink: LedgerSink
    adding: Participant

    def run(self, statements: CommitStatements) -> None:
        with self.sink.connected() as own:
            self.adding.run(own)


class Independent(LedgerSink):
    """It changes its table in a transaction of its own."""

    def prepare(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> Participant:
        return ByItself(self.table, self, super().prepare(checkpoint_id, staged))


class UsedUp(Adding):
    def run(self, statements: CommitStatements) -> None:
        super().run(statements)
        self.rows.clear()


class Once(LedgerSink):
    """What it prepares runs once."""

    def prepare(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> Participant:
        prepared: Any = super().prepare(checkpoint_id, staged)
        return UsedUp(prepared.table, checkpoint_id, prepared.rows)


@dataclass(frozen=True)
class TakingOver(Step):
    checkpoint_id: int
    loaded: sa.Table

    def run(self, statements: CommitStatements) -> None:
        lock(statements, self.table)
        names = ["k", "v", "checkpoint", "shown"]
        statements.execute(sa.insert(self.table).from_select(names, sa.select(self.loaded)))


class Loading(LedgerSink):
    """Rows are loaded into a table that is not logged, and nobody counts them."""

    def prepare(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> Participant:
        prepared: Any = super().prepare(checkpoint_id, staged)
        loaded = self.loaded(checkpoint_id)
        with self.connected() as statements:
            statements.execute(sa.schema.DropTable(loaded, if_exists=True))
            statements.execute(sa.schema.CreateTable(loaded))
            Adding(loaded, checkpoint_id, prepared.rows).run(statements)
        return TakingOver(self.table, checkpoint_id, loaded)

    def loaded(self, checkpoint_id: int) -> sa.Table:
        columns = [sa.Column(column.name, column.type) for column in self.table.c]
        return sa.Table(f"{self.name}_{checkpoint_id}", sa.MetaData(), *columns, prefixes=["UNLOGGED"])


class Deaf(LedgerSink):
    """It does nothing outside a transaction that completes a checkpoint."""

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        return None


class Twice(LedgerSink):
    """It does not look what it has committed."""

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        prepared: Any = self.prepare(checkpoint_id, staged)
        with self.connected() as statements:
            lock(statements, self.table)
            rows = [{**row, "checkpoint": checkpoint_id, "shown": True} for row in prepared.rows]
            statements.execute(sa.insert(self.table).values(rows))


@dataclass(frozen=True)
class Standing(Step):
    def run(self, statements: CommitStatements) -> None:
        lock(statements, self.table)


class Late(LedgerSink):
    """It goes back after the restore, and not with it."""

    def prepare_rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle]) -> Participant:
        return Standing(self.table)


NOTICED: list[tuple[type[LedgerSink], str]] = [
    (Early, "test_what_is_prepared_is_shown_when_a_transaction_is_committed"),
    (Early, "test_rows_of_a_checkpoint_that_is_aborted_are_never_shown"),
    (Independent, "test_what_is_prepared_is_shown_when_a_transaction_is_committed"),
    (Once, "test_what_is_prepared_is_shown_when_a_transaction_is_committed"),
    (Loading, "test_rows_that_a_crash_of_the_server_took_are_missed"),
    (Deaf, "test_a_checkpoint_that_completed_without_it_is_committed_afterwards"),
    (Twice, "test_a_repeated_commit_changes_nothing"),
    (Late, "test_a_restore_shows_what_was_shown_then_in_its_transaction"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[KitServer]:
    server = KitServer()
    yield server
    server.remove()


@for_each(("broken", "test"), NOTICED)
def test_a_mistake_is_noticed(
    broken: type[LedgerSink], test: str, server: KitServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OfTheBroken(TestLedgerSink):
        def sink(self, directory: Path) -> LedgerSink:
            return broken(directory.name)

        def _delivery(self, sink: Any, name: str) -> Delivery:
            return InTheCommit(server, name)

    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_DATABASE_URL", server.running_url())
    with pytest.raises(AssertionError) as noticed:
        getattr(OfTheBroken(), test)(tmp_path)
    print(f"{broken.__name__}: {str(noticed.value)[:200]}")
