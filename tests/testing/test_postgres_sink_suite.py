"""`PostgresSink` passes the suite for sinks in all of its modes, in the commit and after it."""

from pathlib import Path
from typing import Any

import pytest
from five_sinks import shown

from tidegate import PostgresSink
from tidegate.testing import SinkSuite

pytestmark = pytest.mark.timeout(900)


class TestAppend(SinkSuite[PostgresSink]):
    may_wait = True  # for the row that says where the table is
    other_columns = False  # values of nested types become JSON: tests/postgres_sink/test_types.py
    many = 20_000
    every = 100
    connection: str | None = None

    def sink(self, directory: Path) -> PostgresSink:
        return PostgresSink(directory.name, connection=self.connection)

    def shown(self, sink: PostgresSink) -> list[dict[str, Any]]:
        return [{name: row[name] for name in ("k", "v")} for row in shown(sink)]


class TestUpsert(TestAppend):
    nulls = False  # of a key

    def sink(self, directory: Path) -> PostgresSink:
        return PostgresSink(directory.name, "upsert", self.connection, key="k")


class TestReplace(TestAppend):
    def sink(self, directory: Path) -> PostgresSink:
        return PostgresSink(directory.name, "replace", self.connection)
