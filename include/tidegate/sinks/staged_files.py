"""Staged Parquet files, read without Spark and by the thread that asks."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

#: Rows that are read at once.
_ROWS = 1 << 16


class StagedFiles:
    """A few of them as `ports.ArrowRows`. A `pyarrow.dataset` has threads that take longer than small files do."""

    def __init__(self, url: str, paths: Sequence[str]) -> None:
        self.url = url
        self.paths = paths
        with _opened(url, paths[0]) as file:
            self.schema = file.schema_arrow

    def to_table(self, columns: list[str]) -> "pa.Table":
        """With one more column if none is asked for: joined, tables without any would lose how many rows they have.
        Raises `pyarrow.ArrowException`, also if the files differ in these columns."""
        # pyarrow is heavy and this module is imported when Airflow parses a DAG.
        import pyarrow as pa

        names = columns or self.schema.names[:1]
        tables = []
        for path in self.paths:
            with _opened(self.url, path) as file:
                tables.append(file.read(names, use_threads=False))
        return pa.concat_tables(tables)


def batches_of(url: str, path: str) -> Iterator["pa.RecordBatch"]:
    """The rows of one file, in bounded memory."""
    with _opened(url, path) as file:
        yield from file.iter_batches(_ROWS, use_threads=False)


@dataclass(frozen=True, slots=True)
class StagedPlan:
    """Passed to `mapInArrow` over a range, where Spark has no file system for the place: number i in, the rows of file
    i out."""

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
