"""Small functions for every Spark task: its partition, the ids it received, whether it received rows, the time."""

from collections.abc import Iterator
from itertools import chain
from time import perf_counter

import pyarrow as pa
from pyspark import TaskContext


def not_empty(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch] | None:
    """Return the batches that have rows; None if there are none."""
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    return None if first is None else chain([first], filled)


def places(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    """Yield the ids of a `range`. The number of the Spark partition is not used, because it changes where partitions
    are coalesced."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


def partition_id() -> int:
    context = TaskContext.get()
    assert context is not None
    return int(context.partitionId())


def milliseconds_since(started: float) -> int:
    return round((perf_counter() - started) * 1000)
