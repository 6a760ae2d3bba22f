"""Opening of runs: each is checked against its handle, converted to the reader's layout, and read through one of two
caches.

`decoded_runs` holds the small runs of local storage, because decoding one costs less than a copy, and `mapped_copies`
all others. A file that is missing, cut off or altered is an error that names it, never fewer rows.
"""

import hashlib
import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.protocol.facts.errors import StateIntegrityError, StateSchemaError, StorageError
from tidegate.protocol.facts.records import StateHandle
from tidegate.state import mapped_copies
from tidegate.state.columns import Bools, Hashes, Ints, flags, hashes_of_column, integers
from tidegate.state.decoded_runs import DecodedRuns
from tidegate.state.expiring import Limits, limits_of
from tidegate.state.fitting import Fit, fit_of, misfits
from tidegate.state.layout import HASH, TOMBSTONE, StateLayout
from tidegate.state.runs import FORMAT, METADATA
from tidegate.state.spec import SubtaskSpec
from tidegate.state.storage import open_storage

_BLOCK = 4 << 20

#: 10,000 events an epoch over a million keys make 16 MiB of such runs.
_in_memory = DecodedRuns(each=mapped_copies.IN_PLACE_MEMORY, most=32 << 20)

#: Layouts of runs by their fingerprint.
_layouts: dict[str, StateLayout] = {}
_MOST_LAYOUTS = 1_000


@dataclass(frozen=True, slots=True)
class RunPart:
    """A part of a run that lies in memory (or is mapped) as one piece. `rows` is a `pyarrow.RecordBatch` in the run's
    own columns, `fit` converts them to those of the reader, and `limits` tells which have expired."""

    hashes: Hashes
    rows: pa.RecordBatch
    fit: Fit | None = None
    limits: Limits | None = None

    def gone(self, places: Ints | None = None) -> Bools | None:
        """Return which rows belong to deleted or expired keys, of those at `places` or of all; None if none does."""
        expired = self.expired(places)
        deleted = self.tombstones(places)
        return expired if deleted is None else deleted if expired is None else deleted | expired

    def tombstones(self, places: Ints | None = None) -> Bools | None:
        """Return which rows belong to deleted keys; None if the run has no tombstones."""
        if TOMBSTONE not in self.rows.schema.names:
            return None
        column = self.rows.column(TOMBSTONE)
        return flags(column if places is None else column.take(integers(places)))

    def expired(self, places: Ints | None = None) -> Bools | None:
        """Return which rows have expired, whether they were deleted or not; None if none can have."""
        return None if self.limits is None else self.limits.expired(self.rows, places)

    def select(self, names: Sequence[str], places: pa.Array | None = None) -> pa.RecordBatch:
        """Return columns in the reader's layout, of the rows at `places` or of all."""
        rows = self.rows.select(names if self.fit is None else self.fit.stored_names(names))
        if places is not None:
            rows = rows.take(places)
        if self.fit is None:
            return rows
        return self.fit.applied(rows, names, len(self.hashes) if places is None else len(places))

    def slice(self, start: int, stop: int | None = None) -> "RunPart":
        """Return the rows from `start` up to `stop`, without a copy."""
        hashes = self.hashes[start:stop]
        return RunPart(hashes, self.rows.slice(start, len(hashes)), self.fit, self.limits)


def open_run(spec: SubtaskSpec, run: StateHandle) -> list[RunPart]:
    """Return the parts of a run in the order of their hashes, cut to the subtask's range.

    Raise `StateSchemaError` if the run cannot be read in the spec's layout, and `StateIntegrityError` if the file
    differs from the recorded size or checksum.
    """
    reads = _reads(spec, run)
    low, high = spec.hashes_in(run)
    if low > high or run.rows == 0:
        return []
    if (batches := _in_memory.find(_key(spec, run))) is None:
        batches = mapped_copies.find(spec.cache_dir, run.checksum, run.rows) or _read(spec, run)
    parts = (_cut(batch, low, high, *reads) for batch in batches)
    return [part for part in parts if len(part.hashes)]


def remember(spec: SubtaskSpec, run: StateHandle, rows: pa.Table) -> None:
    """Cache a run that this process has written, so that it need not be read back if it has no copy. `rows` is its
    `pyarrow.Table`."""
    if open_storage(spec.storage_url).is_local:
        _in_memory.keep(_key(spec, run), rows.combine_chunks().to_batches())


def new_parts(spec: SubtaskSpec, rows: pa.Table) -> list[RunPart]:
    """Return the parts of a run that is not written yet: a `pyarrow.Table` of its columns, sorted by unsigned hash."""
    limits = limits_of(spec.layout, spec.layout, spec.horizon)
    batches = rows.combine_chunks().to_batches()
    return [RunPart(hashes_of_column(batch.column(HASH)), batch, None, limits) for batch in batches if batch.num_rows]


