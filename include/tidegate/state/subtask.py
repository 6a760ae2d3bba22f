"""The operations of a subtask on its keyed state: aggregate, look up, upsert, scan.

Each is one call inside a Spark task. It takes rows and returns changes, which are then written as at most one new run.
The coordinator decides what a checkpoint does with the handle. The format of a run is in
docs/reference/state-format.md.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.pipeline.aggregates import Aggregate
from tidegate.protocol.facts.errors import CheckpointDeclinedError, PipelineDefinitionError, StateSchemaError
from tidegate.protocol.facts.records import StateHandle
from tidegate.state.accumulators import Stored, SumOverflowError, accumulate, finished
from tidegate.state.arrivals import Arrivals, Groups, arrange, gather
from tidegate.state.columns import Bools, Hashes, booleans, flags, from_fixed, integers, no_rows, one_chunk, valid
from tidegate.state.layout import DELETE, StateLayout
from tidegate.state.lookup import Found, find_rows
from tidegate.state.opening import RunPart, new_parts, remember
from tidegate.state.runs import run_schema, writing_run
from tidegate.state.showing import key_text
from tidegate.state.slices import merged_slices
from tidegate.state.spec import SubtaskSpec
from tidegate.state.value_lists import TooManyValuesError

__all__ = ["Changed", "SubtaskSpec", "aggregate", "lookup", "scan", "upsert"]


@dataclass(frozen=True, slots=True)
class Changed:
    """The changes of one call. Nothing is written yet: that is the asynchronous part of a snapshot.

    `rows` is a `pyarrow.Table` of the visible rows of changed keys (`layout.rows`), without deleted ones. `deleted` are
    the keys that existed and were deleted (`layout.key_schema`). `run` holds the rows that the state gets, in the
    columns of a run. `sync_ms` is the time from the last input row to the finished rows, in milliseconds.
    """

    spec: SubtaskSpec
    rows: pa.Table
    deleted: pa.Table
    run: pa.Table
    rows_in: int
    sync_ms: int
    rows_late: int | None = None  # rows that no window took, if there are windows
    late: pa.Table | None = None  # these rows, if sessions return them

    def write(self) -> StateHandle | None:
        """Write the run at the spec's prefix and make it durable; None if there is nothing to write. Raise
        `StorageError` if that fails; then no file is left of it."""
        if not self.run.num_rows:
            return None
        with writing_run(self.spec, self.run.schema) as writer:
            writer.write(self.run)
        remember(self.spec, writer.handle, self.run)
        return writer.handle

    def current(self) -> Iterator[pa.RecordBatch]:
        """Return all rows that `scan` finds once this is written, whether it is or not."""
        return _scanned(self.spec, new_parts(self.spec, self.run))


def aggregate(batches: Iterable[pa.RecordBatch], spec: SubtaskSpec) -> Changed:
    """Merge input rows into declared aggregates. Batches: `_hash` (bigint), key columns, the aggregates' inputs.

    Raise `CheckpointDeclinedError` on a sum that does not fit its type, on more values than a key may have, and on rows
    of other subtasks. Raise `StateSchemaError`, `StateIntegrityError` and `StorageError` as reading and writing do.
    """
    layout = spec.layout
    inputs = dict.fromkeys(name for _, declared in layout.aggregates for name in declared.columns())
    names = [*layout.key_names, *(name for name in inputs if name not in layout.key_names)]
    table = gather(batches, names, spec)
    began = time.perf_counter()
    if table is None:
        return unchanged(spec)
    check_inputs(table, spec)
    arrivals = arrange(table, spec)
    keys = arrivals.first_rows(layout.key_names)
    hashes = arrivals.group_hashes()
    found = find_rows(spec, hashes, keys, [column.name for column in layout.declared_values])
    columns = {name: arrivals.sorted_column(name) for name in inputs}
    values = accumulated(columns, arrivals.groups, keys, found, spec)
    stored = _table([*keys.columns, *values, *_updated(len(keys), spec)], layout.stored)
    rows = visible_rows(stored, layout)
    return changed(spec, hashes, stored, None, rows, table.num_rows, began)


def lookup(batches: Iterable[pa.RecordBatch], spec: SubtaskSpec) -> pa.Table:
    """Return the current visible rows of the keys in the batches (`_hash`, key columns), each key once: a
    `pyarrow.Table`."""
    layout = spec.layout
    table = gather(batches, layout.key_names, spec)
    if table is None:
        return no_rows(layout.rows)
    _check_types(table, layout.key_schema, spec)
    arrivals = arrange(table, spec)
    keys = arrivals.first_rows(layout.key_names)
    found = find_rows(spec, arrivals.group_hashes(), keys, layout.stored.names)
    return visible_rows(found.rows, layout)


def upsert(batches: Iterable[pa.RecordBatch], spec: SubtaskSpec) -> Changed:
    """Replace rows. Batches: `_hash`, the layout's declared columns, and perhaps a boolean `_delete`, whose true rows
    delete.

    Raise `CheckpointDeclinedError` on two rows of one key, and otherwise as `aggregate` does.
    """
    layout = spec.layout
    kept = [batch for batch in batches if batch.num_rows]
    deletes = [DELETE] if kept and DELETE in kept[0].schema.names else []
    table = gather(kept, [*layout.declared.names, *deletes], spec)
    began = time.perf_counter()
    if table is None:
        return unchanged(spec)
    _check_types(table, layout.declared, spec)
    arrivals = arrange(table, spec)
    _check_single(arrivals, spec)
    rows, hashes = arrivals.first_rows(layout.declared.names), arrivals.hashes
    stored = _table([*rows.columns, *_updated(len(rows), spec)], layout.stored)
    if not deletes:
        return changed(spec, hashes, stored, None, rows, table.num_rows, began)
    doomed = _true(arrivals.sorted_column(DELETE))
    kept_rows, gone = _existing(stored, hashes, doomed, spec)
    return changed(
        spec, hashes[kept_rows], stored.filter(booleans(kept_rows)), gone[kept_rows],
        rows.filter(booleans(~doomed)), table.num_rows, began,
    )  # fmt: skip


def scan(spec: SubtaskSpec) -> Iterator[pa.RecordBatch]:
    """Yield all current visible rows of the subtask's key groups, as `pyarrow.RecordBatch`es of bounded size."""
    return _scanned(spec)


