"""What a `ParquetSink` says when it cannot: no room, a wrong place, a type that Parquet lacks. No Spark."""

import errno
import os
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from commits import commit
from parquet_sinks import rows, stage, visible

from tidegate.ports import StageContext
from tidegate.protocol.facts.errors import (
    PipelineDefinitionError,
    SinkError,
    StorageError,
)
from tidegate.sinks.parquet import ParquetSink


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """The kernel's own refusal to write on, as it comes when a disk or quota is full. For this process,
    its log included."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_that_the_system_refuses_leaves_nothing_visible(append: ParquetSink) -> None:
    table = pa.table({"v": [number * number % 99_991 for number in range(100_000)]})
    with pytest.raises(StorageError) as raised, file_size_limit(4096):
        append.writer().stage(table, StageContext(1, 0, 1, "u"))
    assert re.search("Rows of checkpoint 1 could not be staged below .*none of them became visible", str(raised.value))
    assert append.staged_paths(1) == []


def test_a_full_disk_while_staging_says_so(append: ParquetSink, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    stage(append, 1, 1)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError) as raised:
        append.writer().stage(rows(1), StageContext(2, 0, 1, "u"))
    for part in ("none of them became visible", "is full", "bytes free", "Free some space, then retry"):
        assert part in str(raised.value)
    assert append.staged_paths(2) == []


def test_a_failure_to_commit_says_what_is_safe(append: ParquetSink, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = stage(append, 3, 1)

    def denied(*_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", denied)
        with pytest.raises(
            SinkError, match=r"Checkpoint 3 could not be committed to .*Permission denied.*all of it or none"
        ):
            commit(append, 3, [handle])
    commit(append, 3, [handle])
    assert visible(append) == [1]


@pytest.mark.parametrize("url", ["s3://key:geheim@bucket/t", "gs://bucket/t", "hdfs://host/t", "abfss://x@y/t"])
def test_storage_without_atomic_renames_is_refused_with_the_reason_and_what_to_take(url: str) -> None:
    scheme = url.partition(":")[0]
    with pytest.raises(PipelineDefinitionError, match=rf"cannot write to {scheme}://.*atomic rename") as error:
        ParquetSink(url)
    assert f'IcebergSink("namespace.table", warehouse="{scheme}://…")' in str(error.value)
    assert "geheim" not in str(error.value)


def test_a_wrong_mode_is_refused() -> None:
    with pytest.raises(PipelineDefinitionError, match='the mode is \'upsert\', but must be "append" or "latest"'):
        ParquetSink("t", mode="upsert")


def test_describe_names_the_place(append: ParquetSink, home: Path) -> None:
    assert append.describe() == {"type": "ParquetSink", "path": str(home / "tables/events"), "mode": "append"}
    assert ParquetSink(f"file://{home}/x/").root == str(home / "x")


@pytest.mark.parametrize("kind", [pa.duration("us"), pa.null(), pa.month_day_nano_interval()])
def test_types_that_parquet_lacks_are_refused_by_name(kind: pa.DataType, append: ParquetSink) -> None:
    with pytest.raises(SinkError, match=r"column 'odd' has type .*Nothing became visible"):
        append.writer().stage(pa.table({"odd": pa.array([None], kind)}), StageContext(1, 0, 1, "u"))
    assert not Path(append.root).exists()
