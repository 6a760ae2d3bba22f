"""Which version of a file is read, and what its copy is for. No Spark."""

import gzip
import logging
import os
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from landed_files import put

from tidegate.protocol.facts.errors import (
    CheckpointError,
    ConfigurationError,
    DeterministicError,
    PipelineDefinitionError,
    SourceUnavailableError,
)
from tidegate.sources import snapshot_files
from tidegate.sources.files import FileSource
from tidegate.sources.listing import FileVersion
from tidegate.sources.snapshot_files import Versions
from tidegate.sources.version_changes import Compared, require_plausible
from tidegate.state.stored import StoredState

SCHEMA = "k STRING, v INT"
SECOND = 10**9


def versions(path: str = "landing/dim.csv", **options: Any) -> FileSource:
    return FileSource(path, schema=SCHEMA, mode="snapshot", key=["k"], **options)


def read_by(source: FileSource, segment: Any, storage: Any) -> tuple[list[str], list[str]]:
    """The content of the version before, and of those that a segment compares with it."""
    assert segment is not None
    before, after = segment.reference["before"], segment.reference["versions"]
    return tuple([storage.read(path).decode() for path, *_ in each] for each in (before, after))


def test_a_version_takes_the_place_of_the_one_before_and_is_replayed_from_its_copy(
    landing: Path, context: Any, storage: Any
) -> None:
    source = versions()
    assert isinstance(source, Versions)
    assert source.schema == "k STRING, v INT, _change STRING, _valid_from TIMESTAMP"
    nothing = source.poll(0, None, context(1))
    assert nothing == (None, replace(nothing[1], handles=(), position=None))
    put(landing, "dim.csv", "one", mtime=5 * SECOND + 1000)
    first, one = source.poll(0, nothing[1], context(2))
    assert read_by(source, first, storage) == ([], ["one"])
    assert one.position == {"file": "dim.csv", "size": 3, "mtime_ns": 5 * SECOND + 1000}
    assert source.poll(0, one, context(3)) == (None, one)
    put(landing, "dim.csv", "two", mtime=6 * SECOND + 1000)  # nobody sees it
    put(landing, "dim.csv", "three", mtime=7 * SECOND + 1000)
    second, three = source.poll(0, one, context(3))
    assert read_by(source, second, storage) == (["one"], ["three"])
    assert len(three.handles) == 1
    assert [handle.path for handle in second.files] == [one.handles[0].path, three.handles[0].path]
    assert [handle.details["at"] for handle in second.files] == [5_000_001, 7_000_001]
    put(landing, "dim.csv", "four", mtime=8 * SECOND + 1000)
    assert versions().replay(0, one, three, storage) == second
    # A restore goes on from what was read then, whatever has been there since.
    again, _ = source.poll(0, one, context(4))
    assert read_by(source, again, storage) == (["one"], ["four"])
    (landing / "dim.csv").unlink()
    assert source.poll(0, three, context(5)) == (None, three)
    put(landing, "dim.csv", "", mtime=9 * SECOND)
    assert source.poll(0, three, context(6)) == (None, three)


def test_a_version_with_the_same_content_is_none_and_time_never_goes_back(
    landing: Path, context: Any, storage: Any
) -> None:
    source = versions()
    put(landing, "dim.csv", "one", mtime=9 * SECOND + 1)
    _, one = source.poll(0, None, context(1))
    put(landing, "dim.csv", "one", mtime=10 * SECOND + 1)
    segment, touched = source.poll(0, one, context(2))
    assert segment is None
    assert touched.handles == one.handles
    assert touched.position["mtime_ns"] == 10 * SECOND + 1
    put(landing, "dim.csv", "two", mtime=3 * SECOND + 1)  # copied with the times of an archive
    _, two = source.poll(0, touched, context(3))
    assert [each.handles[0].details["at"] for each in (one, two)] == [9_000_000, 9_000_001]


def test_an_overwrite_in_the_same_second_is_seen_where_times_have_no_fractions(
    landing: Path, context: Any, storage: Any
) -> None:
    source, now = versions(), datetime.fromtimestamp(100, UTC)
    put(landing, "dim.csv", "one", mtime=99 * SECOND)
    _, one = source.poll(0, None, replace(context(1), now=now))
    put(landing, "dim.csv", "two", mtime=99 * SECOND)
    segment, _ = source.poll(0, one, replace(context(2), now=now))
    assert read_by(source, segment, storage) == (["one"], ["two"])


