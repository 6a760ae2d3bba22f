"""One checkpoint from the command line: the same coordinator and region as in Airflow's tasks, one after the other."""

import contextlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from tidegate import assembly
from tidegate.cli.exit_codes import ExitCode
from tidegate.cli.progress import Shown, shown_on
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.coordination.steps.outstanding import Delivered
from tidegate.pipeline.definition import Pipeline
from tidegate.ports import Acknowledger, CheckpointStore, Region
from tidegate.protocol.facts.errors import (
    CheckpointError,
    CheckpointHeldError,
    StoreUnavailableError,
    SupersededAttemptError,
    UnknownOutcomeError,
)
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.pipelines import PipelineRecord, PipelineStatus
from tidegate.protocol.facts.records import (
    Acknowledgement,
    AcknowledgeResult,
    CheckpointKind,
    CheckpointRecord,
    CompactedRun,
    Snapshot,
    SubtaskId,
    SubtaskRecord,
    Verdict,
)
from tidegate.protocol.steps.snapshot import SnapshotTask
from tidegate.protocol.steps.trigger import AlreadyCompleted, Dropped, Queued, Resumed, Triggered, TriggerOutcome

if TYPE_CHECKING:
    from tidegate.spark.region import SparkRegion

#: After these errors a checkpoint is not aborted, because it waits for approval or its outcome is unknown. The next run
#: resumes it or finds it completed.
_LEAVE_ALONE = (CheckpointHeldError, StoreUnavailableError, UnknownOutcomeError, SupersededAttemptError)

_OWN_REQUEST = "cli:"  # the prefix of ids of requests by `tidegate run`

_POLL_EVERY = 5.0  # seconds, in case a notification is lost


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """A completed checkpoint with its deliveries, or the reason that the request was dropped."""

    record: CheckpointRecord | None
    delivered: Sequence[Delivered] = field(default=())
    dropped: Dropped | None = None


def new_request() -> str:
    """Return the id of a request that only a repeated `tidegate run` continues."""
    return f"{_OWN_REQUEST}{uuid.uuid4()}"


def unfinished_request(store: CheckpointStore, pipeline_id: str) -> str | None:
    """Return the request to resume: that of an earlier command-line run that was interrupted, or that of a checkpoint
    that is or was held, because after the approval someone must complete it.
    """
    for record in store.history(pipeline_id, 1):
        is_own = record.request_id.startswith(_OWN_REQUEST)
        if record.status is Status.IN_PROGRESS and (is_own or record.held_at is not None):
            return record.request_id
    return None


def unfinished_stop(store: CheckpointStore, pipeline_id: str, drain: bool) -> str | None:
    """Return the request of a savepoint to stop with, with the same `drain`, if the pipeline has not stopped with it
    yet.
    """
    pipeline = store.pipeline(pipeline_id)
    if pipeline is None or pipeline.status is not PipelineStatus.STOPPING:
        return None
    for record in store.history(pipeline_id, 1):
        if record.kind is CheckpointKind.SYNC_SAVEPOINT and record.drain == drain:
            return record.request_id
    return None


def run_checkpoint(
    coordinator: CheckpointCoordinator,
    pipeline: Pipeline,
    request: Callable[[], TriggerOutcome],
    console: Console,
) -> RunOutcome:
    """Take a checkpoint from trigger to notify. An error aborts it with its reason and is raised again.

    A definition that has not run before is checked first; its errors are raised before anything is triggered.
    """
    store = assembly.open_store()
    spark = _Spark(coordinator, pipeline)
    coordinator.check()  # a pipeline that cannot start is refused before Spark is started
    if _takes_checkpoints(store.pipeline(pipeline.name)) and not coordinator.has_live_region():
        _check_definition(spark, pipeline.name, console)
    decision = _waited_for(request, store, pipeline.name, console)
    if isinstance(decision, Dropped):
        return RunOutcome(None, dropped=decision)
    checkpoint_id = decision.checkpoint_id
    try:
        with shown_on(console, f"checkpoint {checkpoint_id}", len(coordinator.graph.subtasks)) as shown:
            return _Steps(coordinator, spark, store, checkpoint_id, shown).take()
    except _LEAVE_ALONE:
        raise
    except KeyboardInterrupt:
        console.print(
            f"Interrupted. Checkpoint {checkpoint_id} of pipeline {pipeline.name} stays in progress with the subtasks "
            "that have acknowledged. Repeat `tidegate run` or `tidegate stop` to continue it, or run "
            f"`tidegate abort {pipeline.name}` to give it up.",
            markup=False,
            highlight=False,
        )
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except CheckpointError as error:
        with contextlib.suppress(StoreUnavailableError):
            coordinator.abort(decision.checkpoint_id, error.reason, str(error))
        raise


