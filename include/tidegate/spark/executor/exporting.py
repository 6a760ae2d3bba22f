"""What runs inside the Spark tasks that write a savepoint's directory: each merges a subtask's runs, or copies a
file."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from tidegate.dataflow.reports import Report
from tidegate.protocol.canonical import Rewrite
from tidegate.protocol.records import StateHandle
from tidegate.spark.executor.carried_errors import carried_to_driver
from tidegate.spark.executor.report_rows import encode_reports
from tidegate.state.exporting import rewrite_state
from tidegate.state.storage import open_storage


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """Row i in: the i-th of `rewrites` and `copies` together, the former with a report of the merged run. `copies` are
    the storage's URL, the file, and its path below `location`."""

    pipeline: str
    checkpoint_id: int
    rewrites: tuple[Rewrite, ...]
    copies: tuple[tuple[str, StateHandle, str], ...]
    storage_url: str
    location: str
    cache_dir: str | None

    @property
    def tasks(self) -> int:
        return len(self.rewrites) + len(self.copies)

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for place in batch.column(0).to_pylist():
                with carried_to_driver():
                    report = self._take(place)
                yield encode_reports(report.subtask_index, [report])

    def _take(self, place: int) -> Report:
        if place >= len(self.rewrites):
            url, file, path = self.copies[place - len(self.rewrites)]
            open_storage(self.location).copy(file, open_storage(url), path, lambda: None)
            return Report("", 0, (), {})
        rewrite = self.rewrites[place]
        handle = rewrite_state(
            rewrite, self.pipeline, self.checkpoint_id, self.storage_url, self.location, self.cache_dir
        )
        return Report(rewrite.subtask.operator_id, rewrite.subtask.subtask_index, (handle,), {})
