"""`PostgresSource` passes the suite for sources, on tables that `PostgresSink` would have made for the same rows."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from adbc_driver_postgresql import dbapi
from databases import Databases
from marts import Server

from tidegate import PostgresSource
from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.postgres_sink.columns import as_loaded, columns_of
from tidegate.postgres_sink.tables import DIALECT, quoted_name
from tidegate.testing import SourceSuite
from tidegate.testing.source_trials import SourceTrial

pytestmark = pytest.mark.timeout(600)


class TestPostgresSource(SourceSuite[PostgresSource]):
    other_columns = True
    every = 40

    @pytest.fixture(autouse=True)
    def shop(
        self, postgres_server: EmbeddedPostgres, databases: Databases, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[None]:
        name = databases.take()
        self.server = Server(postgres_server.url(name))
        monkeypatch.setenv("TIDEGATE_CONNECTION_SHOP", self.server.url)
        yield
        databases.give_back(name)

    def trial(
        self, tmp_path: Path, request: pytest.FixtureRequest, columns: Mapping[str, str] | None = None
    ) -> SourceTrial:
        """The table is there before the first poll."""
        trial = super().trial(tmp_path, request, columns)
        made = [f"{quoted_name(each.name)} {each.made.compile(DIALECT)}" for each in columns_of(trial.schema)]
        own = ["n bigint GENERATED ALWAYS AS IDENTITY NOT NULL", "xid xid8 NOT NULL DEFAULT pg_current_xact_id()"]
        self.server.do(f"CREATE TABLE {self._table(trial.directory)} ({', '.join([*made, *own])})")
        return trial

    def source(self, directory: Path, columns: str) -> PostgresSource:
        return PostgresSource(self._table(directory), "shop", schema=columns, key="n", max_rows=self.many // 3)

    def arrive(self, directory: Path, rows: pa.Table) -> None:
        """As `PostgresSink` loads them."""
        batches: list[Any] = [as_loaded(batch) for batch in rows.to_batches()]
        with dbapi.connect(self.server.url) as connection, connection.cursor() as cursor:
            cursor.adbc_ingest("loaded", pa.Table.from_batches(batches), mode="create", temporary=True)
            values = [f"{quoted_name(each.name)}::{each.made.compile(DIALECT)}" for each in columns_of(rows.schema)]
            names = ", ".join(quoted_name(name) for name in rows.column_names)
            cursor.execute(f"INSERT INTO {self._table(directory)} ({names}) SELECT {', '.join(values)} FROM loaded")  # noqa: S608
            connection.commit()

    def _table(self, directory: Path) -> str:
        return f"public.{directory.name.replace('-', '_')}"