def _scanned(spec: SubtaskSpec, newest: Sequence[RunPart] = ()) -> Iterator[pa.RecordBatch]:
    for table in merged_slices(spec, spec.runs, spec.layout.stored, keep_tombstones=False, newest=newest):
        yield from visible_rows(table, spec.layout).combine_chunks().to_batches()


def visible_rows(stored: pa.Table, layout: StateLayout) -> pa.Table:
    """Return a `pyarrow.Table` of `layout.rows` from one of `layout.stored`."""
    if not layout.aggregates:
        return stored.select(layout.rows.names).cast(layout.rows)
    columns = [stored.column(name) for name in layout.key_names]
    for name, declared in layout.aggregates:
        columns.append(finished(declared, [stored.column(part) for part in layout.accumulators_of(name)]))
    return _table(columns, layout.rows)


def accumulated(
    columns: Mapping[str, pa.Array], groups: Groups, keys: pa.Table, found: Found, spec: SubtaskSpec
) -> list[pa.Array]:
    """Return every accumulator column of the layout, one row per group. They include new rows, whose input `columns`
    are sorted by group, and the rows `found` in state. `keys` are the groups' keys. Raise `CheckpointDeclinedError` if
    a sum or list outgrows its bounds."""
    layout = spec.layout
    result: dict[str, pa.Array] = {}
    for name, declared in layout.aggregates:
        parts = layout.accumulators_of(name)
        stored = Stored(found.positions, [one_chunk(found.rows.column(part)) for part in parts])
        types = [layout.stored.field(part).type for part in parts]
        taken = [columns[column] for column in declared.columns()]
        try:
            merged = accumulate(declared, types, taken, groups, stored)
        except (SumOverflowError, TooManyValuesError) as error:
            raise outgrown(error, name, declared, types[0], key_text(keys, error.group), spec) from error
        result |= dict(zip(parts, merged, strict=True))
    return [result[column.name] for column in layout.declared_values]


def outgrown(
    error: SumOverflowError | TooManyValuesError,
    name: str,
    declared: Aggregate,
    kind: pa.DataType,
    key: str,
    spec: SubtaskSpec,
) -> CheckpointDeclinedError:
    """Return the error for an aggregate that cannot take the rows of a key."""
    if isinstance(error, SumOverflowError):
        return CheckpointDeclinedError(
            f"Aggregate {name!r} of {spec.where()}, no longer fits {kind} for the key {key}. Nothing was written and "
            "the previous checkpoint stands. Sum a wider type (cast the column to decimal or double) under a new "
            "aggregate and operator name."
        )
    return CheckpointDeclinedError(
        f"Aggregate {name!r} of {spec.where()}, has {error.values} values for the key {key}, and may have "
        f"{declared.option('limit')}. Nothing was written and the previous checkpoint stands. Raise its limit, which "
        "keeps the state: a row of state holds all these values. Or count approximately, under a new aggregate name."
    )


