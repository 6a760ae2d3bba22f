"""What a file source has read: manifests, immutable Parquet files on checkpoint storage that list files.

Each checkpoint adds one manifest with what it read and carries the older ones over, so its cost grows with new files
only. Small manifests are merged into the new one to keep their number low. Sizes shrink at least `_FACTOR` times from
one to the next: at most ten manifests for a million files, and each file is written to a new manifest about thirty
times.
"""

import hashlib
import io
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tidegate.ports import ReadableStorage, SourceContext
from tidegate.protocol.errors import StateIntegrityError
from tidegate.protocol.records import HandleKind, StateHandle
from tidegate.sources.listing import FileVersion

_FACTOR = 4
_COLUMNS = ("path", "size", "mtime_ns", "checkpoint", "checksum")


class ReadFile(NamedTuple):
    """A file as it was when it was read, and the checkpoint that read it."""

    file: FileVersion
    checkpoint: int


def carried(sizes: Sequence[int], fresh: int) -> int:
    """How many of the manifests (`sizes` in files, oldest first) stay when `fresh` files are added.

    The others are merged into the new one.
    """
    keep, total = len(sizes), fresh
    while keep and sizes[keep - 1] < _FACTOR * total:
        keep -= 1
        total += sizes[keep]
    return keep


def extend(
    handles: Sequence[StateHandle],
    fresh: Sequence[FileVersion],
    context: SourceContext,
    is_mine: Callable[[FileVersion], bool],
) -> tuple[StateHandle, ...]:
    """The manifests that list the files of `handles` and `fresh`. Writes one file. Of what is merged into it, files of
    other splits are left out, which a split has from before their number changed: the others list them too."""
    keep = carried([handle.rows for handle in handles], len(fresh))
    merged = [row for row in read(handles[keep:], context.storage) if is_mine(row.file)]
    rows = [*merged, *(ReadFile(file, context.checkpoint_id) for file in fresh)]
    content = _encode(rows)
    path = f"{context.prefix}.parquet"
    context.storage.write(path, content)
    checksum = hashlib.sha256(content).hexdigest()
    handle = StateHandle(path, HandleKind.POSITION, len(rows), len(content), checksum, context.checkpoint_id)
    context.storage.verify([handle], [path])
    return (*handles[:keep], handle)


def read(handles: Iterable[StateHandle], storage: ReadableStorage) -> list[ReadFile]:
    """The files that manifests list. Raises `StateIntegrityError` if one is not what was written."""
    return [row for handle in handles for row in _decode(_content(handle, storage))]


def added(before: Sequence[StateHandle], after: Sequence[StateHandle], storage: ReadableStorage) -> list[FileVersion]:
    """The files listed by `after` and not by `before`, once each. Reads only the manifests in which the two differ."""
    old, new = {handle.path for handle in before}, {handle.path for handle in after}
    known = {row.file.path for row in read((handle for handle in before if handle.path not in new), storage)}
    rows = read((handle for handle in after if handle.path not in old), storage)
    return list({row.file.path: row.file for row in rows if row.file.path not in known}.values())


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


def _encode(rows: Sequence[ReadFile]) -> bytes:
    # pyarrow is heavy and this module is imported when Airflow parses a DAG: import it where it is used.
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: list[pa.Array] = [pa.array([row.file.path for row in rows], pa.string())]
    columns += [pa.array([row.file[index] for row in rows], pa.int64()) for index in (1, 2)]
    columns += [pa.array([row.checkpoint for row in rows], pa.int64())]
    columns += [pa.array([row.file.checksum for row in rows], pa.string())]
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns, names=list(_COLUMNS)), buffer, compression="zstd")
    return buffer.getvalue()


def _decode(content: bytes) -> list[ReadFile]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    # By the caller's thread. `read_table` leaves threads behind that let go of `content` when they come to it; where
    # the interpreter ends meanwhile, they abort the process (exit code 134) after all its work is done.
    table = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
    if "checksum" not in table.column_names:  # written before there were any
        table = table.append_column("checksum", pa.nulls(table.num_rows, pa.string()))
    paths, sizes, mtimes, checkpoints, checksums = (table[name].to_pylist() for name in _COLUMNS)
    files = map(FileVersion, paths, sizes, mtimes, checksums)
    return [ReadFile(file, checkpoint) for file, checkpoint in zip(files, checkpoints, strict=True)]
