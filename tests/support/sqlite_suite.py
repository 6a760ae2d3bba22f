"""The suite of the worked example of a sink, and of sinks with mistakes that are made like it."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from own_connectors.sqlite_sink import SqliteSink
from tidegate.testing import SinkSuite


class SqliteSuite(SinkSuite[SqliteSink]):
    may_wait = True

    def sink(self, directory: Path) -> SqliteSink:
        return SqliteSink(str(directory / "orders.db"), "orders", timeout=0.05)

    def shown(self, sink: SqliteSink) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(sink.path)) as db:
            db.row_factory = sqlite3.Row
            there = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'orders'").fetchone()
            return [dict(row) for row in db.execute("SELECT * FROM orders")] if there else []
