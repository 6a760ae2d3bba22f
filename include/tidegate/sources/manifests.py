"""The record of the files that a source has read: manifests, immutable Parquet files on checkpoint storage.

A file that was read and only looks different now is listed once more, as touched, so that it is not compared again.

Each checkpoint adds one manifest of the files that it read and carries over the older ones, so its cost depends on the
number of new files only. Small manifests are merged into the new one to keep their number low: sizes shrink at least
`_FACTOR` times from one to the next, and each file is written to a new manifest about thirty times. A merged manifest
has `_LARGEST` files at most, so that no checkpoint writes a long list: a million files are in some twenty manifests.
"""

import hashlib
import io
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tidegate.ports import ReadableStorage, SourceContext
from tidegate.protocol.facts.errors import StateIntegrityError
from tidegate.protocol.facts.records import HandleKind, StateHandle
from tidegate.sources.arrow_columns import flags, integers, numbers_of, strings
from tidegate.sources.listing import FileVersion, Listing

if TYPE_CHECKING:
    import pyarrow as pa

_FACTOR = 4
_LARGEST = 1 << 17
_COLUMNS = ("path", "size", "mtime_ns", "checkpoint", "checksum", "touched")


class ReadFile(NamedTuple):
    """A file as it was when it was read, and the checkpoint that read it. A `touched` one is as it looked when its
    content was found to be that of an older manifest's entry."""

    file: FileVersion
    checkpoint: int
    touched: bool = False


def carried(sizes: Sequence[int], fresh: int) -> int:
    """Return how many of the manifests (`sizes` in files, oldest first) stay when `fresh` files are added.

    The others are merged into the new one.
    """
    keep, total = len(sizes), fresh
    while keep and sizes[keep - 1] < _FACTOR * total and sizes[keep - 1] + total <= _LARGEST:
        keep -= 1
        total += sizes[keep]
    return keep


def extend(
    handles: Sequence[StateHandle],
    fresh: Sequence[FileVersion],
    context: SourceContext,
    is_own: Callable[[str], bool] | None,
    touched: Sequence[ReadFile] = (),
) -> tuple[StateHandle, ...]:
    """Return manifests that list the files of `handles`, `fresh` and `touched`. Writes one file. Merging leaves out
    files of other splits, which a split has from before the number of splits changed: the others list them, too.
    `is_own` is None if there is one split."""
    import pyarrow as pa

    new = [*(ReadFile(file, context.checkpoint_id) for file in fresh), *touched]
    keep = carried([handle.rows for handle in handles], len(new))
    merged = [columns(handle, context.storage, _COLUMNS) for handle in handles[keep:]]
    if is_own is not None:
        merged = [_only(table, is_own) for table in merged]
    table = _latest(pa.concat_tables([*merged, _table(new)]))
    content, rows = _encode(table), table.num_rows
    path = f"{context.prefix}.parquet"
    context.storage.write(path, content)
    checksum = hashlib.sha256(content).hexdigest()
    handle = StateHandle(path, HandleKind.POSITION, rows, len(content), checksum, context.checkpoint_id)
    context.storage.verify([handle], [path])
    return (*handles[:keep], handle)


def read(handles: Iterable[StateHandle], storage: ReadableStorage) -> list[ReadFile]:
    """Return the files that manifests list. Raise `StateIntegrityError` if a manifest is not as it was written."""
    return [row for handle in handles for row in _rows(columns(handle, storage, _COLUMNS))]


def find(paths: Collection[str], handles: Iterable[StateHandle], storage: ReadableStorage) -> dict[str, ReadFile]:
    """Return those of these files that manifests list, by path, each with the largest size in which it was read: an
    empty file may have been read twice. Raise `StateIntegrityError`."""
    import pyarrow.compute as pc

    wanted = strings(paths)
    tables = (columns(handle, storage, _COLUMNS) for handle in handles)
    rows = (row for table in tables for row in _rows(table.filter(pc.is_in(table["path"], wanted))))
    return {row.file.path: row for row in sorted(rows, key=lambda row: row.file.size)}