def _updated(length: int, spec: SubtaskSpec) -> list[pa.Array]:
    """Return the column with the time of change of these rows, if the layout has it."""
    if not spec.layout.keeps_updated:
        return []
    return [from_fixed(spec.layout.values[-1].type, np.full(length, spec.at, np.int64))]


def _existing(stored: pa.Table, hashes: Hashes, doomed: Bools, spec: SubtaskSpec) -> tuple[Bools, Bools]:
    """Return which rows to write, and which rows delete a key that exists. Other deletions need no tombstone."""
    keys = stored.select(spec.layout.key_names).filter(booleans(doomed))
    found = find_rows(spec, hashes[doomed], keys, [])
    gone = np.zeros(len(doomed), np.bool_)
    gone[np.flatnonzero(doomed)[found.positions]] = True
    return ~doomed | gone, gone


def changed(
    spec: SubtaskSpec,
    hashes: Hashes,
    stored: pa.Table,
    gone: Bools | None,
    rows: pa.Table,
    rows_in: int,
    began: float,
) -> Changed:
    """Return the changes in which state gets `stored`, and `gone` marks the tombstones. `rows` are the new rows of the
    remaining keys."""
    layout = spec.layout
    columns, deleted = [integers(hashes), *stored.columns], no_rows(layout.key_schema)
    tombstones = gone is not None and bool(gone.any())
    if gone is not None and tombstones:
        columns.append(booleans(gone))
        deleted = stored.select(layout.key_names).filter(booleans(gone))
    run = _table(columns, run_schema(layout, tombstones))
    visible = rows.cast(layout.rows)
    sync_ms = round((time.perf_counter() - began) * 1000)
    return Changed(spec, visible, deleted, run, rows_in, sync_ms)


def _true(column: pa.Array) -> Bools:
    is_valid = valid(column)
    return flags(column) if is_valid is None else flags(column) & is_valid


def unchanged(spec: SubtaskSpec) -> Changed:
    """Return the result for no rows."""
    layout = spec.layout
    run = no_rows(run_schema(layout, tombstones=False))
    return Changed(spec, no_rows(layout.rows), no_rows(layout.key_schema), run, 0, 0)


def check_inputs(table: pa.Table, spec: SubtaskSpec) -> None:
    """Raise `StateSchemaError` if the rows of a declared aggregate do not have the types that it was defined with."""
    layout = spec.layout
    try:
        now = StateLayout.of_aggregates(table.schema, layout.key_names, layout.aggregates).living(layout.ttl)
    except PipelineDefinitionError as error:
        raise StateSchemaError(f"The rows that reached {spec.where()}, cannot be aggregated: {error}") from error
    if problems := now.differences(layout):
        raise StateSchemaError(
            f"The rows that reached {spec.where()}, do not have the types it was defined with: {'; '.join(problems)}. "
            "Nothing was written."
        )


def _check_types(table: pa.Table, schema: pa.Schema, spec: SubtaskSpec) -> None:
    wrong = [
        f"column {field.name!r} is {table.schema.field(field.name).type} and should be {field.type}"
        for field in schema
        if table.schema.field(field.name).type != field.type
    ]
    if wrong:
        raise StateSchemaError(
            f"The rows that reached {spec.where()}, do not fit its state: {'; '.join(wrong)}. Nothing was written. "
            "Cast them to the declared types."
        )


def _check_single(arrivals: Arrivals, spec: SubtaskSpec) -> None:
    if arrivals.groups.single:
        return
    group = int(np.argmax(arrivals.groups.sizes))
    keys = arrivals.first_rows(spec.layout.key_names)
    raise CheckpointDeclinedError(
        f"The update function of {spec.where()}, returned {arrivals.groups.sizes[group]} rows for the key "
        f"{key_text(keys, group)}; it may return at most one row per key. Nothing was written and the previous "
        "checkpoint stands. Aggregate or deduplicate in the function."
    )


def _table(columns: Sequence[pa.Array | pa.ChunkedArray], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_arrays([*columns], schema=schema)
