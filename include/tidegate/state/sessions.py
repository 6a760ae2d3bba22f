"""The sessions of a subtask. Each row is a session that lasts for the gap, and sessions of a key that overlap or touch
merge. Vectorised, over the arriving rows and the open sessions of their keys together.

The bounds are key columns of the state, which the hash leaves out, so all sessions of a key are neighbours. A session
that grows gets a row under its new bounds, and the sessions merged into it are deleted.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tidegate.pipeline.windows import WINDOW_END, WINDOW_START
from tidegate.protocol.schema.state_schema import BOUNDS
from tidegate.state.accumulators import SumOverflowError, combined
from tidegate.state.arrivals import Groups, gather, key_starts, require_owned
from tidegate.state.columns import (
    Bools,
    Ints,
    booleans,
    distinct,
    fixed,
    flags,
    from_fixed,
    hashes_of_column,
    integers,
    one_chunk,
    sorted_order,
)
from tidegate.state.layout import HASH
from tidegate.state.lookup import Found
from tidegate.state.showing import key_text
from tidegate.state.slices import rows_with
from tidegate.state.spec import SubtaskSpec
from tidegate.state.subtask import Changed, accumulated, changed, check_inputs, outgrown, unchanged, visible_rows
from tidegate.state.value_lists import TooManyValuesError

#: Columns of an input row: whether its own session is open; and the row as it arrived, as a struct, if it may be late.
OPEN, ROW = "_open", "_row"


def take_in_sessions(batches: Iterable[pa.RecordBatch], spec: SubtaskSpec) -> Changed:
    """Merge rows into open sessions. Batches: `_hash`, key columns with the bounds of a row's own session, the
    aggregates' inputs, `OPEN`, and perhaps `ROW`.

    A row is late if its session, merged with all arrived and open ones, is over. Raise as `aggregate` does.
    """
    kept = [batch for batch in batches if batch.num_rows]
    inputs = dict.fromkeys(name for _, declared in spec.layout.aggregates for name in declared.columns())
    names = [*spec.layout.key_names, *(name for name in inputs if name not in spec.layout.key_names)]
    table = gather(kept, [*names, OPEN], spec)
    began = time.perf_counter()
    if table is None:
        return replace(unchanged(spec), rows_late=0)
    timed = np.flatnonzero(flags(one_chunk(table.column(WINDOW_START)).is_valid()))
    late = np.setdiff1d(np.arange(table.num_rows), timed, assume_unique=True)
    result = unchanged(spec)
    if len(timed):
        check_inputs(table.drop_columns([OPEN]), spec)
        result, over = _merged(table.take(integers(timed)), list(inputs), spec, began)
        late = np.sort(np.append(late, timed[over]))
    rows = _rows(kept, late) if ROW in kept[0].schema.names else None
    return replace(result, rows_in=table.num_rows, rows_late=len(late), late=rows)


def _rows(batches: list[pa.RecordBatch], places: Ints) -> pa.Table:
    """Return the rows at `places` as they arrived."""
    rows = pa.chunked_array([batch.column(ROW) for batch in batches]).take(integers(places))
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(one_chunk(rows))])


@dataclass(frozen=True, slots=True)
class _Sessions:
    """The sessions of new rows and stored sessions, both in the order `order`; `of` is the session number of each.
    `open` sessions with new rows are `taken`; `begin` and `end` are their bounds. Stored sessions follow the `new`
    rows."""

    order: Ints
    of: Ints
    begin: Ints
    end: Ints
    open: Bools
    taken: Bools
    new: int

    def members(self, stored: bool) -> tuple[Ints, Ints]:
        """Return the places of taken new rows, or of taken stored sessions, and the number of each among those
        taken."""
        chosen = self.taken[self.of] & ((self.order >= self.new) == stored)
        numbers = np.cumsum(self.taken) - 1
        return self.order[chosen] - (self.new if stored else 0), numbers[self.of[chosen]]

    def over(self) -> Ints:
        """Return the places of new rows whose session is over."""
        return self.order[(self.order < self.new) & ~self.open[self.of]]


def _merged(table: pa.Table, inputs: list[str], spec: SubtaskSpec, began: float) -> tuple[Changed, Ints]:
    """Return the changes by rows with an event time, and which of these rows are late."""
    layout, hashes = spec.layout, hashes_of_column(table.column(HASH))
    require_owned(table, int(hashes.min()), int(hashes.max()), spec)
    stored = rows_with(spec, distinct(hashes))
    sessions = _sessions(table, stored, spec)
    if not sessions.taken.any():
        return unchanged(spec), sessions.over()
    places, numbers = sessions.members(stored=False)
    groups = Groups(np.flatnonzero(np.diff(numbers, prepend=-1)), len(places))
    first = places[groups.starts]
    keys = table.select(layout.key_names).take(integers(first))
    bounds = (sessions.begin[sessions.taken], sessions.end[sessions.taken])
    for name, times in zip(BOUNDS, bounds, strict=True):
        kind = layout.key_schema.field(name).type
        keys = keys.set_column(layout.key_names.index(name), name, from_fixed(kind, times))
    before, session_numbers = sessions.members(stored=True)
    earlier = stored.take(integers(before))
    columns = {name: one_chunk(table.column(name).take(integers(places))) for name in inputs}
    values = accumulated(columns, groups, keys, _found(earlier, session_numbers, keys, spec), spec)
    now = pa.Table.from_arrays([*keys.columns, *values], schema=layout.stored)
    gone = _are_gone(earlier, session_numbers, bounds)
    rows = pa.concat_tables([now, earlier.drop_columns([HASH]).filter(booleans(gone))])
    marks = np.arange(len(rows)) >= len(now)
    all_hashes = np.concatenate([hashes[first], hashes_of_column(earlier.column(HASH))[gone]])
    order = np.argsort(all_hashes, kind="stable")
    visible = visible_rows(now, layout)
    sorted_rows = rows.take(integers(order))
    result = changed(spec, all_hashes[order], sorted_rows, marks[order], visible, table.num_rows, began)
    return result, sessions.over()


def _sessions(table: pa.Table, stored: pa.Table, spec: SubtaskSpec) -> _Sessions:
    """Return the sessions that new rows and stored sessions make together."""
    new = table.num_rows
    names = [column.name for column in spec.layout.hashed]
    keys = [pa.concat_arrays([one_chunk(part.column(name)) for part in (table, stored)]) for name in names]
    hashes = np.concatenate([hashes_of_column(part.column(HASH)) for part in (table, stored)])
    order = sorted_order(hashes)
    starts, order = key_starts(order, hashes[order], pa.Table.from_arrays(keys, names=names))
    key = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(order)))
    begin, end = (np.concatenate([fixed(one_chunk(part.column(name))) for part in (table, stored)]) for name in BOUNDS)
    by_time = np.lexsort((begin[order], key))
    order = order[by_time]
    begin, end = begin[order], end[order]
    first = _first_of_sessions(key, begin, end)
    at = np.flatnonzero(first)
    is_new = order < new
    is_open = ~is_new
    is_open[is_new] = flags(one_chunk(table.column(OPEN)))[order[is_new]]
    is_open = np.logical_or.reduceat(is_open, at)
    taken = is_open & np.logical_or.reduceat(is_new, at)
    return _Sessions(order, np.cumsum(first) - 1, begin[at], np.maximum.reduceat(end, at), is_open, taken, new)


def _first_of_sessions(key: Ints, begin: Ints, end: Ints) -> Bools:
    """Return which rows, by key and then by beginning, begin after all earlier ones have ended. They start a
    session."""
    ends, rank = np.unique(end, return_inverse=True)
    latest = ends[np.maximum.accumulate(key * len(ends) + rank) - key * len(ends)]
    first = np.ones(len(key), np.bool_)
    first[1:] = (key[1:] != key[:-1]) | (begin[1:] > latest[:-1])
    return first


def _found(earlier: pa.Table, numbers: Ints, keys: pa.Table, spec: SubtaskSpec) -> Found:
    """Return the stored accumulators of the sessions with these numbers, as one row each."""
    layout = spec.layout
    rows = earlier.select([column.name for column in layout.values])
    groups = Groups(np.flatnonzero(np.diff(numbers, prepend=-1)), len(numbers))
    if groups.single:
        return Found(numbers, rows)
    columns: dict[str, pa.Array] = {}
    for name, declared in layout.aggregates:
        parts = layout.accumulators_of(name)
        types = [layout.stored.field(part).type for part in parts]
        try:
            merged = combined(declared, types, [one_chunk(rows.column(part)) for part in parts], groups)
        except (SumOverflowError, TooManyValuesError) as error:
            key = key_text(keys, int(numbers[groups.starts[error.group]]))
            raise outgrown(error, name, declared, types[0], key, spec) from error
        columns |= dict(zip(parts, merged, strict=True))
    return Found(numbers[groups.starts], pa.table([columns[name] for name in rows.column_names], rows.schema))


def _are_gone(earlier: pa.Table, numbers: Ints, bounds: tuple[Ints, Ints]) -> Bools:
    """Return which stored sessions are no longer under their bounds."""
    begin, end = (fixed(one_chunk(earlier.column(name))) for name in (WINDOW_START, WINDOW_END))
    changed_bounds: Bools = (begin != bounds[0][numbers]) | (end != bounds[1][numbers])
    return changed_bounds
