"""Files and manifests that are not what a `FileSource` knew: each is named, and none is skipped. No Spark."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from landed_files import put

from tidegate.protocol.facts.errors import (
    SourceChangedError,
    SourceUnavailableError,
    StateIntegrityError,
    StorageError,
)
from tidegate.sources.files import FileSource
from tidegate.state.storage import ArrowCheckpointStorage

SCHEMA = "k STRING, v INT"


def test_a_file_that_changed_after_it_was_read_is_named(landing: Path, context: Any) -> None:
    put(landing, "a.csv", mtime=1_000_000_000)
    put(landing, "b.csv")
    source = FileSource("landing", schema=SCHEMA)
    _, snapshot = source.poll(0, None, context(12))
    put(landing, "a.csv", "k,v\na,1\nb,2\n", mtime=61_000_000_007)
    with pytest.raises(SourceChangedError) as raised:
        source.poll(0, snapshot, context(13))
    message = str(raised.value)
    assert f"{landing}/a.csv has changed since checkpoint 12 read it" in message
    assert "8 bytes then, 12 now; modified 1970-01-01 00:00:01.000000000 UTC then" in message
    assert "1970-01-01 00:01:01.000000007 UTC now" in message
    assert "Deliver a corrected or longer copy under a new name" in message


def test_the_same_size_at_another_time_is_a_change(landing: Path, context: Any) -> None:
    put(landing, "a.csv", mtime=1)
    source = FileSource("landing", schema=SCHEMA)
    _, snapshot = source.poll(0, None, context(1))
    put(landing, "a.csv", "k,v\na,2\n", mtime=2)
    with pytest.raises(SourceChangedError):
        source.poll(0, snapshot, context(2))


def test_an_archived_file_is_fine_and_stays_remembered(landing: Path, context: Any) -> None:
    file = put(landing, "a.csv", mtime=1)
    source = FileSource("landing", schema=SCHEMA)
    _, snapshot = source.poll(0, None, context(1))
    file.unlink()
    assert source.poll(0, snapshot, context(2)) == (None, snapshot)
    put(landing, "a.csv", mtime=1)
    assert source.poll(0, snapshot, context(3))[0] is None
    put(landing, "a.csv", "k,v\nz,9\n", mtime=2)
    with pytest.raises(SourceChangedError, match=r"checkpoint 1 read it"):
        source.poll(0, snapshot, context(4))


@pytest.mark.parametrize("happens", ["gone", "grown"])
def test_a_listed_file_that_is_not_the_same_when_read_is_an_error(happens: str, landing: Path, context: Any) -> None:
    file = put(landing, "a.csv")
    source = FileSource("landing", schema=SCHEMA)
    segment, _ = source.poll(0, None, context(1))
    assert segment is not None
    file.unlink() if happens == "gone" else put(landing, "a.csv", "k,v\na,1\nb,2\n")
    expected = "is gone" if happens == "gone" else "has changed: 8 bytes then, 12 now"
    with pytest.raises(SourceChangedError, match=f"a.csv {expected}.*before its rows were read"):
        source.read(None, [segment])


def test_a_missing_directory_is_an_error_even_if_everything_was_read(home: Path, landing: Path, context: Any) -> None:
    put(landing, "a.csv")
    source = FileSource("landing", schema=SCHEMA)
    _, snapshot = source.poll(0, None, context(1))
    shutil.rmtree(landing)
    with pytest.raises(SourceUnavailableError, match=r"landing' does not exist. Nothing was read and nothing is lost"):
        source.poll(0, snapshot, context(2))


def test_a_name_that_is_not_text_is_an_error_and_not_a_skip(landing: Path, context: Any) -> None:
    (Path(os.fsdecode(os.fsencode(landing) + b"/caf\xe9.csv"))).write_text("k,v\n")
    with pytest.raises(StorageError, match=r"cannot be listed: the name '.*/caf\\udce9\.csv' is not UTF-8"):
        FileSource("landing", schema=SCHEMA).poll(0, None, context(1))


def test_a_damaged_manifest_is_an_error(landing: Path, context: Any, storage: ArrowCheckpointStorage) -> None:
    put(landing, "a.csv")
    source = FileSource("landing", schema=SCHEMA)
    _, snapshot = source.poll(0, None, context(1))
    storage.write(snapshot.handles[0].path, b"PAR1 something else")
    with pytest.raises(StateIntegrityError, match=r"0-1-x.parquet.*checkpoint 1, differs from its checksum"):
        source.poll(0, snapshot, context(2))
    storage.delete([snapshot.handles[0].path])
    with pytest.raises(StateIntegrityError, match=r"missing"):
        source.poll(0, snapshot, context(2))
