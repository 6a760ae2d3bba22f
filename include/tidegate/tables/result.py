"""The tables as of one checkpoint, found and not yet read."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from tidegate.protocol.facts.errors import SinkError
from tidegate.tables import rows
from tidegate.tables.rows import DuckDBConnection, Rows

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Read = TypeVar("Read")

#: The number of attempts to read files that move meanwhile.
_ATTEMPTS = 5


class Tables:
    """Tables as of one checkpoint, by the names of their sinks. They are read when one of the methods is called.

    Attributes:
        pipeline: The name of the pipeline.
        checkpoint: The id of the checkpoint.
        completed_at: When the checkpoint completed.
        names: The names of the sinks.
    """

    def __init__(
        self,
        pipeline: str,
        checkpoint: int,
        completed_at: datetime,
        found: Mapping[str, Rows],
        find_again: "Callable[[], Mapping[str, Rows]]",
    ) -> None:
        self.pipeline = pipeline
        self.checkpoint = checkpoint
        self.completed_at = completed_at
        self.names = tuple(found)
        self._found = found
        self._find_again = find_again

    def __repr__(self) -> str:
        return f"<tables {', '.join(self.names)} of pipeline {self.pipeline} as of checkpoint {self.checkpoint}>"

    def arrow(self) -> "dict[str, pa.Table]":
        """Read all rows with Arrow. If a restore moves files meanwhile, they are found again.

        Returns:
            A `pyarrow.Table` by the name of each sink. A table that had no rows yet has no columns.

        Raises:
            CheckpointNotRetainedError: If rows have been deleted since. Read a later checkpoint.
            SinkError: If a file is missing for another reason.
        """
        return {name: self._read(name, rows.arrow_table) for name in self.names}

    def pandas(self) -> "dict[str, pd.DataFrame]":
        """Read all rows with Arrow, for pandas.

        Returns:
            A DataFrame by the name of each sink.

        Raises:
            CheckpointNotRetainedError: As `arrow`.
            SinkError: As `arrow`.
        """
        return {name: table.to_pandas() for name, table in self.arrow().items()}

    def spark(self, spark: "SparkSession") -> "dict[str, DataFrame]":
        """Open the tables with Spark, which reads their files when it needs them. A query fails if its files were
        deleted meanwhile. It never shows rows of another checkpoint.

        Args:
            spark: The session.

        Returns:
            A lazy DataFrame by the name of each sink.
        """
        return {name: self._read(name, partial(rows.spark_frame, spark)) for name in self.names}

    def duckdb(self, connection: DuckDBConnection) -> None:
        """Make each table a view of a DuckDB connection, under the name of its sink. DuckDB reads the files when it
        needs them. A query fails if its files were deleted meanwhile.

        Args:
            connection: The connection.

        Raises:
            ConfigurationError: If a table has no rows yet.
        """
        for name in self.names:
            self._read(name, partial(rows.register, connection, name))

    def _read(self, name: str, read: "Callable[[Rows], Read]") -> "Read":
        for attempt in range(_ATTEMPTS):
            try:
                return read(self._found[name])
            except FileNotFoundError as error:
                if attempt == _ATTEMPTS - 1:
                    raise SinkError(
                        f"Table {name!r} of pipeline {self.pipeline!r} cannot be read: its files move repeatedly, "
                        f"the last was {error}. Nothing was changed. Read it again."
                    ) from error
                self._found = self._find_again()
        raise AssertionError("the last attempt has returned or raised")
