"""What a subtask does with rows by session: each is one that lasts for the gap, and those of a key that overlap or
touch are one. Vectorised, over the rows that arrive and the open sessions of their keys together.

The bounds are key columns of the state, which the hash leaves out: all sessions of a key lie beside each other. One
that grows gets a row under its new bounds, and those that it has taken in are deleted.
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

#: Of a row: whether its own session is open; and the row as it came, as a struct, if it may be late.
OPEN, ROW = "_open", "_row"


def take_in_sessions(batches: Iterable[pa.RecordBatch], spec: SubtaskSpec) -> Changed:
    """Take rows into open sessions. Batches: `_hash`, key columns with the bounds of a row's own session, the
    aggregates' inputs, `OPEN`, and perhaps `ROW`.

    A row is late if the session that it belongs to, with all that have arrived and are open, is over. Raises as
    `aggregate` does.
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
    """Those rows as they came."""
    rows = pa.chunked_array([batch.column(ROW) for batch in batches]).take(integers(places))
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(one_chunk(rows))])


@dataclass(frozen=True, slots=True)
class _Sessions:
    """Of new rows and stored sessions, in the order `order`, the sessions they make: `of` each its number. Those that
    are `open` and have new rows are `taken`; `begin` and `end` are their bounds. Stored ones follow the `new` rows."""

    order: Ints
    of: Ints
    begin: Ints
    end: Ints
    open: Bools
    taken: Bools
    new: int

    def members(self, stored: bool) -> tuple[Ints, Ints]:
        """Places of new rows, or of stored sessions, that are taken, and the number of each among those taken."""
        chosen = self.taken[self.of] & ((self.order >= self.new) == stored)
        numbers = np.cumsum(self.taken) - 1
        return self.order[chosen] - (self.new if stored else 0), numbers[self.of[chosen]]

    def over(self) -> Ints:
        """The places of new rows whose session is over."""
        return self.order[(self.order < self.new) & ~self.open[self.of]]


def _merged(table: pa.Table, inputs: list[str], spec: SubtaskSpec, began: float) -> tuple[Changed, Ints]:
    """What rows with an event time change, and which of them are late."""
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
    before, their = sessions.members(stored=True)
    were = stored.take(integers(before))
    columns = {name: one_chunk(table.column(name).take(integers(places))) for name in inputs}
    values = accumulated(columns, groups, keys, _found(were, their, keys, spec), spec)
    now = pa.Table.from_arrays([*keys.columns, *values], schema=layout.stored)
    gone = _are_gone(were, their, bounds)
    rows = pa.concat_tables([now, were.drop_columns([HASH]).filter(booleans(gone))])
    marks = np.arange(len(rows)) >= len(now)
    all_hashes = np.concatenate([hashes[first], hashes_of_column(were.column(HASH))[gone]])
    order = np.argsort(all_hashes, kind="stable")
    visible = visible_rows(now, layout)
    sorted_rows = rows.take(integers(order))
    result = changed(spec, all_hashes[order], sorted_rows, marks[order], visible, table.num_rows, began)
    return result, sessions.over()


def _sessions(table: pa.Table, stored: pa.Table, spec: SubtaskSpec) -> _Sessions:
    """Which sessions new rows and stored ones make together."""
    new = table.num_rows
    names = [column.name for column in spec.layout.hashed]
    keys = [pa.concat_arrays([one_chunk(each.column(name)) for each in (table, stored)]) for name in names]
    hashes = np.concatenate([hashes_of_column(each.column(HASH)) for each in (table, stored)])
    order = sorted_order(hashes)
    starts, order = key_starts(order, hashes[order], pa.Table.from_arrays(keys, names=names))
    key = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(order)))
    begin, end = (np.concatenate([fixed(one_chunk(each.column(name))) for each in (table, stored)]) for name in BOUNDS)
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
    """Which rows, by key and then by beginning, begin after all before them have ended: these touch no other one."""
    ends, rank = np.unique(end, return_inverse=True)
    latest = ends[np.maximum.accumulate(key * len(ends) + rank) - key * len(ends)]
    first = np.ones(len(key), np.bool_)
    first[1:] = (key[1:] != key[:-1]) | (begin[1:] > latest[:-1])
    return first


def _found(were: pa.Table, numbers: Ints, keys: pa.Table, spec: SubtaskSpec) -> Found:
    """What is stored of the sessions with these numbers, as one row each."""
    layout = spec.layout
    rows = were.select([column.name for column in layout.values])
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


def _are_gone(were: pa.Table, numbers: Ints, bounds: tuple[Ints, Ints]) -> Bools:
    """Which stored sessions are no longer under their bounds."""
    begin, end = (fixed(one_chunk(were.column(name))) for name in (WINDOW_START, WINDOW_END))
    changed_bounds: Bools = (begin != bounds[0][numbers]) | (end != bounds[1][numbers])
    return changed_bounds
