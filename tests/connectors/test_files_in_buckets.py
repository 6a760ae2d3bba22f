"""A landing bucket: an empty prefix, and what is overwritten in the second in which it was written."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from object_stores import Bucket
from pyarrow import fs

from tidegate.protocol.facts.errors import SourceChangedError, SourceUnavailableError
from tidegate.sources.files import FileSource
from tidegate.state.storage import ArrowCheckpointStorage


@pytest.fixture
def landing(bucket: Bucket) -> ArrowCheckpointStorage:
    return ArrowCheckpointStorage(f"s3://{bucket.name}/in")


def source(landing: ArrowCheckpointStorage) -> FileSource:
    return FileSource(landing.url, schema="v INT")


def test_a_prefix_without_files_is_an_empty_directory(landing, context: Callable[..., Any]) -> None:
    segment, snapshot = source(landing).poll(0, None, context(1))
    assert segment is None
    landing.write("deep/x.csv", b"v\n1\n")
    segment, _ = source(landing).poll(0, snapshot, context(2))
    assert [file[0] for file in segment.reference["files"]] == ["deep/x.csv"]


def test_a_bucket_that_is_not_there_is_said(bucket: Bucket, context: Callable[..., Any]) -> None:
    with pytest.raises(SourceUnavailableError, match=r"The bucket 'no-such' of .* does not exist.*create it"):
        FileSource("s3://no-such/in", schema="v INT").poll(0, None, context(1))


def test_an_overwrite_of_equal_size_within_the_second_is_noticed(landing, bucket, context: Callable[..., Any]) -> None:
    store, _ = fs.FileSystem.from_uri(landing.url)
    written = set[int]()
    while len(written) != 1:  # both in one second, as the store counts
        landing.write("x.csv", b"v\n1\n")
        written = {store.get_file_info(f"{bucket.name}/in/x.csv").mtime_ns}
        segment, snapshot = source(landing).poll(0, None, replace(context(1), now=datetime.now(UTC)))
        assert segment is not None
        landing.write("x.csv", b"v\n2\n")
        written.add(store.get_file_info(f"{bucket.name}/in/x.csv").mtime_ns)
    later = replace(context(2), now=datetime.now(UTC) + timedelta(seconds=10))
    with pytest.raises(SourceChangedError, match="another content of the same size, written in the same second"):
        source(landing).poll(0, snapshot, later)
