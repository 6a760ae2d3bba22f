"""`FileSource` passes the suite for sources, read by Arrow and by Spark."""

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tidegate import FileSource
from tidegate.testing import SourceSuite


# A schema is read by Spark, so there must be a session.
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
class TestParquet(SourceSuite[FileSource]):
    other_columns = True
    every = 40

    def source(self, directory: Path, columns: str) -> FileSource:
        return FileSource(str(directory), "parquet", schema=columns)

    def arrive(self, directory: Path, rows: pa.Table) -> None:
        pq.write_table(rows, directory / f"{len(list(directory.iterdir()))}.parquet")


class TestSplits(TestParquet):
    def source(self, directory: Path, columns: str) -> FileSource:
        return FileSource(str(directory), "parquet", schema=columns, splits=3, max_files_per_checkpoint=3)

    def arrive(self, directory: Path, rows: pa.Table) -> None:
        """Several files at a time, of which a checkpoint takes some."""
        few = 0 < rows.num_rows < 100
        for part in [rows.slice(at, 2) for at in range(0, rows.num_rows, 2)] if few else [rows]:
            super().arrive(directory, part)


@pytest.mark.spark
class TestCsv(SourceSuite[FileSource]):
    every = 100

    def source(self, directory: Path, columns: str) -> FileSource:
        return FileSource(str(directory), schema=columns)

    def arrive(self, directory: Path, rows: pa.Table) -> None:
        pa.csv.write_csv(rows, directory / f"{len(list(directory.iterdir()))}.csv")
