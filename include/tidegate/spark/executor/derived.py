"""The code inside a Spark task for a sink that shows state with derived columns: it reads the rows of state in front of
the transforms, and stages the rows behind them.

Both run in the Spark partition of one subtask. In between is Spark SQL, which leaves each row in its partition.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.dataflow.reports import Report
from tidegate.dataflow.staging import Had, Staging
from tidegate.protocol.facts.records import StateHandle
from tidegate.protocol.steps.sink_marks import WHOLE
from tidegate.spark.executor.carried_errors import carried_to_driver
from tidegate.spark.executor.report_rows import encode_reports
from tidegate.spark.executor.staging import (
    changes_since,
    in_pieces,
    marked,
    or_none,
    report_of,
    stage_gone,
    stage_piece,
    stage_rows,
    stage_state,
)
from tidegate.spark.executor.task import partition_id, places
from tidegate.state.changes import CHANGE, UPSERT
from tidegate.state.spec import SubtaskSpec
from tidegate.state.subtask import scan

_KEPT = "_kept"


@dataclass(frozen=True, slots=True)
class ShownRowsPlan:
    """Number i in, the rows of state of `indexes[i]` for a sink out: those that differ from the state that it `had`, or
    all if it has none."""

    indexes: tuple[int, ...]
    specs: Mapping[int, SubtaskSpec]
    had: Mapping[int, Had]

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place in places(batches):
            index = self.indexes[place]
            with carried_to_driver():
                yield from _shown(self.specs[index], self.had.get(index))


@dataclass(frozen=True, slots=True)
class DerivedPlan:
    """The rows of `indexes[i]` with their derived `columns` in, as Spark partition i; their report out. `keys` maps the
    columns of the state's key to their present names."""

    indexes: tuple[int, ...]
    specs: Mapping[int, SubtaskSpec]
    staging: Staging
    columns: pa.Schema
    keys: Mapping[str, str]

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self.staged(self.indexes[partition_id()], batches)

    def staged(self, index: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (_fitted(batch, self.columns) for batch in batches if batch.num_rows)
        with carried_to_driver():
            report = self._report(index, self.specs[index], rows, uuid4().hex)
        yield encode_reports(index, [report])

    def _report(self, index: int, spec: SubtaskSpec, rows: Iterator[pa.RecordBatch], unique: str) -> Report:
        staging = self.staging
        if not staging.upserts:
            return stage_state(staging, index, spec, rows, unique, self.columns)
        if staging.had:
            keys = partial(_changed_keys, spec, staging.had[index])
            return marked(self._changes(index, spec, rows, unique, keys), spec)
        all_rows = or_none(rows, self.columns)
        if (base := staging.base.get(index)) is not None:
            keys = partial(_all_keys, spec, base)
            return marked(self._changes(index, spec, all_rows, unique, keys, {WHOLE: True}), spec)
        return marked(stage_rows(staging, index, all_rows, spec.checkpoint_id, unique, {WHOLE: True}), spec)

    def _changes(
        self,
        index: int,
        spec: SubtaskSpec,
        rows: Iterable[pa.RecordBatch],
        unique: str,
        keys_before: Callable[[], list[pa.Table]],
        marks: Mapping[str, Any] | None = None,
    ) -> Report:
        """Stage rows, and deletions of keys that have none: their row was deleted, or left out by the transforms."""
        started, handles, kept = perf_counter(), list[StateHandle](), list[pa.Table]()
        for number, table in enumerate(in_pieces(rows)):
            handles += stage_piece(self.staging, index, table, spec.checkpoint_id, f"{unique}-{number}", marks)
            keys = table.select(list(self.keys.values())).rename_columns(list(self.keys))
            kept.append(keys.cast(spec.layout.key_schema))
        gone = _without(keys_before(), kept)
        if gone.num_rows:
            keys = pa.Table.from_arrays([*map(self._column_of(gone), self.columns)], schema=self.columns)
            handles += stage_gone(self.staging, index, keys, spec.checkpoint_id, f"{unique}-gone")
        return report_of(self.staging, index, handles, sum(handle.rows for handle in handles), started)

    def _column_of(self, gone: pa.Table) -> "_ColumnOf":
        return _ColumnOf(gone, {name: key for key, name in self.keys.items()})


@dataclass(frozen=True, slots=True)
class NoRowsPlan:
    """The plan for subtasks without rows: Spark runs no task for a plan that it knows to be empty."""

    derived: DerivedPlan

    def run(self, numbers: Iterable[int]) -> Iterator[pa.RecordBatch]:
        for place in numbers:
            yield from self.derived.staged(self.derived.indexes[place], iter(()))


@dataclass(frozen=True, slots=True)
class _ColumnOf:
    """Return a sink's column for deleted keys: null if it is not of the key."""

    gone: pa.Table
    keys: Mapping[str, str]

    def __call__(self, field: pa.Field) -> pa.Array | pa.ChunkedArray:
        if field.name not in self.keys:
            return pa.nulls(self.gone.num_rows, field.type)
        return self.gone.column(self.keys[field.name]).cast(field.type)


def _shown(spec: SubtaskSpec, had: Had | None) -> Iterator[pa.RecordBatch]:
    if had is None:
        yield from scan(spec)
        return
    for changed in changes_since(spec, had):
        rows = changed.filter(pc.equal(changed.column(CHANGE), UPSERT)).drop_columns([CHANGE])
        yield from rows.combine_chunks().to_batches()


def _changed_keys(spec: SubtaskSpec, had: Had) -> list[pa.Table]:
    return [changed.select(spec.layout.key_names).cast(spec.layout.key_schema) for changed in changes_since(spec, had)]


def _all_keys(spec: SubtaskSpec, base: Had) -> list[pa.Table]:
    """Return the keys of a state, without the rest of its rows."""
    names, before = spec.layout.key_names, replace(spec, runs=base.runs, horizon=base.horizon)
    return [pa.Table.from_batches([batch.select(names)]).cast(spec.layout.key_schema) for batch in scan(before)]


def _without(keys: list[pa.Table], kept: list[pa.Table]) -> pa.Table:
    """Return the keys that were not kept. Null is a key like any other."""
    flagged = [_flagged(part, False) for part in keys] + [_flagged(part, True) for part in kept]
    if not flagged:
        return pa.table({})
    together = pa.concat_tables(flagged)
    names = [name for name in together.column_names if name != _KEPT]
    grouped = together.group_by(names, use_threads=False).aggregate([(_KEPT, "max")])
    return grouped.filter(pc.invert(grouped.column(f"{_KEPT}_max"))).select(names)


def _flagged(keys: pa.Table, kept: bool) -> pa.Table:
    return keys.append_column(_KEPT, pa.repeat(pa.scalar(kept), keys.num_rows))


def _fitted(batch: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """Return a batch without the metadata of Spark's columns."""
    return batch.cast(columns)