def test_what_is_too_young_or_is_being_replaced_is_left_alone(
    landing: Path, context: Any, storage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, made = versions(min_age="1 min"), context(1)
    put(landing, "dim.csv", "one", mtime=99 * SECOND)
    assert source.poll(0, None, replace(made, now=datetime.fromtimestamp(120, UTC)))[0] is None
    old = replace(made, now=datetime.fromtimestamp(200, UTC))
    known = snapshot_files.Directory.content

    def replaced(directory: Any, file: Any) -> bytes | None:
        os.utime(landing / "dim.csv", ns=(1, 1))
        return known(directory, file)

    with monkeypatch.context() as patched:
        patched.setattr(snapshot_files.Directory, "content", replaced)
        assert source.poll(0, None, old)[0] is None
    assert source.poll(0, None, old)[0] is not None


def test_versions_of_a_directory_come_in_the_order_of_their_names(
    landing: Path, context: Any, storage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    source = versions("landing", glob="dim-*.csv", max_files_per_checkpoint=2)
    for day, content in ((3, "c"), (1, "a"), (2, "b")):
        put(landing, f"dim-{day}.csv", content, mtime=day * SECOND + 1)
    put(landing, "other.csv", "x", mtime=SECOND)
    first, two = source.poll(0, None, context(1))
    assert read_by(source, first, storage) == ([], ["a", "b"])
    assert source.is_behind(0, first)
    assert source.pending(0).pieces == 1
    second, three = source.poll(0, two, context(2))
    assert read_by(source, second, storage) == (["b"], ["c"])
    assert source.replay(0, two, three, storage) == second
    assert not source.is_behind(0, second)
    assert len(three.handles) == 1
    put(landing, "dim-2.csv", "late", mtime=9 * SECOND + 1)
    put(landing, "dim-3.csv", "corrected", mtime=9 * SECOND + 1)
    with caplog.at_level(logging.WARNING):
        third, _ = source.poll(0, three, context(3))
    assert "dim-2.csv, which was written after dim-3.csv was read and comes before it by its name" in caplog.text
    assert read_by(source, third, storage) == (["c"], ["corrected"])


def test_links_and_files_that_are_too_large_are_refused(
    landing: Path, context: Any, storage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(landing, "secret.csv", "one", mtime=SECOND + 1)
    os.symlink("secret.csv", landing / "dim.csv")
    with pytest.raises(ConfigurationError, match=r"landing/dim.csv is a link .*follow_links=True"):
        versions().poll(0, None, context(1))
    segment, snapshot = versions(follow_links=True).poll(0, None, context(1))
    assert read_by(versions(), segment, storage) == ([], ["one"])
    assert snapshot.position["file"] == "dim.csv"
    monkeypatch.setattr(snapshot_files, "LARGEST", 2)
    with pytest.raises(SourceUnavailableError, match=r"secret.csv has 3 bytes. A version is copied .* may have 2"):
        versions("landing/secret.csv").poll(0, None, context(1))


def test_a_year_of_versions_leaves_one_copy_and_a_short_position(landing: Path, context: Any, storage: Any) -> None:
    source, snapshot = versions(), None
    for day in range(1, 366):
        put(landing, "dim.csv", f"version {day}", mtime=day * SECOND + 1)
        _, snapshot = source.poll(0, snapshot, context(day))
    assert snapshot is not None
    assert len(snapshot.handles) == 1
    assert len(str(snapshot.position)) < 100
    assert source.read_in(365, snapshot, storage) == {"dim.csv": len("version 365")}
    assert source.read_in(364, snapshot, storage) == {}
    assert StoredState(storage.url, None).files_of(snapshot.handles[0], 365) == [("dim.csv", len("version 365"))]
    since = source.read_since(0, None, snapshot, storage)
    assert (since.pieces, since.missing) == (1, [])
    assert source.find_read(["dim.csv"], [snapshot], storage) == {}


def test_a_source_keeps_its_mode(landing: Path, context: Any) -> None:
    put(landing, "dim.csv", "k,v\na,1\n", mtime=SECOND + 1)
    files = FileSource("landing", schema=SCHEMA)
    with pytest.raises(PipelineDefinitionError, match="has read with mode='files', and mode='snapshot' cannot go on"):
        versions().poll(0, files.poll(0, None, context(1))[1], context(2))
    with pytest.raises(PipelineDefinitionError, match="has read with mode='snapshot', and mode='files' cannot go on"):
        files.poll(0, versions().poll(0, None, context(3))[1], context(4))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": []}, r'needs the columns that identify a row, such as key=\["customer"\]'),
        ({"key": "k"}, "needs the columns that identify a row"),
        ({"key": ["k", "x"]}, "the key is k, x, but its schema has no x"),
        ({"schema": "k INT, _Change STRING"}, "its schema has _change, the name of a column of changes; rename it"),
        ({"schema": "k INT, m MAP<STRING, INT>"}, "its schema has the maps m, which cannot be compared"),
        ({"max_deleted": 50}, "max_deleted is 50, but must be a share between 0 and 1"),
        ({"splits": 2}, "takes no splits: a version is compared as a whole"),
        ({"partitions": "day DATE"}, "takes no partitions: a version is one file"),
        ({"schemas": {"a*": "k STRING"}}, "takes no schemas: it has the columns of its schema; evolve and aliases"),
        ({"end_marker": "_DONE"}, "takes no end_marker: a version replaces the one before it, and none is the last"),
        ({"mode": "files"}, 'key and max_deleted are for versions that replace one another; add mode="snapshot"'),
        ({"mode": "whole"}, 'mode is \'whole\', but must be "files" or "snapshot"'),
    ],
)
def test_what_makes_no_sense_of_versions_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineDefinitionError, match=message):
        FileSource("landing/dim.csv", **{"schema": SCHEMA, "mode": "snapshot", "key": ["k"]} | options)


