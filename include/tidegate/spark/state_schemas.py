"""The schemas of a definition's state, with types: Spark analyses what operators read, and runs no job."""

from collections.abc import Callable

from pyspark.sql import SparkSession

from tidegate.pipeline.graph import Graph
from tidegate.protocol.errors import CheckpointError
from tidegate.protocol.state_schema import StateSchema
from tidegate.spark.driver.spark_errors import as_checkpoint_error
from tidegate.spark.driver.streams import Streams
from tidegate.spark.session.sessions import adopt_session
from tidegate.state.schemas import StoredSchemas


class SparkSchemas(StoredSchemas):
    """Implements `ports.StateSchemas`. A session is opened when a type is asked for, and only then."""

    def __init__(self, graph: Graph, storage_url: str, open_session: Callable[[], SparkSession]) -> None:
        super().__init__(graph, storage_url)
        self._graph = graph
        self._open_session = open_session
        self._streams: Streams | None = None

    def defined(self, operator_id: str) -> StateSchema | None:
        vertex = self._vertices[operator_id]
        if self._streams is None:
            self._streams = Streams(self._graph, adopt_session(self._open_session()), self._storage_url)
        try:
            return self._streams.layout(vertex).schema
        except CheckpointError:
            raise
        except Exception as error:
            raise as_checkpoint_error(error, self._streams.where(vertex)) from error
