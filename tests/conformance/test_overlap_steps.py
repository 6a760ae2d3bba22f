"""The steps of checkpoints that overlap, one by one: verdicts, commits, and what a scheduled run does."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from desks import Desk
from records import T0
from worlds import Judge

from tidegate.protocol.continuous.overlap import FOLLOWS
from tidegate.protocol.facts.errors import EarlierSavepointError, FinalizeError
from tidegate.protocol.facts.lifecycle import Phase
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import (
    Acknowledgement,
    CheckpointRecord,
    HandleKind,
    Snapshot,
    StateHandle,
    SubtaskId,
    SubtaskRecord,
    Verdict,
)
from tidegate.protocol.observing.events import EventKind
from tidegate.protocol.steps.trigger import Dropped, Queued, Triggered

ROWS, _REASON = SubtaskId("out-sink", 0), FailureReason.TASK_FAILURE


def versions(checkpoint_id: int, *follows: tuple[int, int | None]) -> tuple[StateHandle, ...]:
    handle = StateHandle("", HandleKind.STAGED, 1, 1, "", checkpoint_id)
    return tuple(
        replace(handle, path=f"chk-{checkpoint_id}/0-1-after-{first}", details={FOLLOWS: [first, below]})
        for first, below in follows
    )


def begun(desk: Desk, count: int, savepoint: int = 0) -> None:
    """So many checkpoints, all of them acknowledged by a region that lives. The second has two versions."""
    desk.coordinator.start_region()
    for id_ in range(1, count + 1):
        assert desk.ask(f"r{id_}", savepoint=id_ == savepoint) == Triggered(id_)
        task = desk.coordinator.begin_snapshot(1, id_)
        assert task is not None
        handles = versions(id_, (0, 1), (1, None)) if id_ == 2 else ()
        for handle in handles:
            desk.sink.staged[handle.path] = id_
        acks = [
            Acknowledgement(key, attempt, Snapshot(handles if key == ROWS else ()))
            for key, attempt in task.attempts.items()
        ]
        desk.coordinator.record_acknowledgements(id_, acks)


class Reading(Judge):
    """Says which files it judged, and what happens meanwhile."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        super().__init__(True)
        self.read: list[list[str]] = []
        self._meanwhile = meanwhile

    def validate(
        self, checkpoint: CheckpointRecord, subtasks: Mapping[SubtaskId, SubtaskRecord], settled: Any = ()
    ) -> Sequence[Verdict]:
        self.read.append([handle.path for handle in subtasks[ROWS].snapshot.handles])
        meanwhile, self._meanwhile = self._meanwhile, lambda: None
        meanwhile()
        return super().validate(checkpoint, subtasks, settled)


def complete(desk: Desk, checkpoint_id: int) -> None:
    desk.coordinator.validate(checkpoint_id, Judge(True))
    desk.coordinator.finalize(checkpoint_id)
    desk.coordinator.notify(checkpoint_id)


def test_a_verdict_is_on_what_follows_the_latest_completed_checkpoint(desk: Callable[..., Desk]) -> None:
    world, judge = desk(max_concurrent=2), Reading()
    begun(world, 2)
    world.coordinator.validate(2, judge)
    assert judge.read == [["chk-2/0-1-after-0"]]


def test_if_an_older_one_completes_meanwhile_it_is_given_anew(desk: Callable[..., Desk]) -> None:
    world = desk(max_concurrent=2)
    begun(world, 2)
    judge = Reading(meanwhile=lambda: complete(world, 1))
    world.coordinator.validate(2, judge)
    assert judge.read == [["chk-2/0-1-after-0"], ["chk-2/0-1-after-1"]]
    world.coordinator.finalize(2)
    world.coordinator.notify(2)
    assert list(world.sink.visible[2]) == ["chk-2/0-1-after-1"]
    world.coordinator.clean()
    assert world.sink.staged == {}


