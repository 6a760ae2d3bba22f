"""`IcebergSink` passes the suite for sinks in both modes: in the commit, and in a SQL and a REST catalog after it."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from iceberg_tables import Lake
from object_stores import Bucket
from pyiceberg.catalog.sql import SqlCatalog
from rest_catalogs import RestCatalogServer, rest_catalog

from tidegate import IcebergSink
from tidegate.iceberg.catalogs import close_catalogs
from tidegate.iceberg.places import location_now
from tidegate.testing import SinkSuite
from tidegate.testing.every_type import EVERY_TYPE

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalogServer]:
    with rest_catalog(tmp_path_factory.mktemp("rest")) as server:
        yield server


class TestAppended(SinkSuite[IcebergSink]):
    may_wait = True  # for the row that says what the table shows
    many = 20_000
    every = 60
    mode = "append"

    @pytest.fixture(autouse=True)
    def _without(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """pyiceberg reads null as an empty list there; DuckDB does not (tests/iceberg/test_types.py)."""
        monkeypatch.delitem(EVERY_TYPE, "ARRAY<STRUCT<a: DATE>>")

    def sink(self, directory: Path) -> IcebergSink:
        return IcebergSink(f"db.{directory.name}", self.mode, str(directory))

    def shown(self, sink: IcebergSink) -> Sequence[dict[str, Any]]:
        return [] if location_now(sink.name) is None else self.rows(sink.table)

    def rows(self, table: str) -> list[dict[str, Any]]:
        return Lake(os.environ["TIDEGATE_DATABASE_URL"].partition("?")[0]).rows(table)


class TestLatest(TestAppended):
    mode = "latest"


class TestAppendedElsewhere(TestAppended):
    """The catalog is a file of SQLite."""

    @pytest.fixture(autouse=True)
    def _other(self, running_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setenv("TIDEGATE_DATABASE_URL", running_url)
        self.uri = f"sqlite:///{tmp_path}/catalog.db"
        monkeypatch.setenv("PYICEBERG_CATALOG__OTHER__URI", self.uri)
        yield
        close_catalogs()

    def sink(self, directory: Path) -> IcebergSink:
        return IcebergSink(f"db.{directory.name}", self.mode, str(directory), catalog="other")

    def rows(self, table: str) -> list[dict[str, Any]]:
        catalog = SqlCatalog("other", uri=self.uri)
        try:
            return catalog.load_table(table).scan().to_arrow().to_pylist()
        finally:
            catalog.close()


class TestLatestElsewhere(TestAppendedElsewhere):
    mode = "latest"


class TestAppendedOverRest(TestAppended):
    every = 240

    @pytest.fixture(autouse=True)
    def _rest(
        self, running_url: str, server: RestCatalogServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[None]:
        monkeypatch.setenv("TIDEGATE_DATABASE_URL", running_url)
        self.server, self.space = server, "".join(each if each.isalnum() else "_" for each in tmp_path.name)
        monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", server.url)
        yield
        close_catalogs()

    def sink(self, directory: Path) -> IcebergSink:
        return IcebergSink(f"{self.space}.{directory.name}", self.mode, str(directory), catalog="lake")

    def rows(self, table: str) -> list[dict[str, Any]]:
        return self.server.rows(table)


class TestLatestOverRest(TestAppendedOverRest):
    mode = "latest"


class TestAppendedInBucket(TestAppended):
    """An object appears by one request: what a line does to the bucket is done before the next line, or not at all."""

    every = 150

    @pytest.fixture(autouse=True)
    def _bucket(self, bucket: Bucket) -> None:
        self.warehouse = f"s3://{bucket.name}"

    def sink(self, directory: Path) -> IcebergSink:
        return IcebergSink(f"db.{directory.name}", self.mode, f"{self.warehouse}/{directory.name}")


@pytest.mark.long
class TestLatestInBucket(TestAppendedInBucket):
    mode = "latest"
