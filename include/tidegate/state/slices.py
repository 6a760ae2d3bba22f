"""Several runs read as one, in slices of ascending hash, each key once, with its newest row.

Memory is bounded by the slice, whatever the size of the runs and of their rows.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tidegate.protocol.facts.records import StateHandle
from tidegate.state.columns import (
    Bools,
    Hashes,
    Ints,
    booleans,
    flags,
    integers,
    key_classes,
    no_rows,
    one_chunk,
    same_rows,
)
from tidegate.state.expiring import Span
from tidegate.state.layout import TOMBSTONE
from tidegate.state.opening import RunPart, open_run
from tidegate.state.runs import run_schema
from tidegate.state.spec import SubtaskSpec

#: Bounds of the slice taken from each run.
_SLICE_ROWS, _SLICE_BYTES = 1 << 18, 64 << 20
_LARGEST = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


def merged_slices(
    spec: SubtaskSpec,
    runs: Sequence[StateHandle],
    schema: pa.Schema,
    keep_tombstones: bool,
    newest: Sequence[RunPart] = (),
    span: Span | None = None,
) -> Iterator[pa.Table]:
    """Yield `pyarrow.Table`s of `schema` (columns of runs), sorted by unsigned hash across all of them. `newest` are
    the parts of one more run, which is not a file. `span` counts the rows that have expired."""
    opened = [_Cursor(parts) for run in runs if (parts := open_run(spec, run))]
    opened += [_Cursor(list(newest))] if newest else []
    while opened:
        last = min(cursor.last_of_slice() for cursor in opened)
        parts = [part for cursor in opened for part in cursor.take_to(last)]
        opened = [cursor for cursor in opened if cursor.parts]
        yield _newest(spec, parts, schema, keep_tombstones, span)


def rows_with(spec: SubtaskSpec, hashes: Hashes) -> pa.Table:
    """Return all current rows with one of these hashes, which are sorted and distinct. The result is a `pyarrow.Table`
    of a run's columns, sorted by hash."""
    schema, found = run_schema(spec.layout, tombstones=False), list[RunPart]()
    for run in spec.runs:
        for part in open_run(spec, run):
            first, behind = (np.searchsorted(part.hashes, hashes, side) for side in ("left", "right"))
            counts = behind - first
            if counts.any():
                rows = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
                found.append(RunPart(part.hashes[rows], part.rows.take(integers(rows)), part.fit, part.limits))
    return _newest(spec, found, schema, False, None) if found else no_rows(schema)


class _Cursor:
    """The position of a reader in one run."""

    def __init__(self, parts: list[RunPart]) -> None:
        self.parts = parts

    def last_of_slice(self) -> np.uint64:
        """Return the last hash up to which a slice may take rows. A run whose remaining rows fit into one slice does
        not end the slice. Otherwise each run's last rows would be a slice of their own."""
        rows, size = _SLICE_ROWS, _SLICE_BYTES
        for part in self.parts:
            length, width = len(part.hashes), max(1, part.rows.nbytes // len(part.hashes))
            if (most := min(rows, size // width)) <= length:
                return np.uint64(part.hashes[max(most, 1) - 1])
            rows, size = rows - length, size - length * width
        return _LARGEST

    def take_to(self, last: np.uint64) -> list[RunPart]:
        """Return the rows with hashes up to `last`. The cursor moves past them."""
        taken = []
        while self.parts:
            part = self.parts[0]
            stop = int(np.searchsorted(part.hashes, last, side="right"))
            if stop:
                taken.append(part.slice(0, stop))
            if stop < len(part.hashes):
                self.parts[0] = part.slice(stop)
                break
            self.parts.pop(0)
        return taken


def _newest(
    spec: SubtaskSpec, parts: list[RunPart], schema: pa.Schema, keep_tombstones: bool, span: Span | None
) -> pa.Table:
    """Return the newest row of each key. `parts` are oldest first, so a stable sort by hash puts the newest row
    last."""
    table = _stacked(parts, schema)
    hashes = np.concatenate([part.hashes for part in parts])
    order = np.argsort(hashes, kind="stable") if len(parts) > 1 else np.arange(len(hashes))
    last = _last_of_key(hashes[order], order, table.select(spec.layout.key_names)) if len(parts) > 1 else None
    if span is not None:
        expired = _expired(parts)[order]
        span.removed += int((expired if last is None else expired & last).sum())
    if not keep_tombstones and TOMBSTONE in table.schema.names:
        alive = ~flags(table.column(TOMBSTONE).chunk(0))
        last = alive[order] if last is None else last & alive[order]
    table = table.select(schema.names)
    return table if last is None else table.take(integers(order[last]))


def _expired(parts: list[RunPart]) -> Bools:
    """Return which rows have expired without having been deleted."""
    marks = []
    for part in parts:
        expired, deleted = part.expired(), part.tombstones()
        expired = np.zeros(len(part.hashes), np.bool_) if expired is None else expired
        marks.append(expired if deleted is None else expired & ~deleted)
    return np.concatenate(marks)


def _stacked(parts: list[RunPart], schema: pa.Schema) -> pa.Table:
    """Return all parts as one table. A tombstone column is filled in if only some of the runs have one."""
    gone = [part.gone() for part in parts]
    if any(marks is not None for marks in gone) and TOMBSTONE not in schema.names:
        schema = schema.append(pa.field(TOMBSTONE, pa.bool_(), nullable=False))
    batches = []
    for part, marks in zip(parts, gone, strict=True):
        columns = part.select([name for name in schema.names if name != TOMBSTONE]).columns
        if TOMBSTONE in schema.names:
            columns.append(booleans(np.zeros(len(part.hashes), np.bool_) if marks is None else marks))
        batches.append(pa.RecordBatch.from_arrays(columns, schema=schema))
    return pa.Table.from_batches(batches, schema).combine_chunks()


def _last_of_key(hashes: Hashes, order: Ints, keys: pa.Table) -> Bools:
    """Return which rows, sorted by hash, are not followed by a newer row of the same key."""
    last = np.ones(len(order), np.bool_)
    repeated = np.flatnonzero(hashes[1:] == hashes[:-1])
    if len(repeated) == 0:
        return last
    here, behind = integers(order[repeated]), integers(order[repeated + 1])
    columns = [one_chunk(keys.column(name)) for name in keys.schema.names]
    same = same_rows([c.take(here) for c in columns], [c.take(behind) for c in columns], len(repeated))
    last[repeated] = False
    mixed = np.flatnonzero(np.isin(hashes, hashes[repeated[~same]]))[::-1]
    last[mixed[np.unique(key_classes(columns, order[mixed]), return_index=True)[1]]] = True
    return last
