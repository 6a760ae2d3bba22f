"""A sink to a table of SQLite: rows, and how far they are, change in one transaction."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from tidegate import StagedParquet
from tidegate.ports import CommitAttempt, StateHandle
from tidegate.protocol.facts.errors import SupersededAttemptError


@dataclass(frozen=True)
class SqliteSink(StagedParquet):
    """Appends rows to a table, each once.

    Args:
        path: The database.
        table: The table, which is made if it is not there.
        timeout: How many seconds a commit waits for another process's transaction.
    """

    path: str
    table: str
    timeout: float = 30

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        with closing(sqlite3.connect(self.path, timeout=self.timeout, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            db.execute("CREATE TABLE IF NOT EXISTS commits (sink TEXT PRIMARY KEY, checkpoint INT, attempt INT)")
            done = db.execute("SELECT checkpoint, attempt FROM commits WHERE sink = ?", [self.table]).fetchone()
            newest, latest = done or (0, 0)
            if latest > attempt.number:
                raise SupersededAttemptError(f"Attempt {attempt.number} was overtaken by attempt {latest}.")
            if checkpoint_id > newest:
                for batch in self.batches(staged):
                    columns = ", ".join(map(quoted, batch.schema.names))
                    db.execute(f"CREATE TABLE IF NOT EXISTS {quoted(self.table)} ({columns})")
                    marks = ", ".join("?" * batch.num_columns)
                    rows = zip(*batch.to_pydict().values(), strict=True)
                    db.executemany(f"INSERT INTO {quoted(self.table)} ({columns}) VALUES ({marks})", rows)
            done = [self.table, max(checkpoint_id, newest), attempt.number]
            db.execute("INSERT OR REPLACE INTO commits VALUES (?, ?, ?)", done)
            db.execute("COMMIT")

    def describe(self) -> dict[str, Any]:
        return {"type": "SqliteSink", "path": f"{self.path}/{self.table}"}

    def unstorable(self, columns: Any) -> list[str]:
        import pyarrow as pa

        plain = (pa.types.is_integer, pa.types.is_floating, pa.types.is_string, pa.types.is_binary)
        odd = [each for each in columns if not any(is_it(each.type) for is_it in plain)]
        return [f"column {each.name!r} is {each.type}, which SQLite does not have" for each in odd]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
