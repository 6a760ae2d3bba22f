"""`IcebergSource` passes the suite for sources, on tables that another writer appends to."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tidegate import IcebergSource
from tidegate.iceberg.catalogs import close_catalogs
from tidegate.testing import SourceSuite
from tidegate.testing.every_type import EVERY_TYPE

pytestmark = pytest.mark.timeout(600)


class TestIcebergSource(SourceSuite[IcebergSource]):
    other_columns = True
    every = 40

    @pytest.fixture(autouse=True)
    def catalog(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setenv("PYICEBERG_CATALOG__OTHER__URI", f"sqlite:///{tmp_path}/catalog.db")
        monkeypatch.delitem(EVERY_TYPE, "ARRAY<STRUCT<a: DATE>>")  # pyiceberg writes null as an empty list there
        self.lake = SqlCatalog("other", uri=f"sqlite:///{tmp_path}/catalog.db")
        self.lake.create_namespace_if_not_exists("db")
        yield
        self.lake.close()
        close_catalogs()

    def source(self, directory: Path, columns: str) -> IcebergSource:
        return IcebergSource(f"db.{directory.name}", "other", schema=columns)

    def arrive(self, directory: Path, rows: pa.Table) -> None:
        table = self.lake.create_table_if_not_exists(f"db.{directory.name}", rows.schema, f"file://{directory}")
        table.append(rows)
