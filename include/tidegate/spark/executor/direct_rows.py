"""The code inside a Spark task whose subtasks read the whole input directly and keep their own rows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa

from tidegate.dataflow.reports import Report
from tidegate.dataflow.staging import Staging
from tidegate.ports import ArrowReader, LeftToSparkError
from tidegate.protocol.facts.records import StateHandle
from tidegate.spark.executor.carried_errors import carried_to_driver
from tidegate.spark.executor.exchange import read_exchange
from tidegate.spark.executor.partitions import KeyedPlan
from tidegate.spark.executor.report_rows import LEFT_TO_SPARK, encode_reports
from tidegate.spark.executor.staging import stage_rows
from tidegate.state.arrivals import latest_rows, rows_between
from tidegate.state.hashing import spark_hash
from tidegate.state.layout import HASH

#: The smallest and largest unsigned hash of each subtask's keys, both included.
Owned = Mapping[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class DirectPlan:
    """Number i in, the reports of the subtasks `shares[i]` out, each over its rows of the whole batch; or one row that
    leaves the batch to Spark, if nothing was written for this share. `columns` are the columns that the operator reads,
    including its `keys`."""

    keyed: KeyedPlan
    reader: ArrowReader
    columns: pa.Schema
    keys: tuple[str, ...]
    shares: tuple[tuple[int, ...], ...]

    def run(self, numbers: Iterable[int]) -> Iterator[pa.RecordBatch]:
        for place in numbers:
            owned = {index: self.keyed.specs[index].hashes() for index in self.shares[place]}
            try:  # everything is read before anything is written
                held = _own_rows(self.reader.read(self.columns), self.keys, owned)
            except LeftToSparkError:
                yield encode_reports(LEFT_TO_SPARK, [])
                return
            yield from self.keyed.updated([(index, rows) for index, rows in held.items() if rows])


@dataclass(frozen=True, slots=True)
class DirectStagingPlan:
    """A table of the rows that an operator has changed, whose files are `handles`, oldest first. Number i in, the
    reports of the subtasks `shares[i]` out. If a key may occur several times, only the `latest` row of each is staged.
    """

    staging: Staging
    checkpoint_id: int
    handles: tuple[StateHandle, ...]
    storage_url: str
    schema: pa.Schema
    keys: tuple[str, ...]
    owned: Owned
    latest: bool
    shares: tuple[tuple[int, ...], ...]

    def run(self, numbers: Iterable[int]) -> Iterator[pa.RecordBatch]:
        for place in numbers:
            with carried_to_driver():
                held = _own_rows(self._sent(), self.keys, {index: self.owned[index] for index in self.shares[place]})
                reports = [(index, self._staged(index, rows)) for index, rows in held.items() if rows]
            for index, report in reports:
                yield encode_reports(index, [report])

    def _sent(self) -> Iterator[pa.RecordBatch]:
        for handle in self.handles:
            yield from read_exchange(handle, self.storage_url, self.schema)

    def _staged(self, index: int, rows: Sequence[pa.RecordBatch]) -> Report:
        table = pa.Table.from_batches(rows)
        table = latest_rows(table, self.keys) if self.latest else table
        own = table.drop_columns([HASH]).to_batches()
        return stage_rows(self.staging, index, own, self.checkpoint_id, uuid4().hex)


def _own_rows(batches: Iterable[pa.RecordBatch], keys: Sequence[str], owned: Owned) -> dict[int, list[pa.RecordBatch]]:
    """Return the rows of each subtask with their `_hash`."""
    held: dict[int, list[pa.RecordBatch]] = {index: [] for index in owned}
    for batch in batches:
        hashes = spark_hash([batch.column(key) for key in keys])
        table = pa.Table.from_batches([batch]).append_column(HASH, hashes)
        for index, (low, high) in owned.items():
            held[index] += rows_between(table, low, high).to_batches()
    return held
