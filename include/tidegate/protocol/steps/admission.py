"""The admission of waiting requests, some of which may start a checkpoint now or never (protocol.md section 3).

Savepoints come before checkpoints, forced requests before others, manual before periodic ones, older before newer. Only
the first in this order is considered. If it has to wait, so do all others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tidegate.protocol.continuous.regions import RegionRecord, is_current
from tidegate.protocol.facts.clocks import is_ahead, is_over, time_left
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.names import attempt_of_request, is_handed_over, is_of_process
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord, CheckpointRequest
from tidegate.protocol.steps.hold import held_error, is_with_people

CAPACITY = 1000

#: How long a waiting request counts after its requester was last seen: a process that died must not hold up others.
LEASE = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class Start:
    """The request may start now."""

    request: CheckpointRequest


@dataclass(frozen=True, slots=True)
class Drop:
    """The request will not start. Nothing was recorded, and no failure is counted. It may be made again later."""

    request: CheckpointRequest
    reason: FailureReason
    message: str


@dataclass(frozen=True, slots=True)
class DropUntil(Drop):
    """The request comes too soon after the latest completed checkpoint. It may be made again after `again_in`."""

    again_in: timedelta


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing may start now. `message` is the reason."""

    message: str


def precedence(request: CheckpointRequest) -> tuple[bool, bool, bool, datetime, str]:
    """Return a sort key that puts the best request first. Performs no I/O."""
    is_checkpoint = request.kind is CheckpointKind.CHECKPOINT
    return is_checkpoint, not request.forced, request.periodic, request.asked_at, request.request_id


_BY_AGE = 3  # where age begins to count in `precedence`


def choose_waiting(requests: Sequence[CheckpointRequest], now: datetime) -> list[CheckpointRequest]:
    """Choose the requests that still wait to start, best first. Performs no I/O."""
    waiting = [r for r in requests if r.dropped is None and now - r.seen_at <= LEASE]
    return sorted(waiting, key=precedence)


def choose_forgotten(
    requests: Sequence[CheckpointRequest], region: RegionRecord, now: datetime
) -> list[CheckpointRequest]:
    """Choose the requests, dropped or not, that were not repeated within the lease, or that come from an attempt of the
    region which is no longer current and makes no more of them. Performs no I/O."""
    return [request for request in requests if now - request.seen_at > LEASE or _is_orphaned(request, region)]


def _is_orphaned(request: CheckpointRequest, region: RegionRecord) -> bool:
    attempt = attempt_of_request(request.request_id)
    return attempt is not None and not is_current(region, attempt)


def takes_turn(request: CheckpointRequest, waiting: Sequence[CheckpointRequest]) -> bool:
    """Whether the request that is being made may start as soon as any may. It is the first in line, or all requests
    before it are equal but older, and come from processes that may have died while they waited. Only the requester of
    this one is certain to live. The others keep their places. Performs no I/O."""
    own = precedence(request)
    before = [other for other in waiting if precedence(other) < own]
    return all(is_of_process(other.request_id) and precedence(other)[:_BY_AGE] == own[:_BY_AGE] for other in before)


def choose_ahead(requests: Sequence[CheckpointRequest], now: datetime) -> list[CheckpointRequest]:
    """Choose the requests that were last repeated too far in the future (`clocks`), and correct that time to now.
    Performs no I/O."""
    ahead = [request for request in requests if is_ahead(request.seen_at, LEASE, now)]
    return [replace(request, asked_at=min(request.asked_at, now), seen_at=now) for request in ahead]


def choose_to_repeat(
    requests: Sequence[CheckpointRequest], now: datetime, is_busy: bool, unaligned: bool
) -> list[CheckpointRequest]:
    """Choose the requests handed over to a region that it repeats now, best first. While it takes part in as many
    checkpoints as it may, it repeats a savepoint to stop with and forced requests. The others are only repeated in time
    to keep their place. Performs no I/O."""
    handed_over = [request for request in choose_waiting(requests, now) if is_handed_over(request.request_id)]
    if not is_busy:
        return handed_over
    waiting = {CheckpointKind.CHECKPOINT, CheckpointKind.SAVEPOINT} if unaligned else {CheckpointKind.CHECKPOINT}
    return [
        request for request in handed_over if request.kind not in waiting or is_over(request.seen_at, LEASE / 2, now)
    ]


def decide_place(waiting: Sequence[CheckpointRequest], request: CheckpointRequest) -> Drop | None:
    """Choose the request to drop so that this one can join the queue. It may be this one itself. A full queue evicts
    only a periodic request. Performs no I/O.
    """
    if len(waiting) < CAPACITY or any(other.request_id == request.request_id for other in waiting):
        return None
    worst = max(waiting, key=precedence)
    goes = request if not worst.periodic else max(worst, request, key=precedence)
    return Drop(
        goes,
        FailureReason.TOO_MANY_CHECKPOINT_REQUESTS,
        f"{CAPACITY:,} requests for checkpoints are waiting, and the queue is full. Nothing was changed.",
    )


