"""Requests for checkpoints, and whether each is answered as what was on record at that moment demands."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.scheduler import Process, require
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.protocol.facts.lifecycle import COMMITTED, Status
from tidegate.protocol.facts.names import requests_of_run
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord, CheckpointRequest
from tidegate.protocol.steps.hold import is_with_people
from tidegate.protocol.steps.trigger import AlreadyCompleted, Dropped, Queued, Resumed, Triggered, TriggerOutcome

if TYPE_CHECKING:
    from simulator.world import World

STANDING = {
    FailureReason.PERIODIC_SCHEDULER_SHUTDOWN,
    FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING,
    FailureReason.COORDINATOR_SHUTDOWN,
}
TAKES = {PipelineStatus.CREATED, PipelineStatus.RUNNING}


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody asks for, again and again if need be."""

    request_id: str
    periodic: bool = False
    kind: CheckpointKind = CheckpointKind.CHECKPOINT
    wait: bool = False
    drain: bool = False


def of_dag_run(number: int) -> str:
    """The id of a DAG run's request."""
    return f"{requests_of_run('dag', f'run-{number}')}20260101T000000.000000"


def trigger(world: "World", coordinator: CheckpointCoordinator, request: Request) -> TriggerOutcome:
    """Ask for a checkpoint, and see that the answer is right."""
    outcome = coordinator.trigger(request.request_id, request.periodic, request.kind, request.wait, request.drain)
    if (process := world.scheduler.current) is not None:
        right = _is_right(world, process, request, outcome)
        require(right, f"{request.request_id} asked for a checkpoint and was wrongly answered {outcome}")
    match outcome:
        case Dropped():
            world.note(f"is dropped: {outcome.reason.name}")
        case Queued():
            world.note(f"has to wait: {outcome.message}")
        case _:
            world.note(f"gets chk-{outcome.checkpoint_id} ({type(outcome).__name__})")
    return outcome


def _is_right(world: "World", process: Process, request: Request, outcome: TriggerOutcome) -> bool:
    found, records, now = process.found, process.left.checkpoints, process.read_clock_at
    known = found.requests.get(request.request_id)
    others = [other for other in found.requests.values() if other.dropped is None and other is not known]
    behind = [other for other in others if not is_like(request, other)]
    busy = bool(behind) or any(record.status is Status.IN_PROGRESS for record in records.values())
    mine = [record for record in records.values() if record.request_id == request.request_id]
    history = world.observer.history
    going = any(record.status is Status.IN_PROGRESS for record in mine)
    counts = history.answers_for(process.left, request.request_id)
    if (going or counts) and isinstance(outcome, Queued | Dropped):
        return False  # its checkpoint is there
    match outcome:
        case Triggered() | Resumed():
            record = records[outcome.checkpoint_id]
            return record.request_id == request.request_id and record.status is Status.IN_PROGRESS
        case AlreadyCompleted():
            record = records[outcome.checkpoint_id]
            counted = record.checkpoint_id in counts
            return record.request_id == request.request_id and record.status in COMMITTED and counted
        case Queued():
            going = [record for record in records.values() if record.status is Status.IN_PROGRESS]
            longest = now + 2 * world.pipeline.checkpoints.timeout
            in_time = all(record.deadline <= longest or is_with_people(record) for record in going)
            return request.wait and busy and in_time
        case Dropped() if known is not None and known.dropped is outcome.reason:
            return True  # somebody else's transaction decided so, and the observer saw it
        case Dropped(reason=FailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS):
            pause, success = world.pipeline.checkpoints.min_pause, history.last_success(found)
            return request.periodic and success is not None and abs(now - success) < pause
        case Dropped(reason=reason) if reason in STANDING:
            # It may have ended in the same transaction, because the sinks were notified of its last checkpoint.
            return any(
                state.pipeline is not None and state.pipeline.status not in TAKES for state in (found, process.left)
            )
        case Dropped():
            return not request.wait and busy


def is_like(request: Request | CheckpointRecord, other: CheckpointRequest) -> bool:
    """Whether the other one waits in a process, which may be dead, for the same: nobody waits behind it."""
    same = (other.kind, other.periodic) == (request.kind, request.periodic)
    return same and not other.request_id.startswith(("dag/", "asked:"))
