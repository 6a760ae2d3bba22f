"""Expiry of the rows of a run, for a reader with a horizon. Expired rows count as deleted for that reader.

The decisions are in `protocol.schema.expiry`. Rows of a run may be older than the column that they live by, or than a
change of the time to live; the layouts determine their expiry.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.protocol.facts.records import StateHandle
from tidegate.protocol.schema.expiry import Expired, Moment, RecordedTtl, find_horizon, merged, with_removed, with_times
from tidegate.protocol.schema.state_schema import StateSchema
from tidegate.state.columns import Bools, Ints, fixed, integers, one_chunk, valid
from tidegate.state.layout import StateLayout
from tidegate.state.spec import SubtaskSpec
from tidegate.state.values import value_array

_DAY = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Expiry:
    """The time of change of rows that are written now, and the horizon up to which others have expired."""

    at: int
    horizon: int | None


def decide_expiry(layout: StateLayout, runs: Iterable[StateHandle], moment: Moment) -> Expiry:
    """Decide for all subtasks of an operator, whose runs these are."""
    lives_by = layout.schema.lives_by()
    if lives_by is None:
        return Expiry(moment.at, None)
    horizon = find_horizon(*lives_by, runs, moment)
    if lives_by[2] and horizon is not None:  # a clock that was put back does not make rows older
        return Expiry(horizon + lives_by[1], horizon)
    return Expiry(moment.at, horizon)


def succeeding(
    stored: StateLayout, defined: StateLayout, schema: StateSchema, runs: Iterable[StateHandle], moment: Moment
) -> StateLayout:
    """Return the layout of `defined`, for state in the layout `stored`. If the definition changes when rows expire,
    rows that had expired before stay expired."""
    before, expired = stored.schema.lives_by(), stored.expired
    if before is not None and before != schema.lives_by():
        horizon = find_horizon(*before, runs, moment)
        if horizon is not None:
            default = default_time(stored, stored.ttl.column) if stored.ttl else None
            expired = (*expired, Expired(before[0], horizon, schema.version, default))
    return defined.succeeding(schema, expired)


@dataclass(frozen=True, slots=True)
class Limits:
    """The expiry of a run's rows: by column, the time up to which they have expired. With `everything`, all have."""

    horizons: tuple[tuple[str, int], ...] = ()
    everything: bool = False

    def expired(self, rows: pa.RecordBatch, places: Ints | None = None) -> Bools | None:
        """Return which rows have expired, of those at `places` or of all; None if none can have."""
        length = rows.num_rows if places is None else len(places)
        if self.everything:
            return np.ones(length, np.bool_)
        result = None
        for name, horizon in self.horizons:
            column = rows.column(name)
            column = column if places is None else column.take(integers(places))
            is_over = times_of(column) <= horizon
            if (is_valid := valid(column)) is not None:
                is_over &= is_valid
            result = is_over if result is None else result | is_over
        return result


def limits_of(stored: StateLayout, wanted: StateLayout, horizon: int | None) -> Limits | None:
    """Return the expiry of a run in the layout `stored`, for a reader in `wanted`; None if no row can have expired."""
    names = {column.id: column.name for column in (*stored.schema.keys, *(stored.schema.values or ()))}
    horizons, everything = [], False
    for id_, until, default in _rules(stored, wanted, horizon):
        if id_ in names:
            horizons.append((names[id_], until))
        elif default is not None and default <= until:
            everything = True
    return Limits(tuple(horizons), everything) if horizons or everything else None


def _rules(stored: StateLayout, wanted: StateLayout, horizon: int | None) -> Iterator[tuple[str, int, int | None]]:
    """Yield ids of columns, each with a horizon and the time of rows that are older than the column."""
    if wanted.ttl is not None and horizon is not None:
        lives_by = wanted.schema.lives_by()
        assert lives_by is not None
        yield lives_by[0], horizon, default_time(wanted, wanted.ttl.column)
    for rule in wanted.expired:
        if stored.version < rule.version:
            yield rule.column, rule.horizon, rule.default


def default_time(layout: StateLayout, name: str) -> int | None:
    """Return the time in a column of rows that are older than the column; None if they have none."""
    default = dict(layout.defaults).get(name)
    if default is None or isinstance(default, int):
        return default
    types = {column.name: column.type for column in (*layout.keys, *layout.values)}
    return int(times_of(value_array(types[name], default))[0])


def times_of(column: pa.Array | pa.ChunkedArray) -> Ints:
    """Return timestamps or dates in microseconds since 1970. The value under a null is undefined."""
    column = one_chunk(column)
    values = fixed(column).astype(np.int64, copy=False)
    return values * _DAY if pa.types.is_date32(column.type) else values


def recorded_as(layout: StateLayout) -> RecordedTtl | None:
    """Return how long rows of a layout live, in the form recorded in runs."""
    lives_by = layout.schema.lives_by()
    if lives_by is None or layout.ttl is None:
        return None
    return RecordedTtl(*lives_by, default=default_time(layout, layout.ttl.column))


class Span:
    """The times of the rows in a run that is being written, without tombstones, to be recorded with the run."""

    def __init__(self, layout: StateLayout, recorded: RecordedTtl | None, horizon: int | None = None) -> None:
        self.removed = 0
        self._layout = layout
        self._recorded = recorded
        self._horizon = horizon

    @classmethod
    def of(cls, spec: SubtaskSpec) -> "Span":
        """Return the span for rows that change now."""
        recorded = recorded_as(spec.layout)
        if recorded is None or spec.horizon is None:
            return cls(spec.layout, recorded)
        return cls(spec.layout, replace(recorded, clock=spec.horizon + recorded.after))

    @classmethod
    def merging(cls, spec: SubtaskSpec, runs: Sequence[StateHandle]) -> "Span":
        """Return the span for a run that replaces others."""
        recorded = recorded_as(spec.layout)
        times = None if recorded is None else merged(recorded, runs, spec.checkpoint_id)
        return cls(spec.layout, times, spec.horizon)

    def add(self, table: pa.Table, alive: Bools | None) -> None:
        """Add rows of the layout. `alive` marks those that are no tombstones."""
        if self._recorded is None or self._layout.ttl is None or table.num_rows == 0:
            return
        column = one_chunk(table.column(self._layout.ttl.column))
        times, is_valid = times_of(column), valid(column)
        kept = is_valid if alive is None else alive if is_valid is None else is_valid & alive
        times = times if kept is None else times[kept]
        if len(times):
            self._recorded = with_times(self._recorded, int(times.min()), int(times.max()))

    def recorded(self) -> dict[str, Any] | None:
        """Return the record for the handle; None for rows that do not expire."""
        if self._recorded is None:
            return None
        return with_removed(self._recorded, self.removed, self._horizon).to_json()
