"""Declared aggregates: new rows become accumulators, merge with stored accumulators, and become visible values.

Semantics are Spark's; see the docstrings of `tidegate.pipeline.aggregates`. A sum that does not fit its type is an
error, as in Spark's ANSI mode, because a wrapped total would stay wrong. If several rows share the extreme of `min_by`
or `max_by`, the smallest value is taken, null first. So the order in which rows arrive does not matter.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.pipeline.aggregates import SKETCHES, Aggregate
from tidegate.state.arrivals import Groups
from tidegate.state.columns import (
    Bools,
    Ints,
    decoded,
    fixed,
    from_fixed,
    integers,
    is_decodable,
    lengths,
    one_chunk,
    order_codes,
    valid,
)
from tidegate.state.decimals import limbs_of, words_of
from tidegate.state.sketches import shown, united, updated
from tidegate.state.value_lists import Members, distinct, smallest

_TOP = 1 << 63


class SumOverflowError(ArithmeticError):
    """The sum of group `group` does not fit its type."""

    def __init__(self, group: int) -> None:
        super().__init__(f"sum of group {group} overflows")
        self.group = group


@dataclass(frozen=True, slots=True)
class Stored:
    """The stored accumulators of some groups: `columns[i]` at j belongs to group `groups[j]`, ascending."""

    groups: Ints
    columns: list[pa.Array]

    def __bool__(self) -> bool:
        return len(self.groups) > 0


_NOTHING = Stored(np.empty(0, np.int64), [])


def accumulate(
    aggregate: Aggregate, types: list[pa.DataType], inputs: list[pa.Array], groups: Groups, stored: Stored
) -> list[pa.Array]:
    """Return the accumulator columns (of `types`), one row per group, from input columns sorted by group and `stored`.

    Raise `SumOverflowError` if a sum does not fit its type, and `TooManyValuesError` if a list exceeds its limit.
    """
    match aggregate.function:
        case "count":
            return [_count(inputs, groups, stored)]
        case "version":  # rows do not change it: see `state.windows`
            return [_sum(types[0], integers(np.zeros(groups.size, np.int64)), groups, stored)]
        case "sum":
            return [_sum(types[0], inputs[0], groups, stored)]
        case "avg":
            counted = Stored(stored.groups, stored.columns[1:])
            return [_sum(types[0], inputs[0], groups, stored), _count(inputs, groups, counted)]
        case "min" | "max":
            return [_extreme(inputs[0], groups, stored, aggregate.function == "max")]
        case "count_distinct" | "collect_list":
            members = Members.of_rows(groups.of_rows, inputs)
            if stored:
                members = members.with_others(Members.of_lists(stored.groups, stored.columns))
            return _listed(aggregate, members, len(groups))
        case function if function in SKETCHES:
            old = stored.columns[0] if stored else None
            return [updated(aggregate, Members.of_rows(groups.of_rows, inputs), len(groups), stored.groups, old)]
    return _extreme_by(inputs[0], inputs[1], groups, stored, aggregate.function == "max_by")


def combined(aggregate: Aggregate, types: list[pa.DataType], stored: list[pa.Array], groups: Groups) -> list[pa.Array]:
    """Return the accumulator columns, one row per group, of groups with several stored rows each: the result of
    `accumulate` over all their rows. Raise `SumOverflowError` and `TooManyValuesError`."""
    match aggregate.function:
        case "count" | "sum" | "avg" | "version":
            return [_sum(kind, column, groups, _NOTHING) for kind, column in zip(types, stored, strict=True)]
        case "count_distinct" | "collect_list":
            return _listed(aggregate, Members.of_lists(groups.of_rows, stored), len(groups))
        case function if function in SKETCHES:
            return [united(aggregate, stored[0], groups.starts)]
    return accumulate(aggregate, types, stored, groups, _NOTHING)


def _listed(aggregate: Aggregate, members: Members, groups: int) -> list[pa.Array]:
    limit = aggregate.option("limit")
    if aggregate.function == "count_distinct":
        return [distinct(members, groups, limit)]
    return smallest(members, groups, limit)


def finished(aggregate: Aggregate, columns: list[pa.ChunkedArray]) -> pa.Array | pa.ChunkedArray:
    """Return the visible column of an aggregate from its accumulators."""
    if aggregate.function == "count_distinct":
        return integers(lengths(one_chunk(columns[0])))
    if aggregate.function in SKETCHES:
        return shown(aggregate, one_chunk(columns[0]))
    if aggregate.function != "avg":
        return columns[0]
    totals, counts = fixed(one_chunk(columns[0].cast(pa.float64()))), fixed(one_chunk(columns[1]))
    means = np.zeros(len(counts))
    np.divide(totals, counts, out=means, where=counts > 0)
    return from_fixed(pa.float64(), means, counts > 0)


def _count(inputs: list[pa.Array], groups: Groups, stored: Stored) -> pa.Array:
    is_valid = valid(inputs[0]) if inputs else None
    counts = groups.sizes.copy() if is_valid is None else np.add.reduceat(is_valid.astype(np.int64), groups.starts)
    if stored:
        counts[stored.groups] += fixed(stored.columns[0])
    return integers(counts)


def _sum(kind: pa.DataType, column: pa.Array, groups: Groups, stored: Stored) -> pa.Array:
    is_valid = valid(column)
    seen = None if is_valid is None else np.logical_or.reduceat(is_valid, groups.starts)
    if pa.types.is_decimal128(kind):
        values, seen = _decimal_sums(kind, column, is_valid, seen, groups, stored)
    elif pa.types.is_integer(kind):
        values, seen = _integer_sums(column, is_valid, seen, groups, stored)
    else:
        numbers = _zeroed(fixed(column).astype(np.float64), is_valid)
        values = numbers if groups.single else np.add.reduceat(numbers, groups.starts)
        values, seen = _added(values, seen, stored)
    return from_fixed(kind, values, seen)


def _zeroed(values: npt.NDArray[Any], is_valid: Bools | None) -> npt.NDArray[Any]:
    if is_valid is not None:
        values[~is_valid] = 0
    return values


def _added(values: npt.NDArray[Any], seen: Bools | None, stored: Stored) -> tuple[npt.NDArray[Any], Bools | None]:
    if stored:
        old_valid = valid(stored.columns[0])
        values[stored.groups] += _zeroed(fixed(stored.columns[0]).copy(), old_valid)
        seen = _seen(seen, old_valid, stored)
    return values, seen


def _seen(seen: Bools | None, old_valid: Bools | None, stored: Stored) -> Bools | None:
    if seen is not None:
        seen[stored.groups] |= True if old_valid is None else old_valid
    return seen


def _integer_sums(
    column: pa.Array, is_valid: Bools | None, seen: Bools | None, groups: Groups, stored: Stored
) -> tuple[npt.NDArray[Any], Bools | None]:
    numbers = _zeroed(fixed(column).astype(np.int64), is_valid)
    values = numbers if groups.single else _exact_sums(numbers, groups)
    before = values[stored.groups] if stored else None
    values, seen = _added(values, seen, stored)
    if before is not None:
        after = values[stored.groups]
        wrapped = ((before ^ after) & ((after - before) ^ after)) < 0
        if wrapped.any():
            raise SumOverflowError(int(stored.groups[np.argmax(wrapped)]))
    return values, seen


def _exact_sums(numbers: Ints, groups: Groups) -> Ints:
    largest = max(abs(int(np.min(numbers))), abs(int(np.max(numbers))))
    if largest * int(np.max(groups.sizes)) >= _TOP:
        high = np.add.reduceat(numbers >> 32, groups.starts)
        high += np.add.reduceat(numbers & 0xFFFFFFFF, groups.starts) >> 32
        wrapped = (high < -(2**31)) | (high >= 2**31)
        if wrapped.any():
            raise SumOverflowError(int(np.argmax(wrapped)))
    return cast(Ints, np.add.reduceat(numbers, groups.starts))


def _decimal_sums(
    kind: pa.DataType, column: pa.Array, is_valid: Bools | None, seen: Bools | None, groups: Groups, stored: Stored
) -> tuple[npt.NDArray[Any], Bools | None]:
    limbs = _zeroed(limbs_of(fixed(column)), is_valid)
    limbs = np.add.reduceat(limbs, groups.starts, axis=0)
    if stored:
        old_valid = valid(stored.columns[0])
        limbs[stored.groups] += _zeroed(limbs_of(fixed(stored.columns[0])), old_valid)
        seen = _seen(seen, old_valid, stored)
    words, wrapped = words_of(limbs, kind.precision)
    if wrapped.any():
        raise SumOverflowError(int(np.argmax(wrapped)))
    return words, seen


def _extreme(column: pa.Array, groups: Groups, stored: Stored, largest: bool) -> pa.Array:
    if is_decodable(column.type):
        return _extreme_number(column, groups, stored, np.maximum if largest else np.minimum)
    both = _joined(column, stored, 0)
    codes = _codes(both, largest)
    choice = _merged(_best_rows(codes, valid(column), groups), codes, valid(both), groups.size, stored)
    return _taken(both, choice)


def _extreme_number(column: pa.Array, groups: Groups, stored: Stored, choose: np.ufunc) -> pa.Array:
    """Return the extremes of a type whose codes can be turned back into values, which takes fewer steps."""
    last = np.iinfo(np.int64).min if choose is np.maximum else np.iinfo(np.int64).max
    codes, is_valid = order_codes(column), valid(column)
    if is_valid is not None:
        codes = np.where(is_valid, codes, last)
    best = codes.copy() if groups.single else choose.reduceat(codes, groups.starts)
    seen = None if is_valid is None else np.logical_or.reduceat(is_valid, groups.starts)
    if stored:
        old_codes, old_valid = order_codes(stored.columns[0]), valid(stored.columns[0])
        if old_valid is not None:
            old_codes = np.where(old_valid, old_codes, last)
        best[stored.groups] = choose(best[stored.groups], old_codes)
        seen = _seen(seen, old_valid, stored)
    return from_fixed(column.type, decoded(best, column.type), seen)


def _extreme_by(column: pa.Array, ordering: pa.Array, groups: Groups, stored: Stored, largest: bool) -> list[pa.Array]:
    values, orders = _joined(column, stored, 0), _joined(ordering, stored, 1)
    codes = _codes(orders, largest)
    is_valid = valid(ordering)
    rows = _best_rows(codes, is_valid, groups, lambda: _null_first(values))
    choice = _merged(rows, codes, valid(orders), groups.size, stored, lambda: _null_first(values))
    return [_taken(values, choice), _taken(orders, choice)]


def _joined(column: pa.Array, stored: Stored, at: int) -> pa.Array:
    return pa.concat_arrays([column, stored.columns[at]]) if stored else column


def _codes(column: pa.Array, largest: bool) -> Ints:
    codes = order_codes(column)
    return ~codes if largest else codes


def _null_first(column: pa.Array) -> Ints:
    """Return codes that break ties. They are ranks from 0, so that null can come below them."""
    ranks = np.unique(order_codes(column), return_inverse=True)[1].astype(np.int64)
    is_valid = valid(column)
    if is_valid is not None:
        ranks[~is_valid] = -1
    return ranks


def _best_rows(codes: Ints, is_valid: Bools | None, groups: Groups, ties: Callable[[], Ints] | None = None) -> Ints:
    """Return the row of each group with the smallest code; -1 for groups without a valid row."""
    if is_valid is None and groups.single:
        return np.arange(groups.size)
    rows = np.arange(groups.size) if is_valid is None else np.flatnonzero(is_valid)
    best = np.full(len(groups), -1, np.int64)
    rows = _smallest(rows, codes, groups)
    begins = _begins(groups.of_rows[rows])
    if ties is not None and not begins.all():
        rows = _smallest(rows, ties(), groups)
        begins = _begins(groups.of_rows[rows])
    best[groups.of_rows[rows[begins]]] = rows[begins]
    return best


def _smallest(rows: Ints, codes: Ints, groups: Groups) -> Ints:
    """Return the `rows` (ascending) whose code is the smallest of their group."""
    if len(rows) == 0:
        return rows
    starts = np.flatnonzero(_begins(groups.of_rows[rows]))
    group_codes = codes[rows]
    smallest = np.repeat(np.minimum.reduceat(group_codes, starts), np.diff(starts, append=len(rows)))
    chosen: Ints = rows[group_codes == smallest]
    return chosen


def _begins(group_of_rows: Ints) -> Bools:
    begins = np.ones(len(group_of_rows), np.bool_)
    begins[1:] = group_of_rows[1:] != group_of_rows[:-1]
    return begins


def _merged(
    best: Ints, codes: Ints, is_valid: Bools | None, size: int, stored: Stored, ties: Callable[[], Ints] | None = None
) -> Ints:
    """Return `best`, or the stored row if that is as good or the only one. Stored rows follow the `size` new ones."""
    if not stored:
        return best
    new, old = best[stored.groups], size + np.arange(len(stored.groups))
    stays = (new < 0) | (codes[old] <= codes[new])
    if ties is not None:
        equal = (new >= 0) & (codes[old] == codes[new])
        if equal.any():
            order = ties()
            stays[equal] = order[old[equal]] <= order[new[equal]]
    if is_valid is not None:
        stays &= is_valid[old]
    best = best.copy()
    best[stored.groups[stays]] = old[stays]
    return best


def _taken(column: pa.Array, rows: Ints) -> pa.Array:
    missing = rows < 0
    return column.take(from_fixed(pa.int64(), rows, ~missing if missing.any() else None))
