"""The changes in a range of key groups from one checkpoint to another: rows upserted, keys deleted.

Runs never change, so only keys in runs that the two checkpoints do not share can differ. These are looked up in both
checkpoints, and compared as visible rows: another accumulator with the same value is no change.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tidegate.protocol.facts.records import StateHandle
from tidegate.protocol.schema.expiry import may_expire_between
from tidegate.state.columns import Bools, booleans, canonical_key, hashes_of_column, integers, one_chunk, same_rows
from tidegate.state.expiring import recorded_as
from tidegate.state.keys import Keys
from tidegate.state.layout import HASH, StateLayout
from tidegate.state.lookup import Found, Opened, find_rows
from tidegate.state.opening import open_run
from tidegate.state.slices import merged_slices
from tidegate.state.spec import SubtaskSpec
from tidegate.state.subtask import visible_rows

CHANGE = "_change"
UPSERT, DELETE = "upsert", "delete"


def changes_schema(layout: StateLayout) -> pa.Schema:
    """Return the `pyarrow.Schema` of a visible row and its change. In the row of a deleted key only the key is not
    null."""
    return layout.rows.append(pa.field(CHANGE, pa.string()))


def touched_keys(before: SubtaskSpec, now: SubtaskSpec) -> Iterator[Keys]:
    """Yield all keys that may differ between two specs of one key-group range, in slices of bounded size."""
    schema = pa.schema([pa.field(HASH, pa.int64(), nullable=False), *now.layout.key_schema])
    for table in merged_slices(now, _unshared(before, now), schema, keep_tombstones=True):
        yield Keys(hashes_of_column(table.column(HASH)), table.select(now.layout.key_names))


def changed_rows(before: SubtaskSpec, now: SubtaskSpec, keys: Keys, opened: Opened = open_run) -> pa.Table:
    """Return the rows of some keys that differ: a `pyarrow.Table` of `changes_schema`."""
    layout = now.layout
    names = layout.stored.names
    old, new = (find_rows(spec, keys.hashes, keys.rows, names, opened) for spec in (before, now))
    upserted = visible_rows(new.rows, layout).filter(booleans(_is_news(old, new, layout)))
    gone = np.setdiff1d(old.positions, new.positions, assume_unique=True)
    deleted = keys.rows.take(integers(gone))
    return pa.concat_tables([_marked(upserted, UPSERT, layout), _marked(deleted, DELETE, layout)])


def _unshared(before: SubtaskSpec, now: SubtaskSpec) -> list[StateHandle]:
    """Return the runs behind those with which both lists begin. Rows in the common ones are the same on both sides,
    unless they have expired in between."""
    old, new = _covering(before), _covering(now)
    shared = 0
    while shared < min(len(old), len(new)) and old[shared].path == new[shared].path:
        if before.hashes_in(old[shared]) != now.hashes_in(new[shared]):
            break
        shared += 1
    if before.layout.expired != now.layout.expired:  # the time to live changed in between
        return [*old, *new[shared:]]
    current = recorded_as(now.layout)
    expiring = [run for run in new[:shared] if may_expire_between(current, [run], before.horizon, now.horizon)]
    return [*expiring, *old[shared:], *new[shared:]]


def _covering(spec: SubtaskSpec) -> list[StateHandle]:
    ranges = ((run, spec.hashes_in(run)) for run in spec.runs)
    return [run for run, (low, high) in ranges if low <= high]


def _is_news(old: Found, new: Found, layout: StateLayout) -> Bools:
    """Return which of the new rows did not exist before, or were different."""
    both, old_at, new_at = np.intersect1d(old.positions, new.positions, assume_unique=True, return_indices=True)
    news = np.ones(len(new.positions), np.bool_)
    earlier, later = (
        _comparable(visible_rows(found.rows.take(integers(at)), layout)) for found, at in ((old, old_at), (new, new_at))
    )
    news[new_at] = ~same_rows(earlier, later, len(both))
    return news


def _comparable(rows: pa.Table) -> list[pa.Array]:
    """Return columns in which equal values have equal bits: one NaN, one zero."""
    return [canonical_key(one_chunk(column)) for column in rows.columns]


def _marked(rows: pa.Table, change: str, layout: StateLayout) -> pa.Table:
    """Return the rows with their change, and with nulls in the columns that they lack."""
    schema = changes_schema(layout)
    columns = [rows.column(f.name) if f.name in rows.schema.names else pa.nulls(len(rows), f.type) for f in layout.rows]
    return pa.Table.from_arrays([*columns, pa.repeat(pa.scalar(change), len(rows))], schema=schema)
