"""`SparkRegion`: executes a pipeline's operators on one Spark session, checkpoint by checkpoint.

Reading order: the two drivers of `dataflow`, which order the work; `driver.jobs`, `driver.operator_jobs` (the Spark
jobs), `executor.partitions` (the code inside them), `driver.frames` and `driver.compaction`.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from sys import modules
from types import ModuleType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql import SparkSession

from tidegate.dataflow.continuous_driver import ContinuousDriver
from tidegate.dataflow.jobs import Parts
from tidegate.dataflow.scheduled_driver import ScheduledDriver
from tidegate.pipeline.graph import Graph
from tidegate.pipeline.vertices import StepVertex
from tidegate.ports import Acknowledger, CheckpointStorage, Clock, PortableSink
from tidegate.protocol.continuous.regions import RegionStart
from tidegate.protocol.facts.names import STORAGE, Target, staged_by
from tidegate.protocol.facts.paths import directory, shared_directory
from tidegate.protocol.facts.records import (
    CheckpointRecord,
    CompactedRun,
    Snapshot,
    StateHandle,
    SubtaskId,
    SubtaskRecord,
)
from tidegate.protocol.recovery.canonical import FileCopy, Rewrite
from tidegate.protocol.steps.snapshot import SnapshotTask
from tidegate.settings import Settings
from tidegate.spark.driver.export import export_files
from tidegate.spark.driver.frames import Frames
from tidegate.spark.driver.jobs import SparkJobs
from tidegate.spark.driver.state_location import StateLocation
from tidegate.spark.driver.streams import Streams
from tidegate.spark.executor.exporting import ExportPlan
from tidegate.spark.session.packaging import travel_by_value
from tidegate.spark.session.sessions import adopt_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SparkRegion:
    """See `ports.Region` and `ports.Exporter`: for a whole pipeline. It keeps no data between calls.

    `session` is any Spark 4.1+ session, classic or Connect. Its time zone is set to UTC and the library is added to it.
    Storage, sources and sinks must be reachable from the executors under the same URLs.
    """

    def __init__(
        self,
        graph: Graph,
        session: SparkSession,
        storage: CheckpointStorage,
        clock: Clock,
        settings: Settings | None = None,
    ) -> None:
        self.graph = graph
        self.session = adopt_session(session)
        self.location = StateLocation(graph, storage.url, (settings or Settings.from_environment()).cache)
        self.streams = Streams(graph, session, storage.url)
        jobs = SparkJobs(graph, self.streams, self.location)
        self.parts = Parts(graph, storage, jobs, clock, lambda: uuid4().hex)
        travel_by_value(_modules_of(graph))

    def snapshot(self, task: SnapshotTask, acknowledge: Acknowledger) -> None:
        """See `ports.Region`. Raise only `CheckpointError`s. After any error, repeating the step is safe."""
        ScheduledDriver(self.parts, task, acknowledge).execute()

    def run(self, begin: RegionStart, background: Executor) -> ContinuousDriver:
        """Return a driver that runs the pipeline continuously from the start of an attempt. See `ContinuousDriver`."""
        below = shared_directory(self.graph.pipeline.name, begin.attempt)
        return ContinuousDriver(self.parts, below, begin.attempt, begin.restored, background)

    def compact(self, checkpoint_id: int, snapshots: Mapping[SubtaskId, Snapshot]) -> list[CompactedRun]:
        """See `ports.Region`: one Spark job for all subtasks that have too many runs, and none if there are no such
        subtasks."""
        chk = directory(self.graph.pipeline.name, checkpoint_id)
        return self.parts.jobs.compact(checkpoint_id, snapshots, chk)

    def export(
        self, record: CheckpointRecord, location: str, rewrites: Sequence[Rewrite], copies: Sequence[FileCopy]
    ) -> Mapping[SubtaskId, StateHandle]:
        """See `ports.Exporter`: one Spark job with a task for each file."""
        owners = {staged_by(vertex.operator_id): vertex.sink for vertex in self.graph.sinks}
        urls = {owner: sink.staging().url for owner, sink in owners.items() if isinstance(sink, PortableSink)}
        urls[STORAGE] = self.location.storage_url
        plan = ExportPlan(
            record.pipeline_id,
            record.checkpoint_id,
            tuple(rewrites),
            tuple((urls[copy.owner], copy.handle, copy.path) for copy in copies),
            self.location.storage_url,
            location,
            self.location.cache_dir,
        )
        return export_files(self.session, plan)

    def frame(
        self, target: Target, subtasks: Mapping[SubtaskId, SubtaskRecord], record: CheckpointRecord
    ) -> "DataFrame | None":
        """See `ports.Region`. Raise `PipelineDefinitionError` if the pipeline has no such target."""
        return Frames(self.graph, self.streams, self.location, subtasks, record).of(target)


def _modules_of(graph: Graph) -> set[ModuleType]:
    """Return the modules of the user's functions and connectors, which executors cannot import."""
    functions: list[Any] = [vertex.update for vertex in graph.keyed if vertex.update is not None]
    functions += [check.query for check in graph.checks]
    for vertex in graph.keyed:
        functions += [transform for stream in vertex.inputs for transform in stream.transforms]
    for step in graph.producers:
        functions += step.input.transforms if isinstance(step, StepVertex) else ()
    for sink in graph.sinks:
        functions += [*sink.input.transforms, *type(sink.sink).__mro__, type(sink.sink.writer())]
    for source in graph.sources:
        functions += type(source.source).__mro__
    names = {getattr(function, "__module__", None) for function in functions}
    return {modules[name] for name in names if name in modules}
