"""Stopping with a savepoint and draining (protocol.md section 18, with sections 3 and 8), on every store."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from desks import Desk
from records import at
from store_steps import PIPELINE, record
from user_actions import STOPS, resume, suspend
from worlds import DEATHS, CapturingRegion, Crash, Judge, MortalStore

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.ports import CheckpointStore
from tidegate.protocol.barriers.messages import StopMode
from tidegate.protocol.facts.errors import (
    CheckpointError,
    CheckpointNotInProgressError,
    FinalizeError,
    IllegalRequestError,
    PipelineFailedError,
    PipelineStatusError,
    SinkError,
    StopIncompleteError,
    UnknownOutcomeError,
    ValidationFailedError,
)
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineRecord, PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord, CheckpointRequest, SubtaskId
from tidegate.protocol.steps.trigger import AlreadyCompleted, Dropped, Queued, Resumed, Triggered

ALL = "src op out-sink"


def found(world: Desk, checkpoint_id: int) -> CheckpointRecord:
    known = world.store.checkpoint("p", checkpoint_id)
    assert known is not None
    return known


def pipeline(world: Desk) -> PipelineRecord:
    known = world.store.pipeline("p")
    assert known is not None
    return known


def stopped(world: Desk, drain: bool = False) -> None:
    """With savepoint 2, behind checkpoint 1."""
    world.ask("r1")
    world.complete(1)
    assert world.stop("stop", drain) == Triggered(2)
    world.complete(2, ALL if drain else "")


# -- what a store refuses


def test_a_store_refuses_to_drain_with_anything_else(store: CheckpointStore) -> None:
    request = CheckpointRequest("r", CheckpointKind.SYNC_SAVEPOINT, False, False, at(1), at(2), drain=True)
    with store.transaction(PIPELINE) as tx:
        tx.put_request(request)
        assert tx.requests() == [request]
    with pytest.raises(CheckpointError), store.transaction(PIPELINE) as tx:
        tx.put_request(replace(request, kind=CheckpointKind.SAVEPOINT))
    draining = replace(record(1, "r"), kind=CheckpointKind.SYNC_SAVEPOINT, drain=True, num_subtasks=1)
    with pytest.raises(CheckpointError), store.transaction(PIPELINE) as tx:
        tx.add_pending(replace(draining, kind=CheckpointKind.CHECKPOINT), [SubtaskId("a", 0)])
    with store.transaction(PIPELINE) as tx:
        tx.add_pending(draining, [SubtaskId("a", 0)])
        assert tx.checkpoint(1) == draining


# -- pre-validation (section 3)


@pytest.mark.parametrize("kind", [CheckpointKind.CHECKPOINT, CheckpointKind.SAVEPOINT])
def test_only_a_savepoint_to_stop_with_may_drain(desk: Callable[..., Desk], kind: CheckpointKind) -> None:
    world = desk()
    with pytest.raises(IllegalRequestError, match=f"A {kind} cannot drain"):
        world.coordinator.trigger("r", kind=kind, drain=True)
    assert world.store.checkpoint("p", 1) is None


# -- first nothing else may complete any more


def test_stopping_aborts_what_is_in_progress_and_drops_what_waits(desk: Callable[..., Desk]) -> None:
    world = desk()
    world.ask("busy", savepoint=True)
    world.acknowledge(1)
    world.coordinator.validate(1, Judge(True))
    world.ask("waits")
    assert world.stop("stop") == Triggered(2)
    assert (found(world, 1).status, found(world, 1).failure_reason) == (
        Status.FAILED,
        FailureReason.COORDINATOR_SUSPEND,
    )
    with pytest.raises(
        CheckpointNotInProgressError,
        match=r"COORDINATOR_SUSPEND\. The pipeline stops with savepoint 2, requested by stop\.",
    ):
        world.coordinator.finalize(1)
    assert pipeline(world).status is PipelineStatus.STOPPING
    dropped = world.ask("waits")
    assert isinstance(dropped, Dropped)
    assert dropped.reason is FailureReason.COORDINATOR_SUSPEND
    assert dropped.message.startswith("The pipeline stops with savepoint 2, requested by stop. Committed data")
    fresh = world.ask("new")
    assert isinstance(fresh, Dropped)
    assert "Pipeline p is STOPPING (since" in fresh.message
    assert "It stops with savepoint 2, requested by stop" in fresh.message
    assert isinstance(world.ask("new", periodic=True), Dropped)
    assert isinstance(world.stop("another"), Dropped)
    assert world.stop("stop") == Resumed(2)


def test_a_pipeline_that_was_never_asked_for_anything_can_stop(desk: Callable[..., Desk]) -> None:
    world = desk()
    assert world.stop("stop") == Triggered(1)
    world.complete(1)
    assert pipeline(world).status is PipelineStatus.FINISHED


@pytest.mark.parametrize("end", ["suspend", "cancel"])
def test_a_pipeline_that_does_not_run_cannot_stop(desk: Callable[..., Desk], end: str) -> None:
    world = desk()
    STOPS[end](world.coordinator)
    assert isinstance(world.stop("stop"), Dropped)


def test_a_failed_pipeline_cannot_stop_until_it_is_resumed(desk: Callable[..., Desk]) -> None:
    world = desk(tolerable_failed_checkpoints=0)
    world.ask("r")
    world.coordinator.abort(1, FailureReason.CHECKPOINT_DECLINED, "no")
    with pytest.raises(PipelineFailedError):
        world.stop("stop")


@pytest.mark.parametrize(("drain", "mode"), [(False, StopMode.SUSPEND), (True, StopMode.DRAIN)])
def test_only_the_region_of_the_stopping_request_is_notified_that_data_ends(
    desk: Callable[..., Desk], drain: bool, mode: StopMode
) -> None:
    world = desk()
    for request, expected in [("checkpoint", None), ("stop", mode)]:
        outcome = world.stop(request, drain) if expected else world.ask(request)
        assert isinstance(outcome, Triggered)
        region = CapturingRegion()
        with pytest.raises(CheckpointError):
            world.coordinator.snapshot(outcome.checkpoint_id, region)
        assert region.task is not None
        assert region.task.stop is expected
        if expected is None:
            world.coordinator.abort(outcome.checkpoint_id, FailureReason.CHECKPOINT_EXPIRED, "too slow")


# -- then the savepoint, and only then the end


def test_the_savepoint_is_kept_and_the_pipeline_has_finished_once_its_sinks_were_notified(
    desk: Callable[..., Desk],
) -> None:
    world = desk()
    world.ask("r1")
    world.complete(1)
    world.stop("stop")
    world.acknowledge(2)
    world.coordinator.validate(2, Judge(True))
    assert world.coordinator.finalize(2).status is Status.COMPLETED
    assert pipeline(world).status is PipelineStatus.STOPPING
    world.coordinator.notify(2)
    assert pipeline(world).status is PipelineStatus.FINISHED
    assert 2 in world.sink.visible
    assert found(world, 2).kind is CheckpointKind.SYNC_SAVEPOINT
    dropped = world.ask("r3")
    assert isinstance(dropped, Dropped)
    assert "stopped with savepoint 2 (p/chk-2/_metadata); `tidegate resume p` continues from it." in dropped.message
    assert world.stop("stop") == AlreadyCompleted(2)


def test_a_stopped_pipeline_goes_on_from_its_savepoint_which_nothing_pushes_out(desk: Callable[..., Desk]) -> None:
    world = desk(retained=1)
    stopped(world)
    assert resume(world.coordinator).status is PipelineStatus.RUNNING
    for number in range(3, 6):
        assert world.ask(f"r{number}") == Triggered(number)
        world.complete(number)
    assert found(world, 2).status is Status.COMPLETED
    assert found(world, 3).status is not Status.COMPLETED
    assert world.stop("stop again") == Triggered(6)
    assert world.ask("r7", periodic=True).__class__ is Dropped
    assert pipeline(world).status is PipelineStatus.STOPPING, "the old savepoint ends nothing"
    world.complete(6)
    assert pipeline(world).status is PipelineStatus.FINISHED


def test_a_drained_pipeline_cannot_be_resumed(desk: Callable[..., Desk]) -> None:
    world = desk()
    stopped(world, drain=True)
    assert pipeline(world).status is PipelineStatus.FINISHED
    with pytest.raises(PipelineStatusError, match=r"It was drained by savepoint 2 \(p/chk-2/_metadata\)"):
        resume(world.coordinator)
    assert pipeline(world).status is PipelineStatus.FINISHED


# -- if it fails


def test_a_savepoint_that_is_rejected_lets_the_pipeline_go_on(desk: Callable[..., Desk]) -> None:
    world = desk(tolerable_failed_checkpoints=0)
    world.stop("stop")
    world.acknowledge(1)
    with pytest.raises(ValidationFailedError):
        world.coordinator.validate(1, Judge(False))
    assert pipeline(world).status is PipelineStatus.RUNNING
    assert world.ask("r2", periodic=True) == Triggered(2)


def test_a_savepoint_that_expires_lets_the_pipeline_go_on_with_the_next_request(desk: Callable[..., Desk]) -> None:
    world = desk(timeout="1 min")
    world.stop("stop")
    world.clock.advance(61)
    assert world.ask("r2", periodic=True) == Triggered(2)
    assert pipeline(world).status is PipelineStatus.RUNNING


def test_a_subtask_that_cannot_take_it_fails_the_pipeline_at_once(desk: Callable[..., Desk]) -> None:
    world = desk()  # tolerates any number of failures
    world.stop("stop")
    world.coordinator.abort(1, FailureReason.CHECKPOINT_DECLINED, "the file is gone")
    assert pipeline(world).status is PipelineStatus.FAILED
    with pytest.raises(PipelineFailedError, match=r"could not take savepoint 1.*the file is gone.*resume p"):
        world.ask("r2")
    resume(world.coordinator)
    assert world.stop("stop") == Triggered(2)


def test_suspending_or_cancelling_gives_the_savepoint_up(desk: Callable[..., Desk]) -> None:
    world = desk()
    world.stop("stop")
    with pytest.raises(PipelineStatusError, match="STOPPING and cannot be resumed"):
        resume(world.coordinator)
    assert suspend(world.coordinator).status is PipelineStatus.SUSPENDED
    assert found(world, 1).failure_reason is FailureReason.COORDINATOR_SUSPEND
    resume(world.coordinator)
    assert world.stop("stop") == Triggered(2)
    assert world.coordinator.cancel().status is PipelineStatus.CANCELLED
    assert found(world, 2).failure_reason is FailureReason.COORDINATOR_SHUTDOWN


@pytest.mark.parametrize("error", [SinkError("the disk is full"), OSError("the disk is full")])
def test_an_error_after_the_savepoint_names_its_path_and_repeating_finishes_it(
    desk: Callable[..., Desk], error: Exception
) -> None:
    world = desk()
    world.stop("stop")
    world.acknowledge(1)
    world.coordinator.validate(1, Judge(True))
    world.coordinator.finalize(1)

    def refuse(checkpoint_id: int) -> None:
        raise error

    world.sink.before_commit = refuse
    for ask in (lambda: world.coordinator.notify(1), lambda: world.stop("stop"), lambda: world.ask("r2")):
        with pytest.raises(StopIncompleteError, match=r"Savepoint 1 .* p/chk-1/_metadata .* the disk is full"):
            ask()
    world.coordinator.abort(1, FailureReason.TASK_FAILURE, "too late")
    assert pipeline(world).status is PipelineStatus.STOPPING
    world.sink.before_commit = lambda checkpoint_id: None
    world.coordinator.notify(1)
    assert pipeline(world).status is PipelineStatus.FINISHED


@pytest.mark.parametrize("drain", [False, True])
@pytest.mark.parametrize("how", DEATHS)
def test_wherever_a_process_dies_repeating_the_request_stops_the_pipeline_with_one_savepoint(
    store: CheckpointStore, how: str, drain: bool
) -> None:
    mortal, deaths = MortalStore(store), 0
    for number in range(12):
        world = Desk(mortal)
        world.pipeline.name = f"p{number}"
        world.coordinator = CheckpointCoordinator(world.pipeline, mortal, world.storage, world.clock)
        mortal.plan = (number, how)
        while True:
            try:
                outcome = world.stop("stop", drain)
                assert not isinstance(outcome, Dropped | Queued)
                world.complete(outcome.checkpoint_id, ALL if drain else "")
                break
            except (Crash, FinalizeError, UnknownOutcomeError, StopIncompleteError):
                deaths += 1
        known = store.pipeline(f"p{number}")
        assert known is not None
        assert known.status is PipelineStatus.FINISHED
        assert [(r.checkpoint_id, r.status) for r in store.history(f"p{number}", 9)] == [(1, Status.COMPLETED)]
        assert list(world.sink.visible) == [1]
    assert deaths >= 8


def test_what_a_crash_left_between_the_savepoint_and_the_end_is_made_up_for(desk: Callable[..., Desk]) -> None:
    world = desk()
    world.stop("stop")
    world.acknowledge(1)
    world.coordinator.validate(1, Judge(True))
    world.coordinator.finalize(1)

    def crash(checkpoint_id: int) -> None:
        raise Crash

    world.sink.before_commit = crash
    with pytest.raises(Crash):
        world.coordinator.notify(1)
    world.sink.before_commit = lambda checkpoint_id: None
    assert isinstance(world.ask("a scheduled run", periodic=True), Dropped)
    assert pipeline(world).status is PipelineStatus.FINISHED
