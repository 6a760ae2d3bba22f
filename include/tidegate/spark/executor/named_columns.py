"""Batches under the names that their columns have, where Spark had to be given others."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

Run = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class NamedColumns:
    """Passed to `mapInArrow` instead of what it runs."""

    inner: Run
    names: tuple[str, ...]

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.inner(batch.rename_columns(list(self.names)) for batch in batches)
