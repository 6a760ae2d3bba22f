"""What a `FileSource` remembers of many files, and how a listing is compared with it. No Spark."""

from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from landed_files import put

from tidegate.ports import Segment
from tidegate.protocol.facts.errors import SourceChangedError
from tidegate.protocol.facts.records import StateHandle
from tidegate.sources import manifests
from tidegate.sources.files import FileSource
from tidegate.sources.listing import FileVersion, Listing
from tidegate.sources.read_before import ReadBefore
from tidegate.state.storage import ArrowCheckpointStorage

SCHEMA = "k STRING, v INT"


def paths(segment: Segment | None) -> list[str]:
    return [] if segment is None else [file[0] for file in segment.reference["files"]]


def test_manifests_stay_few_and_every_file_is_written_seldom() -> None:
    sizes: list[int] = []
    written = 0
    for _ in range(20_000):
        keep = manifests.carried(sizes, 1)
        merged = sum(sizes[keep:]) + 1
        written += merged
        sizes = [*sizes[:keep], merged]
        assert len(sizes) <= 10
    assert sum(sizes) == 20_000
    assert written / 20_000 < 30


def test_no_merged_manifest_is_long(monkeypatch: pytest.MonkeyPatch, context: Any) -> None:
    monkeypatch.setattr(manifests, "_LARGEST", 50)
    handles: tuple[StateHandle, ...] = ()
    for number in range(400):
        handles = manifests.extend(handles, [FileVersion(f"{number}.csv", 1, 1)], context(number, 0, number), None)
    assert max(handle.rows for handle in handles) <= 50
    assert len(handles) < 2 * 400 / 50 + 6
    names = [row.file.path for row in manifests.read(handles, context(1).storage)]
    assert sorted(names) == sorted(f"{number}.csv" for number in range(400))
    # What one checkpoint has read may be longer. It stays as it is.
    long = manifests.extend((), [FileVersion(f"{number}.csv", 1, 1) for number in range(60)], context(401), None)
    assert manifests.extend(long, [FileVersion("x.csv", 1, 1)], context(402), None)[:-1] == long


def test_a_hundred_thousand_files_are_remembered_in_time(context: Any, storage: ArrowCheckpointStorage) -> None:
    files = [FileVersion(f"year={n % 50}/some/where/{n:08}.csv", n, n * 10**9) for n in range(100_000)]
    handles = manifests.extend((), files[:-2], context(1), None)
    listing = Listing(
        pa.array([file.path for file in files]),
        np.array([file.size for file in files]),
        np.array([file.mtime_ns + (file.size == 7) for file in files]),
    )
    started = perf_counter()
    found = ReadBefore(lambda file: not file.path.endswith("99999.csv")).compare(lambda: listing, handles, storage)
    assert perf_counter() - started < 2  # 0.08 s on an idle machine, most of it imports
    assert found.unread == [files[-2]]
    assert found.different == [files[7]._replace(mtime_ns=7 * 10**9 + 1)]


def test_a_directory_from_which_most_has_been_moved_away(landing: Path, context: Any) -> None:
    """Fewer files lie there than were read: what is compared changes sides."""
    source = FileSource("landing", schema=SCHEMA)
    for number in range(20):
        put(landing, f"{number}.csv", mtime=number + 1)
    _, snapshot = source.poll(0, None, context(1))
    for number in range(18):
        (landing / f"{number}.csv").unlink()
    put(landing, "new.csv")
    for polled in (source, FileSource("landing", schema=SCHEMA)):
        assert paths(polled.poll(0, snapshot, context(2))[0]) == ["new.csv"]
    put(landing, "19.csv", "k,v\nz,9\n", mtime=77)
    with pytest.raises(SourceChangedError, match=r"19\.csv has changed since checkpoint 1 read it"):
        source.poll(0, snapshot, context(3))


def test_what_is_remembered_follows_the_snapshot_that_is_given(landing: Path, context: Any) -> None:
    """A restore takes a pipeline back, and its source may be the same object."""
    source = FileSource("landing", schema=SCHEMA)
    put(landing, "a.csv", mtime=1)
    _, first = source.poll(0, None, context(1))
    put(landing, "b.csv", mtime=2)
    _, second = source.poll(0, first, context(2))
    assert source.poll(0, second, context(3))[0] is None
    assert paths(source.poll(0, first, context(4))[0]) == ["b.csv"]
    assert paths(source.poll(0, None, context(5))[0]) == ["a.csv", "b.csv"]


def test_what_other_splits_have_read_is_read_by_none(landing: Path, context: Any) -> None:
    for number in range(40):
        put(landing, f"{number}.csv")
    source = FileSource("landing", schema=SCHEMA, splits=3)
    known = [source.poll(split, None, context(1, split))[1] for split in range(3)]
    put(landing, "new.csv")
    for polled in (source, FileSource("landing", schema=SCHEMA, splits=3)):
        read = []
        for split in range(3):
            other_splits = [snapshot for other, snapshot in enumerate(known) if other != split]
            read += paths(polled.poll(split, known[split], replace(context(2, split), other_splits=other_splits))[0])
        assert read == ["new.csv"]