def open_near(spec: SubtaskSpec, run: StateHandle, value: int) -> list[RunPart]:
    """Return the parts of a run that contain a hash (unsigned); empty if the run does not.

    This serves single keys of large runs: it reads only row groups that may contain the hash, directly from storage. So
    the file's length is checked, but not its checksum. Raise as `open_run` does.
    """
    reads = _reads(spec, run)
    low, high = spec.hashes_in(run)
    if not low <= value <= high or run.rows == 0:
        return []
    if run.bytes <= mapped_copies.IN_PLACE_FILE:
        parts = (_cut(part.rows, value, value, *reads) for part in open_run(spec, run))
        return [part for part in parts if len(part.hashes)]
    with open_storage(spec.storage_url).open_input(run.path) as source:
        if source.size() != run.bytes:
            raise _damaged(spec.where(), run, f"it has {source.size():,} bytes where {run.bytes:,} were written")
        try:
            with pq.ParquetFile(source) as file:
                _check_stored(spec, run, file.schema_arrow.metadata or {})
                return [part for group in range(file.num_row_groups) for part in _near(file, group, value, *reads)]
        except pa.ArrowInvalid as error:
            raise _damaged(spec.where(), run, str(error)) from error


def _key(spec: SubtaskSpec, run: StateHandle) -> tuple[str, str, str]:
    return spec.storage_url, run.path, run.checksum


def _near(file: pq.ParquetFile, group: int, value: int, fit: Fit | None, limits: Limits | None) -> list[RunPart]:
    """Return the rows of a row group with a hash. The other columns are decoded only if it is there."""
    statistics = file.metadata.row_group(group).column(file.schema_arrow.get_field_index(HASH)).statistics
    signed = value - (1 << 64) if value >> 63 else value  # the column's type, and so that of its statistics, is signed
    if statistics is not None and statistics.has_min_max and not statistics.min <= signed <= statistics.max:
        return []
    hashes = hashes_of_column(file.read_row_group(group, [HASH], use_threads=False).column(HASH))
    start = int(np.searchsorted(hashes, np.uint64(value), side="left"))
    stop = int(np.searchsorted(hashes, np.uint64(value), side="right"))
    if start == stop:
        return []
    rows = file.read_row_group(group, use_threads=False).replace_schema_metadata(None).slice(start, stop - start)
    return [RunPart(hashes[start:stop], batch, fit, limits) for batch in rows.combine_chunks().to_batches()]


def read_layout(storage_url: str, where: str, run: StateHandle) -> StateLayout:
    """Return the layout in a run's own metadata, for a reader without a definition.

    Raise `StateSchemaError` and `StateIntegrityError`. `where` names the state in errors.
    """
    stored = _stored(where, run, _metadata_of(storage_url, where, run))
    if problems := _of_other_format(stored):
        raise StateSchemaError(f"The state of {where}, cannot be read: {problems[0]} (in {run.path}).")
    return _remembered(StateLayout.from_json(stored["layout"]))


def known_layout(storage_url: str, where: str, run: StateHandle) -> StateLayout:
    """Return the layout of a run, cached by this process. Raise as `read_layout` does."""
    known = _layouts.get(run.details.get("layout", ""))
    return read_layout(storage_url, where, run) if known is None else known


def _cut(batch: pa.RecordBatch, low: int, high: int, fit: Fit | None, limits: Limits | None) -> RunPart:
    hashes = hashes_of_column(batch.column(HASH))
    start, stop = 0, len(hashes)
    if stop and (int(hashes[0]) < low or int(hashes[-1]) > high):
        start = int(np.searchsorted(hashes, np.uint64(low), side="left"))
        stop = int(np.searchsorted(hashes, np.uint64(high), side="right"))
    return RunPart(hashes[start:stop], batch.slice(start, stop - start), fit, limits)


def _read(spec: SubtaskSpec, run: StateHandle) -> list[pa.RecordBatch]:
    in_place = open_storage(spec.storage_url).is_local and run.bytes <= mapped_copies.IN_PLACE_FILE
    batches = _decoded(spec, run) if in_place else _downloaded(spec, run)
    if sum(batch.num_rows for batch in batches) != run.rows:
        raise _damaged(spec.where(), run, f"it does not hold the {run.rows:,} rows recorded for it")
    if in_place:
        _in_memory.keep(_key(spec, run), batches)
    return batches


def _decoded(spec: SubtaskSpec, run: StateHandle) -> list[pa.RecordBatch]:
    """Return the record batches of a small run, verified, in memory."""
    content = b"".join(_verified_blocks(spec, run))
    return list(_batches(spec, run, pa.BufferReader(content)))


def _downloaded(spec: SubtaskSpec, run: StateHandle) -> list[pa.RecordBatch]:
    """Copy a run into the cache, verified."""
    try:
        with mapped_copies.fetched(spec.cache_dir) as (path, local):
            local.writelines(_verified_blocks(spec, run))
            local.flush()
            return _converted(spec, run, path)
    except OSError as error:
        raise StorageError(
            f"The local state cache {spec.cache_dir or 'of this user'} cannot take a copy of {run.path}: {error}. "
            f"Affected: {spec.where()}. Nothing was changed. Make room there, or choose another directory with "
            "TIDEGATE_CACHE, then retry."
        ) from error


