"""Compares a directory with the files that were read from it, by columns and without an object for each file.

Nearly all files of an old directory were read before, and look as they did then. The others are unread files, and files
that look different. Nearly all of a listing is also as in the last one. So a poll compares only the entries that have
changed in it, and those that the last poll has found.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from tidegate.ports import ReadableStorage
from tidegate.protocol.facts.records import StateHandle
from tidegate.sources import manifests
from tidegate.sources.arrow_columns import integers, numbers_of, rows_with_values
from tidegate.sources.listing import FileVersion, Listing, in_reading_order, joined

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

_THREADS = 2  # every further thread takes memory of its own
_TOGETHER = 10_000  # files that are looked up in one step

_Key = tuple[str, str]


class Comparison(NamedTuple):
    """Files of a listing that were not read before, and those that were and look different now; in reading order."""

    unread: list[FileVersion]
    different: list[FileVersion]


class _Compared(NamedTuple):
    """A comparison, and the rows of its listing that it names, whether the source reads these files or not."""

    listing: Listing
    rows: "npt.NDArray[Any]"
    result: Comparison


class ReadBefore:
    """The files that manifests list. It is a cache and not a position: a manifest never changes, so it is read and
    checked once, as long as snapshots list it. `is_selected` tells which files the source reads at all."""

    def __init__(self, is_selected: Callable[[FileVersion], bool]) -> None:
        self._is_selected = is_selected
        self._lists: dict[_Key, Listing] = {}
        self._last: _Compared | None = None

    def compare(
        self, list_files: Callable[[], Listing], handles: Iterable[StateHandle], storage: ReadableStorage
    ) -> Comparison:
        """Raise `StateIntegrityError` if a manifest is not as it was written, and the errors of `list_files`."""
        before, last = self._lists, self._last
        wanted = {(handle.path, handle.checksum): handle for handle in handles}
        new = {key: handle for key, handle in wanted.items() if key not in before}
        listing, lists = _read_while(list_files, new, storage)
        if last is not None and last.listing is listing and before.keys() == wanted.keys():
            return last.result
        lists |= {key: before[key] for key in wanted if key in before}
        gone = [files for key, files in before.items() if key not in wanted]
        rows = None if last is None else _to_look_up(listing, last, gone)
        looked_up = listing if rows is None else listing.take(rows)
        found = _found(looked_up, lists.values())
        selected = (filter(self._is_selected, looked_up.take(part).versions()) for part in found)
        result = Comparison(*map(in_reading_order, selected))
        remarkable = _union(*found) if rows is None else rows[_union(*found)]
        self._lists, self._last = lists, _Compared(listing, remarkable, result)
        return result


def _read_while(
    list_files: Callable[[], Listing], handles: Mapping[_Key, StateHandle], storage: ReadableStorage
) -> tuple[Listing, dict[_Key, Listing]]:
    """List the files, and read manifests at the same time: the first poll of a process reads all of them."""
    with ThreadPoolExecutor(_THREADS) as pool:
        lists = pool.map(lambda handle: manifests.files(handle, storage), handles.values())
        return list_files(), dict(zip(handles, lists, strict=True))


def _to_look_up(listing: Listing, last: _Compared, gone: Iterable[Listing]) -> "npt.NDArray[Any]":
    """Return the rows whose result may differ from the last one.

    The others are files that look as they did in the last listing, where a manifest had them as read and looking so,
    and that manifest is still listed.
    """
    import numpy as np

    begin, end = listing.same_ends(last.listing)
    moved = len(listing.paths) - len(last.listing.paths)
    found = [last.rows[last.rows < begin], last.rows[last.rows >= len(last.listing.paths) - end] + moved]
    forgotten = [_pairs(listing.paths, known.paths)[0] for known in gone]
    return _union(np.arange(begin, len(listing.paths) - end), *found, *forgotten)


def _union(*rows: "npt.NDArray[Any]") -> "npt.NDArray[Any]":
    import numpy as np

    return np.unique(np.concatenate(rows))


def _found(listing: Listing, lists: Collection[Listing]) -> "tuple[npt.NDArray[Any], npt.NDArray[Any]]":
    """Return the rows of files that no list has, and of files that look different in each list that has them."""
    import numpy as np

    is_read, is_same = np.zeros((2, len(listing.paths)), bool)
    if len(listing.paths) > _TOGETHER:
        for unchanged in _unchanged(listing, lists):
            is_same[unchanged] = True
    left = np.flatnonzero(~is_same)
    for known in lists:
        read, looks_same = _compared(listing, left, known)
        is_read[read], is_same[read[looks_same]] = True, True
        left = left[~is_same[left]]
    return left[~is_read[left]], left[is_read[left]]


def _unchanged(listing: Listing, lists: Collection[Listing]) -> "Iterator[npt.NDArray[Any]]":
    """Yield the rows of files that look as they do in the lists, part by part.

    An unchanged file has its former time of modification. So each file is looked up among those of about its time. A
    hash table of so few paths stays in the processor's cache, and one of a million does not.
    """
    times = _times(listing.mtimes)

    def of_about(rows: "npt.NDArray[Any]", *of_lists: "npt.NDArray[Any]") -> "npt.NDArray[Any]":
        parts = [files.take(known) for files, known in zip(lists, of_lists, strict=True) if len(known)]
        read, is_same = _compared(listing, rows, joined(parts)) if parts else (rows[:0], rows[:0])
        same: npt.NDArray[Any] = read[is_same]
        return same

    with ThreadPoolExecutor(_THREADS) as pool:
        rows = pool.map(lambda files: _rows_between(files.mtimes, times), [listing, *lists])
        yield from pool.map(of_about, *rows)


def _times(mtimes: "npt.NDArray[Any]") -> "npt.NDArray[Any]":
    """Return times with about `_TOGETHER` files between two of them. A sample is precise enough."""
    import numpy as np

    step = max(_TOGETHER // 1000, 1)
    return np.sort(mtimes[::step])[_TOGETHER // step :: _TOGETHER // step]


def _rows_between(mtimes: "npt.NDArray[Any]", times: "npt.NDArray[Any]") -> "list[npt.NDArray[Any]]":
    """Return the rows of files from before the first of these times, from between two of them, and from the last on.

    Each result is in the order of the rows, so that adjacent entries are processed together. Most manifests are in the
    order of their times, so their rows are adjacent.
    """
    import numpy as np

    part = np.searchsorted(times, mtimes, side="right").astype(np.uint16)  # numpy sorts so few bits by radix
    return np.split(np.argsort(part, kind="stable"), np.bincount(part, minlength=len(times) + 1)[:-1].cumsum())


def _compared(
    listing: Listing, rows: "npt.NDArray[Any]", known: Listing
) -> "tuple[npt.NDArray[Any], npt.NDArray[Any]]":
    """Return which of these rows are files in `known`, and whether each looks the same."""
    among, at = _pairs(listing.paths.take(integers(rows)), known.paths)
    read = rows[among]
    sizes, mtimes = known.sizes[at], known.mtimes[at]
    return read, (sizes == listing.sizes[read]) & (mtimes == listing.mtimes[read])


def _pairs(paths: "pa.StringArray", known: "pa.StringArray") -> "tuple[npt.NDArray[Any], npt.NDArray[Any]]":
    """Return the rows of both that have the same path. The shorter list becomes the hash table."""
    import numpy as np
    import pyarrow.compute as pc

    if not len(paths) or not len(known):
        return np.arange(0), np.arange(0)
    if len(known) <= len(paths):
        return _rows_and_values(pc.index_in(paths, known))
    at, rows = _rows_and_values(pc.index_in(known, paths))
    return rows, at


def _rows_and_values(numbers: "pa.Int32Array") -> tuple[Any, Any]:
    """Return positions and values of numbers that are not null, which are nearly always all of them."""
    import numpy as np

    if not numbers.null_count:
        return np.arange(len(numbers)), numbers_of(numbers)
    return rows_with_values(numbers), numbers_of(numbers.drop_null())
