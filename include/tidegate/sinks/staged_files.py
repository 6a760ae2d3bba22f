"""Staged Parquet files, read without Spark and by the thread that asks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


class StagedFiles:
    """A few of them as `ports.ArrowRows`. A `pyarrow.dataset` has threads that take longer than small files do."""

    def __init__(self, paths: Sequence[str]) -> None:
        # pyarrow is heavy and this module is imported when Airflow parses a DAG.
        import pyarrow.parquet as pq

        self.paths = paths
        self.schema = pq.read_schema(paths[0])

    def to_table(self, columns: list[str]) -> "pa.Table":
        """With one more column if none is asked for: joined, tables without any would lose how many rows they have.
        Raises `pyarrow.ArrowException`, also if the files differ in these columns."""
        import pyarrow as pa

        return pa.concat_tables([_read(path, columns or self.schema.names[:1]) for path in self.paths])


def _read(path: str, columns: list[str]) -> "pa.Table":
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, pre_buffer=False) as file:
        return file.read(columns, use_threads=False)
