"""Reads staged Parquet files without Spark, in the caller's thread."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

#: Rows read at once.
_ROWS = 1 << 16


class StagedFiles:
    """Staged files as `ports.ArrowRows`. The threads of a `pyarrow.dataset` take longer than small files do."""

    def __init__(self, url: str, paths: Sequence[str]) -> None:
        self.url = url
        self.paths = paths
        with _opened(url, paths[0]) as file:
            self.schema = file.schema_arrow

    def to_table(self, columns: list[str]) -> "pa.Table":
        """Read the columns, or one column if none is requested: joined, tables without columns would lose their number
        of rows. Raise `pyarrow.ArrowException`, also if the files differ in these columns."""
        # pyarrow is heavy and this module is imported when Airflow parses a DAG.
        import pyarrow as pa

        names = columns or self.schema.names[:1]
        tables = []
        for path in self.paths:
            with _opened(self.url, path) as file:
                tables.append(file.read(names, use_threads=False))
        return pa.concat_tables(tables)


def batches_of(url: str, path: str) -> Iterator["pa.RecordBatch"]:
    """Yield the rows of one file, in bounded memory."""
    with _opened(url, path) as file:
        yield from file.iter_batches(_ROWS, use_threads=False)


@dataclass(frozen=True, slots=True)
class StagedPlan:
    """Reads staged files by `mapInArrow` over a range, where Spark has no file system for their place. Number i becomes
    the rows of file i."""

    url: str
    paths: Sequence[str]

    def run(self, numbers: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for number in (number for batch in numbers for number in batch.column(0).to_pylist()):
            yield from batches_of(self.url, self.paths[number])


@contextmanager
def _opened(url: str, path: str) -> Iterator["pq.ParquetFile"]:
    # pyarrow is heavy and this module is imported when Airflow parses a DAG.
    import pyarrow.parquet as pq

    from tidegate.state.storage import open_storage

    with open_storage(url).open_input(path) as opened, pq.ParquetFile(opened, pre_buffer=False) as file:
        yield file
