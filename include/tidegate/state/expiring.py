"""Which rows of a run have expired, for a reader with a horizon: they are to it what deleted rows are.

What decides is in `protocol.schema.expiry`. Rows of a run may be older than the column that counts, or than a change of
the time to live; then the layouts say what that means for them.
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
class Judged:
    """When rows are changed that are written now, and up to where others have expired."""

    at: int
    horizon: int | None


def judge(layout: StateLayout, runs: Iterable[StateHandle], moment: Moment) -> Judged:
    """For all subtasks of an operator, whose runs these are."""
    lives_by = layout.schema.lives_by()
    if lives_by is None:
        return Judged(moment.at, None)
    horizon = find_horizon(*lives_by, runs, moment)
    if lives_by[2] and horizon is not None:  # a clock that went back does not make rows older than they are
        return Judged(horizon + lives_by[1], horizon)
    return Judged(moment.at, horizon)


def succeeding(
    stored: StateLayout, defined: StateLayout, schema: StateSchema, runs: Iterable[StateHandle], moment: Moment
) -> StateLayout:
    """The layout of `defined`, for state that has `stored`. If the definition changes when rows expire, those that had
    expired before stay expired."""
    before, expired = stored.schema.lives_by(), stored.expired
    if before is not None and before != schema.lives_by():
        horizon = find_horizon(*before, runs, moment)
        if horizon is not None:
            default = default_time(stored, stored.ttl.column) if stored.ttl else None
            expired = (*expired, Expired(before[0], horizon, schema.version, default))
    return defined.succeeding(schema, expired)


@dataclass(frozen=True, slots=True)
class Limits:
    """By column of a run, up to which time its rows have expired; `everything`: all of them have."""

    horizons: tuple[tuple[str, int], ...] = ()
    everything: bool = False

    def expired(self, rows: pa.RecordBatch, places: Ints | None = None) -> Bools | None:
        """Which rows have expired, of those at `places` or of all; None if none can have."""
        length = rows.num_rows if places is None else len(places)
        if self.everything:
            return np.ones(length, np.bool_)
        result = None
        for name, horizon in self.horizons:
            column = rows.column(name)
            column = column if places is None else column.take(integers(places))
            over = times_of(column) <= horizon
            if (there := valid(column)) is not None:
                over &= there
            result = over if result is None else result | over
        return result


def limits_of(stored: StateLayout, wanted: StateLayout, horizon: int | None) -> Limits | None:
    """What has expired of a run in the layout `stored`, to a reader in `wanted`; None if nothing can have."""
    names = {column.id: column.name for column in (*stored.schema.keys, *(stored.schema.values or ()))}
    horizons, everything = [], False
    for id_, until, default in _rules(stored, wanted, horizon):
        if id_ in names:
            horizons.append((names[id_], until))
        elif default is not None and default <= until:
            everything = True
    return Limits(tuple(horizons), everything) if horizons or everything else None


def _rules(stored: StateLayout, wanted: StateLayout, horizon: int | None) -> Iterator[tuple[str, int, int | None]]:
    """Ids of columns, each with a horizon and the time of rows that are older than the column."""
    if wanted.ttl is not None and horizon is not None:
        lives_by = wanted.schema.lives_by()
        assert lives_by is not None
        yield lives_by[0], horizon, default_time(wanted, wanted.ttl.column)
    for each in wanted.expired:
        if stored.version < each.version:
            yield each.column, each.horizon, each.default


def default_time(layout: StateLayout, name: str) -> int | None:
    """The time in a column of rows that are older than it; None if they have none."""
    default = dict(layout.defaults).get(name)
    if default is None or isinstance(default, int):
        return default
    types = {column.name: column.type for column in (*layout.keys, *layout.values)}
    return int(times_of(value_array(types[name], default))[0])


def times_of(column: pa.Array | pa.ChunkedArray) -> Ints:
    """Timestamps or dates in microseconds since 1970. What lies under a null is undefined."""
    column = one_chunk(column)
    values = fixed(column).astype(np.int64, copy=False)
    return values * _DAY if pa.types.is_date32(column.type) else values


def recorded_as(layout: StateLayout) -> RecordedTtl | None:
    """By what rows of a layout live, as runs in it say."""
    lives_by = layout.schema.lives_by()
    if lives_by is None or layout.ttl is None:
        return None
    return RecordedTtl(*lives_by, default=default_time(layout, layout.ttl.column))


class Span:
    """What a run that is being written will say of the times of its rows, tombstones apart."""

    def __init__(self, layout: StateLayout, recorded: RecordedTtl | None, horizon: int | None = None) -> None:
        self.removed = 0
        self._layout = layout
        self._recorded = recorded
        self._horizon = horizon

    @classmethod
    def of(cls, spec: SubtaskSpec) -> "Span":
        """For rows that change now."""
        recorded = recorded_as(spec.layout)
        if recorded is None or spec.horizon is None:
            return cls(spec.layout, recorded)
        return cls(spec.layout, replace(recorded, clock=spec.horizon + recorded.after))

    @classmethod
    def merging(cls, spec: SubtaskSpec, runs: Sequence[StateHandle]) -> "Span":
        """For a run that takes the place of others."""
        recorded = recorded_as(spec.layout)
        times = None if recorded is None else merged(recorded, runs, spec.checkpoint_id)
        return cls(spec.layout, times, spec.horizon)

    def add(self, table: pa.Table, alive: Bools | None) -> None:
        """Rows of the layout, of which some are no tombstones."""
        if self._recorded is None or self._layout.ttl is None or table.num_rows == 0:
            return
        column = one_chunk(table.column(self._layout.ttl.column))
        times, there = times_of(column), valid(column)
        kept = there if alive is None else alive if there is None else there & alive
        times = times if kept is None else times[kept]
        if len(times):
            self._recorded = with_times(self._recorded, int(times.min()), int(times.max()))

    def recorded(self) -> dict[str, Any] | None:
        """What the handle says of them; None of rows that do not expire."""
        if self._recorded is None:
            return None
        return with_removed(self._recorded, self.removed, self._horizon).to_json()
