"""What runs inside a Spark task when windows may have ended: they are emitted, and removed from state."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from uuid import uuid4

import pyarrow as pa

from tidegate.dataflow.reports import Report, joined
from tidegate.spark.executor.carried_errors import carried_to_driver
from tidegate.spark.executor.partitions import RowsPlan
from tidegate.spark.executor.report_rows import encode_reports
from tidegate.spark.executor.task import not_empty
from tidegate.state.spec import SubtaskSpec
from tidegate.state.windows import EndedWindows


@dataclass(frozen=True, slots=True)
class Ending:
    """The windows that end at the watermark or before leave, as `emitting` says."""

    watermark: int
    emitting: RowsPlan

    def reports(self, index: int, spec: SubtaskSpec) -> list[Report]:
        """Of subtask `index`, whose state has all rows by now."""
        ended = EndedWindows(replace(spec, prefix=f"{spec.prefix}-{uuid4().hex}-ended"), self.watermark)
        rows = not_empty(ended.rows())
        if rows is None:
            return []
        reports = self.emitting.reports(index, rows)
        assert ended.removed is not None
        return joined([*reports, Report(spec.operator, index, (ended.removed,), {})])


@dataclass(frozen=True, slots=True)
class EndedWindowsPlan:
    """For subtasks to which nothing came. Number i in, the report of `indexes[i]` out."""

    indexes: tuple[int, ...]
    specs: Mapping[int, SubtaskSpec]
    ending: Ending

    def run(self, numbers: Iterable[int]) -> Iterator[pa.RecordBatch]:
        for place in numbers:
            index = self.indexes[place]
            with carried_to_driver():
                reports = self.ending.reports(index, self.specs[index])
            yield encode_reports(index, reports)
