"""What runs inside a Spark task: one subtask's program on its rows, and the staging of the sinks that follow it.

Everything here is passed to `mapInArrow`: `pyarrow.RecordBatch`es in, reports or rows out. A Spark task that is
repeated or run twice writes under new names each time. Only the files that its answer names count.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from time import perf_counter
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext

from tidegate.dataflow.reports import ROWS_LATE, Report
from tidegate.dataflow.staging import Staging
from tidegate.ports import StageContext
from tidegate.protocol.expiry import HORIZON
from tidegate.protocol.records import StateHandle
from tidegate.spark.executor.carried_errors import carried_to_driver
from tidegate.spark.executor.exchange import read_exchange, write_exchange
from tidegate.spark.executor.report_rows import encode_reports
from tidegate.state.arrivals import by_owner, owned_rows
from tidegate.state.compaction import compact
from tidegate.state.spec import SubtaskSpec
from tidegate.state.subtask import Changed, aggregate, lookup, scan, upsert
from tidegate.state.windows import take_in

Program = Callable[[Iterable[pa.RecordBatch], SubtaskSpec], Changed]

#: A sink gets its rows in pieces of about this many bytes, so that memory does not grow with the output.
_PIECE = 128 << 20

#: The column that says which of several rows of a key came last.
PLACE = "_place"

#: Subtasks that one Spark task runs in parallel, if it has the rows of all.
_SIDE_BY_SIDE = 4


@dataclass(frozen=True, slots=True)
class KeyedPlan:
    """A keyed operator's part of a checkpoint: by subtask, what to read and under which prefix to write.

    `together`: a single Spark task has the rows of all subtasks; else Spark partition i has those of subtask i. If it
    `emits`, what leaves the operator is a `RowsPlan`'s. What it is `followed_by` sees the state as it is then.
    """

    program: str
    operator_id: str
    specs: Mapping[int, SubtaskSpec]
    stagings: tuple[Staging, ...]
    exchange: bool
    together: bool
    emits: bool
    followed_by: Callable[[int, SubtaskSpec], list[Report]] | None = None

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Update the state of the partition's subtasks. A subtask without rows or without a spec reports nothing."""
        rows = not_empty(batches)
        if rows is None:
            return
        yield from self.updated(self._by_subtask(rows))

    def updated(self, owned: Sequence[tuple[int, Iterable[pa.RecordBatch]]]) -> Iterator[pa.RecordBatch]:
        """The reports of subtasks, each with its rows."""
        if len(owned) == 1:
            yield self._report(*owned[0])
        elif owned:  # in parallel: each waits for the disk, and for Arrow, which needs no interpreter
            with ThreadPoolExecutor(min(len(owned), _SIDE_BY_SIDE)) as pool:
                yield from pool.map(lambda each: self._report(*each), owned)

    def _by_subtask(self, rows: Iterator[pa.RecordBatch]) -> list[tuple[int, Iterable[pa.RecordBatch]]]:
        if not self.together:
            index = partition_id()
            return [(index, rows)] if index in self.specs else []
        table = pa.Table.from_batches(rows)
        owned = ((index, owned_rows(table, spec)) for index, spec in self.specs.items())
        return [(index, own.to_batches()) for index, own in owned if own.num_rows]

    def _report(self, index: int, rows: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
        with carried_to_driver():
            return encode_reports(index, list(self._reports(index, rows)))

    def _reports(self, index: int, rows: Iterable[pa.RecordBatch]) -> Iterator[Report]:
        unique = uuid4().hex
        spec = replace(self.specs[index], prefix=f"{self.specs[index].prefix}-{unique}")
        changed = PROGRAMS[self.program](rows, spec)
        handles = [] if changed.handle is None else [changed.handle]
        started = perf_counter()
        if self.exchange and changed.rows.num_rows:
            path = f"{spec.prefix}-exchange.parquet"
            handles.append(write_exchange(changed.rows, spec.storage_url, path, spec.checkpoint_id))
        yield Report(
            self.operator_id,
            index,
            tuple(handles),
            {
                "sync_duration": changed.sync_ms,
                "async_duration": changed.async_ms + _since(started),
                "rows_in": changed.rows_in,
                "rows_out": 0 if self.emits else changed.rows.num_rows,
                **({} if changed.rows_late is None else {ROWS_LATE: changed.rows_late}),
            },
        )
        if self.followed_by is not None:
            yield from self.followed_by(index, replace(spec, runs=(*spec.runs, *handles)))
        for staging in self.stagings:
            if staging.current and changed.handle is not None:
                now = replace(spec, runs=(*spec.runs, changed.handle))
                yield _staged_state(staging, index, now, unique)
            elif not staging.current:
                batches = changed.rows.to_batches() if changed.rows.num_rows else []
                yield _staged(staging, index, batches, spec.checkpoint_id, unique)


@dataclass(frozen=True, slots=True)
class StagingPlan:
    """A sink that follows no operator directly: each Spark partition is one subtask's rows."""

    staging: Staging
    checkpoint_id: int

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        index = partition_id()
        rows = not_empty(batches)
        if rows is None:
            return
        with carried_to_driver():
            report = _staged(self.staging, index, rows, self.checkpoint_id, uuid4().hex)
        yield encode_reports(index, [report])


@dataclass(frozen=True, slots=True)
class RowsPlan:
    """The rows of a step, or those that an operator emits: each Spark partition's are written as they are, as those of
    one subtask, and staged for the sinks that take them as they are. `details` go with each file that is sent on."""

    operator_id: str
    storage_url: str
    prefixes: Mapping[int, str]
    details: Mapping[str, str]
    checkpoint_id: int
    exchange: bool = True
    stagings: tuple[Staging, ...] = ()
    emitted: bool = False

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        index = partition_id() % len(self.prefixes)  # the operator's own partitions may come first
        rows = not_empty(batches)
        if rows is None:
            return
        with carried_to_driver():
            reports = self.reports(index, rows)
        yield encode_reports(index, reports)

    def reports(self, index: int, rows: Iterable[pa.RecordBatch]) -> list[Report]:
        started, unique, count = perf_counter(), uuid4().hex, 0
        written: dict[str, list[StateHandle]] = {staging.operator_id: [] for staging in self.stagings}
        sent = []
        for number, table in enumerate(_pieces(rows)):
            count += table.num_rows
            name = f"{unique}-{number}"
            if self.exchange:
                path = f"{self.prefixes[index]}-{name}-exchange.parquet"
                sent.append(write_exchange(table, self.storage_url, path, self.checkpoint_id, self.details))
            for staging in self.stagings:
                written[staging.operator_id] += _stage(staging, index, table, self.checkpoint_id, name)
        metrics = {"sync_duration": 0, "async_duration": _since(started), "rows_in": count, "rows_out": count}
        own = metrics | {"rows_in": 0} if self.emitted else metrics
        sinks = (Report(operator_id, index, tuple(each), metrics) for operator_id, each in written.items())
        return [Report(self.operator_id, index, tuple(sent), own), *sinks]


@dataclass(frozen=True, slots=True)
class RestagingPlan:
    """A sink of current rows, for subtasks to which nothing came. Row i in, the report of `indexes[i]` out."""

    indexes: tuple[int, ...]
    specs: Mapping[int, SubtaskSpec]
    staging: Staging

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place in places(batches):
            index = self.indexes[place]
            with carried_to_driver():
                report = _staged_state(self.staging, index, self.specs[index], uuid4().hex)
            yield encode_reports(index, [report])


@dataclass(frozen=True, slots=True)
class LookupPlan:
    """Keys in, their rows of state out."""

    specs: Mapping[int, SubtaskSpec]

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = not_empty(batches)
        if rows is None:
            return
        with carried_to_driver(), ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            owned = by_owner(pa.Table.from_batches(rows), self.specs, partition_id())
            for found in pool.map(lambda each: lookup(each[1].to_batches(), each[0]), owned):
                yield from found.to_batches()


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """Row i in, all rows of state of `specs[i]` out."""

    specs: tuple[SubtaskSpec, ...]

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place in places(batches):
            with carried_to_driver():
                yield from scan(self.specs[place])


@dataclass(frozen=True, slots=True)
class Merge:
    """The runs of one subtask to merge."""

    index: int
    spec: SubtaskSpec
    chosen: tuple[StateHandle, ...]


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """Row i in, the run merged for `merges[i]` out."""

    merges: tuple[Merge, ...]

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place in places(batches):
            merge = self.merges[place]
            spec = replace(merge.spec, prefix=f"{merge.spec.prefix}-{uuid4().hex}")
            with carried_to_driver():
                handle = compact(spec, merge.chosen)
            yield encode_reports(merge.index, [Report(spec.operator, merge.index, (handle,), {})])


@dataclass(frozen=True, slots=True)
class ExchangePlan:
    """The rows from upstream. Row i in, those of `handles[i]` out, with `order[i]` as `PLACE` if given."""

    handles: tuple[StateHandle, ...]
    storage_url: str
    schema: pa.Schema
    order: tuple[int, ...] | None = None

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place in places(batches):
            with carried_to_driver():
                for batch in read_exchange(self.handles[place], self.storage_url, self.schema):
                    yield batch if self.order is None else _with_place(batch, self.order[place])


PROGRAMS: dict[str, Program] = {"aggregate": aggregate, "upsert": upsert, "windows": take_in}


def _staged_state(staging: Staging, index: int, spec: SubtaskSpec, unique: str) -> Report:
    """Stage all current rows; an empty state is staged too, so that the sink knows it is empty."""
    rows = not_empty(scan(spec)) or [pa.RecordBatch.from_pylist([], schema=spec.layout.rows)]
    marks: dict[str, Any] = {"layout": spec.layout.fingerprint}
    marks |= {} if spec.horizon is None else {HORIZON: spec.horizon}
    return _staged(staging, index, rows, spec.checkpoint_id, unique, marks)


def _staged(
    staging: Staging,
    index: int,
    batches: Iterable[pa.RecordBatch],
    checkpoint_id: int,
    unique: str,
    marks: Mapping[str, Any] | None = None,
) -> Report:
    started = perf_counter()
    handles: list[StateHandle] = []
    rows = 0
    for number, table in enumerate(_pieces(batches)):
        handles += _stage(staging, index, table, checkpoint_id, f"{unique}-{number}", marks)
        rows += table.num_rows
    metrics = {"sync_duration": 0, "async_duration": _since(started), "rows_in": rows, "rows_out": rows}
    return Report(staging.operator_id, index, tuple(handles), metrics)


def _stage(
    staging: Staging,
    index: int,
    table: pa.Table,
    checkpoint_id: int,
    unique: str,
    marks: Mapping[str, Any] | None = None,
) -> list[StateHandle]:
    context = StageContext(checkpoint_id, index, staging.attempts[index], unique)
    return [
        replace(handle, details={**handle.details, "sink": staging.identity, **(marks or {})})
        for handle in staging.writer.stage(table, context)
    ]


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= _PIECE:
            yield pa.Table.from_batches(held)
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held)


def not_empty(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch] | None:
    """The batches that have rows; None if there are none."""
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    return None if first is None else chain([first], filled)


def _with_place(batch: pa.RecordBatch, place: int) -> pa.RecordBatch:
    return batch.append_column(PLACE, pa.repeat(pa.scalar(place, pa.int64()), batch.num_rows))


def places(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    """The ids of a `range`. Not the number of the Spark partition, which changes where partitions are coalesced."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


def partition_id() -> int:
    context = TaskContext.get()
    assert context is not None
    return int(context.partitionId())


def _since(started: float) -> int:
    return round((perf_counter() - started) * 1000)
