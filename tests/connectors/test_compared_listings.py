"""A poll looks up what has changed in the listing and in what was read. It finds what a look at everything finds."""

import hashlib
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.protocol.facts.records import HandleKind, StateHandle
from tidegate.sources import manifests, read_before
from tidegate.sources.listing import FileVersion, Listing
from tidegate.sources.manifests import ReadFile
from tidegate.sources.read_before import Comparison, ReadBefore

NUMBERS = st.integers(0, 15)
#: Which files a listing has, in which order, and what has changed of each since it was read.
CHANGES = st.sampled_from(["", "", "", "size", "older", "newer"])
LISTINGS = st.lists(st.tuples(NUMBERS, CHANGES), unique_by=lambda file: file[0])
#: Which of some manifests a snapshot lists, and a listing.
POLLS = st.lists(st.tuples(st.sets(st.integers(0, 3)), LISTINGS), max_size=6)


def file(number: int, change: str = "") -> FileVersion:
    """One of several of the same time."""
    mtime = 10 + (number + 2) // 4 + {"older": -1, "newer": 1}.get(change, 0)
    return FileVersion(f"d/{number:02}.csv", number + (change == "size"), mtime)


def listing(files: Sequence[FileVersion]) -> Listing:
    paths = pa.array([each.path for each in files], pa.string())
    sizes, mtimes = [each.size for each in files], [each.mtime_ns for each in files]
    return Listing(paths, np.array(sizes, np.int64), np.array(mtimes, np.int64))


class Written:
    """A storage with some manifests."""

    url = "memory"

    def __init__(self, files: Sequence[Sequence[FileVersion]]) -> None:
        contents = [manifests._encode(manifests._table([ReadFile(file, 1) for file in each])) for each in files]
        self.contents = {str(number): content for number, content in enumerate(contents)}
        self.handles = [
            StateHandle(path, HandleKind.POSITION, len(files[int(path)]), len(content), _sum(content), 1)
            for path, content in self.contents.items()
        ]
        self.times_read = 0

    def read(self, path: str) -> bytes:
        self.times_read += 1
        return self.contents[path]


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def compare(before: ReadBefore, now: Listing, listed: set[int], storage: Any) -> Comparison:
    return before.compare(lambda: now, [storage.handles[number] for number in sorted(listed)], storage)


@pytest.fixture(autouse=True, scope="module")
def short_lists() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_before, "_TOGETHER", 3)
        yield


@settings(deadline=None)
@given(st.lists(LISTINGS, min_size=4, max_size=4), POLLS)
def test_polls_one_after_the_other_find_what_each_alone_finds(
    written: list[list[tuple[int, str]]], polls: list[tuple[set[int], list[tuple[int, str]]]]
) -> None:
    storage = Written([[file(*each) for each in files] for files in written])
    source = ReadBefore(lambda _: True)
    for listed, present in polls:
        now = listing([file(*each) for each in present])
        read = {file(*each) for number in listed for each in written[number]}
        paths = {each.path for each in read}
        found = compare(source, now, listed, storage)
        assert found == compare(ReadBefore(lambda _: True), now, listed, storage)
        others = sorted({file(*each) for each in present} - read, key=_order)
        assert found.unread == [each for each in others if each.path not in paths]
        assert found.different == [each for each in others if each.path in paths]


def _order(of: FileVersion) -> tuple[int, str]:
    return of.mtime_ns, of.path


@settings(deadline=None)
@given(LISTINGS, LISTINGS)
def test_listings_are_the_same_at_both_ends(some: list[tuple[int, str]], others: list[tuple[int, str]]) -> None:
    one, other = ([file(*each) for each in files] for files in (some, others))
    begin, end = listing(one).same_ends(listing(other))
    assert begin + end <= min(len(one), len(other))
    assert one[:begin] == other[:begin]
    assert one[len(one) - end :] == other[len(other) - end :]
    rest, of_other = one[begin : len(one) - end], other[begin : len(other) - end]
    if rest and of_other:  # no more of them are the same
        assert rest[0] != of_other[0]
        assert rest[-1] != of_other[-1]