def _verified_blocks(spec: SubtaskSpec, run: StateHandle) -> Iterator[bytes]:
    """Yield the file's content. Raise `StateIntegrityError` after the last block if its size or checksum differs."""
    sha, size = hashlib.sha256(), 0
    try:
        for block in open_storage(spec.storage_url).stream(run.path, _BLOCK):
            sha.update(block)
            size += len(block)
            yield block
    except StateIntegrityError as error:
        raise StateIntegrityError(f"{error} It belongs to the state of {spec.where()}.") from error
    if size != run.bytes:
        raise _damaged(spec.where(), run, f"it has {size:,} bytes where {run.bytes:,} were written")
    if sha.hexdigest() != run.checksum:
        raise _damaged(spec.where(), run, f"its SHA-256 is {sha.hexdigest()} where {run.checksum} was written")


def _converted(spec: SubtaskSpec, run: StateHandle, fetched: Path) -> list[pa.RecordBatch]:
    with pa.memory_map(str(fetched)) as file, closing(_batches(spec, run, file)) as batches:
        first = next(batches, None)
        if first is None:
            return []
        addition = mapped_copies.Addition(spec.cache_dir, first.schema)
        try:
            for batch in chain([first], batches):
                addition.write(batch)
            addition.keep(run.checksum)
        finally:
            addition.drop()
    if addition.failure is not None:
        raise addition.failure
    return addition.batches


def _batches(spec: SubtaskSpec, run: StateHandle, source: pa.NativeFile) -> Generator[pa.RecordBatch, None, None]:
    """Yield one record batch for each row group."""
    with pq.ParquetFile(source) as file:
        _check_stored(spec, run, file.schema_arrow.metadata or {})
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, use_threads=False).replace_schema_metadata(None)
            yield from table.combine_chunks().to_batches()


def _damaged(where: str, run: StateHandle, how: str) -> StateIntegrityError:
    return StateIntegrityError(
        f"The state file {run.path}, written by checkpoint {run.created_by}, is damaged: {how}. Affected: "
        f"{where}. Nothing was changed. Restore the file from a copy of the storage, or go back to a checkpoint "
        "that does not refer to it."
    )


def _reads(spec: SubtaskSpec, run: StateHandle) -> tuple[Fit | None, Limits | None]:
    """Return how the run's rows become the reader's, None if they need no change, and their expiry. The handle alone
    tells this."""
    details = run.details
    if details.get("layout") == spec.layout.fingerprint and details.get("max_parallelism") == spec.max_parallelism:
        return None, limits_of(spec.layout, spec.layout, spec.horizon)
    known = _layouts.get(details.get("layout", ""))
    if known is None or details.get("max_parallelism") != spec.max_parallelism:
        known = _check_stored(spec, run, _metadata_of(spec.storage_url, spec.where(), run))
    elif problems := misfits(known, spec.layout):
        raise _unfit(spec, run, problems)
    fit = fit_of(known, spec.layout) if known.version < spec.layout.version else None
    return fit, limits_of(known, spec.layout, spec.horizon)


def _metadata_of(storage_url: str, where: str, run: StateHandle) -> Mapping[bytes, bytes]:
    with open_storage(storage_url).open_input(run.path) as source:
        try:
            return pq.read_schema(source).metadata or {}
        except pa.ArrowInvalid as error:
            raise _damaged(where, run, str(error)) from error


def _stored(where: str, run: StateHandle, metadata: Mapping[bytes, bytes]) -> dict[str, Any]:
    if METADATA not in metadata:
        raise StateSchemaError(f"{run.path} is not a run of keyed state. Affected: {where}. Nothing was changed.")
    stored: dict[str, Any] = json.loads(metadata[METADATA])
    return stored


def _of_other_format(stored: Mapping[str, Any]) -> list[str]:
    if stored["format"] <= FORMAT:
        return []
    return [f"its format is {stored['format']}, and this version of Tidegate reads up to {FORMAT}"]


def _check_stored(spec: SubtaskSpec, run: StateHandle, metadata: Mapping[bytes, bytes]) -> StateLayout:
    """Return the layout of a run, which equals the reader's or is succeeded by it. Raise `StateSchemaError`
    otherwise."""
    stored = _stored(spec.where(), run, metadata)
    if problems := _of_other_format(stored):
        raise _unfit(spec, run, problems)
    layout = StateLayout.from_json(stored["layout"])
    problems = misfits(layout, spec.layout)
    if stored["max_parallelism"] != spec.max_parallelism:
        problems.append(f"max_parallelism is stored as {stored['max_parallelism']}, now {spec.max_parallelism}")
    if problems:
        raise _unfit(spec, run, problems)
    return _remembered(layout)


def _remembered(layout: StateLayout) -> StateLayout:
    if len(_layouts) >= _MOST_LAYOUTS:
        _layouts.clear()
    return _layouts.setdefault(layout.fingerprint, layout)


def _unfit(spec: SubtaskSpec, run: StateHandle, problems: Sequence[str]) -> StateSchemaError:
    return StateSchemaError(
        f"The state of {spec.where()}, does not fit its definition: {'; '.join(problems)} (in {run.path}, written "
        f"by checkpoint {run.created_by}). Nothing was changed. Put the definition back, or give the operator a "
        "new name to start with empty state."
    )
