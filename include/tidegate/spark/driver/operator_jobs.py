"""The Spark jobs of an operator chain: a step, an aggregate, a user's function over state, or a sink by itself.

Each builds one DataFrame of reports from what arrived. The work itself is in `partitions.py`.
"""

from collections.abc import Sequence, Set
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tidegate.dataflow.execution_plan import ExecutionPlan
from tidegate.dataflow.operator_chains import Execution
from tidegate.dataflow.reports import Report
from tidegate.pipeline.definition import KeyedVertex, SinkVertex, StepVertex, Stream
from tidegate.pipeline.graph import Graph
from tidegate.ports import Segment
from tidegate.protocol.errors import CheckpointError, PipelineDefinitionError
from tidegate.protocol.records import SubtaskId
from tidegate.spark.driver.hashing import key_expressions, quoted, subtask_expression
from tidegate.spark.driver.run_job import Emit, run_job
from tidegate.spark.driver.state_location import StateLocation
from tidegate.spark.driver.streams import Streams, arrow_schema, ddl
from tidegate.spark.executor.partitions import KeyedPlan, LookupPlan, RestagingPlan, StagingPlan, StepPlan
from tidegate.spark.executor.report_rows import REPORT_TYPE
from tidegate.state.layout import DELETE, StateLayout, plain_type, type_name


class OperatorJobs:
    """Executes chains as one plan says. Its methods may run in several threads at once."""

    def __init__(self, graph: Graph, streams: Streams, location: StateLocation, plan: ExecutionPlan) -> None:
        self._streams = streams
        self._location = location
        self._plan = plan
        self._parallelism = graph.pipeline.parallelism
        self._subtask = subtask_expression(graph.pipeline.parallelism, graph.pipeline.max_parallelism)

    def run(self, execution: Execution, emit: Emit) -> None:
        """Run what arrived at the chain, if anything did."""
        staged: set[SubtaskId] = set()

        def note(reports: list[Report]) -> None:
            staged.update(SubtaskId(report.operator_id, report.subtask_index) for report in reports)
            emit(reports)

        vertex = execution.chain.vertex
        match vertex:
            case KeyedVertex():
                if execution.has_input:
                    run_job(self._keyed(execution, vertex), note)
                for sink in execution.chain.sinks:
                    self._restage(execution, vertex, sink, staged, emit)
            case StepVertex():
                if execution.has_input:
                    run_job(self._step(execution, vertex), emit)
            case SinkVertex():
                if execution.has_input:
                    run_job(self._sink(execution, vertex), emit)

    def _input(self, execution: Execution, vertex: KeyedVertex | SinkVertex, stream: Stream) -> DataFrame:
        """What arrived of a stream. It must be the same for every consumer and every retry."""
        frame = self._streams.frame(stream, execution.arrived)
        if execution.arrived.get(stream.origin):
            what = f"What {self._streams.where(vertex)} reads of {stream.origin!r}"
            self._streams.require_deterministic(what, frame)
        return frame

    def _step(self, execution: Execution, vertex: StepVertex) -> DataFrame:
        rows = self._streams.frame(vertex.input, execution.arrived)
        if len({name.lower() for name in rows.columns}) != max(len(rows.columns), 1):
            raise PipelineDefinitionError(
                f"The {self._streams.where(vertex)} returned the columns {', '.join(rows.columns) or 'none'}. Its rows "
                "are kept in files, so it needs at least one column, and a distinct name for each. Nothing was "
                "written."
            )
        plan = StepPlan(
            vertex.operator_id,
            self._location.storage_url,
            self._plan.prefixes(vertex),
            rows.schema.toNullable().json(),
            self._plan.checkpoint_id,
        )
        return rows.coalesce(self._parallelism).mapInArrow(plan.run, REPORT_TYPE)

    def _keyed(self, execution: Execution, vertex: KeyedVertex) -> DataFrame:
        if vertex.update is None:
            rows, layout = self._aggregate_input(execution, vertex)
        else:
            rows, layout = self._update_result(execution, vertex)
        together = vertex.update is None and _is_small(vertex.inputs[0], execution)
        plan = KeyedPlan(
            program="aggregate" if vertex.update is None else "upsert",
            operator_id=vertex.operator_id,
            specs=self._location.specs(
                vertex,
                self._location.layout(vertex, layout, self._plan),
                self._plan,
                self._plan.pending(execution.chain),
            ),
            stagings=tuple(self._plan.staging(sink) for sink in execution.chain.sinks),
            exchange=execution.chain.exchanges,
            together=together,
        )
        placed = rows.coalesce(1) if together else self._by_subtask(rows)
        return placed.mapInArrow(plan.run, REPORT_TYPE)

    def _aggregate_input(self, execution: Execution, vertex: KeyedVertex) -> tuple[DataFrame, StateLayout]:
        frame = self._input(execution, vertex, vertex.inputs[0])
        layout = self._streams.layout(vertex, frame)
        read = dict.fromkeys(column for _, aggregate in vertex.aggregates for column in aggregate.columns())
        inputs = [quoted(name) for name in read if name not in vertex.key]
        return frame.selectExpr(*key_expressions(layout.keys), *inputs), layout

    def _update_result(self, execution: Execution, vertex: KeyedVertex) -> tuple[DataFrame, StateLayout]:
        where = self._streams.where(vertex)
        layout = self._streams.layout(vertex)
        batches = [self._input(execution, vertex, stream) for stream in vertex.inputs]
        for batch in batches:
            self._streams.require_columns(where, vertex.key, batch)
            require_types(f"A batch of {where}", batch.select(*map(quoted, vertex.key)), layout)
        state = self._state(vertex, layout, batches)
        assert vertex.update is not None
        try:
            result = vertex.update(*batches, state)
        except CheckpointError:
            raise
        except Exception as error:
            raise PipelineDefinitionError(
                f"The function of {where} raised {type(error).__name__}: {error}. Nothing was written; correct it."
            ) from error
        checked = self._checked(vertex, layout, result)
        self._streams.require_deterministic(f"What the function of {where} returns", checked)
        return checked, layout

    def _state(self, vertex: KeyedVertex, layout: StateLayout, batches: Sequence[DataFrame]) -> DataFrame:
        layout = self._location.layout(vertex, layout, self._plan)
        specs = self._location.specs(vertex, layout, self._plan, range(self._parallelism))
        if not any(spec.runs for spec in specs.values()):
            return self._streams.empty(layout.rows)
        keys = [batch.selectExpr(*key_expressions(layout.keys)) for batch in batches]
        asked = keys[0]
        for more in keys[1:]:
            asked = asked.unionAll(more)
        return self._by_subtask(asked).mapInArrow(LookupPlan(specs).run, ddl(layout.rows))

    def _checked(self, vertex: KeyedVertex, layout: StateLayout, result: Any) -> DataFrame:
        where = self._streams.where(vertex)
        if not hasattr(result, "mapInArrow"):
            raise PipelineDefinitionError(
                f"The function of {where} returned a {type(result).__name__}, not a DataFrame."
            )
        expected = [field.name for field in layout.rows]
        there = result.columns
        missing = [name for name in expected if name not in there]
        extra = [name for name in there if name not in (*expected, DELETE)]
        if missing or extra or len(set(there)) != len(there):
            raise PipelineDefinitionError(
                f"The function of {where} returned the columns {', '.join(there)}. Its state has "
                f"{', '.join(expected)}: missing {', '.join(missing) or 'none'}, not in the state "
                f"{', '.join(extra) or 'none'}. Return exactly these, and optionally a boolean {DELETE}."
            )
        require_types(f"The function of {where} returned rows whose", result, layout)
        values = [f"cast({quoted(c.name)} as {c.sql}) as {quoted(c.name)}" for c in layout.values]
        delete = [f"coalesce({DELETE}, false) as {DELETE}"] if DELETE in there else []
        checked: DataFrame = result.selectExpr(*key_expressions(layout.keys), *values, *delete)
        return checked

    def _sink(self, execution: Execution, vertex: SinkVertex) -> DataFrame:
        plan = StagingPlan(self._plan.staging(vertex), self._plan.checkpoint_id)
        rows = self._input(execution, vertex, vertex.input)
        return rows.coalesce(self._parallelism).mapInArrow(plan.run, REPORT_TYPE)

    def _restage(
        self, execution: Execution, vertex: KeyedVertex, sink: SinkVertex, staged: Set[SubtaskId], emit: Emit
    ) -> None:
        """Stage the state of subtasks for which nothing arrived. Those in `staged` are done, changes included."""
        candidates = self._plan.to_restage(execution, sink)
        indexes = [index for index in candidates if SubtaskId(sink.operator_id, index) not in staged]
        if indexes:
            layout = self._location.layout(vertex, self._streams.layout(vertex), self._plan)
            specs = self._location.specs(vertex, layout, self._plan, indexes)
            plan = RestagingPlan(tuple(indexes), specs, self._plan.staging(sink))
            frame = self._streams.session.range(0, len(indexes), 1, len(indexes))
            run_job(frame.mapInArrow(plan.run, REPORT_TYPE), emit)

    def _by_subtask(self, rows: DataFrame) -> DataFrame:
        return rows.repartitionById(self._parallelism, F.expr(self._subtask))


