"""A sink and a source of a user's own on the base classes, and their suites. Checked, and never run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidegate import FileSource, Pipeline, RangeSource, StagedParquet
from tidegate.ports import CommitAttempt, SinkCommit, SinkInput, StateHandle
from tidegate.testing import CrashReport, SinkSuite, SourceSuite, crash_test


@dataclass(frozen=True)
class PrintSink(StagedParquet):
    prefix: str

    @property
    def staged_in(self) -> str | None:
        return "staged"

    @property
    def commits(self) -> SinkCommit:
        return SinkCommit.AT_LEAST_ONCE

    @property
    def input(self) -> SinkInput:
        return SinkInput.CURRENT

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        for batch in self.batches(staged):
            print(self.prefix, batch.num_rows)

    def describe(self) -> dict[str, Any]:
        return {"type": "PrintSink"}


class PlainSink(StagedParquet):
    staged_in = "staged"
    commits = SinkCommit.AT_LEAST_ONCE
    input = SinkInput.CURRENT

    def describe(self) -> dict[str, Any]:
        return {"type": "PlainSink"}


class CountingSource(RangeSource):
    schema = "n BIGINT"
    splits = 2

    def latest(self, split: int, position: int | None) -> int:
        return (position or 0) + 1

    def read_between(self, split: int, start: int | None, end: int) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"n": list(range(start or 0, end))})

    def describe(self) -> dict[str, Any]:
        return {"type": "CountingSource"}


class TestPrintSink(SinkSuite[PrintSink]):
    many = 10

    def sink(self, directory: Path) -> PrintSink:
        return PrintSink("rows")

    def shown(self, sink: PrintSink) -> list[dict[str, Any]]:
        return [{"k": 1, "v": sink.prefix}]


class TestFileSource(SourceSuite[FileSource]):
    def source(self, directory: Path, columns: str) -> FileSource:
        return FileSource(str(directory), schema=columns)

    def arrive(self, directory: Path, rows: pa.Table) -> None:
        (directory / "1.csv").write_text(str(rows.num_rows))


pipeline = Pipeline("numbers")
pipeline.source("numbers", CountingSource()).sink("printed", PrintSink("rows"))
pipeline.source("more", CountingSource()).sink("plain", PlainSink())
report: CrashReport = crash_test(pipeline, [{"landing/1.csv": "n\n1\n"}], every=2)
