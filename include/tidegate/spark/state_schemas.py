"""The schemas of a definition's state, with types. Spark analyses the input of operators, and runs no job."""

from pyspark.sql import SparkSession

from tidegate.pipeline.graph import Graph
from tidegate.protocol.facts.errors import CheckpointError
from tidegate.protocol.schema.state_schema import StateSchema
from tidegate.spark.driver.spark_errors import as_checkpoint_error
from tidegate.spark.driver.streams import Streams
from tidegate.spark.session.sessions import adopt_session


class DefinedSchemas:
    """The schemas of a pipeline's keyed operators, on a session."""

    def __init__(self, graph: Graph, session: SparkSession, storage_url: str) -> None:
        self._vertices = {vertex.operator_id: vertex for vertex in graph.keyed}
        self._streams = Streams(graph, adopt_session(session), storage_url)

    def of(self, operator_id: str) -> StateSchema:
        """Return the schema of an operator's state. Raise `CheckpointError`s, most often `PipelineDefinitionError`."""
        vertex = self._vertices[operator_id]
        try:
            return self._streams.layout(vertex).schema
        except CheckpointError:
            raise
        except Exception as error:
            raise as_checkpoint_error(error, self._streams.where(vertex)) from error