def files(handle: StateHandle, storage: ReadableStorage) -> Listing:
    """Return the files of a manifest by columns. Raise `StateIntegrityError` if it is not as it was written."""
    import pyarrow as pa

    table = columns(handle, storage, ("path", "size", "mtime_ns"))
    paths = table["path"].chunks
    sizes, mtimes = (numbers_of(table[name]) for name in ("size", "mtime_ns"))
    return Listing(paths[0] if len(paths) == 1 else pa.concat_arrays(paths), sizes, mtimes)


def columns(handle: StateHandle, storage: ReadableStorage, names: Sequence[str]) -> "pa.Table":
    """Return some columns of a manifest. Raise `StateIntegrityError` if it is not as it was written."""
    return _decode(_content(handle, storage), names)


def added(before: Sequence[StateHandle], after: Sequence[StateHandle], storage: ReadableStorage) -> list[FileVersion]:
    """Return the files in `after` and not in `before`, once each. Reads only the manifests in which the two differ."""
    old, new = {handle.path for handle in before}, {handle.path for handle in after}
    known = {row.file[:2] for row in read((handle for handle in before if handle.path not in new), storage)}
    rows = read((handle for handle in after if handle.path not in old), storage)
    found = [row.file for row in rows if row.file[:2] not in known and not row.touched]
    return list({file.path: file for file in sorted(found, key=lambda file: file.size)}.values())


def _content(handle: StateHandle, storage: ReadableStorage) -> bytes:
    content = storage.read(handle.path)
    if hashlib.sha256(content).hexdigest() != handle.checksum:
        raise StateIntegrityError(
            f"The manifest {handle.path!r} under {storage.url!r}, written by checkpoint {handle.created_by}, differs "
            f"from its checksum (SHA-256 {handle.checksum}). It lists {handle.rows} files that a source has read; "
            "without it they would be read twice, so nothing was read. Restore the file from a backup of the "
            "checkpoint storage, or go back to an older checkpoint."
        )
    return content


def _table(rows: Sequence[ReadFile]) -> "pa.Table":
    # pyarrow is heavy and this module is imported when Airflow parses a DAG: import it where it is used.
    import pyarrow as pa

    values: list[pa.Array] = [strings(row.file.path for row in rows)]
    values += [integers([row.file.size for row in rows]), integers([row.file.mtime_ns for row in rows])]
    values += [integers([row.checkpoint for row in rows])]
    values += [strings(row.file.checksum for row in rows)]
    values += [flags([row.touched for row in rows])]
    return pa.Table.from_arrays(values, names=list(_COLUMNS))


def _latest(table: "pa.Table") -> "pa.Table":
    """Keep one row for each file, because a manifest is searched by path. A touched file is in it as it is now."""
    if len(set(table["path"].to_pylist())) == table.num_rows:
        return table
    found: dict[str, ReadFile] = {}
    for row in _rows(table):
        before = found.get(row.file.path)
        found[row.file.path] = row._replace(touched=before.touched) if before is not None and row.touched else row
    return _table(list(found.values()))


def _only(table: "pa.Table", is_wanted: Callable[[str], bool]) -> "pa.Table":
    """Keep the wanted rows, by position: `filter` makes a column of a list, for which PyArrow imports pandas."""
    return table.take(integers([row for row, path in enumerate(table["path"].to_pylist()) if is_wanted(path)]))


def _encode(table: "pa.Table") -> bytes:
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def _decode(content: bytes, names: Sequence[str]) -> "pa.Table":
    import pyarrow as pa
    import pyarrow.parquet as pq

    # In the caller's thread. `read_table` leaves threads behind that release `content` later. If the interpreter ends
    # before that, they abort the process (exit code 134) after all its work is done.
    return pq.ParquetFile(pa.BufferReader(content)).read(list(names), use_threads=False)


def _rows(table: "pa.Table") -> list[ReadFile]:
    paths, sizes, mtimes, checkpoints, checksums, touched = (table[name].to_pylist() for name in _COLUMNS)
    return list(map(ReadFile, map(FileVersion, paths, sizes, mtimes, checksums), checkpoints, touched))
