"""The code inside a Spark task for windows that may have ended: they are emitted, and removed from state."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from uuid import uuid4

import pyarrow as pa

from tidegate.dataflow.reports import Report, joined
from tidegate.protocol.facts.records import StateHandle
from tidegate.spark.executor.carried_errors import carried_to_driver
from tidegate.spark.executor.partitions import RowsPlan
from tidegate.spark.executor.report_rows import encode_reports
from tidegate.spark.executor.task import not_empty
from tidegate.state.spec import SubtaskSpec
from tidegate.state.windows import EndedWindows, Passing


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of windows: those that leave during `passing` are emitted by `emitting`."""

    passing: Passing
    emitting: RowsPlan

    def reports(self, index: int, spec: SubtaskSpec, changed: StateHandle | None = None) -> list[Report]:
        """Return the reports of subtask `index`, whose state has all rows by now, the last of them in the run
        `changed`."""
        own = replace(spec, prefix=f"{spec.prefix}-{uuid4().hex}-ended")
        ended = EndedWindows(own, self.passing, changed)
        rows = not_empty(ended.rows())
        reports = [] if rows is None else self.emitting.reports(index, rows)
        if ended.written is not None:
            reports.append(Report(spec.operator, index, (ended.written,), {}))
        return joined(reports)


@dataclass(frozen=True, slots=True)
class EndedWindowsPlan:
    """The plan for subtasks without new rows. Number i in, the report of `indexes[i]` out."""

    indexes: tuple[int, ...]
    specs: Mapping[int, SubtaskSpec]
    ending: Ending

    def run(self, numbers: Iterable[int]) -> Iterator[pa.RecordBatch]:
        for place in numbers:
            index = self.indexes[place]
            with carried_to_driver():
                reports = self.ending.reports(index, self.specs[index])
            yield encode_reports(index, reports)
