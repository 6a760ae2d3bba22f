"""Several checkpoints of a continuous run at once: what each shows, which ends another, what a scheduled run does."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from desks import Desk
from executors import Slow
from live_pipelines import Live, shown
from made_gestures import approve, reject
from records import T0
from worlds import Judge

from tidegate.coordination import continuous_run as continuous
from tidegate.protocol.errors import EarlierSavepointError, FinalizeError, NotHeldError
from tidegate.protocol.events import EventKind
from tidegate.protocol.lifecycle import Phase, Status
from tidegate.protocol.overlap import FOLLOWS
from tidegate.protocol.pipelines import PipelineStatus
from tidegate.protocol.reasons import FailureReason
from tidegate.protocol.records import (
    Acknowledgement,
    CheckpointRecord,
    HandleKind,
    Snapshot,
    StateHandle,
    SubtaskId,
    SubtaskRecord,
    Verdict,
)
from tidegate.protocol.trigger import Dropped, Queued, Triggered

ROWS, _REASON = SubtaskId("out-sink", 0), FailureReason.TASK_FAILURE


@pytest.fixture
def overlapping(live: Callable[..., Live], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Live]:
    """Every ten seconds a checkpoint, each of which takes so long to be judged."""

    def begin(max_concurrent: int = 2, takes: float = 14, **config: object) -> Live:
        one = live(max_concurrent=max_concurrent, interval="10 s", retained=99, **config)
        monkeypatch.setattr(Slow, "takes", timedelta(seconds=takes))
        monkeypatch.setattr(Slow, "now", one.world.clock.now, raising=False)
        monkeypatch.setattr(continuous, "ThreadPoolExecutor", Slow)
        return one

    return begin


def statuses(one: Live) -> list[str]:
    return [status for _, _, status in one.history()]


# -- in a continuous run


def test_a_slow_suite_delays_no_barrier(overlapping: Callable[..., Live]) -> None:
    one = overlapping()
    one.run(until=60)
    assert one.triggered()[:3] == [10, 20, 30]
    first, second = one.world.record(1), one.world.record(2)
    assert first.completed_at is not None
    assert first.completed_at > second.triggered_at
    assert statuses(one)[:2] == ["COMPLETED", "COMPLETED"]
    one.check()


def test_with_one_at_a_time_it_does(overlapping: Callable[..., Live]) -> None:
    one = overlapping(max_concurrent=1)
    one.run(until=60)
    assert one.triggered()[1] > 20
    one.check()


def test_a_newer_one_is_judged_first_and_subsumes_those_that_wait(overlapping: Callable[..., Live]) -> None:
    one = overlapping(max_concurrent=4, takes=35)
    one.run(until=100)
    assert one.triggered()[:4] == [10, 20, 30, 40]
    assert statuses(one)[:4] == ["COMPLETED", "CHECKPOINT_SUBSUMED", "CHECKPOINT_SUBSUMED", "COMPLETED"]
    assert one.notified[4:8] == ["completed 1", "begin 5", "aborted 2, latest 1", "aborted 3, latest 1"]
    one.check()


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


def test_rows_of_an_aborted_one_go_with_the_next_that_completes(overlapping: Callable[..., Live]) -> None:
    one = overlapping()
    one.at(22, lambda: one.world.coordinator.abort(1, _REASON, "somebody aborted it"))
    one.run(until=60)
    assert statuses(one)[:2] == ["TASK_FAILURE", "COMPLETED"]
    assert shown(one.world.sink)[0] == 0
    one.check()


def test_a_savepoint_starts_beside_others_and_is_not_subsumed(overlapping: Callable[..., Live]) -> None:
    one = overlapping(max_concurrent=1)
    outcomes: list[object] = []
    one.at(12, lambda: outcomes.append(one.world.ask("save", savepoint=True)))
    one.run(until=60)
    assert outcomes == [Triggered(2)]
    with one.world.store.transaction("p") as tx:
        assert tx.requests() == []
    assert one.world.record(2).status is Status.COMPLETED
    assert statuses(one)[:2] == ["COMPLETED", "COMPLETED"]
    one.check()


def test_what_comes_after_a_savepoint_waits_for_it(overlapping: Callable[..., Live]) -> None:
    one = overlapping(max_concurrent=4, takes=2)
    one.orders[2] = "silent"
    one.at(15, lambda: one.world.ask("save", savepoint=True))
    found: list[list[str]] = []
    one.at(40, lambda: found.append(statuses(one)))
    one.at(41, one.orders.clear)
    one.run(until=70)
    assert found == [["COMPLETED", "IN_PROGRESS", "IN_PROGRESS", "IN_PROGRESS"]]
    assert statuses(one)[:3] == ["COMPLETED", "COMPLETED", "CHECKPOINT_SUBSUMED"]
    assert statuses(one)[-1] == "COMPLETED"
    one.check()


def test_a_stop_ends_everything_that_is_older(overlapping: Callable[..., Live]) -> None:
    one = overlapping()
    one.at(22, lambda: one.world.stop("stop"))
    record = one.run(until=100)
    assert record.status is PipelineStatus.FINISHED
    assert statuses(one) == ["COORDINATOR_SUSPEND", "COORDINATOR_SUSPEND", "COMPLETED"]
    one.check()


def test_a_run_that_is_killed_with_two_under_way_costs_nothing(overlapping: Callable[..., Live]) -> None:
    one = overlapping()

    class Killed(Exception):
        pass

    def kill() -> None:
        assert statuses(one) == ["IN_PROGRESS", "IN_PROGRESS"]
        raise Killed

    one.at(22, kill)
    with pytest.raises(Killed):
        one.run(until=60)
    one.run(until=100)
    assert statuses(one)[:2] == ["JOB_FAILOVER_REGION", "JOB_FAILOVER_REGION"]
    one.check()
    assert shown(one.world.sink)


def test_at_the_end_of_the_input_the_last_one_finishes_the_pipeline(overlapping: Callable[..., Live]) -> None:
    one = overlapping()
    one.end = 25
    assert one.run(until=200).status is PipelineStatus.FINISHED
    assert shown(one.world.sink) == list(range(25))


# -- held


def test_one_that_is_held_waits_beside_newer_ones(overlapping: Callable[..., Live]) -> None:
    """The newer one has its rows too: if they are good together, they are visible, and nobody need decide any more."""
    one = overlapping(hold_for="2 h", takes=2)
    one.judge = Judge("held")
    one.at(18, lambda: setattr(one.judge, "verdict", True))
    one.run(until=40)
    assert statuses(one)[:2] == ["CHECKPOINT_SUBSUMED", "COMPLETED"]
    one.check()


def test_two_that_are_held_are_decided_by_their_numbers(overlapping: Callable[..., Live]) -> None:
    one = overlapping(hold_for="2 h", takes=2)
    one.judge = Judge("held")

    def decide() -> None:
        with pytest.raises(NotHeldError, match="Checkpoints 1, 2 of pipeline p wait for a decision"):
            approve(one.world.coordinator, None, "ada")
        approve(one.world.coordinator, 1, "ada")
        reject(one.world.coordinator, 2, "ada")
        one.judge.verdict = True

    one.at(35, decide)
    one.run(until=80)
    assert statuses(one)[:3] == ["COMPLETED", "VALIDATION_REJECTED", "COMPLETED"]
    one.check()


def test_an_approved_one_shows_what_follows_the_one_that_completed_meanwhile(overlapping: Callable[..., Live]) -> None:
    one = overlapping(hold_for="2 h", takes=2)
    one.judge = Judge("held")
    one.at(33, lambda: approve(one.world.coordinator, 1, "ada"))
    one.at(38, lambda: approve(one.world.coordinator, 2, "ada"))
    one.run(until=45)
    assert statuses(one)[:2] == ["COMPLETED", "COMPLETED"]
    one.check()


# -- verdicts, step by step


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
