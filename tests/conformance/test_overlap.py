"""Several checkpoints of a continuous run at once: what each shows, which ends another, what a scheduled run does."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from executors import Slow
from live_pipelines import Live, shown
from user_actions import approve, reject
from worlds import Judge

from tidegate.coordination.continuous import continuous_run as continuous
from tidegate.protocol.facts.errors import NotHeldError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import (
    SubtaskId,
)
from tidegate.protocol.steps.trigger import Triggered

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


def test_rows_of_an_aborted_one_go_with_the_next_that_completes(overlapping: Callable[..., Live]) -> None:
    one = overlapping()
    one.at(22, lambda: one.world.coordinator.abort(1, _REASON, "somebody aborted it"))
    one.run(until=60)
    assert statuses(one)[:2] == ["TASK_FAILURE", "COMPLETED"]
    assert shown(one.world.sink)[0] == 0
    one.check()


def test_a_savepoint_starts_next_to_others_and_is_not_subsumed(overlapping: Callable[..., Live]) -> None:
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


def test_one_that_is_held_waits_next_to_newer_ones(overlapping: Callable[..., Live]) -> None:
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
