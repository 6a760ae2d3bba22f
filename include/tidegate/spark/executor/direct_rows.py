"""What runs inside a Spark task whose subtasks read by themselves what arrived."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from tidegate.ports import ArrowReader, LeftToSparkError
from tidegate.spark.executor.partitions import KeyedPlan, places
from tidegate.spark.executor.report_rows import LEFT_TO_SPARK, encode_reports
from tidegate.state.arrivals import owned_rows
from tidegate.state.hashing import spark_hash
from tidegate.state.layout import HASH
from tidegate.state.spec import SubtaskSpec


@dataclass(frozen=True, slots=True)
class DirectPlan:
    """Row i in, the reports of the subtasks `shares[i]` out, each with its rows of the whole batch; or one row that
    leaves it to Spark, and nothing was written for this share. `columns` are what the operator reads,
    its `keys` among them."""

    keyed: KeyedPlan
    reader: ArrowReader
    columns: pa.Schema
    keys: tuple[str, ...]
    shares: tuple[tuple[int, ...], ...]

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place in places(batches):
            specs = {index: self.keyed.specs[index] for index in self.shares[place]}
            try:
                held = self._rows(specs)
            except LeftToSparkError:
                yield encode_reports(LEFT_TO_SPARK, [])
                return
            yield from self.keyed.updated([(index, rows) for index, rows in held.items() if rows])

    def _rows(self, specs: Mapping[int, SubtaskSpec]) -> dict[int, list[pa.RecordBatch]]:
        """By subtask. Everything is read before anything is written."""
        held: dict[int, list[pa.RecordBatch]] = {index: [] for index in specs}
        for batch in self.reader.read(self.columns):
            hashes = spark_hash([batch.column(key) for key in self.keys])
            table = pa.Table.from_batches([batch]).append_column(HASH, hashes)
            for index, spec in specs.items():
                held[index] += owned_rows(table, spec).to_batches()
        return held
