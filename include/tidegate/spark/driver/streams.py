"""The DataFrame of a stream: the data that arrived in its channel, after its transforms, and its columns.

Everything is lazy: nothing here runs a Spark job. State layouts are derived from these frames.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType, TimestampType

from tidegate.dataflow.elements import Data, Exchange
from tidegate.pipeline.graph import Graph
from tidegate.pipeline.streams import LATE_ROWS, Stream, Transform
from tidegate.pipeline.vertices import KeyedVertex, SinkVertex, StepVertex
from tidegate.ports import ArrowReader, ArrowSource, Segment
from tidegate.protocol.facts.errors import CheckpointError, PipelineDefinitionError, StateSchemaError
from tidegate.protocol.facts.records import StateHandle
from tidegate.protocol.schema.state_schema import BOUNDS
from tidegate.spark.driver.ahead import read_segments
from tidegate.spark.driver.columns import arrow_schema, ddl, declared, require_plain_text
from tidegate.spark.driver.determinism import nondeterministic_parts, not_row_wise
from tidegate.spark.driver.hashing import quoted
from tidegate.spark.driver.join_columns import JoinColumns
from tidegate.spark.driver.returned import raised, require_frame
from tidegate.spark.driver.spark_errors import error_of_function
from tidegate.spark.driver.tables import TableColumns
from tidegate.spark.driver.windows import require_time
from tidegate.spark.executor.partitions import PLACE, ExchangePlan
from tidegate.state.layout import DELETE, StateLayout
from tidegate.state.type_names import type_name

if TYPE_CHECKING:
    import pyarrow as pa

#: The detail of a file that names the stream of its rows, if that is not the stream of emitted rows.
SIDE = "side"

Arrived = Mapping[str, Sequence[Data]]


class Streams:
    """Frames and layouts of one pipeline on one session."""

    def __init__(self, graph: Graph, session: SparkSession, storage_url: str) -> None:
        self.session = session
        self._graph = graph
        self._storage_url = storage_url
        self._sources = {vertex.name: vertex for vertex in graph.sources}
        self._producers = {vertex.name: vertex for vertex in graph.producers}
        self._declared: dict[str, StateLayout] = {}
        self._computed: dict[str, StateLayout] = {}
        self._outputs: dict[str, StructType] = {}
        self._inputs: dict[str, StructType] = {}
        self._left_to_spark: set[str] = set()
        self._row_wise: dict[Stream, bool] = {}  # by the first data: it decides the number of tasks

    def frame(self, stream: Stream, arrived: Arrived) -> DataFrame:
        """Return the data that arrived from the stream's origin, given by vertex name; an empty frame of the same
        columns if none did.

        If an operator sent the row of a key several times, the frame has only the last one.
        """
        data = arrived.get(stream.origin, ())
        frame: DataFrame
        if stream.origin in self._sources:
            segments = [item for item in data if isinstance(item, Segment)]
            frame = read_segments(self._sources[stream.origin], self.session, segments, stream.output)
        else:
            exchanges = [item for item in data if isinstance(item, Exchange)]
            match self._producers[stream.origin]:
                case KeyedVertex() as origin if stream.output == LATE_ROWS:
                    frame = self._recorded(self.where(origin), origin.inputs[0], _side(exchanges, late=True))
                case KeyedVertex() as origin if origin.emits:
                    frame = self._emitted(origin, exchanges)
                case KeyedVertex() as origin:
                    frame = self._exchanged(origin, exchanges)
                case StepVertex() as origin:
                    handles = [handle for exchange in exchanges for handle in exchange.handles]
                    frame = self._recorded(self.where(origin), origin.input, handles)
        shown = self.transformed(stream, frame)
        if stream.transforms and data and stream not in self._row_wise:
            self._row_wise[stream] = not not_row_wise(frame, shown)
        return shown

    def is_row_wise(self, stream: Stream) -> bool:
        """Return whether each arrived row becomes one row at most. Known once a frame of arrived data was made."""
        return not stream.transforms or self._row_wise.get(stream, False)

    def transformed(self, stream: Stream, frame: DataFrame) -> DataFrame:
        """Return rows of the stream's origin after its transforms."""
        for transform in stream.transforms:
            frame = self._transformed(stream, transform, frame)
        return frame

    def arrow_reader(self, stream: Stream, arrived: Arrived) -> ArrowReader | None:
        """Return the reader of the arrived segments without Spark; None if Spark must read them."""
        source = self._sources[stream.origin].source
        if stream.output != "rows" or stream.origin in self._left_to_spark or not isinstance(source, ArrowSource):
            return None
        segments = [item for item in arrived[stream.origin] if isinstance(item, Segment)]
        return None if any(segment.ahead for segment in segments) else source.arrow_reader(segments)

    def changed_by(self, stream: Stream) -> KeyedVertex | None:
        """Return the operator whose changed rows of state this stream carries unchanged."""
        origin = self._producers.get(stream.origin)
        is_plain = not stream.transforms and stream.output != LATE_ROWS
        return origin if isinstance(origin, KeyedVertex) and is_plain and not origin.emits else None

    def leave_to_spark(self, stream: Stream) -> None:
        """Read this source only with Spark from now on: a file that Spark must read is seldom the only one."""
        self._left_to_spark.add(stream.origin)

    def require_deterministic(self, what: str, frame: DataFrame) -> None:
        """Raise `PipelineDefinitionError` if consumers and retries would each compute different rows."""
        if parts := nondeterministic_parts(frame):
            raise PipelineDefinitionError(
                f"{what} is not deterministic, because of {', '.join(parts)}: every consumer and every retry would "
                "compute different rows. Nothing was written. Remove it, or move it into a named transform that is not "
                'deterministic: stream.transform(function, deterministic=False, name="…"). Its rows '
                "are computed once and kept until the checkpoint has completed."
            )

    def explain(self, error: BaseException, arrived: Arrived) -> CheckpointError | None:
        """Return a Spark error as explained by the source whose segments were read; None if it is not the source's."""
        for origin, data in arrived.items():
            segments = [item for item in data if isinstance(item, Segment)]
            if segments and (explained := self._sources[origin].source.explain(error, segments)):
                return explained
        return None

    def layout(self, vertex: KeyedVertex, frame: DataFrame | None = None) -> StateLayout:
        """Return the layout of an operator's state. `frame` is its input where that is known already.

        Raise `PipelineDefinitionError`, which names operator and column.
        """
        if not vertex.aggregates:
            if vertex.name not in self._declared:
                self._declared[vertex.name] = self._of_rows(vertex)
            return self._declared[vertex.name]
        stream = vertex.inputs[0]
        if vertex.name not in self._computed or (frame is not None and stream.transforms):  # the user's code may change
            columns = self._columns_of(stream) if frame is None else frame.schema
            self._computed[vertex.name] = self._of_aggregates(vertex, columns)
        return self._computed[vertex.name]

    def aggregate_input(self, vertex: KeyedVertex) -> StructType:
        """Return the columns of its input that a declared aggregate reads."""
        self.layout(vertex)
        return self._inputs[vertex.name]

    def output(self, vertex: KeyedVertex) -> StructType:
        """Return the columns of the rows that an operator emits. Raise `PipelineDefinitionError`, which names it."""
        if vertex.name not in self._outputs:
            self._outputs[vertex.name] = self._of_output(vertex)
        return self._outputs[vertex.name]

    def join_columns(self, vertex: KeyedVertex) -> JoinColumns:
        """Return the columns of a join. Raise `PipelineDefinitionError`, which names the operator, if its two inputs do
        not fit."""
        assert vertex.join is not None
        left, right = (self.frame(stream, {}).schema for stream in vertex.inputs)
        return JoinColumns(self.where(vertex), vertex.join, vertex.key, left, right)

    def table_columns(self, vertex: KeyedVertex) -> TableColumns:
        """Return the columns of a table. Raise `PipelineDefinitionError`, which names the operator, if its input does
        not fit."""
        assert vertex.table is not None
        return TableColumns(self.where(vertex), vertex.table, vertex.key, self.frame(vertex.inputs[0], {}).schema)

    def empty(self, schema: "pa.Schema") -> DataFrame:
        """Return a frame with the columns of a `pyarrow.Schema`, which the optimiser knows to be empty."""
        columns = [f"cast(null as {type_name(field.type)}) as {quoted(field.name)}" for field in schema]
        return self.session.range(1).where("false").selectExpr(*columns)

    def require_columns(self, where: str, columns: Sequence[str], there: Sequence[str]) -> None:
        if missing := [name for name in columns if name not in there]:
            raise PipelineDefinitionError(
                f"The {where} needs column {', '.join(map(repr, missing))}, but its input has only "
                f"{', '.join(there)}. Correct the name, or add the column in a transform in front of it."
            )

    def where(self, vertex: StepVertex | KeyedVertex | SinkVertex) -> str:
        return f"{kind_of(vertex)} {vertex.name!r} of pipeline {self._graph.pipeline.name!r}"

    def _columns_of(self, stream: Stream) -> StructType:
        """Return the columns of a stream. A source that can be read without Spark declares them, so that Spark SQL need
        not start."""
        source = self._sources[stream.origin].source if stream.origin in self._sources else None
        if isinstance(source, ArrowSource) and stream.output == "rows" and not stream.transforms:
            columns = declared(source.schema)
            if columns is not None:
                return columns
        return self.frame(stream, {}).schema

    def _exchanged(self, origin: KeyedVertex, exchanges: Sequence[Exchange]) -> DataFrame:
        layout = self.layout(origin)
        sent = [exchange.handles for exchange in exchanges]
        return self._latest(sent, layout.rows, layout.key_names) if any(sent) else self.empty(layout.rows)

    def _latest(self, sent: Sequence[Sequence[StateHandle]], columns: "pa.Schema", key: Sequence[str]) -> DataFrame:
        """Return the rows of several exchanges, oldest first, keeping the last row of each key. One exchange has no key
        twice."""
        newest = len(sent) > 1
        handles = tuple(handle for exchange in sent for handle in exchange)
        order = tuple(at for at, exchange in enumerate(sent) for _ in exchange) if newest else None
        plan = ExchangePlan(handles, self._storage_url, columns, order)
        schema = ddl(columns) + (f", {PLACE} bigint" if newest else "")
        frame = self.session.range(0, len(handles), 1, len(handles)).mapInArrow(plan.run, schema)
        if not newest:
            return frame
        row = ", ".join(quoted(field.name) for field in columns)
        last = F.expr(f"max_by(struct({row}), {PLACE}) as row")
        return frame.groupBy(*map(quoted, key)).agg(last).select("row.*")

    def _recorded(self, where: str, like: Stream, handles: Sequence[StateHandle]) -> DataFrame:
        """Return rows as they were computed, in the columns that they had then; without files, an empty frame of a
        stream."""
        if not handles:
            return self._nothing(self.frame(like, {}).schema)
        if len(columns := {handle.details["columns"] for handle in handles}) > 1:
            raise StateSchemaError(
                f"The {where} returned rows with different columns in one batch: "
                f"{', '.join(sorted(columns))}. Nothing was written. Let its function return the same columns each "
                "time."
            )
        return self._written(handles, StructType.fromJson(json.loads(columns.pop())))

    def _emitted(self, origin: KeyedVertex, exchanges: Sequence[Exchange]) -> DataFrame:
        """Return all rows, each as often as it was emitted. Of corrected windows, return the last row."""
        schema = self.output(origin)
        sent = [_side([exchange], late=False) for exchange in exchanges]
        if not any(sent):
            return self._nothing(schema)
        if origin.updates:
            return self._latest(sent, arrow_schema(schema), origin.state_key)
        return self._written([handle for handles in sent for handle in handles], schema)

    def _written(self, handles: Sequence[StateHandle], schema: StructType) -> DataFrame:
        plan = ExchangePlan(tuple(handles), self._storage_url, arrow_schema(schema))
        return self.session.range(0, len(handles), 1, len(handles)).mapInArrow(plan.run, schema)

    def _nothing(self, schema: StructType) -> DataFrame:
        columns = [F.lit(None).cast(field.dataType).alias(field.name) for field in schema.fields]
        return self.session.range(1).where("false").select(*columns)

    def _transformed(self, stream: Stream, transform: Transform, frame: DataFrame) -> DataFrame:
        where = f"A transform after {stream.origin!r} of pipeline {self._graph.pipeline.name!r}"
        try:
            result = transform(frame)
        except CheckpointError:
            raise
        except Exception as error:
            raise error_of_function(error, where, f"{where} raised {raised(error)}") from error
        require_frame(where, result)
        return result

    def _of_rows(self, vertex: KeyedVertex) -> StateLayout:
        if vertex.join is not None:
            columns = self.join_columns(vertex)
            self._named(vertex, lambda: StateLayout.of_rows(arrow_schema(columns.output), vertex.key))  # as types go
            schema = columns.state
        elif vertex.table is not None:
            schema = self.table_columns(vertex).state
        else:
            schema = self._columns(f"The state of {self.where(vertex)}", vertex.state or "")
        rows = arrow_schema(schema)
        return self._named(vertex, lambda: StateLayout.of_rows(rows, vertex.key, vertex.defaults).living(vertex.ttl))

    def _of_output(self, vertex: KeyedVertex) -> StructType:
        if vertex.join is not None:
            return self.join_columns(vertex).output
        if vertex.table is not None:
            return self.table_columns(vertex).output
        if vertex.window is not None:
            emitted = self._columns(f"The output of {self.where(vertex)}", ddl(self.layout(vertex).rows))
            return emitted.add(DELETE, "boolean") if vertex.withdraws else emitted
        what = f"The output of {self.where(vertex)}"
        schema = self._columns(what, vertex.output or "")
        names = [name.lower() for name in schema.names]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise PipelineDefinitionError(
                f"{what} has the column {', '.join(twice)} more than once. Its rows are kept in files, so it needs a "
                "distinct name for each."
            )
        return schema.toNullable()

    @staticmethod
    def _columns(what: str, ddl: str) -> StructType:
        cause = "it is the name of one type."
        try:
            schema = StructType.fromDDL(ddl)
        except Exception as error:
            cause, schema = str(error), None
        if not isinstance(schema, StructType):
            raise PipelineDefinitionError(
                f"{what} is {ddl!r}, which is not a list of columns and types such as 'origin string, flights bigint': "
                f"{cause}"
            )
        return schema

    def _of_aggregates(self, vertex: KeyedVertex, columns: StructType) -> StateLayout:
        needed = read_by(vertex)
        self.require_columns(self.where(vertex), needed, columns.names)
        fields = [field for field in columns.fields if field.name in needed]
        require_plain_text(self.where(vertex), fields)
        if vertex.window is not None:
            require_time(self.where(vertex), vertex.window, columns)
            fields = [field for field in fields if field.name not in BOUNDS]
        self._inputs[vertex.name] = StructType(fields)
        if vertex.window is not None:
            fields += [StructField(name, TimestampType()) for name in BOUNDS]
        types = arrow_schema(StructType(fields))

        def layout() -> StateLayout:
            plain = StateLayout.of_aggregates(types, vertex.state_key, vertex.aggregates).living(vertex.ttl)
            return replace(plain, sessions=vertex.has_sessions)

        return self._named(vertex, layout)

    def _named(self, vertex: KeyedVertex, make: Callable[[], StateLayout]) -> StateLayout:
        try:
            return make()
        except PipelineDefinitionError as error:
            raise PipelineDefinitionError(f"The {self.where(vertex)} cannot be run: {error}") from error


def read_by(vertex: KeyedVertex) -> list[str]:
    """Return the columns of its input that a declared aggregate reads, key first."""
    return list(dict.fromkeys((*vertex.key, *(column for _, a in vertex.aggregates for column in a.columns()))))


def _side(exchanges: Sequence[Exchange], late: bool) -> list[StateHandle]:
    """Return the files with rows that arrived too late for windows, or those with emitted rows."""
    handles = (handle for exchange in exchanges for handle in exchange.handles)
    return [handle for handle in handles if (handle.details.get(SIDE) == LATE_ROWS) is late]


def kind_of(vertex: StepVertex | KeyedVertex | SinkVertex) -> str:
    return {StepVertex: "step", KeyedVertex: "operator", SinkVertex: "sink"}[type(vertex)]
