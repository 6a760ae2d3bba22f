"""Accumulators that are lists of a key's values: the distinct ones, or the first ones in an order.

A merge takes any number of lists and of single values for a group, in any order, and returns the same list. All groups
are merged together: the work is a sort of all values.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.protocol.facts.errors import CheckpointDeclinedError
from tidegate.state.columns import (
    Bools,
    Ints,
    booleans,
    canonical_key,
    from_fixed,
    integers,
    lengths,
    order_codes,
    valid,
)
from tidegate.state.type_names import list_of

#: The maximum values in all lists of an Arrow array together, or bytes in all its strings.
MOST_IN_AN_ARRAY = 2**31 - 1


class TooManyValuesError(ArithmeticError):
    """Group `group` has `values` values, more than its limit."""

    def __init__(self, group: int, values: int) -> None:
        super().__init__(f"group {group} has {values} values")
        self.group = group
        self.values = values


@dataclass(frozen=True, slots=True)
class Members:
    """Values of groups: row i of all `columns` belongs to group `groups[i]`."""

    groups: Ints
    columns: Sequence[pa.Array]

    @classmethod
    def of_rows(cls, groups: Ints, columns: Sequence[pa.Array]) -> "Members":
        """Return single values, those with a null left out. Equal values have equal bits: one NaN, one zero."""
        kept: Bools | None = None
        for is_valid in map(valid, columns):
            kept = is_valid if kept is None else kept if is_valid is None else kept & is_valid
        columns = [canonical_key(column) for column in columns]
        if kept is None:
            return cls(groups, columns)
        return cls(groups[kept], [column.filter(booleans(kept)) for column in columns])

    @classmethod
    def of_lists(cls, groups: Ints, lists: Sequence[pa.Array]) -> "Members":
        """Return the values in lists, which have the same length in all columns."""
        return cls(np.repeat(groups, lengths(lists[0])), [column.flatten() for column in lists])

    def with_others(self, others: "Members") -> "Members":
        columns = [pa.concat_arrays([*pair]) for pair in zip(self.columns, others.columns, strict=True)]
        return Members(np.concatenate([self.groups, others.groups]), columns)


def distinct(members: Members, groups: int, limit: int) -> pa.Array:
    """Return the distinct values of each group, ascending: an Arrow list per group. Raise `TooManyValuesError`."""
    values, sizes, _ = counted(members, groups)
    if len(sizes) and int(sizes.max()) > limit:
        group = int(np.argmax(sizes))
        raise TooManyValuesError(group, int(sizes[group]))
    return _lists(values, sizes)


def counted(members: Members, groups: int) -> tuple[pa.Array, Ints, Ints]:
    """Return the distinct values of all groups, in order of group and value; the number of them in each group; and the
    number of occurrences of each value."""
    order, codes = _ordered(members)
    of = members.groups[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (of[1:] != of[:-1]) | (codes[-1][1:] != codes[-1][:-1])
    often = np.diff(np.flatnonzero(new), append=len(order))
    return members.columns[0].take(integers(order[new])), np.bincount(of[new], minlength=groups), often


def ordered(members: Members, groups: int) -> tuple[pa.Array, Ints]:
    """Return all values in order of group and value, and the number in each group."""
    order, _ = _ordered(members)
    return members.columns[0].take(integers(order)), np.bincount(members.groups, minlength=groups)


def smallest(members: Members, groups: int, limit: int) -> list[pa.Array]:
    """Return the first `limit` values of each group by the last column, then by the one before: an Arrow list per
    group, for each column."""
    order, _ = _ordered(members)
    sizes = np.bincount(members.groups, minlength=groups)
    place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    kept = integers(order[place < limit])
    return [_lists(column.take(kept), np.minimum(sizes, limit)) for column in members.columns]


def _ordered(members: Members) -> tuple[Ints, list[Ints]]:
    """Return the order by group, then by the last column and so on, and the codes of the columns in this order."""
    codes = [order_codes(column) for column in members.columns]
    order = np.lexsort([*codes, members.groups])
    return order, [column[order] for column in codes]


def _lists(values: pa.Array, sizes: Ints) -> pa.Array:
    return pa.ListArray.from_arrays(from_fixed(pa.int32(), offsets_of(sizes)), values, type=list_of(values.type))


def offsets_of(sizes: Ints) -> npt.NDArray[np.int32]:
    """Return the offsets of many lists or byte strings in an Arrow array, including the last end. Raise
    `CheckpointDeclinedError` if they hold more than an array can."""
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    if offsets[-1] > MOST_IN_AN_ARRAY:
        raise CheckpointDeclinedError(
            f"The lists or sketches of an aggregate that one subtask has to write for {len(sizes):,} keys hold "
            f"{int(offsets[-1]):,} values or bytes, and at most {MOST_IN_AN_ARRAY:,} fit. Nothing was written and the "
            "previous checkpoint stands. Raise the parallelism, or let a checkpoint take fewer files."
        )
    return offsets.astype(np.int32)
