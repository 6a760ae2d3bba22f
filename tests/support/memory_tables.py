"""The tables of users that lie in the same database as an in-memory store: participants change them, and nobody sees it
before the transaction is committed."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tidegate.ports import Participant
from tidegate.protocol.facts.errors import StoreUnavailableError

LOCK_TIMEOUT = 60.0  # seconds, as in `tidegate.postgres.engine`
Tables = dict[str, dict[Any, Any]]


class MemoryStatements:
    """`ports.CommitStatements`: a statement is a function of the tables, which returns what it has changed or found."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def execute(self, statement: Callable[[Tables], int], parameters: Mapping[str, Any] | None = None) -> int:
        return statement(self.tables)

    def query(self, statement: Callable[[Tables], Sequence[Any]], parameters: Any = None) -> Sequence[Any]:
        return statement(self.tables)


class MemoryTables:
    """What is committed. One transaction at a time changes it, as if each had a lock on all tables."""

    def __init__(self) -> None:
        self.rows: Tables = {}
        self.patience = LOCK_TIMEOUT
        self._lock = threading.Lock()

    @contextmanager
    def changed_by(self, participants: Sequence[Participant]) -> Iterator[None]:
        if not participants:
            yield
            return
        if not self._lock.acquire(timeout=self.patience):
            raise StoreUnavailableError("Another transaction has held the tables for too long.")
        try:
            changed = {name: dict(rows) for name, rows in self.rows.items()}
            for participant in participants:
                participant.run(MemoryStatements(changed))  # type: ignore[arg-type]
            yield
            self.rows = changed
        finally:
            self._lock.release()
