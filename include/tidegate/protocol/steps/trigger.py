"""The trigger step: what a request for a checkpoint leads to, also when it is repeated.

A request completes at most once. Repeated while its checkpoint is in progress, it resumes that one. Repeated after that
completed, it changes nothing. Repeated after that failed, or while the request waits, it asks anew.
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
    """The request's checkpoint is in progress already; go on with it."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class AlreadyCompleted:
    """The request's checkpoint completed earlier; every further step has no effect."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class Queued:
    """The request waits for its turn. It keeps its place while its requester repeats it in time (`admission.LEASE`)."""

    message: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """It was not admitted; nothing was recorded, no failure is counted, and asking again later is fine."""

    reason: FailureReason
    message: str


@dataclass(frozen=True, slots=True)
class DroppedUntil(Dropped):
    """It came too soon after the latest completed checkpoint; after `again_in` it does not."""

    again_in: timedelta


TriggerOutcome = Triggered | Resumed | AlreadyCompleted | Queued | Dropped


def decide_repeated(previous: CheckpointRecord | None) -> Resumed | AlreadyCompleted | None:
    """`previous` is the newest checkpoint of the same request. None: it asks anew, also if a restore has left that
    checkpoint behind. Performs no I/O."""
    if previous is not None and previous.abandoned_by is not None:
        return None
    if previous is not None and previous.status in COMMITTED:
        return AlreadyCompleted(previous.checkpoint_id)
    if previous is not None and previous.status is Status.IN_PROGRESS:
        return Resumed(previous.checkpoint_id)
    return None


def decide_standing(pipeline: PipelineRecord, periodic: bool) -> Dropped | None:
    """Only a running pipeline takes checkpoints (protocol.md sections 2 and 4). None: it does. Performs no I/O.

    Raises `PipelineFailedError` for a failed one: dropping its requests silently would hide the failure.
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
    """The row that makes a checkpoint durable before any subtask is asked for anything. Its deadline runs from here."""
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
