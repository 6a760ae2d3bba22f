"""A continuous region: how it is registered, fenced and kept apart from the scheduled way, on every store."""

from collections.abc import Callable

import pytest
from desks import Desk
from records import at
from store_steps import PIPELINE, completed
from user_actions import STOPS
from worlds import Judge, small_pipeline

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.ports import CheckpointStore
from tidegate.protocol.continuous.regions import RegionRecord, RegionStart
from tidegate.protocol.facts.errors import (
    CheckpointError,
    PipelineDefinitionError,
    PipelineFailedError,
    PipelineStatusError,
    SupersededAttemptError,
)
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import (
    Acknowledgement,
    Snapshot,
)

# -- what the store keeps


def test_a_region_is_begun_seen_and_ended(store: CheckpointStore) -> None:
    assert store.region(PIPELINE) == RegionRecord()
    with store.transaction(PIPELINE) as tx:
        assert tx.region() == RegionRecord()
        assert tx.begin_region(at(1)) == 1
        assert tx.region() == RegionRecord(1, at(1), at(1))
    with store.transaction(PIPELINE) as tx:
        assert tx.touch_region(1, at(2))
    assert store.region(PIPELINE) == RegionRecord(1, at(1), at(2))
    with store.transaction(PIPELINE) as tx:
        assert tx.end_region(1, at(3))
        assert not tx.end_region(1, at(4))
        assert not tx.touch_region(1, at(4))
    assert store.region(PIPELINE) == RegionRecord(1, at(1), None, at(3))


def test_a_region_that_was_overtaken_changes_nothing(store: CheckpointStore) -> None:
    with store.transaction(PIPELINE) as tx:
        tx.begin_region(at(1))
        assert tx.begin_region(at(2)) == 2
    with store.transaction(PIPELINE) as tx:
        assert not tx.touch_region(1, at(3))
        assert not tx.end_region(1, at(3))
        assert not tx.end_region(0, at(3))
    assert store.region(PIPELINE) == RegionRecord(2, at(2), at(2))


def test_attempts_that_were_swept_stay_so(store: CheckpointStore) -> None:
    with store.transaction(PIPELINE) as tx:
        tx.begin_region(at(1))
        tx.end_region(1, at(2))
        tx.mark_regions_swept(1)
    with store.transaction(PIPELINE) as tx:
        tx.begin_region(at(3))
    assert store.region(PIPELINE) == RegionRecord(2, at(3), at(3), swept=1)
    with pytest.raises(CheckpointError), store.transaction(PIPELINE) as tx:
        tx.mark_regions_swept(3)


def test_restores_are_counted_and_the_latest_is_kept(store: CheckpointStore) -> None:
    for seconds in (1, 2):
        id_ = completed(store)
        with store.transaction(PIPELINE) as tx:
            tx.record_restore(id_, at(seconds))
    found = store.figures(PIPELINE)
    assert found.restores == 2
    assert found.latest_restore is not None
    assert (found.latest_restore.checkpoint, found.latest_restore.at) == (store.checkpoint(PIPELINE, 2), at(2))
    with pytest.raises(CheckpointError), store.transaction(PIPELINE) as tx:
        tx.record_restore(3, at(3))


# -- how a region starts and is fenced


def test_the_first_region_of_a_new_pipeline_makes_it_run(desk: Callable[..., Desk]) -> None:
    world = desk()
    assert world.coordinator.start_region() == RegionStart(1, None, {})
    assert world.coordinator.keep_region(1).status is PipelineStatus.RUNNING
    assert world.store.figures("p").restores == 0


def test_a_region_takes_checkpoints_and_the_next_one_starts_from_them(desk: Callable[..., Desk]) -> None:
    world = desk()
    world.coordinator.start_region()
    world.ask("first")
    world.complete_by(1, 1)
    assert world.coordinator.begin_snapshot(1, 1) is None
    assert world.coordinator.begin_snapshot(1, 7) is None
    start = world.coordinator.start_region()
    assert (start.attempt, start.checkpoint_id) == (2, 1)
    assert start.restored.keys() == world.store.subtasks("p", 1).keys()
    restored = world.store.figures("p")
    assert restored.latest_restore is not None
    assert (restored.restores, restored.latest_restore.checkpoint.checkpoint_id) == (1, 1)


def test_a_region_is_given_what_its_own_earlier_attempt_has_acknowledged(desk: Callable[..., Desk]) -> None:
    world = desk()
    world.coordinator.start_region()
    world.ask("first")
    task = world.coordinator.begin_snapshot(1, 1)
    assert task is not None
    first, *rest = sorted(task.attempts)
    world.coordinator.record_acknowledgements(1, [Acknowledgement(first, 1, Snapshot())])
    again = world.coordinator.begin_snapshot(1, 1)
    assert again is not None
    assert (again.acknowledged, again.attempts) == ({first: Snapshot()}, dict.fromkeys(rest, 2))
    assert again.restored == {}


