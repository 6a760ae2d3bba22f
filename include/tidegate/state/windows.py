"""The state of a windowed aggregate in a subtask: rows enter open windows, and windows that ended are emitted.

The bounds of a window are key columns of the state. A row without a window arrived too late for all of its windows. A
window may stay in state after it has been emitted: then rows still change it, and it is emitted again.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tidegate.pipeline.corrections import WINDOW_VERSION
from tidegate.pipeline.windows import WINDOW_END, WINDOW_START
from tidegate.protocol.facts.records import StateHandle
from tidegate.state.columns import Bools, Hashes, booleans, distinct, fixed, hashes_of_column, integers, one_chunk
from tidegate.state.layout import DELETE, HASH
from tidegate.state.lookup import find_rows
from tidegate.state.opening import open_run
from tidegate.state.runs import run_schema, writing_run
from tidegate.state.slices import rows_with
from tidegate.state.spec import SubtaskSpec
from tidegate.state.subtask import Changed, aggregate, visible_rows


def take_in(batches: Iterable[pa.RecordBatch], spec: SubtaskSpec) -> Changed:
    """Run `aggregate` on the rows that have a window, and count the others."""
    late = 0

    def with_window() -> Iterator[pa.RecordBatch]:
        nonlocal late
        for batch in batches:
            start = batch.column(WINDOW_START)
            late += start.null_count
            yield batch.filter(start.is_valid()) if start.null_count else batch

    changed = aggregate(with_window(), spec)
    return replace(changed, rows_in=changed.rows_in + late, rows_late=late)


#: The maximum number of keys whose windows are in memory together.
_AT_ONCE = 1 << 18


@dataclass(frozen=True, slots=True)
class Passing:
    """A watermark that advances from `closed` to `watermark`. Windows that end in between are emitted. Those that end
    up to `goes` are removed from state. Others may be corrected and are then emitted again, with a number if they are
    `numbered`. With `withdraws`, the row of a window that has become part of another one is taken back."""

    closed: int | None
    watermark: int
    goes: int | None
    numbered: bool = False
    withdraws: bool = False


@dataclass(eq=False)
class EndedWindows:
    """The windows of a subtask to emit: their rows, and then the run, if any, in which they are removed from its state
    or have other numbers. `changed` is the run of the rows that have just been merged."""

    spec: SubtaskSpec
    passing: Passing
    changed: StateHandle | None = None
    written: StateHandle | None = field(default=None, init=False)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield visible rows, slice by slice. `written` is set once they have all been taken."""
        yield from self._withdrawn()
        schema, writer = run_schema(self.spec.layout, tombstones=True), None
        with ExitStack() as stack:
            for table, leaves, goes in self._due():
                changes = goes | leaves if self.passing.numbered else goes
                if changes.any():
                    writer = writer or stack.enter_context(writing_run(self.spec, schema))
                    marked = pa.Table.from_arrays([*table.columns, booleans(goes)], schema=schema)
                    writer.write(marked.filter(booleans(changes)))
                rows = table.filter(booleans(leaves)).drop_columns([HASH])
                yield from self._shown(visible_rows(rows, self.spec.layout), withdrawn=False)
        self.written = None if writer is None else writer.handle

    def _due(self) -> Iterator[tuple[pa.Table, Bools, Bools]]:
        """Yield rows with their hashes, by which a run is sorted, and which of them are emitted, and which are
        removed."""
        passing, hashes = self.passing, self._hashes()
        for first in range(0, len(hashes), _AT_ONCE):
            table = rows_with(self.spec, hashes[first : first + _AT_ONCE])
            end = fixed(one_chunk(table.column(WINDOW_END)))
            leaves = end <= passing.watermark
            if passing.closed is not None:
                leaves &= (end > passing.closed) | self._corrected(table, end <= passing.closed)
            goes = np.zeros(len(end), np.bool_) if passing.goes is None else end <= passing.goes
            due = leaves | goes
            if due.any():
                found = table.filter(booleans(due))
                if passing.numbered:
                    found = _numbered(found, leaves[due])
                yield found, leaves[due], goes[due]

    def _hashes(self) -> Hashes:
        """Return the hashes of keys that may have such a window. In most runs, only the ends of windows are read."""
        passing, found = self.passing, [np.empty(0, np.uint64)]
        for run in self.spec.runs:
            for part in open_run(self.spec, run):
                end = fixed(part.select([WINDOW_END]).column(0))
                due = end <= passing.watermark
                if passing.closed is not None and run != self.changed:
                    due &= (end > passing.closed) | (passing.goes is not None and end <= passing.goes)
                found.append(part.hashes[due])
        return distinct(np.concatenate(found))

    def _corrected(self, table: pa.Table, had_left: Bools) -> Bools:
        """Return which rows of windows that had been emitted have changed."""
        corrected = np.zeros(len(had_left), np.bool_)
        before = np.flatnonzero(had_left)
        if self.changed is not None and len(before):
            rows = table.take(integers(before))
            keys, hashes = rows.select(self.spec.layout.key_names), hashes_of_column(rows.column(HASH))
            found = find_rows(replace(self.spec, runs=(self.changed,)), hashes, keys, [])
            corrected[before[found.positions]] = True
        return corrected

    def _withdrawn(self) -> Iterator[pa.RecordBatch]:
        """Yield the sessions that had been emitted and are part of others now."""
        if not self.passing.withdraws or self.changed is None or self.passing.closed is None:
            return
        for part in open_run(self.spec, self.changed):
            deleted = part.tombstones()
            if deleted is not None:
                rows = pa.Table.from_batches([part.select(self.spec.layout.stored.names)])
                left = deleted & (fixed(one_chunk(rows.column(WINDOW_END))) <= self.passing.closed)
                if left.any():
                    gone = visible_rows(rows.filter(booleans(left)), self.spec.layout)
                    yield from self._shown(gone, withdrawn=True)

    def _shown(self, rows: pa.Table, withdrawn: bool) -> Iterator[pa.RecordBatch]:
        if self.passing.withdraws:
            rows = rows.append_column(DELETE, booleans(np.full(len(rows), withdrawn, np.bool_)))
        yield from rows.combine_chunks().to_batches()


def _numbered(table: pa.Table, leaves: Bools) -> pa.Table:
    """Count another emission in each row that is emitted."""
    at = table.column_names.index(WINDOW_VERSION)
    numbers = fixed(one_chunk(table.column(WINDOW_VERSION))) + leaves
    return table.set_column(at, table.schema.field(at), integers(numbers))
