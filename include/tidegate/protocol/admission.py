"""Whether a requested checkpoint may start now (protocol.md section 3, the rules of a scheduled run)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidegate.protocol.reasons import FailureReason
from tidegate.protocol.records import CheckpointRecord


@dataclass(frozen=True, slots=True)
class Admitted:
    """It may start."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """It may not; nothing was recorded, no failure is counted, and asking again later is fine."""

    reason: FailureReason
    message: str


def decide_admission(
    *,
    periodic: bool,
    in_progress: Sequence[CheckpointRecord],
    latest_completed: CheckpointRecord | None,
    max_concurrent: int,
    min_pause: timedelta,
    now: datetime,
) -> Admitted | Dropped:
    """Concurrency first, then the minimum pause, which is counted from the last success and binds periodic requests
    only. `in_progress` must be without those whose deadline has passed. Performs no I/O.
    """
    if len(in_progress) >= max_concurrent:
        busy = in_progress[0]
        return Dropped(
            FailureReason.TOO_MANY_CHECKPOINT_REQUESTS,
            f"Checkpoint {busy.checkpoint_id} of pipeline {busy.pipeline_id}, requested by {busy.request_id}, is in "
            f"progress ({busy.phase}, {busy.num_acknowledged}/{busy.num_subtasks} acknowledged) and holds the pipeline "
            f"until it ends or its deadline {busy.deadline:%Y-%m-%d %H:%M:%S} UTC passes. Nothing was changed.",
        )
    if periodic and latest_completed is not None and latest_completed.completed_at is not None:
        remaining = latest_completed.completed_at + min_pause - now
        if remaining > timedelta(0):
            return Dropped(
                FailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS,
                f"Checkpoint {latest_completed.checkpoint_id} of pipeline {latest_completed.pipeline_id} completed at "
                f"{latest_completed.completed_at:%Y-%m-%d %H:%M:%S} UTC; the minimum pause of "
                f"{min_pause.total_seconds():g} s has {remaining.total_seconds():.1f} s to go. Nothing was changed.",
            )
    return Admitted()


def choose_overdue(in_progress: Sequence[CheckpointRecord], now: datetime) -> list[CheckpointRecord]:
    """The checkpoints whose deadline has passed without all acknowledgements (protocol.md section 5.3).
    Performs no I/O."""
    return [record for record in in_progress if record.acknowledged_at is None and now >= record.deadline]


def choose_abandoned(in_progress: Sequence[CheckpointRecord], now: datetime) -> list[CheckpointRecord]:
    """What a new request may push aside: past its deadline, in whatever phase. Whoever drove it died between two steps,
    or it would have completed or failed. Performs no I/O."""
    return [record for record in in_progress if now >= record.deadline]