def test_a_new_region_overtakes_one_that_lives_and_aborts_what_is_in_progress(desk: Callable[..., Desk]) -> None:
    world = desk()
    world.coordinator.start_region()
    world.ask("first", savepoint=True)
    task = world.coordinator.begin_snapshot(1, 1)
    assert task is not None
    world.answer(task)
    world.coordinator.validate(1, Judge(True))
    assert world.coordinator.start_region().attempt == 2
    assert (world.record(1).status, world.record(1).failure_reason) == (
        Status.FAILED,
        FailureReason.JOB_FAILOVER_REGION,
    )
    world.ask("second")
    for refused in (
        lambda: world.coordinator.begin_snapshot(1, 2),
        lambda: world.coordinator.keep_region(1),
    ):
        with pytest.raises(SupersededAttemptError, match="Region attempt 1 of pipeline p was superseded by attempt 2"):
            refused()
    world.coordinator.end_region(1)
    assert world.coordinator.has_live_region()
    world.complete_by(2, 2)


def test_what_completed_is_made_visible_before_a_region_starts(desk: Callable[..., Desk]) -> None:
    world = desk()
    world.ask("first")
    world.acknowledge(1)
    world.coordinator.validate(1, Judge(True))
    world.coordinator.finalize(1)  # and nobody notifies
    assert world.coordinator.start_region().checkpoint_id == 1
    assert 1 in world.sink.visible
    assert world.record(1).notified_at is not None


@pytest.mark.parametrize("move", ["suspend", "cancel"])
def test_a_pipeline_that_does_not_run_gets_no_region(desk: Callable[..., Desk], move: str) -> None:
    world = desk()
    STOPS[move](world.coordinator)
    with pytest.raises(PipelineStatusError, match=r"so no region of it was started\. Nothing was"):
        world.coordinator.start_region()
    assert world.store.region("p") == RegionRecord()


def test_a_failed_pipeline_says_how_to_go_on(desk: Callable[..., Desk]) -> None:
    world = desk(tolerable_failed_checkpoints=0)
    world.ask("first")
    world.coordinator.abort(1, FailureReason.CHECKPOINT_DECLINED, "it declined")
    with pytest.raises(PipelineFailedError, match="To continue, run `tidegate resume p`"):
        world.coordinator.start_region()


def test_an_abort_for_a_new_region_is_no_failure_that_counts(desk: Callable[..., Desk]) -> None:
    world = desk(tolerable_failed_checkpoints=0)
    for request in ("first", "second"):
        world.ask(request)
        world.coordinator.start_region()
    assert world.coordinator.keep_region(2).status is PipelineStatus.RUNNING


def test_a_region_of_another_definition_takes_no_part(desk: Callable[..., Desk]) -> None:
    world = desk()
    world.coordinator.start_region()
    world.ask("first")
    other = small_pipeline(world.sink, parallelism=4)
    rescaled = CheckpointCoordinator(other, world.store, world.storage, world.clock)
    with pytest.raises(PipelineDefinitionError):
        rescaled.begin_snapshot(1, 1)
    assert {known.attempt for known in world.store.subtasks("p", 1).values()} == {0}


# -- signs of life


def test_a_sign_of_life_is_written_now_and_then(desk: Callable[..., Desk]) -> None:
    world = desk()
    world.coordinator.start_region()
    world.clock.advance(1)
    world.coordinator.keep_region(1)
    assert world.store.region("p").seen_at == at(0)
    world.clock.advance(59)
    assert world.coordinator.has_live_region()
    world.clock.advance(1)
    assert not world.coordinator.has_live_region()
    world.coordinator.keep_region(1)  # nobody has taken its place meanwhile
    assert world.store.region("p").seen_at == at(61)
    assert world.coordinator.has_live_region()


@pytest.mark.parametrize(
    ("move", "status"), [("suspend", PipelineStatus.SUSPENDED), ("cancel", PipelineStatus.CANCELLED)]
)
def test_a_region_hears_that_its_pipeline_was_stopped(
    desk: Callable[..., Desk], move: str, status: PipelineStatus
) -> None:
    world = desk()
    world.coordinator.start_region()
    STOPS[move](world.coordinator)
    assert world.coordinator.keep_region(1).status is status
    world.coordinator.end_region(1)
    assert not world.coordinator.has_live_region()


def test_a_region_that_ends_aborts_what_waits_for_its_snapshots(desk: Callable[..., Desk]) -> None:
    world = desk()
    world.coordinator.start_region()
    world.ask("first")
    for _ in range(2):
        world.coordinator.end_region(1)
    assert world.record(1).failure_reason is FailureReason.JOB_FAILOVER_REGION
    assert "The continuous region ended while checkpoint 1 was in progress" in (world.record(1).failure_message or "")
    with pytest.raises(SupersededAttemptError):
        world.coordinator.keep_region(1)


def test_what_has_all_its_snapshots_goes_on_without_the_region(desk: Callable[..., Desk]) -> None:
    world = desk()
    world.coordinator.start_region()
    world.ask("first")
    task = world.coordinator.begin_snapshot(1, 1)
    assert task is not None
    world.answer(task)
    world.coordinator.end_region(1)
    world.coordinator.validate(1, Judge(True))
    assert world.coordinator.finalize(1).status is Status.COMPLETED