def _takes_checkpoints(pipeline: PipelineRecord | None) -> bool:
    """Whether the pipeline takes checkpoints. If not, the trigger reports the reason, which needs no Spark."""
    return pipeline is None or pipeline.status in (PipelineStatus.CREATED, PipelineStatus.RUNNING)


def _check_definition(spark: "_Spark", pipeline_id: str, console: Console) -> None:
    try:
        with shown_on(console, f"pipeline {pipeline_id}") as shown:
            spark.require_definition(shown)
    except KeyboardInterrupt:
        console.print(
            f"Interrupted. No checkpoint of pipeline {pipeline_id} was triggered.", markup=False, highlight=False
        )
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def _waited_for(
    request: Callable[[], TriggerOutcome], store: CheckpointStore, pipeline_id: str, console: Console
) -> Triggered | Resumed | AlreadyCompleted | Dropped:
    """Repeat a request until it need not wait any longer, and print the reason for waiting."""
    shown = ""
    while isinstance(decision := request(), Queued):
        if decision.message != shown:
            console.print(shown := decision.message, markup=False, highlight=False)
        store.wait_for_change(pipeline_id, _POLL_EVERY)
    return decision


class _Spark:
    """The region of this process, started when it is needed: a continuous region takes the snapshot itself, and may
    validate it as well.
    """

    def __init__(self, coordinator: CheckpointCoordinator, pipeline: Pipeline) -> None:
        self._coordinator = coordinator
        self._pipeline = pipeline
        self._opened: SparkRegion | None = None
        self._has_checked = False

    def region(self, shown: Shown) -> "SparkRegion":
        if self._opened is None:
            shown.step("starting Spark")
            self._opened = assembly.open_region(self._pipeline)
        return self._opened

    def require_definition(self, shown: Shown) -> None:
        """Check the definition, once.

        Raises:
            PipelineDefinitionError: If a run would be refused.
        """

        def opened() -> "SparkRegion":
            region = self.region(shown)
            shown.step("checking the definition")
            return region

        if not self._has_checked:
            assembly.require_definition(self._coordinator, opened)
            self._has_checked = True


class _Steps:
    """The steps of one checkpoint after its trigger."""

    def __init__(
        self,
        coordinator: CheckpointCoordinator,
        spark: _Spark,
        store: CheckpointStore,
        checkpoint_id: int,
        shown: Shown,
    ) -> None:
        self._coordinator = coordinator
        self._spark = spark
        self._store = store
        self._id = checkpoint_id
        self._shown = shown
        self._total = len(coordinator.graph.subtasks)

    def take(self) -> RunOutcome:
        self._snapshot()
        self._shown.step("validate", self._total)
        self._coordinator.validate(self._id, self)
        self._shown.step("finalize")
        record = self._coordinator.finalize(self._id, notifies=True)
        self._shown.step("notify")
        return RunOutcome(record, self._coordinator.notify(self._id))

    def _snapshot(self) -> None:
        record = self._coordinator.acknowledge(self._id)
        while record.phase is Phase.TRIGGERED:
            if self._coordinator.has_live_region():
                self._shown.step("waiting for the continuous region", record.num_acknowledged)
                self._store.wait_for_change(self._coordinator.pipeline_id, _POLL_EVERY)
                record = self._coordinator.acknowledge(self._id)
            else:
                self._spark.require_definition(self._shown)
                region = self._spark.region(self._shown)
                self._shown.step("snapshot", 0)
                watched = _Watched(region, self._shown.advance)
                record = self._coordinator.snapshot(self._id, watched)

    def validate(
        self,
        checkpoint: CheckpointRecord,
        subtasks: Mapping[SubtaskId, SubtaskRecord],
        settled: Sequence[Verdict] = (),
    ) -> Sequence[Verdict]:
        """See `ports.Validator`. This is called only if there is something to validate."""
        region = partial(self._spark.region, self._shown)
        return assembly.open_validator(self._coordinator.graph, region).validate(checkpoint, subtasks, settled)


class _Watched:
    """A region whose acknowledgements move the progress bar."""

    def __init__(self, region: Region, advance: Callable[[int], None]) -> None:
        self._region = region
        self._advance = advance
        self.frame = region.frame

    def snapshot(self, task: SnapshotTask, acknowledge: Acknowledger) -> None:
        self._advance(len(task.acknowledged))

        def counted(acks: Sequence[Acknowledgement]) -> Mapping[SubtaskId, AcknowledgeResult]:
            results = acknowledge(acks)
            self._advance(sum(result is AcknowledgeResult.SUCCESS for result in results.values()))
            return results

        self._region.snapshot(task, counted)

    def compact(self, checkpoint_id: int, snapshots: Mapping[SubtaskId, Snapshot]) -> list[CompactedRun]:
        return self._region.compact(checkpoint_id, snapshots)
