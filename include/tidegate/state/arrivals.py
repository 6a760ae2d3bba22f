"""The input of a subtask: batches gathered, checked against the layout, sorted by hash and grouped by key."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from tidegate.protocol.facts.errors import CheckpointDeclinedError
from tidegate.state.columns import (
    Hashes,
    Ints,
    booleans,
    canonical_key,
    hashes_of_column,
    integers,
    key_classes,
    one_chunk,
    plain,
    same_rows,
    sorted_order,
)
from tidegate.state.layout import HASH
from tidegate.state.spec import SubtaskSpec


@dataclass(frozen=True)
class Groups:
    """Rows ordered by group: group i starts at row `starts[i]` of `size`."""

    starts: Ints
    size: int

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def sizes(self) -> Ints:
        return np.diff(self.starts, append=self.size)

    @cached_property
    def of_rows(self) -> Ints:
        """The group of each row."""
        return np.repeat(np.arange(len(self.starts)), self.sizes)

    @property
    def single(self) -> bool:
        """Whether every group has exactly one row."""
        return len(self.starts) == self.size


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Rows in the order `order`, which puts equal keys together and sorts them by `hashes` (of those rows, sorted).

    `table` holds them in the order of arrival, key columns in canonical form.
    """

    table: pa.Table
    order: Ints
    hashes: Hashes
    groups: Groups

    def sorted_column(self, name: str) -> pa.Array:
        return one_chunk(self.table.column(name).take(integers(self.order)))

    def first_rows(self, names: Sequence[str]) -> pa.Table:
        """Return one row per group, as a `pyarrow.Table`."""
        return self.table.select(list(names)).take(integers(self.order[self.groups.starts]))

    def group_hashes(self) -> Hashes:
        return self.hashes[self.groups.starts]


def gather(batches: Iterable[pa.RecordBatch], columns: Sequence[str], spec: SubtaskSpec) -> pa.Table | None:
    """Return the named columns of all batches with rows, as one `pyarrow.Table` of one chunk; None if there are none.

    Raise `CheckpointDeclinedError` on a missing column.
    """
    kept = [batch for batch in batches if batch.num_rows]
    if not kept:
        return None
    missing = [name for name in (HASH, *columns) if name not in kept[0].schema.names]
    if missing:
        raise CheckpointDeclinedError(
            f"The rows that reached {spec.where()}, lack the column {', '.join(map(repr, missing))}; they have "
            f"{', '.join(kept[0].schema.names)}. Nothing was written."
        )
    table = pa.Table.from_batches([batch.select([HASH, *columns]) for batch in kept])
    arrays = [plain(name, table.column(name)) for name in table.schema.names]
    keys = set(spec.layout.key_names)
    arrays = [canonical_key(a) if name in keys else a for name, a in zip(table.schema.names, arrays, strict=True)]
    return pa.Table.from_arrays(arrays, names=table.schema.names)


def owned_rows(table: pa.Table, spec: SubtaskSpec) -> pa.Table:
    """Return this subtask's rows of a `pyarrow.Table` (with `_hash`) of many subtasks, in their order."""
    return rows_between(table, *spec.hashes())


def rows_between(table: pa.Table, low: int, high: int) -> pa.Table:
    """Return the rows of a `pyarrow.Table` (with `_hash`) whose unsigned hash is in this range, in their order."""
    hashes = hashes_of_column(table.column(HASH))
    return table.filter(booleans((hashes >= low) & (hashes <= high)))


def latest_rows(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the row of each key that arrived last in a `pyarrow.Table` (with `_hash`)."""
    hashes = hashes_of_column(table.column(HASH))
    order = sorted_order(hashes)
    columns = [canonical_key(plain(name, table.column(name))) for name in keys]
    starts, order = key_starts(order, hashes[order], pa.Table.from_arrays(columns, names=list(keys)))
    last = np.append(starts[1:], len(order)) - 1
    return table.take(integers(np.sort(order[last])))


def by_owner(table: pa.Table, specs: Mapping[int, SubtaskSpec], likely: int) -> list[tuple[SubtaskSpec, pa.Table]]:
    """Return the rows of each subtask of `specs`. If all rows belong to the `likely` one, the others are not
    searched."""
    hashes = hashes_of_column(table.column(HASH))
    if likely in specs:
        low, high = specs[likely].hashes()
        if low <= int(hashes.min()) and int(hashes.max()) <= high:
            return [(specs[likely], table)]
    owned = [(spec, owned_rows(table, spec)) for spec in specs.values()]
    return [(spec, own) for spec, own in owned if own.num_rows]


def arrange(table: pa.Table, spec: SubtaskSpec) -> Arrivals:
    """Sort and group rows. Raise `CheckpointDeclinedError` if some belong to another subtask."""
    unsorted = hashes_of_column(table.column(HASH))
    order = sorted_order(unsorted)
    hashes = unsorted[order]
    require_owned(table, int(hashes[0]), int(hashes[-1]), spec)
    starts, order = key_starts(order, hashes, table.select(spec.layout.key_names))
    return Arrivals(table, order, hashes, Groups(starts, len(order)))


def require_owned(table: pa.Table, first: int, last: int, spec: SubtaskSpec) -> None:
    """Raise `CheckpointDeclinedError` if hashes from `first` to `last` are not all of this subtask."""
    low, high = spec.hashes()
    if table.column(HASH).null_count or first < low or last > high:
        raise CheckpointDeclinedError(
            f"Rows of other key groups than {spec.key_groups.first} to {spec.key_groups.last} reached {spec.where()}: "
            "they were partitioned by something other than the key's hash. Nothing was written, because those rows "
            "would never be found again. This is a defect; please report it."
        )


def key_starts(order: Ints, hashes: Hashes, keys: pa.Table) -> tuple[Ints, Ints]:
    """Return the start of each key's rows, and the order. The order changes where keys that share a hash are mixed."""
    columns = [one_chunk(keys.column(name)) for name in keys.schema.names]
    first = np.ones(len(order), np.bool_)
    repeated = np.flatnonzero(hashes[1:] == hashes[:-1]) + 1
    if len(repeated):
        here, before = integers(order[repeated]), integers(order[repeated - 1])
        same = same_rows([c.take(here) for c in columns], [c.take(before) for c in columns], len(repeated))
        first[repeated] = False
        mixed = np.flatnonzero(np.isin(hashes, hashes[repeated[~same]]))
        classes = key_classes(columns, order[mixed])
        by_key = np.lexsort((classes, hashes[mixed]))
        order[mixed] = order[mixed][by_key]
        changes = (np.diff(classes[by_key]) != 0) | (hashes[mixed][1:] != hashes[mixed][:-1])
        first[mixed[1:]] = changes
    return np.flatnonzero(first), order
