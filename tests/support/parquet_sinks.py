"""A `ParquetSink` in the middle of its life, and a process that dies at one of its effects on the file system."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commits import commit
from stopped import EFFECTS

from tidegate.ports import StageContext
from tidegate.protocol.facts.records import StateHandle
from tidegate.sinks.parquet import ParquetSink


class Died(BaseException):
    """Not an `Exception`: nothing in the code under test may take it for an error and clean up."""


class Mortal:
    """Lets the process die at its k-th effect on the file system, before it or right after it, and do nothing more."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int | None, after: bool) -> None:
        self.at, self.after, self.count = at, after, 0
        for name in EFFECTS:
            patch.setattr(os, name, self._wrapped(getattr(os, name)))

    def _wrapped(self, effect: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            dies = self.at is not None and self.count >= self.at
            if dies and not (self.after and self.count == self.at):
                raise Died
            try:
                return effect(*args, **kwargs)
            finally:
                if dies:
                    raise Died

        return call


def rows(*values: int) -> pa.Table:
    return pa.table({"v": pa.array(values, pa.int64())})


def stage(sink: ParquetSink, checkpoint_id: int, *values: int, subtask: int = 0, attempt: int = 1) -> StateHandle:
    context = StageContext(checkpoint_id, subtask, attempt, f"u{values[0] if values else 0}")
    (handle,) = sink.writer().stage(rows(*values), context)
    return handle


def shown(directory: str | Path) -> list[int]:
    """One column of `shown_rows`."""
    return sorted(row["v"] for row in shown_rows(directory))


def shown_rows(directory: str | Path) -> list[dict[str, Any]]:
    """What a reader of a directory sees who skips hidden names, as Spark, Hive and pyarrow do."""
    files = [
        Path(parent, name)
        for parent, directories, names in os.walk(directory)
        if not directories.sort() and not [directories.remove(d) for d in list(directories) if d[0] in "._"]
        for name in names
        if name[0] not in "._"
    ]
    return [row for file in files for row in pq.read_table(file, partitioning=None).to_pylist()]


def visible(sink: ParquetSink) -> list[int]:
    return shown(sink.root if sink.mode == "append" else os.path.join(sink.root, "current"))


def tree(sink: ParquetSink) -> list[str]:
    return sorted(str(path.relative_to(sink.root)) for path in Path(sink.root).rglob("*"))


def prepared(name: str, mode: Any) -> tuple[ParquetSink, list[StateHandle], list[int], list[int]]:
    """A sink with two commits behind it and a third staged, beside what a zombie left; visible before and after."""
    sink = ParquetSink(name, mode, readable_for="0 s")
    carried = stage(sink, 1, 10, subtask=1)
    commit(sink, 1, [stage(sink, 1, 1), carried])
    commit(sink, 2, [stage(sink, 2, 2), *([carried] if mode == "latest" else [])])
    third = [stage(sink, 3, 3), stage(sink, 3, 30, subtask=2), *([carried] if mode == "latest" else [])]
    stage(sink, 3, 999, subtask=5)
    before = [1, 2, 10] if mode == "append" else [2, 10]
    after = [1, 2, 3, 10, 30] if mode == "append" else [3, 10, 30]
    return sink, third, before, after
