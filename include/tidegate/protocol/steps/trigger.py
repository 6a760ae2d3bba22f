"""The trigger step: the outcome of a request for a checkpoint, first made or repeated.

A request completes at most once. Repeated while its checkpoint is in progress, it resumes that one. Repeated after that
completed, it changes nothing. Repeated after that failed, or while it waits, it counts as a new request.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidegate.protocol.facts.errors import PipelineFailedError
from tidegate.protocol.facts.lifecycle import COMMITTED, Phase, Status
from tidegate.protocol.facts.pipelines import ACTIVE, PipelineRecord, PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord, OperatorPlan
from tidegate.protocol.facts.savepoints import UNLABELLED, Label


@dataclass(frozen=True, slots=True)
class Triggered:
    """A new checkpoint was recorded for this request."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class Resumed:
    """The request's checkpoint is in progress already. Go on with it."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class AlreadyCompleted:
    """The request's checkpoint completed earlier. No further step has an effect."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class Queued:
    """The request waits for its turn. It keeps its place while its requester repeats it in time (`admission.LEASE`)."""

    message: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """The request was not admitted. Nothing was recorded, and no failure is counted. It may be made again later."""

    reason: FailureReason
    message: str


@dataclass(frozen=True, slots=True)
class DroppedUntil(Dropped):
    """The request came too soon after the latest completed checkpoint. It may be made again after `again_in`."""

    again_in: timedelta


TriggerOutcome = Triggered | Resumed | AlreadyCompleted | Queued | Dropped


def decide_repeated(previous: CheckpointRecord | None) -> Resumed | AlreadyCompleted | None:
    """Decide on a repeated request by `previous`, the newest checkpoint of the same request. None if it counts as a new
    request, which it also does after a restore has left that checkpoint behind. Performs no I/O."""
    if previous is not None and previous.abandoned_by is not None:
        return None
    if previous is not None and previous.status in COMMITTED:
        return AlreadyCompleted(previous.checkpoint_id)
    if previous is not None and previous.status is Status.IN_PROGRESS:
        return Resumed(previous.checkpoint_id)
    return None


def decide_standing(pipeline: PipelineRecord, periodic: bool) -> Dropped | None:
    """Drop the request if the pipeline is not running; None if it is (protocol.md sections 2 and 4). Performs no I/O.

    Raises `PipelineFailedError` for a failed pipeline, because dropping its requests silently would hide the failure.
    """
    if pipeline.status in ACTIVE:
        return None
    if pipeline.status is PipelineStatus.FAILED:
        raise PipelineFailedError(f"{pipeline.message} To continue, run `tidegate resume {pipeline.pipeline_id}`.")
    reason = FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING
    if pipeline.status is PipelineStatus.CANCELLED:
        reason = FailureReason.COORDINATOR_SHUTDOWN
    elif periodic:
        reason = FailureReason.PERIODIC_SCHEDULER_SHUTDOWN
    since = "" if pipeline.since is None else f" (since {pipeline.since:%Y-%m-%d %H:%M:%S} UTC)"
    hint = ""
    if pipeline.status is PipelineStatus.SUSPENDED:
        hint = f" `tidegate resume {pipeline.pipeline_id}` lets it go on."
    why = "" if pipeline.message is None else f" {pipeline.message}"
    return Dropped(
        reason, f"Pipeline {pipeline.pipeline_id} is {pipeline.status}{since}.{why} Nothing was changed.{hint}"
    )


def pending_checkpoint(
    *,
    pipeline_id: str,
    checkpoint_id: int,
    request_id: str,
    periodic: bool,
    kind: CheckpointKind,
    operators: Sequence[OperatorPlan],
    timeout: timedelta,
    now: datetime,
    drain: bool = False,
    label: Label = UNLABELLED,
) -> CheckpointRecord:
    """Return the row that makes a checkpoint durable before any subtask is triggered. Its deadline runs from here."""
    return CheckpointRecord(
        pipeline_id=pipeline_id,
        checkpoint_id=checkpoint_id,
        request_id=request_id,
        periodic=periodic,
        kind=kind,
        drain=drain,
        status=Status.IN_PROGRESS,
        phase=Phase.TRIGGERED,
        triggered_at=now,
        deadline=now + timeout,
        num_subtasks=sum(plan.parallelism for plan in operators),
        operators=tuple(operators),
        name=label.name,
        note=label.note,
    )