def test_only_what_has_changed_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Written([[file(number) for number in range(100)], [file(100)]])
    source = ReadBefore(lambda _: True)
    looked_up = []
    found = read_before._found

    def seen(listing: Listing, lists: Any) -> Any:
        looked_up.append(listing.paths.to_pylist())
        return found(listing, lists)

    monkeypatch.setattr(read_before, "_found", seen)
    files = [file(number) for number in range(100)]
    assert compare(source, listing(files), {0}, storage) == ([], [])
    assert len(looked_up.pop()) == 100
    files.insert(40, file(100))
    files[45] = file(44, "newer")
    now = listing(files)
    assert compare(source, now, {0}, storage) == ([file(100)], [file(44, "newer")])
    assert looked_up.pop() == [each.path for each in files[40:46]]
    assert compare(source, now, {0, 1}, storage) == ([], [file(44, "newer")])
    assert looked_up.pop() == [file(100).path, file(44).path]
    others = sorted((each for each in files if each != file(100)), key=_order)
    assert compare(source, now, {1}, storage).unread == others
    assert storage.times_read == 2


def test_files_are_looked_up_among_those_of_about_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """In whatever order a directory lists them, and whichever manifest has them; those that have changed, among all."""
    files = [file(number) for number in range(100)]
    storage = Written([files[:30] + files[90:], files[30:90]])
    sizes = []
    pairs = read_before._pairs

    def seen(paths: pa.StringArray, known: pa.StringArray) -> Any:
        sizes.append((len(paths), len(known)))
        return pairs(paths, known)

    monkeypatch.setattr(read_before, "_pairs", seen)
    present = [files[number * 37 % 100] for number in range(100)]
    present[3] = file(11, "newer")
    assert compare(ReadBefore(lambda _: True), listing(present), {0, 1}, storage) == ([], [file(11, "newer")])
    assert sizes.pop() == (1, 60)
    assert sizes.pop() == (1, 40)
    assert all(each <= 8 for size in sizes for each in size)
    assert sum(of_listing for of_listing, _ in sizes) == 100


def test_what_could_not_be_compared_is_looked_up_again() -> None:
    """A manifest that cannot be read ends a poll. The next one of the same process knows no less than it should."""
    storage = Written([[file(0)], [file(1)]])
    source = ReadBefore(lambda _: True)
    now = listing([file(0), file(1)])
    assert compare(source, now, {0}, storage).unread == [file(1)]
    good, storage.contents["1"] = storage.contents["1"], b"damaged"
    with pytest.raises(Exception, match="differs from its checksum"):
        compare(source, now, {1}, storage)
    storage.contents["1"] = good
    assert compare(source, now, {1}, storage).unread == [file(0)]
    assert compare(source, now, {0}, storage).unread == [file(1)]


def test_manifests_are_read_while_the_directory_is_listed() -> None:
    is_listing, has_read = threading.Event(), threading.Event()

    class ReadLater(Written):
        def read(self, path: str) -> bytes:
            assert is_listing.wait(10), "nothing is listed while a manifest is read"
            content = super().read(path)
            has_read.set()
            return content

    def list_files() -> Listing:
        is_listing.set()
        assert has_read.wait(10), "no manifest is read while the directory is listed"
        return listing([file(0), file(2)])

    storage: Any = ReadLater([[file(0)], [file(1)]])
    found = ReadBefore(lambda _: True).compare(list_files, storage.handles, storage)
    assert found == ([file(2)], [])


def test_a_directory_that_could_not_be_listed_is_listed_again() -> None:
    storage = Written([[file(0)]])
    source = ReadBefore(lambda _: True)

    def unreachable() -> Listing:
        raise OSError("unreachable")

    with pytest.raises(OSError, match="unreachable"):
        source.compare(unreachable, storage.handles, storage)
    assert compare(source, listing([file(0), file(1)]), {0}, storage).unread == [file(1)]


@given(st.lists(NUMBERS, unique=True), st.data())
def test_rows_are_taken_in_their_order(numbers: list[int], data: st.DataObject) -> None:
    """Whether they follow one another, and nothing is copied, or not."""
    files = [file(number) for number in numbers]
    few = st.lists(st.integers(0, len(files) - 1)) if files else st.just([])
    begin = data.draw(st.integers(0, len(files)))
    following = st.integers(begin, len(files)).map(lambda end: list(range(begin, end)))
    rows = data.draw(st.one_of(few, following, following.map(lambda run: run[::-1])))
    taken = listing(files).take(np.array(rows, np.int64))
    assert taken.versions() == [files[row] for row in rows]
    assert taken.take(np.arange(len(rows))).versions() == taken.versions()


def test_of_rows_that_follow_one_another_nothing_is_copied() -> None:
    whole = listing([file(number) for number in range(10)])
    part = whole.take(np.arange(3, 7))
    assert part.paths.buffers()[2].address == whole.paths.buffers()[2].address
    assert np.shares_memory(part.mtimes, whole.mtimes)