def test_an_older_one_does_not_complete_under_a_verdict_that_has_its_rows(desk: Callable[..., Desk]) -> None:
    world = desk(max_concurrent=2)
    begun(world, 2)
    world.coordinator.validate(1, Judge(True))
    world.coordinator.validate(2, Judge(True))
    with pytest.raises(FinalizeError, match="did not take effect"):
        world.coordinator.finalize(1)
    complete(world, 2)
    assert statuses_of(world, 1, 2) == ["CHECKPOINT_SUBSUMED", "COMPLETED"]
    assert list(world.sink.visible[2]) == ["chk-2/0-1-after-0"]


def test_one_that_completes_ends_the_older_ones(desk: Callable[..., Desk]) -> None:
    world = desk(max_concurrent=2)
    begun(world, 2)
    complete(world, 2)
    assert statuses_of(world, 1, 2) == ["CHECKPOINT_SUBSUMED", "COMPLETED"]


def test_an_older_savepoint_is_waited_for(desk: Callable[..., Desk]) -> None:
    world = desk(max_concurrent=2)
    begun(world, 2, savepoint=1)
    with pytest.raises(EarlierSavepointError, match="waits for savepoint 1"):
        world.coordinator.validate(2, Judge(True))
    complete(world, 1)
    complete(world, 2)
    assert statuses_of(world, 1, 2) == ["COMPLETED", "COMPLETED"]
    assert list(world.sink.visible[2]) == ["chk-2/0-1-after-1"]


def test_the_last_checkpoint_ends_the_pipeline_once_the_newer_one_has_failed(desk: Callable[..., Desk]) -> None:
    world = desk(max_concurrent=2)
    world.coordinator.start_region()
    for id_ in (1, 2):
        world.ask(f"r{id_}")
        task = world.coordinator.begin_snapshot(1, id_)
        assert task is not None
        if id_ == 1:
            acks = [Acknowledgement(key, attempt, Snapshot(finished=True)) for key, attempt in task.attempts.items()]
            world.coordinator.record_acknowledgements(1, acks)
    complete(world, 1)
    with world.store.transaction("p") as tx:
        assert tx.pipeline().status is PipelineStatus.RUNNING
    world.coordinator.abort(2, _REASON, "on purpose")
    with world.store.transaction("p") as tx:
        assert tx.pipeline().status is PipelineStatus.FINISHED


def statuses_of(world: Desk, *ids: int) -> list[str]:
    found = [world.record(id_) for id_ in ids]
    return [each.failure_reason.name if each.failure_reason else str(each.status) for each in found]


def test_nobody_is_told_of_one_that_was_subsumed(desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch) -> None:
    world = desk(max_concurrent=2)
    told: list[object] = []
    with world.store.transaction("p") as tx:
        monkeypatch.setattr(type(tx), "add_event", lambda _, kind, *given: told.append((kind, *given)))
    begun(world, 2)
    complete(world, 2)
    assert statuses_of(world, 1, 2) == ["CHECKPOINT_SUBSUMED", "COMPLETED"]
    assert told == []
    world.ask("r3")
    world.coordinator.abort(3, _REASON, "on purpose")
    assert [each[0] for each in told] == [EventKind.CHECKPOINT_FAILED]  # type: ignore[index]


# -- scheduled


def test_a_scheduled_run_takes_one_at_a_time_whatever_the_definition_says(desk: Callable[..., Desk]) -> None:
    world = desk(max_concurrent=3)
    assert world.ask("first") == Triggered(1)
    assert isinstance(world.ask("second"), Queued)
    assert isinstance(world.ask("third", wait=False), Dropped)
    assert isinstance(world.ask("a savepoint", savepoint=True), Queued)
    world.complete(1)
    assert world.ask("a savepoint", savepoint=True) == Triggered(2)
    assert [record.phase for record in world.store.history("p", 10)] == [Phase.TRIGGERED, Phase.VALIDATED]


def test_once_its_region_is_dead_a_pipeline_takes_one_at_a_time(desk: Callable[..., Desk]) -> None:
    world = desk(max_concurrent=3)
    world.coordinator.start_region()
    assert world.ask("first") == Triggered(1)
    assert world.ask("second") == Triggered(2)
    world.clock.advance(61)
    assert isinstance(world.ask("third"), Queued)
    assert isinstance(world.ask("a savepoint", savepoint=True), Queued)
    assert world.clock.now() > T0
