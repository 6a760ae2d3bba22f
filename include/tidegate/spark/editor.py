"""`SparkEditor`: writes the files of an edited savepoint on a Spark session, and returns frames of them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from tidegate.dataflow.execution_plan import identity_of
from tidegate.dataflow.reports import Report
from tidegate.dataflow.staging import Staging
from tidegate.pipeline.sink_inputs import derives
from tidegate.pipeline.vertices import KeyedVertex, SinkVertex
from tidegate.ports import PortableSink, SinkInput
from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.records import CheckpointRecord, HandleKind, StateHandle, SubtaskId, SubtaskRecord
from tidegate.protocol.recovery.canonical import FileCopy, Rewrite
from tidegate.protocol.recovery.editing import Base, staging_root
from tidegate.protocol.schema.expiry import Moment, microseconds
from tidegate.protocol.steps.restored_snapshots import former_names
from tidegate.spark.driver.columns import map_in_arrow
from tidegate.spark.driver.derived import DerivedStaging
from tidegate.spark.driver.editing import checked_changes
from tidegate.spark.driver.export import export_files, runs_of
from tidegate.spark.driver.frames import Frames
from tidegate.spark.driver.hashing import subtask_expression
from tidegate.spark.driver.run_job import collect_numbered, collect_reports
from tidegate.spark.driver.state_location import StateLocation
from tidegate.spark.executor.exporting import EditPlan, ExportPlan
from tidegate.spark.executor.report_rows import REPORT_TYPE
from tidegate.spark.executor.staging import RestagingPlan
from tidegate.spark.region import SparkRegion
from tidegate.state.expiring import decide_expiry
from tidegate.state.layout import StateLayout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SparkEditor:
    """See `ports.Editor`: for one base, with a region's definition and session."""

    def __init__(self, region: SparkRegion, base: Base) -> None:
        self._region = region
        self._graph = region.graph
        self._base = base
        self._vertices = {vertex.operator_id: vertex for vertex in region.graph.keyed}
        self._at = microseconds(region.parts.clock.now())  # given rows count as changed now
        self._renamed = former_names(base.metadata.record, region.graph.renamed)

    def checked(self, operator_id: str, rows: "DataFrame", removed: bool) -> "DataFrame":
        """See `ports.Editor`."""
        vertex = self._vertices[operator_id]
        where = self._region.streams.where(vertex)
        return checked_changes(where, self._layout(vertex), rows, removed, self._at)

    def rewrite(
        self,
        record: CheckpointRecord,
        location: str,
        rewrites: Sequence[Rewrite],
        copies: Sequence[FileCopy],
        changes: "Mapping[str, DataFrame]",
    ) -> Mapping[SubtaskId, StateHandle]:
        """See `ports.Editor`: a Spark job for each operator with changes, and one for everything else."""
        found: dict[SubtaskId, StateHandle] = {}
        for operator_id, rows in changes.items():
            own = [rewrite for rewrite in rewrites if rewrite.subtask.operator_id == operator_id]
            found |= self._changed(self._plan(record, location, own), operator_id, rows)
        rest = [rewrite for rewrite in rewrites if rewrite.runs and rewrite.subtask not in found]
        copied = [(self._base.url, copy.handle, copy.path) for copy in copies]
        return {**found, **export_files(self._region.session, self._plan(record, location, rest, copied))}

    def _changed(self, plan: ExportPlan, operator_id: str, rows: "DataFrame") -> dict[SubtaskId, StateHandle]:
        pipeline = self._graph.pipeline
        subtask = F.expr(subtask_expression(pipeline.parallelism, pipeline.max_parallelism))
        placed = map_in_arrow(rows.repartitionById(pipeline.parallelism, subtask), EditPlan(plan).run, REPORT_TYPE)
        return runs_of(collect_reports(placed, self._region.streams.where(self._vertices[operator_id])))

    def _plan(
        self,
        record: CheckpointRecord,
        location: str,
        rewrites: Sequence[Rewrite],
        copies: Sequence[tuple[str, StateHandle, str]] = (),
    ) -> ExportPlan:
        operators = {rewrite.subtask.operator_id for rewrite in rewrites}
        layouts = {operator_id: self._layout(self._vertices[operator_id]) for operator_id in operators}
        return ExportPlan(
            record.pipeline_id,
            record.checkpoint_id,
            tuple(rewrites),
            tuple(copies),
            self._base.url,
            location,
            self._region.location.cache_dir,
            layouts,
        )

    def _layout(self, vertex: KeyedVertex) -> StateLayout:
        """Return the definition's layout as the successor of the base's."""
        former = self._renamed.get(vertex.operator_id, vertex.operator_id)
        subtasks = self._base.metadata.subtasks.values()
        runs = [
            handle
            for known in subtasks
            if known.subtask.operator_id == former
            for handle in known.snapshot.handles
            if handle.kind is HandleKind.RUN
        ]
        return self._located(self._base.url).succeeding(
            vertex, self._region.streams.layout(vertex), runs, Moment(self._base.checkpoint_id, self._at)
        )

    def _located(self, url: str) -> StateLocation:
        return StateLocation(self._graph, url, self._region.location.cache_dir)

    def restage(
        self, record: CheckpointRecord, location: str, subtasks: Mapping[SubtaskId, SubtaskRecord]
    ) -> Mapping[SubtaskId, Sequence[StateHandle]]:
        """See `ports.Editor`: a Spark job for each sink of current rows."""
        found: dict[SubtaskId, Sequence[StateHandle]] = {}
        for vertex in self._graph.sinks:
            if vertex.operator_id in self._graph.restaged:
                found |= self._restaged(vertex, record, location, subtasks)
        return found

    def _restaged(
        self,
        sink: SinkVertex,
        record: CheckpointRecord,
        location: str,
        subtasks: Mapping[SubtaskId, SubtaskRecord],
    ) -> dict[SubtaskId, Sequence[StateHandle]]:
        assert isinstance(sink.sink, PortableSink)
        operator = self._vertices[sink.input.origin]
        layout, located = self._layout(operator), self._located(location)
        indexes = tuple(range(self._graph.pipeline.parallelism))
        runs = {}
        for index in indexes:
            handles = subtasks[SubtaskId(operator.operator_id, index)].snapshot.handles
            runs[index] = [handle for handle in handles if handle.kind is HandleKind.RUN]
        expiry = decide_expiry(layout, [run for handles in runs.values() for run in handles], Moment.of(record))
        specs = {
            index: located.spec(operator, layout, index, own, record.checkpoint_id, expiry)
            for index, own in runs.items()
        }
        writer = sink.sink.writer_at(f"{location.rstrip('/')}/{staging_root(sink.operator_id)}")
        staging = Staging(sink.operator_id, writer, True, dict.fromkeys(indexes, 1), identity_of(sink))
        streams, reports = self._region.streams, list[Report]()
        if derives(sink):
            DerivedStaging(streams, sink, staging, layout, specs).run(len(indexes), reports.extend)
        else:
            plan = RestagingPlan(indexes, specs, staging)
            reports = collect_numbered(self._region.session, plan, len(indexes), streams.where(sink))
        return {SubtaskId(report.operator_id, report.subtask_index): report.handles for report in reports}

    def frame(
        self, location: str, target: Target, subtasks: Mapping[SubtaskId, SubtaskRecord], record: CheckpointRecord
    ) -> "DataFrame | None":
        """Return the rows of a verdict's target for a savepoint written to `location`; see `ports.Region.frame`."""
        located = self._located(location)
        return EditedFrames(self._graph, self._region.streams, located, subtasks, record).of(target)


class EditedFrames(Frames):
    """Frames of a savepoint. A table of current rows shows the state of its operator. Other sinks have nothing
    staged."""

    def _staged(self, name: str) -> "DataFrame | None":
        vertex = self._graph.sink(name)
        state = self._state(vertex.input.origin) if vertex.sink.input is SinkInput.CURRENT else None
        return None if state is None else self._streams.transformed(vertex.input, state)
