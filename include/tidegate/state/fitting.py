"""Conversion of a run's rows to the layout of their reader. State is never rewritten for a change of the definition.

Columns are found by their ids, cast if they were widened, and filled in if they are newer than the run. Only the
columns that a reader takes are converted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.protocol.schema.state_schema import StateColumn, can_widen
from tidegate.state.columns import from_fixed, integers
from tidegate.state.layout import StateLayout
from tidegate.state.values import value_array


@dataclass(frozen=True, slots=True)
class Fit:
    """The conversion of each column of a reader: its name in the run, its type, and its default."""

    columns: dict[str, tuple[str | None, pa.DataType, Any]]

    def stored_names(self, names: Sequence[str]) -> list[str]:
        """Return the columns of the run that some of the reader's columns need."""
        stored = (self.columns[name][0] if name in self.columns else name for name in names)
        return [name for name in stored if name is not None]

    def applied(self, rows: pa.RecordBatch, names: Sequence[str], length: int) -> pa.RecordBatch:
        """Return some of the reader's columns, given the columns of the run that they need. `length` is the number of
        rows, because a `pyarrow.RecordBatch` without columns has none."""
        return pa.RecordBatch.from_arrays([self._column(rows, name, length) for name in names], list(names))

    def _column(self, rows: pa.RecordBatch, name: str, length: int) -> pa.Array:
        if name not in self.columns:  # the hash or the tombstones
            return rows.column(name)
        stored, kind, default = self.columns[name]
        if stored is not None:
            column = rows.column(stored)
            return column if column.type == kind else column.cast(kind)
        if default is None:
            return pa.nulls(length, kind)
        if kind == pa.int64():  # counts: values of any other type cost a fresh worker the import of pandas
            return integers(np.full(length, default, np.int64))
        if pa.types.is_timestamp(kind) and isinstance(default, int):  # when a row was last changed
            return from_fixed(kind, np.full(length, default, np.int64))
        return pa.repeat(value_array(kind, default)[0], length)


def fit_of(stored: StateLayout, wanted: StateLayout) -> Fit:
    """Return how rows of `stored` become rows of `wanted`, which succeeds it."""
    before, after = stored.schema, wanted.schema
    names = {column.id: column.name for column in (*before.keys, *(before.values or ()))}
    types = {column.name: column.type for column in (*wanted.keys, *wanted.values)}
    columns = (*after.keys, *(after.values or ()))
    return Fit({column.name: (names.get(column.id), types[column.name], column.default) for column in columns})


def misfits(stored: StateLayout, wanted: StateLayout) -> list[str]:
    """Return the reasons why rows of `stored` cannot become rows of `wanted`, a phrase each. Only a newer version can
    succeed it."""
    if stored.version >= wanted.version:
        return wanted.differences(stored)
    before, after = stored.schema, wanted.schema
    old = {column.id: column for column in (*before.keys, *(before.values or ()))}
    problems = []
    if [column.id for column in before.keys] != [column.id for column in after.keys]:
        problems.append(f"the key is stored as ({_listed(before.keys)}) and now defined as ({_listed(after.keys)})")
    for column in (*after.keys, *(after.values or ())):
        former = old.get(column.id)
        if former is not None and not can_widen(str(former.type), str(column.type)):
            problems.append(f"column {column.name!r} is stored as {former.type}, now {column.type}")
    return problems


def _listed(columns: Sequence[StateColumn]) -> str:
    return ", ".join(map(str, columns))
