"""One checkpoint from the command line: the same coordinator and region as Airflow's tasks, one after the other."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from tidegate import assembly
from tidegate.coordinator import CheckpointCoordinator
from tidegate.delivery import Delivered
from tidegate.pipeline import Pipeline
from tidegate.ports import Acknowledge, CheckpointStore, Region
from tidegate.protocol.errors import (
    CheckpointError,
    StoreUnavailableError,
    SupersededAttemptError,
    UnknownOutcomeError,
)
from tidegate.protocol.lifecycle import Status
from tidegate.protocol.pipelines import PipelineStatus
from tidegate.protocol.records import (
    Acknowledgement,
    AcknowledgeResult,
    CheckpointKind,
    CheckpointRecord,
    CompactedRun,
    Snapshot,
    SubtaskId,
)
from tidegate.protocol.snapshot import SnapshotTask
from tidegate.protocol.trigger import AlreadyCompleted, Dropped, Queued, Resumed, Triggered, TriggerOutcome

#: After these nobody knows enough to give a checkpoint up: the next run resumes it or finds it completed.
_LEAVE_ALONE = (StoreUnavailableError, UnknownOutcomeError, SupersededAttemptError)

_LOOK_EVERY = 5.0  # seconds, should a notification get lost


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """A completed checkpoint and what it delivered, or why the request was dropped."""

    record: CheckpointRecord | None
    delivered: Sequence[Delivered] = field(default=())
    dropped: Dropped | None = None


def unfinished_request(store: CheckpointStore, pipeline_id: str) -> str | None:
    """The request of an earlier command-line run that was cut short, to be resumed."""
    for record in store.history(pipeline_id, 1):
        if record.status is Status.IN_PROGRESS and record.request_id.startswith("cli:"):
            return record.request_id
    return None


def unfinished_stop(store: CheckpointStore, pipeline_id: str, drain: bool) -> str | None:
    """The request of a savepoint to stop with, of the same kind, with which the pipeline has not stopped yet."""
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
    """Trigger to notify. An error aborts the checkpoint with its reason and is raised again."""
    decision = _waited_for(request, pipeline.name, console)
    if isinstance(decision, Dropped):
        return RunOutcome(None, dropped=decision)
    checkpoint_id = decision.checkpoint_id
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    try:
        with Progress(*columns, console=console, transient=True) as progress:
            return _steps(coordinator, pipeline, checkpoint_id, progress)
    except _LEAVE_ALONE:
        raise
    except CheckpointError as error:
        with contextlib.suppress(StoreUnavailableError):
            coordinator.abort(checkpoint_id, error.reason, str(error))
        raise


def _waited_for(
    request: Callable[[], TriggerOutcome], pipeline_id: str, console: Console
) -> Triggered | Resumed | AlreadyCompleted | Dropped:
    """Repeat a request until it need not wait any more, and say what it waits for."""
    store, told = assembly.open_store(), ""
    while isinstance(decision := request(), Queued):
        if decision.message != told:
            console.print(told := decision.message, highlight=False)
        store.wait_for_change(pipeline_id, _LOOK_EVERY)
    return decision


def _steps(
    coordinator: CheckpointCoordinator, pipeline: Pipeline, checkpoint_id: int, progress: Progress
) -> RunOutcome:
    total = len(coordinator.graph.subtasks)
    bar = progress.add_task(f"checkpoint {checkpoint_id}: starting Spark", total=total)
    region = assembly.open_region(pipeline)
    progress.update(bar, description=f"checkpoint {checkpoint_id}: snapshot")
    coordinator.snapshot(checkpoint_id, _Watched(region, lambda count: progress.advance(bar, count)))
    progress.update(bar, description=f"checkpoint {checkpoint_id}: validate", completed=total)
    validated = coordinator.validate(checkpoint_id, assembly.open_validator(region))
    progress.update(bar, description=f"checkpoint {checkpoint_id}: finalize")
    record = coordinator.finalize_validated(validated)
    progress.update(bar, description=f"checkpoint {checkpoint_id}: notify")
    return RunOutcome(record, coordinator.notify(checkpoint_id))


class _Watched:
    """A region whose acknowledgements move the progress bar."""

    def __init__(self, region: Region, advance: Callable[[int], None]) -> None:
        self._region = region
        self._advance = advance
        self.frame = region.frame

    def snapshot(self, task: SnapshotTask, acknowledge: Acknowledge) -> None:
        self._advance(len(task.acknowledged))

        def counted(acks: Sequence[Acknowledgement]) -> Mapping[SubtaskId, AcknowledgeResult]:
            results = acknowledge(acks)
            self._advance(sum(result is AcknowledgeResult.SUCCESS for result in results.values()))
            return results

        self._region.snapshot(task, counted)

    def compact(self, checkpoint_id: int, snapshots: Mapping[SubtaskId, Snapshot]) -> list[CompactedRun]:
        return self._region.compact(checkpoint_id, snapshots)
