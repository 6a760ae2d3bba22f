"""What lies in a directory beside what was read of it, by columns and without an object a file.

Nearly all files of an old directory were read before, and look as they did then. What is left are those that nobody has
read, and those that look different. Nearly all of a listing is as in the last one, too. So a poll looks up what has
changed in it, and what the last poll has found.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from tidegate.ports import ReadableStorage
from tidegate.protocol.records import StateHandle
from tidegate.sources import manifests
from tidegate.sources.arrow_columns import integers, numbers_of, rows_with_values
from tidegate.sources.listing import FileVersion, Listing, in_reading_order

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS = ("path", "size", "mtime_ns")
_AT_ONCE = 4
_SHORT = 50_000  # paths: of fewer, parts save nothing

_Key = tuple[str, str]


class Comparison(NamedTuple):
    """Files of a listing that were not read before, and those that were and look different now; in reading order."""

    unread: list[FileVersion]
    different: list[FileVersion]


class _Compared(NamedTuple):
    """A comparison, and the rows of the listing that it is about, whether the source reads these files or not."""

    listing: Listing
    rows: Any
    result: Comparison


class ReadBefore:
    """The files that manifests list. A cache, not a position: a manifest never changes, so it is read once, and checked
    then, as long as snapshots list it. `is_selected` says which files the source reads at all."""

    def __init__(self, is_selected: Callable[[FileVersion], bool]) -> None:
        self._is_selected = is_selected
        self._tables: dict[_Key, pa.Table] = {}
        self._last: _Compared | None = None

    def compare(self, listing: Listing, handles: Iterable[StateHandle], storage: ReadableStorage) -> Comparison:
        """Raises `StateIntegrityError` if a manifest is not what was written."""
        before, last = self._tables, self._last
        wanted = {(handle.path, handle.checksum): handle for handle in handles}
        if last is not None and last.listing is listing and before.keys() == wanted.keys():
            return last.result
        tables = _read({key: handle for key, handle in wanted.items() if key not in before}, storage)
        tables |= {key: before[key] for key in wanted if key in before}
        gone = [table for key, table in before.items() if key not in wanted]
        rows = None if last is None else _to_look_up(listing, last, gone)
        unread, different = _found(listing, rows, tables)
        selected = (filter(self._is_selected, listing.versions(part)) for part in (unread, different))
        result = Comparison(*map(in_reading_order, selected))
        self._tables, self._last = tables, _Compared(listing, _union(unread, different), result)
        return result


def _read(handles: Mapping[_Key, StateHandle], storage: ReadableStorage) -> "dict[_Key, pa.Table]":
    """Side by side: the first poll of a process reads all that there are."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        tables = pool.map(lambda handle: manifests.columns(handle, storage, _COLUMNS), handles.values())
        return dict(zip(handles, tables, strict=True))


def _to_look_up(listing: Listing, last: _Compared, gone: "Iterable[pa.Table]") -> Any:
    """The rows whose answer may not be that of the last time.

    The others are files that look as they did in the last listing, of which a manifest said that they were read and
    looked so, and that manifest is listed still.
    """
    import numpy as np
    import pyarrow.compute as pc

    begin, end = listing.same_ends(last.listing)
    moved = len(listing.paths) - len(last.listing.paths)
    found = [last.rows[last.rows < begin], last.rows[last.rows >= len(last.listing.paths) - end] + moved]
    forgotten = [rows_with_values(pc.index_in(listing.paths, table["path"])) for table in gone]
    return _union(np.arange(begin, len(listing.paths) - end), *found, *forgotten)


def _union(*rows: Any) -> Any:
    import numpy as np

    return np.unique(np.concatenate(rows))


def _found(listing: Listing, rows: Any, tables: "Mapping[_Key, pa.Table]") -> tuple[Any, Any]:
    """Of these rows of a listing (None: all), those with files that are not in the tables, and those with files that
    look different there."""
    import numpy as np
    import pyarrow as pa

    looked_at = np.arange(len(listing.paths)) if rows is None else rows
    if not tables or not len(looked_at):
        return looked_at, np.arange(0)
    known = pa.concat_tables(tables.values())
    at = _positions(listing.paths if rows is None else listing.paths.take(integers(rows)), known["path"])
    read = looked_at[at >= 0]
    sizes, mtimes = (numbers_of(known[name])[at[at >= 0]] for name in ("size", "mtime_ns"))
    return looked_at[at < 0], read[(sizes != listing.sizes[read]) | (mtimes != listing.mtimes[read])]


def _positions(paths: "pa.StringArray", known: "pa.ChunkedArray") -> Any:
    """Of each path, where it is among those known, or -1. Long lists are looked through in quarters, by two threads: a
    quarter takes less memory, and what one needed serves the next."""
    import numpy as np

    positions = np.full(len(paths), -1, np.int64)
    share = max(-(-len(known) // 4), _SHORT)
    begins = range(0, len(known), share)
    with ThreadPoolExecutor(2) as pool:
        pairs = pool.map(lambda begin: _pairs(paths, known[begin : begin + share]), begins)
        for begin, (rows, at) in zip(begins, pairs, strict=True):
            positions[rows] = at + begin
    return positions


def _pairs(paths: "pa.StringArray", known: "pa.ChunkedArray") -> tuple[Any, Any]:
    """The rows of both in which the same path is. The shorter list is the one to be looked up in."""
    import pyarrow.compute as pc

    if len(known) <= len(paths):
        at = pc.index_in(paths, known)
        return rows_with_values(at), numbers_of(at.drop_null())
    at = pc.index_in(known, paths)
    return numbers_of(at.drop_null()), rows_with_values(at)
