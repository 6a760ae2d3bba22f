"""`PostgresSink` passes the suite for sinks in all of its modes, in the commit and after it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from databases import Databases

from tidegate import PostgresSink
from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.testing import SinkSuite
from tidegate.testing.crash_worlds import table_rows

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
        return [{name: row[name] for name in ("k", "v")} for row in table_rows(sink)]


class TestUpsert(TestAppend):
    nulls = False  # of a key

    def sink(self, directory: Path) -> PostgresSink:
        return PostgresSink(directory.name, "upsert", self.connection, key="k")


class TestReplace(TestAppend):
    def sink(self, directory: Path) -> PostgresSink:
        return PostgresSink(directory.name, "replace", self.connection)


class Elsewhere:
    """The table is in another database, and changes after the commit."""

    connection = "marts"

    @pytest.fixture(autouse=True)
    def marts(
        self, postgres_server: EmbeddedPostgres, databases: Databases, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[None]:
        name = databases.take()
        url = f"{postgres_server.url(name)}?options=-c%20lock_timeout%3D1000"
        monkeypatch.setenv("TIDEGATE_CONNECTION_MARTS", url)
        yield
        databases.give_back(name)


class TestAppendElsewhere(Elsewhere, TestAppend):
    pass


class TestUpsertElsewhere(Elsewhere, TestUpsert):
    pass


class TestReplaceElsewhere(Elsewhere, TestReplace):
    pass


@pytest.mark.long
class TestManyLines(TestAppend):
    every = 10


@pytest.mark.long
class TestManyLinesOfAnUpsert(TestUpsert):
    every = 10


@pytest.mark.long
class TestManyLinesOfAReplacement(TestReplace):
    every = 10
