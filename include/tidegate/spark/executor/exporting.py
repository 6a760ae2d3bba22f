"""The code inside the Spark tasks that write a savepoint's directory. Each task merges a subtask's runs, with the
changes of an edit, or copies a file."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from uuid import uuid4

import pyarrow as pa

from tidegate.dataflow.reports import Report
from tidegate.protocol.facts.records import StateHandle
from tidegate.protocol.recovery.canonical import Rewrite
from tidegate.spark.executor.carried_errors import carried_to_driver
from tidegate.spark.executor.report_rows import encode_reports
from tidegate.spark.executor.task import not_empty, partition_id
from tidegate.state.exporting import rewrite_state
from tidegate.state.layout import StateLayout
from tidegate.state.storage import open_storage


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """Number i in: the i-th of `rewrites` and `copies` together is written, and a rewrite reports the merged run.
    `copies` are the storage's URL, the file, and its path below `location`. `layouts`, by operator, replace the layout
    of the newest run."""

    pipeline: str
    checkpoint_id: int
    rewrites: tuple[Rewrite, ...]
    copies: tuple[tuple[str, StateHandle, str], ...]
    storage_url: str
    location: str
    cache_dir: str | None
    layouts: Mapping[str, StateLayout] = field(default_factory=dict)

    @property
    def tasks(self) -> int:
        return len(self.rewrites) + len(self.copies)

    def run(self, numbers: Iterable[int]) -> Iterator[pa.RecordBatch]:
        for place in numbers:
            with carried_to_driver():
                report = self._take(place)
            yield encode_reports(report.subtask_index, [report])

    def _take(self, place: int) -> Report:
        if place >= len(self.rewrites):
            url, file, path = self.copies[place - len(self.rewrites)]
            open_storage(self.location).copy(file, open_storage(url), path, lambda: None)
            return Report("", 0, (), {})
        rewrite = self.rewrites[place]
        return self.written(rewrite)

    def written(self, rewrite: Rewrite, changes: Iterable[pa.RecordBatch] = ()) -> Report:
        """Return a report of the merged run."""
        handle = rewrite_state(
            rewrite,
            self.pipeline,
            self.checkpoint_id,
            self.storage_url,
            self.location,
            self.cache_dir,
            self.layouts.get(rewrite.subtask.operator_id),
            changes,
        )
        return Report(rewrite.subtask.operator_id, rewrite.subtask.subtask_index, (handle,), {})


@dataclass(frozen=True, slots=True)
class EditPlan:
    """Changed rows in, Spark partition i those of subtask i, for an operator whose rewrites are in `export`, in order.
    A subtask without changes reports nothing. The rows may differ when a Spark task is repeated, so each execution
    writes under a name of its own."""

    export: ExportPlan

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = not_empty(batches)
        if rows is None:
            return
        rewrite = self.export.rewrites[partition_id()]
        with carried_to_driver():
            report = self.export.written(replace(rewrite, path=f"{rewrite.path}-{uuid4().hex}"), rows)
        yield encode_reports(report.subtask_index, [report])
