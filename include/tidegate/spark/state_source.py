"""`spark.read.format("tidegate_state")`: an operator's state as a DataFrame, on classic sessions and Spark Connect.

Spark asks the source for columns and partitions in processes of its own, which have neither the database nor the user's
environment. So the client resolves names, and the source receives files:

    register_state_source(spark)
    files = tidegate.state.options("flight_delays", "carrier_delays")
    spark.read.format("tidegate_state").options(**files).option("key", "AA").load()

Executors read the files themselves, a Spark task for each subtask, with the library that travels with the session.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tidegate.protocol.facts.errors import ConfigurationError
from tidegate.state.keys import key_of_text
from tidegate.state.reading import Reading, StateFiles, open_state

FORMAT = "tidegate_state"
FILES, KEY = "files", "key"
_ELSEWHERE = ("pipeline", "operator", "checkpoint", "changes_since")


def register_state_source(session: SparkSession) -> None:
    """Register the format `tidegate_state` with a session, and send it the library. May be repeated.

    Args:
        session: The session, classic or Connect.
    """
    from tidegate.spark.session.packaging import ship  # of the driver alone

    ship(session)
    session.dataSource.register(StateSource)


class StateSource(DataSource):
    """The data source. Options: `files`, from `tidegate.state.options`; `key`, a value or JSON as for `tidegate state
    --key`.

    Raise `ConfigurationError` for other options, and the errors of `tidegate.state.read` for files that cannot be read.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return from_arrow_schema(self._reading.schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        return StateSourceReader(self._reading)

    @cached_property
    def _reading(self) -> Reading:
        named = [name for name in _ELSEWHERE if name in self.options]
        if named or FILES not in self.options:
            raise ConfigurationError(
                f"Format {FORMAT} received {', '.join(named) or 'no files'}, but where Spark plans a read, there is no "
                'database to resolve names. Let the client resolve them: spark.read.format("tidegate_state").options('
                "**tidegate.state.options(PIPELINE, OPERATOR, checkpoint=…, changes_since=…)).load()"
            )
        key = self.options.get(KEY)
        return open_state(StateFiles.from_json(self.options[FILES]), None if key is None else key_of_text(key))


class StateSourceReader(DataSourceReader):
    def __init__(self, reading: Reading) -> None:
        self._parts = reading.parts

    def partitions(self) -> list[InputPartition]:
        """Return one partition for each subtask, or one for a single key."""
        return [InputPartition(part) for part in self._parts]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield `pyarrow.RecordBatch`es."""
        batches: Iterator[pa.RecordBatch] = partition.value.batches()
        return batches
