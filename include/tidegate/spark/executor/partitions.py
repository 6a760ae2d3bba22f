"""The code inside a Spark task: one subtask's program on its rows, and the staging of the sinks that follow it.

`pyarrow.RecordBatch`es in, reports or rows out: this is passed to `mapInArrow`. Some plans are `numbered` instead. A
Spark task that is repeated or run twice writes under new names each time. Only the files that its result names count.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from uuid import uuid4

import pyarrow as pa

from tidegate.dataflow.reports import ROWS_LATE, Report
from tidegate.dataflow.staging import Staging
from tidegate.protocol.facts.records import HandleKind, StateHandle
from tidegate.spark.executor.carried_errors import carried_to_driver
from tidegate.spark.executor.exchange import read_exchange, write_exchange
from tidegate.spark.executor.given_keys import returned_rows
from tidegate.spark.executor.memory import give_back
from tidegate.spark.executor.report_rows import encode_reports
from tidegate.spark.executor.staging import in_pieces, stage_piece, stage_rows, stage_state, stage_upserts
from tidegate.spark.executor.task import milliseconds_since, not_empty, partition_id, places
from tidegate.state.arrivals import by_owner, owned_rows
from tidegate.state.compaction import compact
from tidegate.state.sessions import take_in_sessions
from tidegate.state.spec import SubtaskSpec
from tidegate.state.subtask import Changed, aggregate, lookup, scan, upsert
from tidegate.state.windows import take_in

Program = Callable[[Iterable[pa.RecordBatch], SubtaskSpec], Changed]

#: The column that orders several rows of a key by arrival.
PLACE = "_place"

#: The number of subtasks that one Spark task runs in parallel, if it has the rows of all.
_SIDE_BY_SIDE = 4
#: The number of files that a subtask writes at once: one would wait for the disk, more would compete for the
#: interpreter.
_WRITES = 2


@dataclass(frozen=True, slots=True)
class KeyedPlan:
    """A keyed operator's part of a checkpoint: the state to read and the prefix to write under, by subtask.

    If `together`, a single Spark task has the rows of all subtasks; otherwise Spark partition i has those of subtask i.
    If it `emits`, a `RowsPlan` writes the rows that leave the operator. `followed_by` runs on the state after the
    changes. `late` sends on the rows that no session took.
    """

    program: str
    operator_id: str
    specs: Mapping[int, SubtaskSpec]
    stagings: tuple[Staging, ...]
    exchange: bool
    together: bool
    emits: bool
    checks_keys: bool = False  # see `given_keys`
    followed_by: Callable[[int, SubtaskSpec, StateHandle | None], list[Report]] | None = None
    late: "RowsPlan | None" = None

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Update the state of the partition's subtasks. A subtask without rows or without a spec reports nothing."""
        rows = not_empty(batches)
        if rows is None:
            return
        owned = self._by_subtask(rows)
        if self.checks_keys:
            with carried_to_driver():
                checked = [(index, returned_rows(own, self.specs[index])) for index, own in owned]
            owned = [(index, own) for index, own in checked if own]
        yield from self.updated(owned)

    def updated(self, owned: Sequence[tuple[int, Iterable[pa.RecordBatch]]]) -> Iterator[pa.RecordBatch]:
        """Yield the reports of subtasks, each with its rows."""
        if len(owned) == 1:
            yield self._report(*owned[0])
        elif owned:  # in parallel: each waits for the disk, and for Arrow, which needs no interpreter
            with ThreadPoolExecutor(min(len(owned), _SIDE_BY_SIDE)) as pool:
                yield from pool.map(lambda subtask: self._report(*subtask), owned)
        give_back()

    def _by_subtask(self, rows: Iterator[pa.RecordBatch]) -> list[tuple[int, Iterable[pa.RecordBatch]]]:
        if not self.together:
            index = partition_id()
            return [(index, rows)] if index in self.specs else []
        table = pa.Table.from_batches(rows)
        owned = ((index, owned_rows(table, spec)) for index, spec in self.specs.items())
        return [(index, own.to_batches()) for index, own in owned if own.num_rows]

    def _report(self, index: int, rows: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
        with carried_to_driver():
            return encode_reports(index, self._reports(index, rows))

    def _reports(self, index: int, rows: Iterable[pa.RecordBatch]) -> list[Report]:
        unique = uuid4().hex
        spec = replace(self.specs[index], prefix=f"{self.specs[index].prefix}-{unique}")
        changed = PROGRAMS[self.program](rows, spec)
        due = [s for s in self.stagings if not s.upserts and (changed.run.num_rows or not s.current)]
        writes = [partial(self._written, index, changed)]
        writes += [partial(self._staged, staging, index, unique, changed) for staging in due]
        own, *staged = _concurrently(writes)
        runs = tuple(handle for handle in own.handles if handle.kind is HandleKind.RUN)
        after = replace(spec, runs=(*spec.runs, *runs))
        staged += [stage_upserts(staging, index, after, unique) for staging in self.stagings if staging.upserts]
        if self.late is not None and changed.late is not None and changed.late.num_rows:
            staged += self.late.reports(index, changed.late.to_batches())
        if self.followed_by is not None:
            staged += self.followed_by(index, after, next(iter(runs), None))
        return [own, *staged]

    def _written(self, index: int, changed: Changed) -> Report:
        started, spec = perf_counter(), changed.spec
        handle = changed.write()
        handles = [] if handle is None else [handle]
        if self.exchange and changed.rows.num_rows:
            path = f"{spec.prefix}-exchange.parquet"
            handles.append(write_exchange(changed.rows, spec.storage_url, path, spec.checkpoint_id))
        return Report(
            self.operator_id,
            index,
            tuple(handles),
            {
                "sync_duration": changed.sync_ms,
                "async_duration": milliseconds_since(started),
                "rows_in": changed.rows_in,
                "rows_out": 0 if self.emits else changed.rows.num_rows,
                **({} if changed.rows_late is None else {ROWS_LATE: changed.rows_late}),
            },
        )

    def _staged(self, staging: Staging, index: int, unique: str, changed: Changed) -> Report:
        spec = changed.spec
        if staging.current:
            return stage_state(staging, index, spec, changed.current(), unique)
        batches = changed.rows.to_batches() if changed.rows.num_rows else []
        return stage_rows(staging, index, batches, spec.checkpoint_id, unique)


@dataclass(frozen=True, slots=True)
class RowsPlan:
    """The rows of a step, or the emitted rows of an operator. Each Spark partition's rows are written unchanged, as
    those of one subtask, and staged for the sinks that take them unchanged. `details` are recorded with each file sent
    on."""

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
        for number, table in enumerate(in_pieces(rows)):
            count += table.num_rows
            name = f"{unique}-{number}"
            if self.exchange:
                path = f"{self.prefixes[index]}-{name}-exchange.parquet"
                sent.append(write_exchange(table, self.storage_url, path, self.checkpoint_id, self.details))
            for staging in self.stagings:
                written[staging.operator_id] += stage_piece(staging, index, table, self.checkpoint_id, name)
        metrics = {
            "sync_duration": 0,
            "async_duration": milliseconds_since(started),
            "rows_in": count,
            "rows_out": count,
        }
        own = metrics | {"rows_in": 0} if self.emitted else metrics
        sinks = (Report(operator_id, index, tuple(files), metrics) for operator_id, files in written.items())
        return [Report(self.operator_id, index, tuple(sent), own), *sinks]


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
            for found in pool.map(lambda pair: lookup(pair[1].to_batches(), pair[0]), owned):
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
    """Number i in, the run merged for `merges[i]` out."""

    merges: tuple[Merge, ...]

    def run(self, numbers: Iterable[int]) -> Iterator[pa.RecordBatch]:
        for place in numbers:
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


def _concurrently(writes: Sequence[Callable[[], Report]]) -> list[Report]:
    if len(writes) == 1:
        return [writes[0]()]
    with ThreadPoolExecutor(_WRITES) as pool:
        return list(pool.map(lambda write: write(), writes))


PROGRAMS: dict[str, Program] = {
    "aggregate": aggregate,
    "upsert": upsert,
    "windows": take_in,
    "sessions": take_in_sessions,
}


def _with_place(batch: pa.RecordBatch, place: int) -> pa.RecordBatch:
    return batch.append_column(PLACE, pa.repeat(pa.scalar(place, pa.int64()), batch.num_rows))
