"""The code inside a Spark task that stages rows for a sink: those that reached it, or all current rows of a state."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.dataflow.reports import Report
from tidegate.dataflow.staging import Had, Staging
from tidegate.ports import StageContext
from tidegate.protocol.facts.records import StateHandle
from tidegate.protocol.schema.expiry import HORIZON
from tidegate.protocol.steps.sink_marks import DELETES, WHOLE
from tidegate.spark.executor.carried_errors import carried_to_driver
from tidegate.spark.executor.report_rows import encode_reports
from tidegate.spark.executor.task import milliseconds_since, not_empty, partition_id
from tidegate.state.changes import CHANGE, DELETE, UPSERT, changed_rows, touched_keys
from tidegate.state.layout import DELETE as GONE
from tidegate.state.spec import SubtaskSpec
from tidegate.state.subtask import scan

#: The approximate size in bytes of the pieces that a sink receives, so that memory does not grow with the output.
_PIECE = 128 << 20


@dataclass(frozen=True, slots=True)
class StagingPlan:
    """A sink that does not follow an operator directly. Each Spark partition holds one subtask's rows."""

    staging: Staging
    checkpoint_id: int

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        index = partition_id()
        rows = not_empty(batches)
        if rows is None:
            return
        with carried_to_driver():
            report = stage_rows(self.staging, index, rows, self.checkpoint_id, uuid4().hex)
        yield encode_reports(index, [report])


@dataclass(frozen=True, slots=True)
class RestagingPlan:
    """A sink of current rows or of upserts, for subtasks without new rows. Number i in, the report of `indexes[i]`
    out."""

    indexes: tuple[int, ...]
    specs: Mapping[int, SubtaskSpec]
    staging: Staging

    def run(self, numbers: Iterable[int]) -> Iterator[pa.RecordBatch]:
        for place in numbers:
            index = self.indexes[place]
            spec = self.specs[index]
            with carried_to_driver():
                unique = uuid4().hex
                report = (
                    stage_upserts(self.staging, index, spec, unique)
                    if self.staging.upserts
                    else stage_state(self.staging, index, spec, scan(spec), unique)
                )
            yield encode_reports(index, [report])


def stage_state(
    staging: Staging,
    index: int,
    spec: SubtaskSpec,
    current: Iterator[pa.RecordBatch],
    unique: str,
    columns: pa.Schema | None = None,
) -> Report:
    """Stage all current rows. An empty state is staged too, so that the sink knows it is empty. `columns` are those of
    the rows, by default the state's."""
    marks: dict[str, Any] = {"layout": spec.layout.fingerprint}
    marks |= {} if spec.horizon is None else {HORIZON: spec.horizon}
    rows = or_none(current, spec.layout.rows if columns is None else columns)
    return stage_rows(staging, index, rows, spec.checkpoint_id, unique, marks)


def stage_upserts(staging: Staging, index: int, spec: SubtaskSpec, unique: str) -> Report:
    """Stage the differences of the state from the rows of the sink, or all current rows if it lacks any."""
    if staging.had:
        return marked(_stage_changes(staging, index, spec, staging.had[index], unique), spec)
    started, rows = perf_counter(), or_none(scan(spec), spec.layout.rows)
    all_rows = stage_rows(staging, index, rows, spec.checkpoint_id, unique, {WHOLE: True})
    if (base := staging.base.get(index)) is None:
        return marked(all_rows, spec)
    handles = [*all_rows.handles, *_stage_removed(staging, index, spec, base, unique)]
    return marked(report_of(staging, index, handles, sum(handle.rows for handle in handles), started), spec)


def marked(report: Report, spec: SubtaskSpec) -> Report:
    """Return a report with the mark of the state that a sink of upserts has afterwards."""
    return replace(report, mark={"layout": spec.layout.fingerprint, "horizon": spec.horizon})


def _stage_changes(staging: Staging, index: int, spec: SubtaskSpec, had: Had, unique: str) -> Report:
    """Stage changes. Deleted keys have files of their own, because expectations validate rows and not deletions."""
    started, handles = perf_counter(), list[StateHandle]()
    for number, changed in enumerate(changes_since(spec, had)):
        kinds, rows = changed.column(CHANGE), changed.drop_columns([CHANGE])
        new, gone = (rows.filter(pc.equal(kinds, kind)) for kind in (UPSERT, DELETE))
        if new.num_rows:
            handles += stage_piece(staging, index, new, spec.checkpoint_id, f"{unique}-{number}")
        if gone.num_rows:
            handles += stage_gone(staging, index, gone, spec.checkpoint_id, f"{unique}-{number}-gone")
    return report_of(staging, index, handles, sum(handle.rows for handle in handles), started)


def _stage_removed(staging: Staging, index: int, spec: SubtaskSpec, base: Had, unique: str) -> Iterator[StateHandle]:
    """Stage the keys that the state no longer has."""
    for number, changed in enumerate(changes_since(spec, base)):
        gone = changed.filter(pc.equal(changed.column(CHANGE), DELETE)).drop_columns([CHANGE])
        if gone.num_rows:
            yield from stage_gone(staging, index, gone, spec.checkpoint_id, f"{unique}-{number}-gone")


def changes_since(spec: SubtaskSpec, had: Had) -> Iterator[pa.Table]:
    """Yield the rows of a state that differ from what a sink had, as of `changed_rows`, in pieces of bounded size."""
    before = replace(spec, runs=had.runs, horizon=had.horizon)
    for keys in touched_keys(before, spec):
        yield changed_rows(before, spec, keys)


def stage_gone(staging: Staging, index: int, keys: pa.Table, checkpoint_id: int, unique: str) -> list[StateHandle]:
    """Stage keys that a sink must remove, in the columns of its rows."""
    gone = keys.append_column(GONE, pa.repeat(pa.scalar(True), keys.num_rows))
    return stage_piece(staging, index, gone, checkpoint_id, unique, {DELETES: True})


def or_none(current: Iterator[pa.RecordBatch], columns: pa.Schema) -> Iterable[pa.RecordBatch]:
    """Return the rows, or an empty batch of these columns if there are none."""
    return not_empty(current) or [pa.RecordBatch.from_pylist([], schema=columns)]


def stage_rows(
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
    for number, table in enumerate(in_pieces(batches)):
        handles += stage_piece(staging, index, table, checkpoint_id, f"{unique}-{number}", marks)
        rows += table.num_rows
    return report_of(staging, index, handles, rows, started)


def report_of(staging: Staging, index: int, handles: Sequence[StateHandle], rows: int, started: float) -> Report:
    """Return the report of a subtask's staged rows. `started` is the beginning of staging."""
    metrics = {"sync_duration": 0, "async_duration": milliseconds_since(started), "rows_in": rows, "rows_out": rows}
    return Report(staging.operator_id, index, tuple(handles), metrics)


def stage_piece(
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


def in_pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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
