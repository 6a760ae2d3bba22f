"""What lies in a directory beside what was read of it, by columns and without an object a file.

Nearly all files of an old directory were read before, and look as they did then. What is left are those that nobody has
read, and those that look different.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from tidegate.ports import ReadableStorage
from tidegate.protocol.records import StateHandle
from tidegate.sources import manifests
from tidegate.sources.arrow_columns import numbers_of, rows_with_values
from tidegate.sources.listing import FileVersion, Listing, in_reading_order

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS = ("path", "size", "mtime_ns")


class Comparison(NamedTuple):
    """Files of a listing that were not read before, and those that were and look different now; in reading order."""

    unread: list[FileVersion]
    different: list[FileVersion]


class ReadBefore:
    """The files that manifests list. A cache, not a position: a manifest never changes, so it is read once, and checked
    then, as long as snapshots list it. `is_selected` says which files the source reads at all."""

    def __init__(self, is_selected: Callable[[FileVersion], bool]) -> None:
        self._is_selected = is_selected
        self._tables: dict[tuple[str, str], pa.Table] = {}
        self._compared: tuple[Listing, frozenset[tuple[str, str]], Comparison] | None = None

    def compare(self, listing: Listing, handles: Iterable[StateHandle], storage: ReadableStorage) -> Comparison:
        """Raises `StateIntegrityError` if a manifest is not what was written."""
        wanted = {(handle.path, handle.checksum): handle for handle in handles}
        if self._compared is not None and self._compared[0] is listing and self._compared[1] == wanted.keys():
            return self._compared[2]
        self._tables = {key: self._table(key, handle, storage) for key, handle in wanted.items()}
        rows = _rows(listing, self._tables)
        selected = (filter(self._is_selected, listing.versions(part)) for part in rows)
        compared = Comparison(*map(in_reading_order, selected))
        self._compared = listing, frozenset(wanted), compared
        return compared

    def _table(self, key: tuple[str, str], handle: StateHandle, storage: ReadableStorage) -> "pa.Table":
        known = self._tables.get(key)
        return manifests.columns(handle, storage, _COLUMNS) if known is None else known


def _rows(listing: Listing, tables: Mapping[Any, "pa.Table"]) -> tuple[Any, Any]:
    """Of a listing, the rows with files that are not in the tables, and those with files that look different there."""
    import numpy as np
    import pyarrow as pa

    if not tables:
        return np.arange(len(listing.paths)), np.arange(0)
    known = pa.concat_tables(tables.values())
    at = _positions(listing.paths, known["path"])
    found = np.flatnonzero(at >= 0)
    sizes, mtimes = (numbers_of(known[name])[at[found]] for name in ("size", "mtime_ns"))
    different = found[(sizes != listing.sizes[found]) | (mtimes != listing.mtimes[found])]
    return np.flatnonzero(at < 0), different


def _positions(paths: "pa.StringArray", known: "pa.ChunkedArray") -> Any:
    """Of each path, where it is among those known, or -1. The shorter list is the one to be looked up in."""
    import numpy as np
    import pyarrow.compute as pc

    positions = np.full(len(paths), -1, np.int64)
    if len(known) <= len(paths):
        at = pc.index_in(paths, known)
        positions[rows_with_values(at)] = numbers_of(at.drop_null())
    else:
        at = pc.index_in(known, paths)
        positions[numbers_of(at.drop_null())] = rows_with_values(at)
    return positions
