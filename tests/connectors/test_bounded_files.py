"""A `FileSource` with an end marker: when it has been read to its end, and what comes too late (section 13).
No Spark."""

import os
from pathlib import Path
from typing import Any

import pytest

from tidegate.protocol.facts.errors import PipelineDefinitionError, SourceChangedError
from tidegate.protocol.facts.records import Snapshot
from tidegate.sources.files import FileSource
from tidegate.sources.segments import files_of

SCHEMA = "k STRING, v INT"


def put(landing: Path, name: str, mtime: int) -> None:
    (landing / name).parent.mkdir(parents=True, exist_ok=True)
    (landing / name).write_text("k,v\na,1\n")
    os.utime(landing / name, ns=(mtime, mtime))


def bounded(**options: Any) -> FileSource:
    return FileSource("landing", schema=SCHEMA, end_marker="_SUCCESS", **options)


def read_all(source: FileSource, context: Any) -> tuple[list[Snapshot], list[str]]:
    """Every split until all have finished; the snapshots of the last checkpoint and what was read."""
    taken: list[Snapshot | None] = [None] * source.splits
    read: list[str] = []
    for checkpoint in range(1, 20):
        for split in range(source.splits):
            before = taken[split]
            if before is None or not before.finished:
                segment, taken[split] = source.poll(split, before, context(checkpoint, split))
                read += [file.path for file in files_of([segment] if segment else [])]
        if all(snapshot is not None and snapshot.finished for snapshot in taken):
            return [snapshot for snapshot in taken if snapshot is not None], read
    raise AssertionError("it never ends")


def test_without_a_marker_nothing_ever_ends(landing: Path, context: Any) -> None:
    put(landing, "a.csv", 1)
    put(landing, "_SUCCESS", 2)
    _, snapshot = FileSource("landing", schema=SCHEMA).poll(0, None, context(1))
    assert not snapshot.finished


def test_a_source_ends_in_the_checkpoint_that_reads_the_last_file_before_its_marker(
    landing: Path, context: Any
) -> None:
    put(landing, "a.csv", 1)
    source = bounded()
    _, first = source.poll(0, None, context(1))
    assert not first.finished
    put(landing, "deep/b.csv", 2)
    put(landing, "_SUCCESS", 2)
    segment, second = source.poll(0, first, context(2))
    assert segment is not None
    assert [file.path for file in files_of([segment])] == ["deep/b.csv"]
    assert second.finished
    assert second.position == {"splits": 1, "files": 2}


def test_a_marker_behind_which_nothing_is_left_ends_it_without_a_row(landing: Path, context: Any) -> None:
    put(landing, "_SUCCESS", 1)
    assert bounded().poll(0, None, context(1)) == (None, Snapshot((), {"splits": 1, "files": 0}, True))


@pytest.mark.parametrize("limit", [None, 3, 4])
def test_each_split_ends_when_it_has_read_all_of_its_files(landing: Path, context: Any, limit: int | None) -> None:
    names = [f"{number}.csv" for number in range(12)]
    for name in names:
        put(landing, name, 1)
    put(landing, "_SUCCESS", 1)
    snapshots, read = read_all(bounded(splits=3, max_files_per_checkpoint=limit), context)
    assert sorted(read) == sorted(names)
    assert all(snapshot.finished for snapshot in snapshots)


@pytest.mark.parametrize("name", ["_SUCCESS", "DONE"])
def test_a_marker_of_any_name_is_never_read_and_counts_only_in_the_directory_itself(
    landing: Path, context: Any, name: str
) -> None:
    put(landing, "a.csv", 1)
    put(landing, f"day=1/{name}", 1)
    source = FileSource("landing", schema=SCHEMA, end_marker=name)
    _, first = source.poll(0, None, context(1))
    assert not first.finished
    put(landing, name, 1)
    segment, second = source.poll(0, first, context(2))
    assert segment is None
    assert second.finished


def test_a_file_after_the_marker_is_an_error_while_there_is_something_to_read(landing: Path, context: Any) -> None:
    source = bounded(splits=2)
    put(landing, "a.csv", 1)
    put(landing, "_SUCCESS", 2)
    put(landing, "late.csv", 3)
    for split in (0, 1):
        with pytest.raises(
            SourceChangedError, match=r"late\.csv was modified .* after the end marker _SUCCESS .*Nothing"
        ):
            source.poll(split, None, context(1))
    os.utime(landing / "_SUCCESS", ns=(3, 3))  # written again, as the error says
    _, read = read_all(source, context)
    assert sorted(read) == ["a.csv", "late.csv"]


def test_a_file_that_comes_with_the_marker_while_it_is_listed_is_not_lost(
    landing: Path, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer finishes between two looks: the marker is looked for first, so it cannot be seen without its files."""
    from tidegate.sources.directory import Directory

    source, listed = bounded(), Directory.files

    def files(self: Directory, recursive: bool, follow_links: bool) -> Any:
        found = listed(self, recursive, follow_links)
        put(landing, "last.csv", 1)
        put(landing, "_SUCCESS", 1)
        return found

    monkeypatch.setattr(Directory, "files", files)
    _, first = source.poll(0, None, context(1))
    assert not first.finished
    segment, second = source.poll(0, first, context(2))
    assert [file.path for file in files_of([segment] if segment else [])] == ["last.csv"]
    assert second.finished


@pytest.mark.parametrize("name", ["", ".", "..", "day/_SUCCESS", "/_SUCCESS"])
def test_a_marker_is_a_name(name: str) -> None:
    with pytest.raises(PipelineDefinitionError, match=r"end_marker is .* must be a file's name"):
        FileSource("landing", schema=SCHEMA, end_marker=name)
