"""`IcebergSink` passes the suite for sinks in both modes, in the commit."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from iceberg_tables import Lake

from tidegate import IcebergSink
from tidegate.iceberg.places import location_now
from tidegate.testing import SinkSuite
from tidegate.testing.every_type import EVERY_TYPE

pytestmark = pytest.mark.timeout(900)


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
        url = os.environ["TIDEGATE_DATABASE_URL"].partition("?")[0]
        return [] if location_now(sink.name) is None else Lake(url).rows(sink.table)


class TestLatest(TestAppended):
    mode = "latest"
