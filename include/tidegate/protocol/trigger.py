"""The trigger step: what a request for a checkpoint leads to, also when it is repeated.

A request completes at most once. Repeated while its checkpoint is in progress it resumes that one; repeated after it
completed it changes nothing; repeated after it failed it asks anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidegate.protocol.admission import Admitted, Dropped, decide_admission
from tidegate.protocol.lifecycle import COMMITTED, Phase, Status
from tidegate.protocol.records import CheckpointRecord, OperatorPlan


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
    """The request's checkpoint completed earlier; every further step is without effect."""

    checkpoint_id: int


TriggerOutcome = Triggered | Resumed | AlreadyCompleted | Dropped


def decide_trigger(
    *,
    previous: CheckpointRecord | None,
    periodic: bool,
    in_progress: Sequence[CheckpointRecord],
    latest_completed: CheckpointRecord | None,
    max_concurrent: int,
    min_pause: timedelta,
    now: datetime,
) -> Admitted | Resumed | AlreadyCompleted | Dropped:
    """`previous` is the newest checkpoint of the same request. Performs no I/O."""
    if previous is not None and previous.status in COMMITTED:
        return AlreadyCompleted(previous.checkpoint_id)
    if previous is not None and previous.status is Status.IN_PROGRESS:
        return Resumed(previous.checkpoint_id)
    return decide_admission(
        periodic=periodic,
        in_progress=in_progress,
        latest_completed=latest_completed,
        max_concurrent=max_concurrent,
        min_pause=min_pause,
        now=now,
    )


def pending_checkpoint(
    *,
    pipeline_id: str,
    checkpoint_id: int,
    request_id: str,
    periodic: bool,
    operators: Sequence[OperatorPlan],
    timeout: timedelta,
    now: datetime,
) -> CheckpointRecord:
    """The row that makes a checkpoint durable before anybody is asked to do anything. Its deadline runs from here."""
    return CheckpointRecord(
        pipeline_id=pipeline_id,
        checkpoint_id=checkpoint_id,
        request_id=request_id,
        periodic=periodic,
        status=Status.IN_PROGRESS,
        phase=Phase.TRIGGERED,
        triggered_at=now,
        deadline=now + timeout,
        num_subtasks=sum(plan.parallelism for plan in operators),
        operators=tuple(operators),
    )