def test_rows_that_would_be_left_out_of_a_version_are_not_quarantined(append: Any) -> None:
    with pytest.raises(PipelineDefinitionError, match="takes no malformed: a row that is left out of a version would"):
        versions(malformed="quarantine", quarantine=append)


NUMBERS = count()
#: How a test fails that notices.
NOTICED = (AssertionError, pytest.fail.Exception, CheckpointError)
#: What is replaced by what, and the test that notices. Those of the protocol are in the simulator.
MISTAKES: dict[str, tuple[tuple[Any, str, Any], Callable[..., None]]] = {
    "a version of any content is the last one": (
        (snapshot_files, "_digest", lambda content: "same"),
        test_a_version_takes_the_place_of_the_one_before_and_is_replayed_from_its_copy,
    ),
    "a touched file is another version": (
        (snapshot_files, "_digest", lambda content: str(next(NUMBERS))),
        test_a_version_with_the_same_content_is_none_and_time_never_goes_back,
    ),
    "a file has settled as soon as it is there": (
        (snapshot_files, "is_settled", lambda file, now: True),
        test_an_overwrite_in_the_same_second_is_seen_where_times_have_no_fractions,
    ),
    "a file that is being replaced is copied": (
        (FileVersion, "is_at", lambda self, now: True),
        test_what_is_too_young_or_is_being_replaced_is_left_alone,
    ),
    "a file is old at once": (
        (snapshot_files, "is_old", lambda file, min_age, now: True),
        test_what_is_too_young_or_is_being_replaced_is_left_alone,
    ),
    "a link is followed": (
        (snapshot_files, "refuse_links", lambda location, links, is_selected: None),
        test_links_and_files_that_are_too_large_are_refused,
    ),
    "the limit of versions does not count": (
        (snapshot_files, "first_of", lambda files, max_bytes: files[:1]),
        test_versions_of_a_directory_come_in_the_order_of_their_names,
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_noticed(
    mistake: str,
    landing: Path,
    context: Any,
    storage: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (owner, name, wrong), test = MISTAKES[mistake]
    fixtures = {"landing": landing, "context": context, "storage": storage, "monkeypatch": monkeypatch}
    fixtures |= {"caplog": caplog}
    given = {each: fixtures[each] for each in test.__code__.co_varnames[: test.__code__.co_argcount]}
    with ExitStack() as stack:
        stack.enter_context(patch.object(owner, name, wrong))
        stack.enter_context(pytest.raises(NOTICED))
        test(**given)


@pytest.mark.parametrize(
    ("found", "max_deleted", "refused"),
    [
        (Compared(10, 5, 0), 0.5, False),
        (Compared(10, 6, 0), 0.5, True),
        (Compared(10, 1, 0), 0, True),
        (Compared(10, 10, 0), 1, False),
        (Compared(0, 0, 0), 0, False),
        (Compared(0, 0, 1), 1, True),
    ],
)
def test_a_version_is_plausible_up_to_what_is_allowed(found: Compared, max_deleted: float, refused: bool) -> None:
    with pytest.raises(DeterministicError) if refused else nullcontext():
        require_plausible("it", ["k"], max_deleted, "dim.csv", found)


def test_a_compressed_version_is_copied_as_it_is(landing: Path, context: Any, storage: Any) -> None:
    content = gzip.compress(b"k,v\na,1\n")
    (landing / "dim.csv.gz").write_bytes(content)
    segment, _ = versions("landing/dim.csv.gz").poll(0, None, context(1))
    assert segment is not None
    [copy] = segment.files
    assert copy.path.endswith(".csv.gz")
    assert storage.read(copy.path) == content
