"""The steps of a checkpoint as ordinary Airflow operators, one per step. `dag` wires them; a user's DAG may too.

They decide what a step's outcome means to Airflow. The coordinator alone decides whether a step is safe: each operator
may run twice, late, or never. XCom carries only the checkpoint's id.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, Context

from tidegate.airflow.assets import sink_asset, unannounced
from tidegate.airflow.links import CheckpointLink, ValidationReportLink
from tidegate.airflow.request import directory_of, is_canonical
from tidegate.airflow.running_region import only_while_wanted, running_region, stop_spark
from tidegate.airflow.step import CheckpointStep
from tidegate.airflow.triggers import HoldTrigger
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.graph import Graph
from tidegate.pipeline.vertices import SinkVertex
from tidegate.protocol.facts.errors import (
    CheckpointHeldError,
    StoreUnavailableError,
)
from tidegate.protocol.facts.lifecycle import Phase
from tidegate.protocol.facts.records import CheckpointRecord, SubtaskId, SubtaskRecord, Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.coordination.coordinator import CheckpointCoordinator
    from tidegate.spark.region import SparkRegion

DEFAULT_SPARK = "spark_default"


class SparkStep(CheckpointStep):
    """A step that needs Spark, which stops with the task.

    Args:
        spark_conn_id: The id of the Airflow connection to Spark.
        optimizing_compiler: See `checkpoint_dag`.
    """

    def __init__(self, *, spark_conn_id: str = DEFAULT_SPARK, optimizing_compiler: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.spark_conn_id = spark_conn_id
        self.optimizing_compiler = optimizing_compiler
        self._session: SparkSession | None = None

    @contextmanager
    def region(self) -> "Iterator[SparkRegion]":
        # It logs everything it loads, in hundreds of lines that would bury Tidegate's in the task's log.
        logging.getLogger("great_expectations").setLevel(logging.WARNING)
        with running_region(self.resolve_pipeline(), self.spark_conn_id, self.optimizing_compiler) as region:
            self._session = region.session
            yield region

    def on_kill(self) -> None:
        self._stopped = True
        if self._session is not None:
            stop_spark(self._session)


class SnapshotOperator(SparkStep):
    """Takes the snapshot of a region on Spark. A retry resumes the same checkpoint, as a new attempt.

    A definition that differs from that of the newest checkpoint is checked first, without data. Staged rows are
    validated here too, while Spark is running; only good verdicts count, and everything else is left to `validate`. A
    running continuous region takes the snapshot itself; then this task has nothing to do, and `acknowledge` waits for
    the region.
    """

    def take_step(self, coordinator: "CheckpointCoordinator", checkpoint_id: int, context: Context) -> None:
        from tidegate.assembly import require_definition

        if coordinator.acknowledge(checkpoint_id).phase is not Phase.TRIGGERED:
            self.log.info("Every subtask has acknowledged checkpoint %s; Spark is not needed.", checkpoint_id)
            return
        if coordinator.has_live_region():
            self.log.info(
                "The continuous region takes its snapshot of checkpoint %s; Spark is not needed.", checkpoint_id
            )
            return
        with self.region() as region, only_while_wanted(coordinator, checkpoint_id, region.session):
            require_definition(coordinator, lambda: region)
            record = coordinator.snapshot(checkpoint_id, region)
            self.log.info("%s of %s subtasks have acknowledged.", record.num_acknowledged, record.num_subtasks)
            self._validate_early(coordinator, checkpoint_id, region)

    def _validate_early(self, coordinator: "CheckpointCoordinator", checkpoint_id: int, region: "SparkRegion") -> None:
        """Validate the staged rows early, because starting Spark for `validate` takes longer. No error is raised: this
        task has done its step, and the next ones report any problem.
        """
        from tidegate.assembly import open_validator

        if not coordinator.graph.targets:
            return
        try:
            is_good = coordinator.validation.validate_early(
                checkpoint_id, open_validator(coordinator.graph, lambda: region)
            )
        except Exception as error:
            self.log.info("Nothing was validated here; the task that validates does it: %s", error)
            return
        outcome = "are as expected" if is_good else "are not all as expected, as the task that validates will report"
        self.log.info("The staged rows %s.", outcome)


class ValidateCheckpointOperator(SparkStep):
    """Validates the staged data before any of it is visible. Verdicts that are already recorded need no Spark.

    A held checkpoint waits in the triggerer for manual approval, which is a row in the database: no action in Airflow
    approves it. The hold has a deadline of its own; `execution_timeout` does not count that time.

    Args:
        poll_interval: The seconds between two polls of the triggerer, which also polls after each commit.
    """

    operator_extra_links = (CheckpointLink(), ValidationReportLink())

    def __init__(self, *, poll_interval: float = 5.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.poll_interval = poll_interval

    def execute(self, context: Context) -> None:
        self._wait_if(self.run_step(context))

    def poll(self, context: Context, event: object = None) -> None:
        """Poll for a decision again. The trigger's reading is not trusted. If the database is unreachable, keep
        waiting, because the hold may last longer than all retries.
        """
        try:
            is_held = self.run_step(context)
        except StoreUnavailableError as error:
            self.log.warning("Still waiting: %s", error)
            is_held = True
        self._wait_if(is_held)

    def _wait_if(self, is_held: bool) -> None:
        if is_held:
            waiting = HoldTrigger(self.resolve_pipeline().name, self.rendered_id(), self.poll_interval)
            self.defer(trigger=waiting, method_name="poll")

    def take_step(self, coordinator: "CheckpointCoordinator", checkpoint_id: int, context: Context) -> bool:
        """Whether the checkpoint is held."""
        try:
            record = coordinator.validate(checkpoint_id, _SparkValidator(coordinator.graph, self.region())).record
        except CheckpointHeldError as held:
            self.log.warning("%s", held)
            return True
        targets = tuple(map(str, coordinator.graph.targets))
        if (decided := record.decided) is not None:
            comment = decided.comment or "no comment"
            self.log.info("Checkpoint %s was approved by %s: %s.", checkpoint_id, decided.by, comment)
        else:
            self.log.info("Checkpoint %s met its expectations: %s.", checkpoint_id, targets or "it has none")
        return False


class _SparkValidator:
    """A validator that starts Spark only if there is something to validate."""

    def __init__(self, graph: Graph, region: "AbstractContextManager[SparkRegion]") -> None:
        self._graph = graph
        self._region = region

    def validate(
        self,
        checkpoint: CheckpointRecord,
        subtasks: Mapping[SubtaskId, SubtaskRecord],
        settled: Sequence[Verdict] = (),
    ) -> Sequence[Verdict]:
        from tidegate.assembly import open_validator

        with ExitStack() as stack:
            region = cache(lambda: stack.enter_context(self._region))
            return open_validator(self._graph, region).validate(checkpoint, subtasks, settled)


class FinalizeCheckpointOperator(CheckpointStep):
    """Passes the commit point in one transaction."""

    def take_step(self, coordinator: "CheckpointCoordinator", checkpoint_id: int, context: Context) -> None:
        record = coordinator.finalize(checkpoint_id)
        self.log.info("Checkpoint %s is %s (completed at %s).", checkpoint_id, record.status, record.completed_at)


class NotifyCheckpointOperator(SparkStep):
    """Makes the checkpoint's rows visible in every sink, and announces it with one event per sink asset. Then writes a
    canonical savepoint to its directory, which alone needs Spark.

    A retry after a crash announces the rest; a finished run that is cleared announces nothing again.

    Args:
        pipeline: The pipeline's definition, or `"module:attribute"`. A name has no sinks when the DAG is parsed; then
        pass
            `outlets`, see `sink_asset`.
    """

    def __init__(self, *, pipeline: Pipeline | str, **kwargs: Any) -> None:
        if isinstance(pipeline, Pipeline):
            kwargs.setdefault("outlets", _sink_assets(pipeline))
        super().__init__(pipeline=pipeline, **kwargs)

    def take_step(self, coordinator: "CheckpointCoordinator", checkpoint_id: int, context: Context) -> None:
        delivered = coordinator.notify(checkpoint_id)
        completed_at = coordinator.acknowledge(checkpoint_id).completed_at
        assert completed_at is not None  # notify refuses a checkpoint that has not completed
        rows = {sink_asset(coordinator.pipeline_id, d.sink).uri: d.rows for d in delivered}
        announced = [asset for asset in self.outlets if isinstance(asset, Asset) and asset.uri in rows]
        fresh = unannounced(announced, checkpoint_id, completed_at)
        # Airflow makes an event of every outlet that the task still has when it succeeds.
        self.outlets = [outlet for outlet in self.outlets if outlet not in announced or outlet in fresh]
        for asset in fresh:
            context["outlet_events"][asset].extra = {"checkpoint_id": checkpoint_id, "rows": rows[asset.uri]}
        for sink in delivered:
            self.log.info("%s: %s rows of checkpoint %s are visible.", sink.sink, sink.rows, checkpoint_id)
        if is_canonical(context):
            self._export(coordinator, checkpoint_id, directory_of(context))

    def _export(self, coordinator: "CheckpointCoordinator", checkpoint_id: int, directory: str | None) -> None:
        record = coordinator.exporting.begin(str(checkpoint_id), directory)
        if record.exported_at is None:
            with self.region() as region:
                record = coordinator.exporting.export(checkpoint_id, region)
        self.log.info("Savepoint %s is complete in %s: %s bytes.", checkpoint_id, record.location, record.exported_size)


def _sink_assets(pipeline: Pipeline) -> list[Asset]:
    return [sink_asset(pipeline.name, vertex.name) for vertex in pipeline.vertices if isinstance(vertex, SinkVertex)]
