"""An attempt that no longer counts says so, whatever it meets: its successor may have deleted the files it reads."""

import logging
from collections.abc import Callable, Mapping

import pytest
from desks import Desk
from live_pipelines import CountingRegion, Live
from worlds import CapturingRegion, Judge

from tidegate import CheckpointHistory
from tidegate.ports import Acknowledger, Round
from tidegate.protocol.cleaning.rollup import ROLLUP_INTERVAL
from tidegate.protocol.facts.errors import (
    CheckpointExpiredError,
    CheckpointNotInProgressError,
    StateIntegrityError,
    StoreUnavailableError,
    SupersededAttemptError,
)
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import Acknowledgement, CompactedRun, Snapshot, SubtaskId
from tidegate.protocol.steps.snapshot import SnapshotTask

MakeDesk = Callable[..., Desk]
MakeLive = Callable[..., Live]
DAMAGE = "p/chk-1/op/0-1-a.parquet is missing. Restore the file from a copy."


def meeting(what: Callable[[], object]) -> CapturingRegion:
    """A region that finds a file missing, after something has happened beside it."""

    def fail(task: SnapshotTask) -> None:
        what()
        raise StateIntegrityError(DAMAGE)

    return CapturingRegion(fail)


def overtake(world: Desk) -> None:
    """A retry begins, and does not get far."""
    with pytest.raises(Exception, match="only 0 of 6 subtasks"):
        world.coordinator.snapshot(1, CapturingRegion())


# -- a scheduled snapshot


def test_a_snapshot_whose_checkpoint_completed_long_ago_says_so_when_its_history_is_rolled_up(desk: MakeDesk) -> None:
    """As a task that was suspended for a week. How far which attempt came is not kept any more."""
    world = desk(retained=1, history=CheckpointHistory(checkpoints=1, age=None))
    world.ask("a")

    def complete_without_it() -> None:
        overtake(world)
        world.complete(1)
        world.ask("b")
        world.complete(2)
        world.clock.advance(ROLLUP_INTERVAL.total_seconds() + 1)
        world.coordinator.clean()
        assert world.store.subtasks("p", 1) == {}

    with pytest.raises(SupersededAttemptError) as caught:
        world.coordinator.snapshot(1, meeting(complete_without_it))
    assert str(caught.value) == (
        "Checkpoint 1 of pipeline p completed so long ago that its attempts are not kept any more. The work of "
        "attempt 1 since then does not count. No action is needed."
    )


def test_a_snapshot_that_was_overtaken_names_its_successor_and_not_the_file(desk: MakeDesk) -> None:
    world = desk()
    world.ask("a")
    with pytest.raises(SupersededAttemptError) as caught:
        world.coordinator.snapshot(1, meeting(lambda: overtake(world)))
    assert str(caught.value) == (
        "Attempt 1 at checkpoint 1 of pipeline p was superseded by attempt 2. Nothing it did counts, and its files "
        "will be deleted. No action is needed: the later attempt continues the checkpoint."
    )
    assert isinstance(caught.value.__cause__, StateIntegrityError)


def test_a_snapshot_of_which_a_part_counts_was_overtaken_all_the_same(desk: MakeDesk) -> None:
    """What it has acknowledged stays its own, and the successor is asked for the rest."""
    world = desk()
    world.ask("a")

    class Half(CapturingRegion):
        def snapshot(self, task: SnapshotTask, acknowledge: Acknowledger) -> None:
            first, *_ = task.attempts
            acknowledge([Acknowledgement(first, task.attempts[first], Snapshot())])
            with pytest.raises(Exception, match="only 1 of 6 subtasks"):
                world.coordinator.snapshot(1, CapturingRegion())
            raise StateIntegrityError(DAMAGE)

    with pytest.raises(SupersededAttemptError, match=r"Attempt 1 at checkpoint 1 .* was superseded by attempt 2\."):
        world.coordinator.snapshot(1, Half())


def test_a_snapshot_whose_retry_completed_the_checkpoint_was_superseded(desk: MakeDesk) -> None:
    world = desk()
    world.ask("a")
    with pytest.raises(SupersededAttemptError, match=r"Attempt 1 at checkpoint 1 .* was superseded by attempt 2\."):
        world.coordinator.snapshot(1, meeting(lambda: world.complete(1)))
    record = world.store.checkpoint("p", 1)
    assert record is not None
    assert record.status is Status.COMPLETED


def test_a_snapshot_whose_checkpoint_was_aborted_hears_why(desk: MakeDesk) -> None:
    world = desk()
    world.ask("a")
    with pytest.raises(CheckpointNotInProgressError, match=r"CHECKPOINT_DECLINED\. a disk is full"):
        world.coordinator.snapshot(
            1, meeting(lambda: world.coordinator.abort(1, FailureReason.CHECKPOINT_DECLINED, "a disk is full"))
        )


def test_a_snapshot_whose_deadline_has_passed_hears_that(desk: MakeDesk) -> None:
    world = desk()
    world.ask("a")
    with pytest.raises(CheckpointExpiredError, match="by its deadline"):
        world.coordinator.snapshot(1, meeting(lambda: world.clock.advance(601)))


def test_the_current_attempt_says_what_it_met(desk: MakeDesk) -> None:
    world = desk()
    world.ask("a")
    with pytest.raises(StateIntegrityError, match="Restore the file from a copy"):
        world.coordinator.snapshot(1, meeting(lambda: None))


