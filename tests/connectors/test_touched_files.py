"""Files that look different from when they were read: touched, grown from nothing, or too young to be read at all."""

import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from landed_files import put

from tidegate.ports import SourceContext
from tidegate.protocol.facts.errors import PipelineDefinitionError, SourceChangedError
from tidegate.sources import directory as directories
from tidegate.sources import manifests
from tidegate.sources.changed import require_still_there
from tidegate.sources.directory import Directory
from tidegate.sources.files import FileSource
from tidegate.sources.listing import FileVersion

SCHEMA = "k STRING, v INT"
LARGE = "k,v\n" + "a,1\n" * 300_000  # more than is read in one piece, and than was remembered once


def paths(segment: Any) -> list[str]:
    return [] if segment is None else [file[0] for file in segment.reference["files"]]


def test_a_file_that_was_touched_is_what_it_was(landing: Path, context: Any) -> None:
    put(landing, "a.csv", mtime=1)
    source = FileSource("landing", schema=SCHEMA)
    segment, snapshot = source.poll(0, None, context(1))
    os.utime(landing / "a.csv", ns=(2, 2))
    assert source.poll(0, snapshot, context(2))[0] is None
    assert source.poll(0, snapshot, context(3))[0] is None
    assert segment is not None
    require_still_there(Directory(source.location), [FileVersion(*segment.reference["files"][0])])
    assert source.read_since(0, None, snapshot, context(3).storage).missing == []
    put(landing, "a.csv", "k,v\na,2\n", mtime=2)
    assert source.read_since(0, None, snapshot, context(3).storage).missing == ["a.csv"]
    put(landing, "a.csv", "k,v\na,2\n", mtime=3)
    with pytest.raises(SourceChangedError, match=r"modified 1970-01-01 00:00:00\.000000001 UTC then"):
        source.poll(0, snapshot, context(4))


