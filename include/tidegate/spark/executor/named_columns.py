"""Batches with their original column names, where Spark needed others."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

Run = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class NamedColumns:
    """A wrapper of a function for `mapInArrow`, which restores the names of columns."""

    inner: Run
    names: tuple[str, ...]

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.inner(batch.rename_columns(list(self.names)) for batch in batches)
