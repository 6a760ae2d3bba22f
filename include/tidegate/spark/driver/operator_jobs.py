"""The Spark jobs of an operator chain: a step, an aggregate, a user's function over state, or a sink by itself.

Each builds one DataFrame of reports from the data that arrived. The work itself is in `partitions.py`.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidegate.dataflow.execution_plan import ExecutionPlan
from tidegate.dataflow.operator_chains import Execution
from tidegate.dataflow.reports import ROWS_LATE, Report, joined
from tidegate.dataflow.staging import Staging
from tidegate.pipeline.graph import Graph
from tidegate.pipeline.session_windows import SessionWindow
from tidegate.pipeline.sink_inputs import derives
from tidegate.pipeline.streams import LATE_ROWS, Stream
from tidegate.pipeline.vertices import KeyedVertex, SinkVertex, StepVertex
from tidegate.pipeline.windows import Window
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.facts.records import HandleKind, StateHandle, SubtaskId
from tidegate.protocol.steps.in_flight import OUTPUT
from tidegate.spark.driver.columns import ddl, map_in_arrow
from tidegate.spark.driver.derived import DerivedStaging
from tidegate.spark.driver.direct_input import SMALL, direct_input, direct_staging, segment_bytes
from tidegate.spark.driver.hashing import key_expressions, quoted, subtask_expression
from tidegate.spark.driver.results import require_keys, result_of, with_given
from tidegate.spark.driver.run_job import Emit, run_direct_job, run_job, run_numbered
from tidegate.spark.driver.state_location import StateLocation
from tidegate.spark.driver.streams import SIDE, Streams, read_by
from tidegate.spark.driver.windows import late_rows, with_sessions, with_windows
from tidegate.spark.executor.ended_windows import EndedWindowsPlan, Ending
from tidegate.spark.executor.partitions import KeyedPlan, LookupPlan, RowsPlan
from tidegate.spark.executor.report_rows import REPORT_TYPE
from tidegate.spark.executor.staging import RestagingPlan, StagingPlan
from tidegate.state.layout import StateLayout
from tidegate.state.sessions import OPEN, ROW
from tidegate.state.windows import Passing


class OperatorJobs:
    """The jobs of chains under one plan. Its methods may run in several threads at once."""

    def __init__(self, graph: Graph, streams: Streams, location: StateLocation, plan: ExecutionPlan) -> None:
        self._graph = graph
        self._streams = streams
        self._location = location
        self._plan = plan
        self._parallelism = graph.pipeline.parallelism
        self._subtask = subtask_expression(graph.pipeline.parallelism, graph.pipeline.max_parallelism)

    def run(self, execution: Execution, emit: Emit) -> None:
        """Run the chain on the data that arrived, if any did."""
        done: dict[SubtaskId, Report] = {}

        def note(reports: list[Report]) -> None:
            done.update({SubtaskId(report.operator_id, report.subtask_index): report for report in reports})
            emit(reports)

        vertex = execution.chain.vertex
        match vertex:
            case KeyedVertex():
                if vertex.window is not None:
                    emit(self._windowed(execution, vertex, vertex.window))
                elif execution.has_input and vertex.emits:
                    emit(self._emitting(execution, vertex))
                elif execution.has_input and not self._ran_directly(execution, vertex, note):
                    run_job(self._keyed(execution, vertex), note)
                for sink in execution.chain.sinks:
                    self._restage(execution, vertex, sink, done, emit)
            case StepVertex():
                if execution.has_input:
                    run_job(self._step(execution, vertex), emit)
            case SinkVertex():
                if execution.has_input and not self._staged_directly(execution, vertex, emit):
                    run_job(self._sink(execution, vertex), emit)

    def _input(self, execution: Execution, vertex: KeyedVertex | SinkVertex, stream: Stream) -> DataFrame:
        """Return the data that arrived from a stream. It must be the same for every consumer and every retry."""
        frame = self._streams.frame(stream, execution.arrived)
        if execution.arrived.get(stream.origin):
            what = f"The input of {self._streams.where(vertex)} from {stream.origin!r}"
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
        plan = RowsPlan(
            vertex.operator_id,
            self._location.storage_url,
            self._plan.prefixes(vertex),
            {"columns": rows.schema.toNullable().json()},  # for readers: the function may answer differently next time
            self._plan.checkpoint_id,
        )
        return map_in_arrow(rows.coalesce(self._parallelism), plan.run, REPORT_TYPE)

    def _keyed(self, execution: Execution, vertex: KeyedVertex) -> DataFrame:
        if vertex.aggregates:
            rows, layout = self._aggregate_input(execution, vertex)
            return self._updated(execution, vertex, layout, "aggregate", rows)
        layout = self._streams.layout(vertex)
        batches = [self._input(execution, vertex, stream) for stream in vertex.inputs]
        require_keys(self._streams, vertex, layout, batches)
        keys = self._placed(execution, vertex, _keys_of(batches, layout))
        small, state = self._is_small(vertex, execution), self._state(vertex, layout, keys)
        result = result_of(self._streams, vertex, layout, batches, state, small)
        # Only a user's function may return rows of keys outside its batches.
        rows = result.upserts if vertex.update is None else with_given(result.upserts, keys)
        reports = self._updated(execution, vertex, layout, "upsert", rows)
        return reports if result.emitted is None else reports.union(self._emitted(execution, vertex, result.emitted))

    def _ran_directly(self, execution: Execution, vertex: KeyedVertex, emit: Emit) -> bool:
        """Aggregate input that the subtasks can read directly. Return whether they could."""
        subtasks = len(self._plan.pending(execution.chain))
        if (direct := direct_input(self._streams, execution, vertex, subtasks)) is None:
            return False
        plan = self._keyed_plan(execution, vertex, self._streams.layout(vertex), "aggregate")
        if run_direct_job(self._streams.session, direct.plan(plan), emit):
            return True
        self._streams.leave_to_spark(vertex.inputs[0])
        return False

    def _updated(
        self, execution: Execution, vertex: KeyedVertex, layout: StateLayout, program: str, rows: DataFrame
    ) -> DataFrame:
        plan = self._keyed_plan(execution, vertex, layout, program)
        return map_in_arrow(self._placed(execution, vertex, rows), plan.run, REPORT_TYPE)

    def _keyed_plan(self, execution: Execution, vertex: KeyedVertex, layout: StateLayout, program: str) -> KeyedPlan:
        """Return the plan of a keyed operator. If it emits, changed rows of state do not go downstream."""
        specs = self._location.specs(
            vertex,
            self._location.layout(vertex, layout, self._plan),
            self._plan,
            self._plan.pending(execution.chain),
        )
        return KeyedPlan(
            program=program,
            operator_id=vertex.operator_id,
            specs=specs,
            stagings=() if vertex.emits else self._stagings(execution),
            exchange=execution.chain.exchanges and not vertex.emits,
            together=self._is_small(vertex, execution),
            emits=vertex.emits,
            checks_keys=vertex.update is not None,
        )

    def _emitting(self, execution: Execution, vertex: KeyedVertex) -> list[Report]:
        """Run an operator that emits. State and emitted rows come from one job and count together, so they are reported
        together."""
        reports: list[Report] = []
        run_job(self._keyed(execution, vertex), reports.extend)
        return joined(reports)

    def _emitted(self, execution: Execution, vertex: KeyedVertex, rows: DataFrame) -> DataFrame:
        plan = self._rows_plan(execution, vertex)
        return map_in_arrow(rows.coalesce(self._parallelism), plan.run, REPORT_TYPE)

    def _rows_plan(self, execution: Execution, vertex: KeyedVertex) -> RowsPlan:
        return RowsPlan(
            vertex.operator_id,
            self._location.storage_url,
            self._plan.prefixes(vertex),
            {OUTPUT: self._graph.outputs[vertex.operator_id]},
            self._plan.checkpoint_id,
            execution.chain.exchanges,
            self._stagings(execution),
            emitted=True,
        )

    def _windowed(self, execution: Execution, vertex: KeyedVertex, window: Window) -> list[Report]:
        """Run a windowed operator. Each subtask first merges rows into open windows, then emits those that the
        watermark has passed. Subtasks without rows need a job of their own. All files count together."""
        ending = None
        if execution.has_windows_due:
            assert execution.watermark is not None
            is_numbered = vertex.corrections is not None and vertex.corrections.numbered
            passing = Passing(execution.closed, execution.watermark, execution.goes, is_numbered, vertex.withdraws)
            ending = Ending(passing, self._rows_plan(execution, vertex))
        reports: list[Report] = []
        if execution.has_input:
            run_job(self._taken_in(execution, vertex, window, ending), reports.extend)
        done = {report.subtask_index for report in reports if ROWS_LATE in report.metrics}  # otherwise late rows alone
        if ending is not None and (ended := self._ended(execution, vertex, ending, done)) is not None:
            run_numbered(self._streams.session, ended, len(ended.indexes), reports.extend)
        return joined(reports)

    def _taken_in(self, execution: Execution, vertex: KeyedVertex, window: Window, ending: Ending | None) -> DataFrame:
        where, frame = self._streams.where(vertex), self._input(execution, vertex, vertex.inputs[0])
        layout = self._streams.layout(vertex, frame)
        read = read_by(vertex)
        sends_late = self._graph.reads_late(vertex.name)
        sent = self._late_plan(vertex, frame) if sends_late else None
        inputs = [quoted(name) for name in read if name not in vertex.key]
        if isinstance(window, SessionWindow):
            rows = with_sessions(where, window, frame, read, execution.gone, sends_late)
            inputs += [OPEN, *([ROW] if sends_late else [])]
            plan = replace(self._keyed_plan(execution, vertex, layout, "sessions"), late=sent)
        else:
            rows = with_windows(where, window, frame, read, execution.gone)
            plan = self._keyed_plan(execution, vertex, layout, "windows")
        keyed = rows.selectExpr(*key_expressions(layout), *inputs)
        plan = plan if ending is None else replace(plan, followed_by=ending.reports)
        reports = map_in_arrow(self._placed(execution, vertex, keyed), plan.run, REPORT_TYPE)
        if sent is None or isinstance(window, SessionWindow):
            return reports
        late = late_rows(where, window, frame, execution.gone)
        return reports.union(map_in_arrow(late.coalesce(self._parallelism), sent.run, REPORT_TYPE))

    def _late_plan(self, vertex: KeyedVertex, frame: DataFrame) -> RowsPlan:
        """Return the plan for late rows, which have the columns of the operator's input."""
        details = {
            SIDE: LATE_ROWS,
            OUTPUT: self._graph.outputs[vertex.operator_id],
            "columns": frame.schema.toNullable().json(),
        }
        url, prefixes = self._location.storage_url, self._plan.prefixes(vertex)
        return RowsPlan(vertex.operator_id, url, prefixes, details, self._plan.checkpoint_id, emitted=True)

    def _ended(
        self, execution: Execution, vertex: KeyedVertex, ending: Ending, done: Set[int]
    ) -> EndedWindowsPlan | None:
        """Return the plan for subtasks that are not `done`; None if they have no state."""
        left = [index for index in self._plan.pending(execution.chain) if index not in done]
        indexes = tuple(index for index in left if self._plan.runs(vertex, index))
        if not indexes:
            return None
        layout = self._location.layout(vertex, self._streams.layout(vertex), self._plan)
        return EndedWindowsPlan(indexes, self._location.specs(vertex, layout, self._plan, indexes), ending)

    def _stagings(self, execution: Execution) -> tuple[Staging, ...]:
        sinks = (sink for sink in execution.chain.sinks if not derives(sink))
        return tuple(self._plan.staging(sink, execution.chain.vertex) for sink in sinks)

    def _aggregate_input(self, execution: Execution, vertex: KeyedVertex) -> tuple[DataFrame, StateLayout]:
        frame = self._input(execution, vertex, vertex.inputs[0])
        layout = self._streams.layout(vertex, frame)
        read = dict.fromkeys(column for _, aggregate in vertex.aggregates for column in aggregate.columns())
        inputs = [quoted(name) for name in read if name not in vertex.key]
        return frame.selectExpr(*key_expressions(layout), *inputs), layout

    def _state(self, vertex: KeyedVertex, layout: StateLayout, keys: DataFrame) -> DataFrame:
        layout = self._location.layout(vertex, layout, self._plan)
        specs = self._location.specs(vertex, layout, self._plan, range(self._parallelism))
        if not any(spec.runs for spec in specs.values()):
            return self._streams.empty(layout.rows)
        return map_in_arrow(keys, LookupPlan(specs).run, ddl(layout.rows))

    def _sink(self, execution: Execution, vertex: SinkVertex) -> DataFrame:
        plan = StagingPlan(self._plan.staging(vertex), self._plan.checkpoint_id)
        rows = self._input(execution, vertex, vertex.input)
        return map_in_arrow(rows.coalesce(self._plan.slots), plan.run, REPORT_TYPE)

    def _staged_directly(self, execution: Execution, vertex: SinkVertex, emit: Emit) -> bool:
        """Stage an operator's changes unchanged, read directly. Return whether that was possible."""
        plan = direct_staging(self._graph, self._streams, self._location, execution, vertex, self._plan)
        return plan is not None and run_direct_job(self._streams.session, plan, emit)

    def _restage(
        self, execution: Execution, vertex: KeyedVertex, sink: SinkVertex, done: Mapping[SubtaskId, Report], emit: Emit
    ) -> None:
        """Stage the state of subtasks for which nothing arrived. With derived columns, also stage subtasks with new
        rows. Subtasks of the sink in `done` are complete, changes included."""
        new = _new_runs(vertex, done) if derives(sink) else {}
        waited_for = (index for index in new if SubtaskId(sink.operator_id, index) in self._plan.attempts)
        candidates = {*self._plan.to_restage(execution, sink), *waited_for}
        indexes = sorted(index for index in candidates if SubtaskId(sink.operator_id, index) not in done)
        if not indexes:
            return
        layout = self._location.layout(vertex, self._streams.layout(vertex), self._plan)
        specs = self._location.specs(vertex, layout, self._plan, indexes)
        staging = self._plan.staging(sink, vertex)
        if derives(sink):
            now = {index: replace(spec, runs=(*spec.runs, *new.get(index, ()))) for index, spec in specs.items()}
            DerivedStaging(self._streams, sink, staging, layout, now).run(self._plan.slots, emit)
            return
        plan = RestagingPlan(tuple(indexes), specs, staging)
        run_numbered(self._streams.session, plan, len(indexes), emit, self._plan.slots)

    def _placed(self, execution: Execution, vertex: KeyedVertex, rows: DataFrame) -> DataFrame:
        """Place rows with their `_hash`: those of a subtask in a Spark task of its own, or all in one."""
        return rows.coalesce(1) if self._is_small(vertex, execution) else self._by_subtask(rows)

    def _is_small(self, vertex: KeyedVertex, execution: Execution) -> bool:
        """Return whether one Spark task may take all rows. A transform may multiply them, unless it turns each row into
        one at most."""
        row_wise = all(self._streams.is_row_wise(stream) for stream in vertex.inputs)
        return row_wise and 0 < (segment_bytes(execution) or 0) <= SMALL

    def _by_subtask(self, rows: DataFrame) -> DataFrame:
        return rows.repartitionById(self._parallelism, F.expr(self._subtask))


def _new_runs(vertex: KeyedVertex, done: Mapping[SubtaskId, Report]) -> dict[int, list[StateHandle]]:
    """Return the runs just written for each subtask."""
    reports = (report for id_, report in done.items() if id_.operator_id == vertex.operator_id)
    written = {r.subtask_index: [run for run in r.handles if run.kind is HandleKind.RUN] for r in reports}
    return {index: runs for index, runs in written.items() if runs}


def _keys_of(batches: Sequence[DataFrame], layout: StateLayout) -> DataFrame:
    """Return the key of each row, with its hash."""
    keys = [batch.selectExpr(*key_expressions(layout)) for batch in batches]
    return reduce(lambda before, more: before.unionAll(more), keys)