@pytest.mark.parametrize("splits", [1, 2])
def test_a_landing_directory_that_is_copied_without_times_stops_nothing(
    splits: int, landing: Path, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file is compared once, in whatever process: its new time is recorded, and read as no new file."""
    put(landing, "large.csv", LARGE, mtime=1)
    put(landing, "empty.csv", "", mtime=1)
    put(landing, "small.csv", mtime=1)
    names = {"large.csv", "empty.csv", "small.csv"}

    def poll(number: int, taken: dict[int, Any]) -> tuple[set[str], dict[int, Any]]:
        source, read, after = FileSource("landing", schema=SCHEMA, splits=splits), [], {}
        for split in range(splits):
            segment, after[split] = source.poll(split, taken.get(split), context(number, split))
            assert source.replay(split, taken.get(split), after[split], context(number).storage) == segment
            assert sorted(source.read_in(number, after[split], context(number).storage)) == sorted(paths(segment))
            read += paths(segment)
        assert sum(after[split].position["files"] for split in after) == len(set(names))
        return set(read), after

    read, first = poll(1, {})
    assert read == names
    shutil.copytree(landing, landing.parent / "copy", copy_function=shutil.copyfile)
    shutil.rmtree(landing)
    (landing.parent / "copy").rename(landing)
    nothing, second = poll(2, first)
    assert nothing == set()
    monkeypatch.setattr(Directory, "_opened", None)
    assert poll(3, second) == (set(), second)
    monkeypatch.undo()
    monkeypatch.setenv("TIDEGATE_HOME", str(landing.parent))
    for number in range(4, 12):  # manifests are merged meanwhile
        names.add(f"{number}.csv")
        put(landing, f"{number}.csv")
        os.utime(landing / "large.csv", ns=(number, number))
        read, second = poll(number, second)
        assert read == {f"{number}.csv"}
    listed = [
        row.file.path for snapshot in second.values() for row in manifests.read(snapshot.handles, context(1).storage)
    ]
    assert set(listed) == names
    put(landing, "large.csv", LARGE[:-2] + "2\n", mtime=3)
    with pytest.raises(SourceChangedError, match=r"large\.csv has changed since checkpoint 1 read it"):
        poll(12, second)


def test_where_the_content_is_not_known_a_touched_file_has_changed(
    landing: Path, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(landing, "a.csv", mtime=1)
    monkeypatch.setattr(directories, "CHECKSUM_BYTES", 7)  # beyond what is remembered
    source = FileSource("landing", schema=SCHEMA)
    _, snapshot = source.poll(0, None, context(1))
    monkeypatch.undo()
    monkeypatch.setenv("TIDEGATE_HOME", str(landing.parent))
    assert source.poll(0, snapshot, context(2))[0] is None
    put(landing, "a.csv", mtime=2)
    with pytest.raises(SourceChangedError, match=r"a\.csv has changed since checkpoint 1 read it"):
        source.poll(0, snapshot, context(3))


FROM_NOTHING: list[tuple[dict[str, Any], str, bool]] = [
    ({}, "", True),
    ({}, "k,v\n", True),
    ({}, "k,v", True),
    ({"encoding": "utf-16-le"}, "k,v\n".encode("utf-16-le").decode("latin-1"), True),
    ({"options": {"header": "false"}}, "", True),
    ({"options": {"header": "false"}}, "a,1\n", False),
    ({}, "k,v\na,1\n", False),
    ({"format": "json"}, "\n \n", True),
    ({"format": "json"}, '{"k": "a"}\n', False),
]


MORE = "k,v\na,1\n"


@pytest.mark.parametrize(("arguments", "before", "taken"), FROM_NOTHING)
def test_growth_from_nothing_is_read_once(
    arguments: dict[str, Any], before: str, taken: bool, landing: Path, context: Any
) -> None:
    put(landing, "other", "k,v\nz,0\n", mtime=1)
    put(landing, "a", before, mtime=1)
    source = FileSource("landing", **{"schema": SCHEMA, **arguments})
    _, first = source.poll(0, None, context(1))
    put(landing, "a", before + MORE, mtime=2)
    if not taken:
        with pytest.raises(SourceChangedError):
            source.poll(0, first, context(2))
        return
    for polled in (FileSource("landing", **{"schema": SCHEMA, **arguments}), source):
        segment, second = polled.poll(0, first, context(2))
        assert paths(segment) == ["a"]
        assert second.position == {"splits": 1, "files": 2}
        assert source.replay(0, first, second, context(2).storage) == segment
        assert source.poll(0, second, context(3)) == (None, second)
    assert source.read_in(2, second, context(2).storage) == {"a": len(before) + len(MORE)}
    pieces = source.find_read(["a"], [second], context(2).storage)
    assert (pieces["a"].checkpoint_id, pieces["a"].is_same) == (2, True)
    put(landing, "a", before + MORE + MORE, mtime=3)
    with pytest.raises(SourceChangedError, match="since checkpoint 2 read it"):
        source.poll(0, second, context(4))


def test_another_beginning_is_no_growth(landing: Path, context: Any) -> None:
    put(landing, "a.csv", "k,v\n", mtime=1)
    source = FileSource("landing", schema=SCHEMA)
    _, snapshot = source.poll(0, None, context(1))
    put(landing, "a.csv", "v,k\n1,a\n", mtime=2)
    with pytest.raises(SourceChangedError):
        source.poll(0, snapshot, context(2))


def test_an_empty_file_that_grows_before_it_is_read_is_left_to_the_next_checkpoint(
    landing: Path, context: Any, spark: Any
) -> None:
    put(landing, "a.csv", "", mtime=1)
    source = FileSource("landing", schema=SCHEMA)
    segment, first = source.poll(0, None, context(1))
    assert segment is not None
    put(landing, "a.csv", mtime=2)
    assert source.read(spark, [segment]).collect() == []
    segment, _ = source.poll(0, first, context(2))
    assert segment is not None
    assert [tuple(row) for row in source.read(spark, [segment]).collect()] == [("a", 1)]


def test_what_was_moved_and_left_a_link_in_its_place_is_not_read_again(
    home: Path, landing: Path, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(landing, "day/x.csv", mtime=1)
    _, snapshot = FileSource("landing", schema=SCHEMA).poll(0, None, context(1))
    (landing / "day").rename(home / "day")
    (landing / "day").symlink_to("../day")
    source = FileSource("landing", schema=SCHEMA, follow_links=True)
    segment, second = source.poll(0, snapshot, context(2))
    assert segment is None
    put(home, "day/y.csv")
    assert paths(source.poll(0, second, context(3))[0]) == ["../day/y.csv"]


NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


def at(context: SourceContext, seconds: float) -> SourceContext:
    return replace(context, now=NOW + timedelta(seconds=seconds))


def test_a_young_file_is_left_alone_until_it_is_old_enough(landing: Path, context: Any) -> None:
    def landed(name: str, seconds: float) -> None:
        put(landing, name, mtime=int((NOW.timestamp() + seconds) * 1e9))

    landed("old.csv", -61)
    landed("young.csv", -59)
    landed("soon.csv", 59)
    landed("wrong_clock.csv", 86_400)
    put(landing, "DONE")
    source = FileSource("landing", schema=SCHEMA, min_age="1 min", end_marker="DONE")
    os.utime(landing / "DONE", (2e9, 2e9))
    segment, first = source.poll(0, None, at(context(1), 0))
    assert paths(segment) == ["old.csv", "wrong_clock.csv"]
    assert not first.finished
    assert not source.is_behind(0, segment)
    pending = source.pending(0)
    assert pending is not None
    assert pending.pieces == 2
    segment, second = source.poll(0, first, at(context(2), 1))
    assert paths(segment) == ["young.csv"]
    landed("soon.csv", 100)  # it was written to meanwhile, which is no change of what was read
    assert source.poll(0, second, at(context(3), 150))[0] is None
    segment, last = source.poll(0, second, at(context(4), 160))
    assert paths(segment) == ["soon.csv"]
    assert last.finished


@pytest.mark.parametrize("min_age", ["soon", "0 s", "5", timedelta(0), "-1 s"])
def test_a_wrong_age_is_refused(min_age: Any) -> None:
    with pytest.raises(PipelineDefinitionError, match=r"FileSource\('landing'\): min_age"):
        FileSource("landing", schema=SCHEMA, min_age=min_age)


def test_only_what_is_used_is_described(home: Path) -> None:
    """So that a definition has the fingerprint that it had."""
    assert FileSource("landing", schema=SCHEMA).describe().keys().isdisjoint({"min_age", "follow_links"})
    described = FileSource("landing", schema=SCHEMA, min_age="1 min", follow_links=True).describe()
    assert (described["min_age"], described["follow_links"]) == ("1 min", True)


def in_whole_seconds(landing: Path, text: str, seconds: int = 100) -> None:
    """As an object store keeps it."""
    put(landing, "a.csv", text, mtime=seconds * 10**9)


def polled(source: FileSource, context: Any, number: int, before: Any, now: float) -> Any:
    return source.poll(0, before, replace(context(number), now=datetime.fromtimestamp(now, UTC)))


@pytest.mark.parametrize("later", [0.9, 3, 7, 1000])
def test_an_overwrite_of_equal_size_within_the_second_is_noticed(later: float, landing: Path, context: Any) -> None:
    """Where times are whole seconds, and at the first poll at which nothing can be written in that second any more."""
    in_whole_seconds(landing, "k,v\na,1\n")
    source = FileSource("landing", schema=SCHEMA)
    segment, snapshot = polled(source, context, 1, None, 100.2)
    assert paths(segment) == ["a.csv"]
    in_whole_seconds(landing, "k,v\na,2\n")
    if later < 5:
        segment, snapshot = polled(source, context, 2, snapshot, 100 + later)
        assert segment is None
        later += 5
    with pytest.raises(SourceChangedError, match="another content of the same size, written in the same second"):
        polled(source, context, 3, snapshot, 100 + later)


def test_what_is_read_as_soon_as_it_is_written_is_compared_once(
    landing: Path, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_whole_seconds(landing, "k,v\na,1\n")
    _, snapshot = polled(FileSource("landing", schema=SCHEMA), context, 1, None, 100.2)
    read: list[str] = []
    checksum = Directory._checksum
    monkeypatch.setattr(Directory, "_checksum", lambda *given: read.append(given[1].path) or checksum(*given))
    for number, now in enumerate((100.3, 101, 104, 106, 107, 1000), 2):
        segment, snapshot = polled(FileSource("landing", schema=SCHEMA), context, number, snapshot, now)
        assert segment is None
    assert read == ["a.csv"]


def test_what_has_settled_when_it_is_read_is_not_compared(landing: Path, context: Any) -> None:
    in_whole_seconds(landing, "k,v\na,1\n")
    source = FileSource("landing", schema=SCHEMA)
    _, snapshot = polled(source, context, 1, None, 106)
    assert polled(source, context, 2, snapshot, 107)[1] == snapshot


def test_a_large_file_whose_content_is_not_known_is_not_suspected(
    landing: Path, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directories, "CHECKSUM_BYTES", 0)
    in_whole_seconds(landing, "k,v\na,1\n")
    source = FileSource("landing", schema=SCHEMA)
    _, snapshot = polled(source, context, 1, None, 100)
    assert polled(source, context, 2, snapshot, 200)[0] is None
