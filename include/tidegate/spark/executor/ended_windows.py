"""What runs inside a Spark task when windows may have ended."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from uuid import uuid4

import pyarrow as pa

from tidegate.dataflow.reports import Report, joined
from tidegate.spark.executor.carried_errors import carried_to_driver
from tidegate.spark.executor.partitions import RowsPlan, not_empty, places
from tidegate.spark.executor.report_rows import encode_reports
from tidegate.state.spec import SubtaskSpec
from tidegate.state.windows import EndedWindows


@dataclass(frozen=True, slots=True)
class EndedWindowsPlan:
    """Row i in, the report of subtask `indexes[i]` out: the windows that the watermark has passed are emitted, and
    removed from its state."""

    indexes: tuple[int, ...]
    specs: Mapping[int, SubtaskSpec]
    watermark: int
    emitting: RowsPlan

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place in places(batches):
            index = self.indexes[place]
            with carried_to_driver():
                reports = self._reports(index)
            yield encode_reports(index, reports)

    def _reports(self, index: int) -> list[Report]:
        spec = self.specs[index]
        ended = EndedWindows(replace(spec, prefix=f"{spec.prefix}-{uuid4().hex}-ended"), self.watermark)
        rows = not_empty(ended.rows())
        if rows is None:
            return []
        reports = self.emitting.reports(index, rows)
        assert ended.removed is not None
        return joined([*reports, Report(spec.operator, index, (ended.removed,), {})])
