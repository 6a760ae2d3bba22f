"""The rows of a verdict's target as a DataFrame: a sink's staged rows, an operator's state, or a check's query over
sinks.

None stands for no rows, so that an empty checkpoint is validated without a Spark job.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidegate.pipeline.graph import Graph
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.facts.names import Target, TargetKind
from tidegate.protocol.facts.records import (
    CheckpointRecord,
    HandleKind,
    Snapshot,
    StateHandle,
    SubtaskId,
    SubtaskRecord,
)
from tidegate.protocol.schema.expiry import Moment
from tidegate.protocol.steps.sink_marks import DELETES
from tidegate.spark.driver.columns import ddl
from tidegate.spark.driver.state_location import StateLocation
from tidegate.spark.driver.streams import Streams
from tidegate.spark.executor.partitions import ScanPlan
from tidegate.state.expiring import decide_expiry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Frames:
    """Frames over the acknowledged subtasks of one checkpoint."""

    def __init__(
        self,
        graph: Graph,
        streams: Streams,
        location: StateLocation,
        subtasks: Mapping[SubtaskId, SubtaskRecord],
        record: CheckpointRecord,
    ) -> None:
        self._graph = graph
        self._streams = streams
        self._location = location
        self._subtasks = subtasks
        self._moment = Moment.of(record)

    def of(self, target: Target) -> "DataFrame | None":
        """Return the rows of a target. Raise `PipelineDefinitionError` if the pipeline has no such target."""
        name = target.name
        if target.kind is TargetKind.SINK and any(sink.name == name for sink in self._graph.sinks):
            return self._staged(name)
        if target.kind is TargetKind.STATE and any(vertex.name == name for vertex in self._graph.keyed):
            return self._state(name)
        if target.kind is TargetKind.CHECK and any(check.name == name for check in self._graph.checks):
            return self._checked(name)
        raise PipelineDefinitionError(
            f"Pipeline {self._graph.pipeline.name!r} has no {str(target)!r}. There is sink:NAME for "
            f"{', '.join(v.name for v in self._graph.sinks) or 'no sink'}, state:NAME for "
            f"{', '.join(v.name for v in self._graph.keyed) or 'no operator'}, and check:NAME for "
            f"{', '.join(v.name for v in self._graph.checks) or 'no check'}."
        )

    def _staged(self, name: str) -> "DataFrame | None":
        vertex = self._graph.sink(name)
        staged = self._handles(vertex.operator_id, HandleKind.STAGED)
        handles = [handle for _, handle in staged if DELETES not in handle.details]
        return vertex.sink.read_staged(self._streams.session, handles)

    def _checked(self, name: str) -> "DataFrame | None":
        check = next(check for check in self._graph.checks if check.name == name)
        staged = [self._staged(sink) for sink in check.sinks]
        if all(frame is None for frame in staged):
            return None
        inputs = [
            self._streams.frame(self._graph.sink(sink).input, {}) if frame is None else frame
            for sink, frame in zip(check.sinks, staged, strict=True)
        ]
        return check.query(*inputs)

    def _state(self, name: str) -> "DataFrame | None":
        vertex = next(vertex for vertex in self._graph.keyed if vertex.name == name)
        layout = self._streams.layout(vertex)
        runs: dict[int, list[StateHandle]] = {}
        for index, handle in self._handles(vertex.operator_id, HandleKind.RUN):
            runs.setdefault(index, []).append(handle)
        if not runs:
            return None
        together = [handle for handles in runs.values() for handle in handles]
        layout = self._location.succeeding(vertex, layout, together, self._moment)
        expiry = decide_expiry(layout, together, self._moment)
        specs = tuple(
            self._location.spec(vertex, layout, index, handles, max(handle.created_by for handle in handles), expiry)
            for index, handles in sorted(runs.items())
        )
        partitions = self._streams.session.range(0, len(specs), 1, len(specs))
        return partitions.mapInArrow(ScanPlan(specs).run, ddl(layout.rows))

    def _handles(self, operator_id: str, kind: HandleKind) -> list[tuple[int, StateHandle]]:
        nothing = SubtaskRecord(SubtaskId(operator_id, 0), 0, snapshot=Snapshot())
        found = []
        for index in range(self._graph.pipeline.parallelism):
            record = self._subtasks.get(SubtaskId(operator_id, index), nothing)
            found += [(index, handle) for handle in record.snapshot.handles if handle.kind is kind]
        return found
