"""The check of a pipeline's definition with Spark, without data: the columns and types of every stream, the results of
user functions, and whether a retry would compute the same rows. It runs no job, and reads and writes no file."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from functools import partial
from io import StringIO
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import NullType

from tidegate.pipeline.graph import Graph
from tidegate.pipeline.inputs import inputs_of
from tidegate.pipeline.sink_inputs import derives, shows_state
from tidegate.pipeline.vertices import CheckVertex, KeyedVertex, SinkVertex, SourceVertex, StepVertex
from tidegate.pipeline.windows import check_event_time
from tidegate.ports import CheckedSource, TypedSink
from tidegate.protocol.facts.errors import CheckpointError, PipelineDefinitionError, SparkUnavailableError
from tidegate.protocol.facts.names import Target, TargetKind
from tidegate.spark.driver.columns import arrow_schema
from tidegate.spark.driver.derived import check_derived
from tidegate.spark.driver.results import require_keys, result_of
from tidegate.spark.driver.returned import UNSENDABLE, raised, require_frame
from tidegate.spark.driver.spark_errors import as_checkpoint_error, error_of_function
from tidegate.spark.driver.streams import Streams
from tidegate.spark.session.sessions import adopt_session


class DefinitionCheck:
    """Check one pipeline's definition against a Spark session."""

    def __init__(self, graph: Graph, session: SparkSession, storage_url: str) -> None:
        self._graph = graph
        self._streams = Streams(graph, adopt_session(session), storage_url)
        self._problems: list[str] = []

    def problems(self) -> list[str]:
        """Return everything that a run would refuse, upstream first. Problems that follow from an earlier one are left
        out."""
        wrong = {vertex.name for vertex in self._graph.sources if not self._is_right_source(vertex)}
        for vertex in self._graph.operators:
            if wrong.isdisjoint(stream.origin for stream in inputs_of(vertex)):
                where = self._streams.where(vertex)
                if not self._is_right(where, partial(self._analyze, vertex)):
                    wrong.add(vertex.name)
        for check in self._graph.checks:
            if wrong.isdisjoint(check.sinks):
                where = f"check {check.name!r} of pipeline {self._graph.pipeline.name!r}"
                self._is_right(where, partial(self._query, check))
        return self._problems

    def columns(self) -> Mapping[Target, list[str] | None]:
        """Return the columns that each target's expectations validate; None where they are not known."""
        return {target: self._columns_of(target) for target in self._graph.targets}

    def _is_right_source(self, vertex: SourceVertex) -> bool:
        """Check a source. Its declared schema has been checked with the graph."""
        where = f"source {vertex.name!r} of pipeline {self._graph.pipeline.name!r}"

        def analyze() -> None:
            if isinstance(vertex.source, CheckedSource) and (problems := vertex.source.problems()):
                raise PipelineDefinitionError(" ".join(problems))
            if vertex.declared_schema is None:
                schema = vertex.schema
                if vertex.event_time is not None:
                    check_event_time(where, vertex.event_time, schema)

        return self._is_right(where, analyze)

    def _is_right(self, where: str, analyze: Callable[[], object]) -> bool:
        try:
            with _without_traceback():
                analyze()
        except SparkUnavailableError:
            raise
        except CheckpointError as error:
            self._problems.append(str(error))
        except Exception as error:
            if isinstance(explained := as_checkpoint_error(error, where), SparkUnavailableError):
                raise explained from error  # nothing is known about the definition
            self._problems.append(str(explained))
        else:
            return True
        return False

    def _analyze(self, vertex: StepVertex | KeyedVertex | SinkVertex) -> None:
        batches = [self._streams.frame(stream, {}) for stream in inputs_of(vertex)]
        for batch in batches:
            _ = batch.schema  # a Connect client sends the request to the server only now
        if isinstance(vertex, SinkVertex):
            self._require_storable(vertex, batches[0])
            origin = next((keyed for keyed in self._graph.keyed if keyed.name == vertex.input.origin), None)
            if shows_state(origin, vertex) and derives(vertex):
                check_derived(self._streams, vertex, origin)
        if not isinstance(vertex, KeyedVertex):
            return
        layout = self._streams.layout(vertex)
        if not vertex.aggregates:
            require_keys(self._streams, vertex, layout, batches)
            result = result_of(self._streams, vertex, layout, batches, self._streams.empty(layout.rows))
            _ = result.upserts.schema

    def _require_storable(self, vertex: SinkVertex, rows: DataFrame) -> None:
        problems = [
            f"column {field.name!r} has no type, because it is always null. Give it one, such as "
            f"cast(null as string) as {field.name}"
            for field in rows.schema.fields
            if isinstance(field.dataType, NullType)
        ]
        if not problems and isinstance(vertex.sink, TypedSink):
            problems = vertex.sink.unstorable(arrow_schema(rows.schema))
        if problems:
            raise PipelineDefinitionError(
                f"The {self._streams.where(vertex)} cannot store its rows: {'; '.join(problems)}."
            )

    def _query(self, check: CheckVertex) -> DataFrame:
        where = f"The query of check {check.name!r} of pipeline {self._graph.pipeline.name!r}"
        staged = [self._streams.frame(self._graph.sink(name).input, {}) for name in check.sinks]
        try:
            result: Any = check.query(*staged)
        except Exception as error:
            raise error_of_function(error, where, f"{where} raised {raised(error)}") from error
        require_frame(where, result)
        _ = result.schema
        return cast(DataFrame, result)

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
            return None  # already among the problems


@contextmanager
def _without_traceback() -> Iterator[None]:
    """Suppress pyspark's output for objects that it cannot pickle, because its error has the same text."""
    printed, cause = StringIO(), None
    try:
        with redirect_stderr(printed):
            yield
    except Exception as error:
        cause = error.__cause__ or error
        raise
    finally:
        if type(cause).__name__ != UNSENDABLE:
            sys.stderr.write(printed.getvalue())
