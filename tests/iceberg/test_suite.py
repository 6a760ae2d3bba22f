"""The suite for sinks, on both modes."""

import pytest
from iceberg_tables import Lake

from tidegate import IcebergSink
from tidegate.iceberg.places import location_now
from tidegate.protocol.recovery.ownership import Owner
from tidegate.testing import SinkSuite
from tidegate.testing.every_type import EVERY_TYPE


class Suite(SinkSuite[IcebergSink]):
    mode = "append"
    may_wait = True  # a process that was stopped in a transaction holds a lock
    many = 20_000
    every = 40

    @pytest.fixture(autouse=True)
    def _lake(self, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lake = lake
        # pyiceberg reads null as an empty list there; DuckDB reads it (test_types.py).
        monkeypatch.delitem(EVERY_TYPE, "ARRAY<STRUCT<a: DATE>>")

    def sink(self, directory):
        return IcebergSink(f"db.{directory.name}", self.mode, str(directory))

    def commit(self, sink, checkpoint_id, staged, attempt):
        sink.mark(Owner("kit", sink.table, "d"))
        sink.commit(checkpoint_id, staged, attempt)

    def shown(self, sink):
        if location_now(sink.name) is None:
            return []
        return self.lake.rows(sink.table)


class TestAppended(Suite):
    pass


class TestLatest(Suite):
    mode = "latest"
