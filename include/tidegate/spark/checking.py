"""What Spark says of a pipeline's definition without data: the columns and types of every stream, the results of user
functions, and whether a retry would compute the same. Runs no job, and reads and writes no file.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidegate.pipeline.definition import KeyedVertex, SinkVertex, StepVertex
from tidegate.pipeline.graph import Graph
from tidegate.pipeline.inputs import inputs_of
from tidegate.pipeline.vertices import CheckVertex
from tidegate.protocol.errors import CheckpointError, PipelineDefinitionError
from tidegate.protocol.names import Target, TargetKind
from tidegate.spark.driver.results import require_keys, result_of
from tidegate.spark.driver.spark_errors import as_checkpoint_error
from tidegate.spark.driver.streams import Streams
from tidegate.spark.session.sessions import adopt_session


class DefinitionCheck:
    """Of one pipeline, on a session."""

    def __init__(self, graph: Graph, session: SparkSession, storage_url: str) -> None:
        self._graph = graph
        self._streams = Streams(graph, adopt_session(session), storage_url)
        self._problems: list[str] = []

    def problems(self) -> list[str]:
        """Everything that a run would refuse, upstream first; what follows from an earlier one is left out."""
        wrong: set[str] = set()
        for vertex in self._graph.operators:
            if wrong.isdisjoint(stream.origin for stream in inputs_of(vertex)):
                where = self._streams.where(vertex)
                if not self._is_right(where, lambda vertex=vertex: self._look_at(vertex)):  # type: ignore[misc]
                    wrong.add(vertex.name)
        for check in self._graph.checks:
            if wrong.isdisjoint(check.sinks):
                where = f"check {check.name!r} of pipeline {self._graph.pipeline.name!r}"
                self._is_right(where, lambda check=check: self._query(check))  # type: ignore[misc]
        return self._problems

    def columns(self) -> Mapping[Target, list[str] | None]:
        """By target of an expectation, the columns that it judges; None where they cannot be told."""
        return {target: self._columns_of(target) for target in self._graph.targets}

    def _is_right(self, where: str, look: Callable[[], object]) -> bool:
        try:
            look()
        except CheckpointError as error:
            self._problems.append(str(error))
        except Exception as error:
            self._problems.append(str(as_checkpoint_error(error, where)))
        else:
            return True
        return False

    def _look_at(self, vertex: StepVertex | KeyedVertex | SinkVertex) -> None:
        batches = [self._streams.frame(stream, {}) for stream in inputs_of(vertex)]
        for batch in batches:
            _ = batch.schema  # a Connect client asks the server only now
        if not isinstance(vertex, KeyedVertex):
            return
        layout = self._streams.layout(vertex)
        if not vertex.aggregates:
            require_keys(self._streams, vertex, layout, batches)
            result = result_of(self._streams, vertex, layout, batches, self._streams.empty(layout.rows))
            _ = result.upserts.schema

    def _query(self, check: CheckVertex) -> DataFrame:
        where = f"The query of check {check.name!r} of pipeline {self._graph.pipeline.name!r}"
        staged = [self._streams.frame(self._graph.sink(name).input, {}) for name in check.sinks]
        try:
            result: Any = check.query(*staged)
        except Exception as error:
            raise PipelineDefinitionError(f"{where} raised {type(error).__name__}: {error}") from error
        if not isinstance(result, DataFrame):
            raise PipelineDefinitionError(f"{where} returned a {type(result).__name__} instead of a DataFrame.")
        _ = result.schema
        return result

    def _columns_of(self, target: Target) -> list[str] | None:
        try:
            match target.kind:
                case TargetKind.SINK:
                    return list(self._streams.frame(self._graph.sink(target.name).input, {}).columns)
                case TargetKind.CHECK:
                    return list(self._query(next(v for v in self._graph.checks if v.name == target.name)).columns)
                case _:
                    return None  # declared: known without Spark
        except Exception:
            return None  # among the problems already