def test_any_error_of_an_attempt_that_was_overtaken_is_that_it_was(desk: MakeDesk) -> None:
    world = desk()
    world.ask("a")

    def fail(task: SnapshotTask) -> None:
        overtake(world)
        raise RuntimeError("Py4JJavaError: Path does not exist")

    with pytest.raises(SupersededAttemptError, match="superseded by attempt 2"):
        world.coordinator.snapshot(1, CapturingRegion(fail))


def test_a_merge_that_comes_too_late_is_no_news(desk: MakeDesk, caplog: pytest.LogCaptureFixture) -> None:
    """Its checkpoint completed meanwhile, a later one too, and the runs it reads were deleted."""

    class Late(CapturingRegion):
        def compact(self, checkpoint_id: int, snapshots: Mapping[SubtaskId, Snapshot]) -> list[CompactedRun]:
            world.coordinator.validate(1, Judge(True))
            world.coordinator.finalize(1)
            raise StateIntegrityError(DAMAGE)

    world = desk()
    world.ask("a")
    with caplog.at_level(logging.INFO, "tidegate"):
        world.acknowledge(1, region=Late)
    assert "Restore the file" not in caplog.text
    assert "checkpoint 1 has ended in the meantime" in caplog.text


@pytest.mark.parametrize(
    ("has_ended", "expected"), [(True, CheckpointNotInProgressError), (False, StateIntegrityError)]
)
def test_a_judge_that_misses_staged_rows_of_a_checkpoint_that_has_ended_hears_of_the_end(
    desk: MakeDesk, has_ended: bool, expected: type[Exception]
) -> None:
    class Late(Judge):
        def validate(self, *_: object) -> list[object]:  # type: ignore[override]
            if has_ended:
                world.coordinator.abort(1, FailureReason.TASK_FAILURE, "stopped")
            raise StateIntegrityError(DAMAGE)

    world = desk()
    world.ask("a")
    world.acknowledge(1)
    with pytest.raises(expected):
        world.coordinator.validate(1, Late(True))


def test_a_judge_that_comes_after_another_one_takes_its_answer(desk: MakeDesk) -> None:
    class Late(Judge):
        def validate(self, *_: object) -> list[object]:  # type: ignore[override]
            world.coordinator.validate(1, Judge(True))
            world.coordinator.finalize(1)
            raise StateIntegrityError(DAMAGE)

    world = desk()
    world.ask("a")
    world.acknowledge(1)
    assert world.coordinator.validate(1, Late(True)).record.status is Status.COMPLETED


# -- a continuous region


def breaks(one: Live, monkeypatch: pytest.MonkeyPatch, before: Callable[[], object], method: str = "advance") -> None:
    """Once ten numbers are read, the region finds a file missing, after something has happened beside it."""
    original = getattr(CountingRegion, method)

    def broken(self: CountingRegion, *arguments: object) -> Round:
        if self._start.attempt == 1 and self.read >= 10:
            before()
            raise StateIntegrityError(DAMAGE)
        found: Round = original(self, *arguments)
        return found

    monkeypatch.setattr(CountingRegion, method, broken)


@pytest.mark.parametrize("method", ["advance", "begin"])
def test_a_region_that_was_overtaken_says_so(live: MakeLive, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    one = live(interval="10 s")
    breaks(one, monkeypatch, one.world.coordinator.start_region, method)
    with pytest.raises(SupersededAttemptError) as caught:
        one.run(until=60)
    assert str(caught.value) == (
        "Region attempt 1 of pipeline p was superseded by attempt 2. Nothing it does counts any more; the later "
        "attempt continues from the latest completed checkpoint. No action is needed, and this process may end."
    )
    assert one.world.store.region("p").attempt == 2
    assert one.world.store.region("p").seen_at is not None


def test_a_region_that_was_ended_says_so(live: MakeLive, monkeypatch: pytest.MonkeyPatch) -> None:
    one = live()
    breaks(one, monkeypatch, lambda: one.world.coordinator.end_region(1))
    with pytest.raises(
        SupersededAttemptError, match="was ended by another process: it gave no sign of life for too long"
    ):
        one.run(until=60)


def test_a_region_of_a_pipeline_that_was_cancelled_ends_in_order(
    live: MakeLive, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = live(interval="5 s")
    breaks(one, monkeypatch, one.world.coordinator.cancel)
    assert one.run(until=60).status is PipelineStatus.CANCELLED


def test_a_region_that_still_counts_says_what_it_met(live: MakeLive, monkeypatch: pytest.MonkeyPatch) -> None:
    one = live()
    breaks(one, monkeypatch, lambda: None)
    with pytest.raises(StateIntegrityError, match="Restore the file from a copy"):
        one.run(until=60)


def test_where_nobody_can_look_nobody_claims_damage(live: MakeLive, monkeypatch: pytest.MonkeyPatch) -> None:
    one = live()

    def away(*_: object) -> None:
        raise StoreUnavailableError("the database is away")

    breaks(one, monkeypatch, lambda: monkeypatch.setattr(one.world.coordinator, "keep_region", away))
    with pytest.raises(StoreUnavailableError) as caught:
        one.run(until=60)
    assert isinstance(caught.value.__cause__, StateIntegrityError)
