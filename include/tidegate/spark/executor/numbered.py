"""Plans inside a Spark task that receive numbers instead of rows, and know the meaning of each number.

Such a plan needs no frame. A classic session runs it as a job of its core, without Spark SQL: planning a frame takes
longer than a small plan's work, and in a new session the first frame alone takes seconds of processor time.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from tidegate.spark.executor.task import places


class NumberedPlan(Protocol):
    """A plan whose results are batches of `encode_reports`."""

    def run(self, numbers: Iterable[int]) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True, slots=True)
class Numbered:
    """A plan in the two forms in which Spark calls it."""

    plan: NumberedPlan

    def on_core(self, numbers: Iterable[int]) -> Iterator[tuple[int, str]]:
        """Run for `RDD.mapPartitions`: yield a subtask and its reports, as the columns of a frame would hold them."""
        for answer in self.plan.run(numbers):
            subtasks, reports = answer.columns
            yield from zip(subtasks.to_pylist(), reports.to_pylist(), strict=True)

    def on_frame(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run for `mapInArrow` after `range`."""
        yield from self.plan.run(places(batches))