def choose_request(
    waiting: Sequence[CheckpointRequest],
    *,
    in_progress: Sequence[CheckpointRecord],
    latest_completed: CheckpointRecord | None,
    max_concurrent: int,
    min_pause: timedelta,
    now: datetime,
    committing: Sequence[CheckpointRecord] = (),
) -> Start | Drop | Wait:
    """Decide on the best of the waiting requests, of which there is at least one. `in_progress` must not contain
    checkpoints whose deadline has passed. `committing` are completed checkpoints whose sinks have not all committed.
    They count too, or slow sinks would fall behind without end. Performs no I/O.
    """
    best = min(waiting, key=precedence)
    busy = [*committing, *in_progress]
    if len(busy) >= max_concurrent and not best.forced:
        return Wait(_busy(busy[0]))
    if best.periodic and not best.forced and latest_completed is not None:
        assert latest_completed.completed_at is not None
        if remaining := time_left(latest_completed.completed_at, min_pause, now):
            message = _pause(latest_completed, min_pause, remaining)
            return DropUntil(best, FailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS, message, remaining)
    return Start(best)


def precedence_message(first: CheckpointRequest) -> str:
    """Return the message of a request that only waits for one with precedence. Performs no I/O."""
    return (
        f"Request {first.request_id} has precedence and starts as soon as it is repeated. It loses its place "
        f"{LEASE.total_seconds():g} s after its last repetition. Nothing was changed."
    )


def _busy(busy: CheckpointRecord) -> str:
    if busy.phase is Phase.HELD:
        return str(held_error(busy)) + " Nothing was changed."
    if busy.status is not Status.IN_PROGRESS:
        return (
            f"Checkpoint {busy.checkpoint_id} of pipeline {busy.pipeline_id} has completed, and its sinks are still "
            "committing. Nothing was changed."
        )
    return (
        f"Checkpoint {busy.checkpoint_id} of pipeline {busy.pipeline_id}, requested by {busy.request_id}, is in "
        f"progress ({busy.phase}, {busy.num_acknowledged}/{busy.num_subtasks} acknowledged) and holds the pipeline "
        f"until it ends or its deadline {busy.deadline:%Y-%m-%d %H:%M:%S} UTC passes. Nothing was changed."
    )


def _pause(latest: CheckpointRecord, min_pause: timedelta, remaining: timedelta) -> str:
    return (
        f"Checkpoint {latest.checkpoint_id} of pipeline {latest.pipeline_id} completed at "
        f"{latest.completed_at:%Y-%m-%d %H:%M:%S} UTC; the minimum pause of {min_pause.total_seconds():g} s has "
        f"{remaining.total_seconds():.1f} s to go. Nothing was changed."
    )


def choose_misdated(
    in_progress: Sequence[CheckpointRecord], timeout: timedelta, now: datetime
) -> list[CheckpointRecord]:
    """Choose the checkpoints whose deadline was set by a clock that was ahead by more than their timeout (`clocks`),
    and return them with a new deadline. The new deadline lies before the time of the trigger, which stays, because the
    TTL of state is measured from it. `timeout` applies to checkpoints that were corrected before. Performs no I/O."""
    corrected: list[CheckpointRecord] = []
    for record in in_progress:
        given = record.deadline - record.triggered_at
        lasts = given if given > timedelta(0) else timeout
        if is_ahead(record.deadline - lasts, lasts, now) and not is_with_people(record):
            corrected.append(record.moved(deadline=now + lasts))
    return corrected


def must_clean_first(cleaning: int, max_concurrent: int) -> bool:
    """Whether files must be deleted before a new checkpoint starts, because too many checkpoints wait for their
    deletion. Otherwise garbage could grow faster than it is deleted. Performs no I/O."""
    return cleaning > max_concurrent


def choose_overdue(in_progress: Sequence[CheckpointRecord], now: datetime) -> list[CheckpointRecord]:
    """Choose the checkpoints whose deadline passed before all subtasks had acknowledged (protocol.md section 5.3), and
    those whose hold has ended. Performs no I/O."""
    enforced = (Phase.TRIGGERED, Phase.HELD)
    return [record for record in in_progress if record.phase in enforced and now >= record.ends_at]


def choose_abandoned(in_progress: Sequence[CheckpointRecord], now: datetime) -> list[CheckpointRecord]:
    """Choose the checkpoints that a new request may abort: past their deadline, in any phase, or past that of their
    hold. The process that drove such a checkpoint died between two steps; otherwise it would have completed or failed.
    Performs no I/O."""
    return [record for record in in_progress if now >= record.ends_at]