#: Bytes of a batch below which exchanging its rows between Spark tasks takes longer than doing all subtasks in one.
_SMALL = 1 << 20


def _is_small(stream: Stream, execution: Execution) -> bool:
    """Whether little arrived, and straight from a source. A transform may make more of it, and data from another
    operator must stay one Spark task per file."""
    arrived = [data for channel in execution.arrived.values() for data in channel]
    straight = not stream.transforms and all(isinstance(data, Segment) for data in arrived)
    return straight and 0 < sum(data.bytes for data in arrived) <= _SMALL


#: Types that Spark may widen without loss: from each to any later one.
_WIDENINGS = (["tinyint", "smallint", "int", "bigint"], ["float", "double"])


def require_types(what: str, frame: DataFrame, layout: StateLayout) -> None:
    """Every column that state holds must have the type it has there, or one that fits into it."""
    declared = {column.name: column.sql for column in (*layout.keys, *layout.values)}
    there = {
        field.name: type_name(plain_type(field.name, arrow_schema(StructType([field])).field(0).type))
        for field in frame.schema.fields
        if field.name in declared
    }
    wrong = [
        f"{name} is {there[name]}, not {declared[name]}" for name in there if not _fits(there[name], declared[name])
    ]
    if wrong:
        raise PipelineDefinitionError(
            f"{what} columns have other types than the state declares: {'; '.join(wrong)}. Cast them, or change the "
            "declared state."
        )


def _fits(actual: str, declared: str) -> bool:
    if actual == declared or actual == "void":
        return True
    return any(
        actual in order and declared in order and order.index(actual) < order.index(declared) for order in _WIDENINGS
    )
