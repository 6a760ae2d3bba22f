"""`ParquetSink` passes the suite for sinks, in both of its modes."""

from pathlib import Path
from typing import Any

from parquet_sinks import shown_rows

from tidegate import ParquetSink
from tidegate.testing import SinkSuite


class TestAppend(SinkSuite[ParquetSink]):
    def sink(self, directory: Path) -> ParquetSink:
        return ParquetSink(str(directory), readable_for="0 s")

    def shown(self, sink: ParquetSink) -> list[dict[str, Any]]:
        return shown_rows(sink.table())


class TestLatest(TestAppend):
    def sink(self, directory: Path) -> ParquetSink:
        return ParquetSink(str(directory), mode="latest", readable_for="0 s")
