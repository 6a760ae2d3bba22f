"""A continuous run when nothing goes wrong: everybody's checkpoints, and its end, on every store."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ClassVar

import pytest
from desks import Desk
from executors import Inline
from live_pipelines import Live, shown
from user_actions import STOPS, resume
from worlds import Judge

from tidegate.coordination.continuous import continuous_run as continuous
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.ports import CheckpointStore
from tidegate.protocol.facts.errors import PipelineStatusError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.records import CheckpointKind, Verdict
from tidegate.protocol.steps.trigger import AlreadyCompleted, Queued, Triggered

# -- everybody's checkpoints


class Unhurried(Inline):
    """A thread that has done its work long before it ends."""

    ended: ClassVar["list[Future[Any]]"] = []

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> "Future[Any]":
        super().submit(work, *arguments, **named).result()
        self.ended.append(Future())
        return self.ended[-1]


def test_a_run_to_which_nothing_comes_looks_twice_a_second_also_after_a_checkpoint(
    live: Callable[..., Live], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its loop may see that a checkpoint was notified before the thread that completes it has ended."""
    one = live(interval="10 s")
    monkeypatch.setattr(continuous, "ThreadPoolExecutor", Unhurried)
    polls: list[float] = []
    poll = CheckpointCoordinator.poll_region

    def count(*given: Any) -> Any:
        polls.append(one.second)
        return poll(*given)

    monkeypatch.setattr(CheckpointCoordinator, "poll_region", count)

    def ends() -> None:
        assert "completed 1" in one.notified
        while Unhurried.ended:
            Unhurried.ended.pop().set_result(None)
        polls.clear()
        one.quiet = True

    one.at(14, ends)
    one.run(until=18)
    assert 4 <= len(polls) <= 9


def test_a_checkpoint_asked_for_by_hand_is_taken_and_completed(live: Callable[..., Live]) -> None:
    one = live()
    one.at(3, lambda: one.world.ask("by hand"))
    one.run(until=10)
    assert one.history() == [(1, "by hand", "COMPLETED")]
    assert one.world.ask("by hand") == AlreadyCompleted(1)
    one.check()
    assert shown(one.world.sink)


def test_a_savepoint_waits_for_the_one_in_progress_and_comes_before_the_next(live: Callable[..., Live]) -> None:
    one = live(interval="10 s")
    one.orders[1] = "silent"
    one.at(12, lambda: one.world.ask("save", savepoint=True))
    one.at(15, one.orders.clear)
    for second in range(16, 19):
        one.at(second, lambda: one.world.ask("save", savepoint=True))
    one.run(until=30)
    assert [request for _, request, _ in one.history()][:2] == ["region:1:1", "save"]
    found = one.world.store.checkpoint("p", 2)
    assert found is not None
    assert (found.kind, found.status) == (CheckpointKind.SAVEPOINT, Status.COMPLETED)
    one.check()


def test_the_regions_own_request_waits_for_one_that_is_in_progress(live: Callable[..., Live]) -> None:
    one = live(interval="10 s")
    outcomes: list[object] = []
    one.at(10, lambda: outcomes.append(one.world.ask("by hand")))
    one.run(until=16)
    assert outcomes == [Triggered(1)]
    assert [request for _, request, _ in one.history()] == ["by hand", "region:1:1"]


@pytest.mark.parametrize("drain", [False, True])
def test_a_stop_ends_the_run_with_its_savepoint(live: Callable[..., Live], drain: bool) -> None:
    one = live(interval="10 s")
    one.at(15, lambda: one.world.stop("stop", drain))
    record = one.run()
    assert (record.status, one.second < 25) == (PipelineStatus.FINISHED, True)
    assert one.history()[-1] == (2, "stop", "COMPLETED")
    assert not one.world.coordinator.has_live_region()
    one.check()
    if drain:
        with pytest.raises(PipelineStatusError):
            resume(one.world.coordinator)
        return
    resume(one.world.coordinator)
    before = one.world.store.subtasks("p", 2)
    one.run(until=one.second + 12)
    assert one.regions[-1]._start.restored.keys() == before.keys()
    one.check()


def test_a_pipeline_that_stops_is_asked_for_nothing_else(live: Callable[..., Live]) -> None:
    one = live(interval="4 s")
    one.orders[1] = "silent"
    one.at(4, lambda: one.world.stop("stop"))
    one.at(9, one.orders.clear)
    trigger, asked = one.world.coordinator.trigger, list[str]()

    def listen(request_id: str, **options: object) -> object:
        asked.append(request_id)
        return trigger(request_id, **options)

    one.world.coordinator.trigger = listen
    one.at(4, asked.clear)
    assert one.run().status is PipelineStatus.FINISHED
    assert asked == []
    one.check()


def test_a_run_whose_stopped_pipeline_was_resumed_at_once_ends_all_the_same(live: Callable[..., Live]) -> None:
    """Its sources have stopped: it would live on and read nothing."""
    one = live()
    one.at(3, lambda: one.world.stop("stop"))

    def resume_as_soon_as_it_has_stopped(checkpoint_id: int, complete: Callable[..., object]) -> object:
        delivered = complete(checkpoint_id)
        resume(one.world.coordinator)
        return delivered

    notify = one.world.coordinator.notify
    one.world.coordinator.notify = lambda id_: resume_as_soon_as_it_has_stopped(id_, notify)
    assert one.run(until=60).status is PipelineStatus.RUNNING
    assert one.second < 10
    assert not one.world.coordinator.has_live_region()


# -- who asks beside the region, and who completes at the same time


def test_whoever_asked_may_complete_it_too_and_there_is_one_result(live: Callable[..., Live]) -> None:
    one = live()

    class Concurrently:
        """Between the judgement and what is recorded of it, somebody else takes all the steps that are left."""

        def validate(self, checkpoint: object, subtasks: object, settled: object = ()) -> list[Verdict]:
            one.world.coordinator.validate(1, Judge(True))
            one.world.coordinator.finalize(1)
            one.world.coordinator.notify(1)
            return [Verdict(Target.parse("sink:out"), "s", False, 1, 1)]

    one.at(3, lambda: one.world.ask("by hand"))
    one.run(until=10, validator=Concurrently())
    assert one.history() == [(1, "by hand", "COMPLETED")]
    assert one.notified == ["begin 1", "completed 1"]
    assert one.world.store.verdicts("p", 1)[0].success
    one.check()


def test_somebody_else_may_be_slower_at_each_step(live: Callable[..., Live]) -> None:
    one = live()

    def complete_again() -> None:
        one.world.coordinator.validate(1, Judge(False))
        one.world.coordinator.finalize(1)
        one.world.coordinator.notify(1)

    one.at(3, lambda: one.world.ask("by hand"))
    one.at(8, complete_again)
    one.run(until=12)
    assert one.history() == [(1, "by hand", "COMPLETED")]
    one.check()


def test_a_thread_of_its_own_completes_while_rows_flow(store: CheckpointStore) -> None:
    one = Live(store, interval="10 s")
    one.run(until=lambda: len(one.notified) >= 10)
    assert one.notified[:10] == [f"{what} {n}" for n in range(1, 6) for what in ("begin", "completed")]
    one.check()


# -- the end of what there is to read


def test_once_everything_was_read_the_last_checkpoint_is_due_at_once(live: Callable[..., Live]) -> None:
    one = live(interval="1 h", min_pause="1 h")
    one.end = 5
    record = one.run()
    assert record.status is PipelineStatus.FINISHED
    assert one.second < 15
    assert shown(one.world.sink) == [0, 1, 2, 3, 4]
    assert len(one.history()) == 1
    with pytest.raises(PipelineStatusError):
        one.run()


def test_a_checkpoint_begun_before_the_end_is_followed_by_the_last_one(live: Callable[..., Live]) -> None:
    one = live(min_pause="1 h")
    one.end = 5
    one.at(2, lambda: one.world.ask("by hand"))
    assert one.run().status is PipelineStatus.FINISHED
    assert [request for _, request, _ in one.history()] == ["by hand", "region:1:1"]
    assert shown(one.world.sink) == [0, 1, 2, 3, 4]


def test_a_last_checkpoint_that_cannot_be_taken_is_not_asked_for_all_the_time(live: Callable[..., Live]) -> None:
    one = live()
    one.end, one.judge.verdict = 3, False
    one.at(60, lambda: setattr(one.judge, "verdict", True))
    assert one.run().status is PipelineStatus.FINISHED
    assert 3 <= len(one.history()) <= 8
    assert one.history()[-1][2] == "COMPLETED"
    assert shown(one.world.sink) == [0, 1, 2]


# -- how it ends otherwise


@pytest.mark.parametrize(
    ("move", "status"), [("suspend", PipelineStatus.SUSPENDED), ("cancel", PipelineStatus.CANCELLED)]
)
def test_suspending_or_cancelling_ends_the_run(live: Callable[..., Live], move: str, status: PipelineStatus) -> None:
    one = live(interval="10 s")
    one.orders[2] = "silent"
    one.at(25, lambda: STOPS[move](one.world.coordinator))
    assert one.run().status is status
    assert one.second < 28
    assert [what for _, _, what in one.history()][-1].startswith("COORDINATOR_")
    assert one.world.store.region("p").seen_at is None


def test_what_has_all_its_snapshots_is_completed_before_the_run_ends(live: Callable[..., Live]) -> None:
    one = live()
    one.at(3, lambda: one.world.ask("by hand"))
    one.run(until=4)
    assert one.history() == [(1, "by hand", "COMPLETED")]
    assert one.world.store.checkpoint("p", 1).notified_at is not None
    one.check()


def test_a_new_run_goes_on_where_the_last_one_has_committed(live: Callable[..., Live]) -> None:
    one = live(interval="10 s")
    for until in (25, 50, 75):
        one.run(until=until)
        one.check()
    assert len(one.regions) == 3
    assert one.world.store.figures("p").restores == 2


def test_a_region_says_that_it_lives(live: Callable[..., Live]) -> None:
    one = live()
    seen: list[bool] = []
    for second in range(0, 300, 7):
        one.at(second, lambda: seen.append(one.world.coordinator.has_live_region()))
    one.run(until=300)
    assert len(seen) > 40
    assert all(seen)


def test_a_request_that_waits_keeps_its_place_while_the_region_works(live: Callable[..., Live]) -> None:
    one = live(interval="10 s", timeout="10 min")
    one.orders[1] = "silent"
    for second in range(12, 300, 20):
        one.at(second, lambda: assert_waits(one.world))
    one.at(300, one.orders.clear)
    one.at(305, lambda: one.world.ask("by hand"))
    one.run(until=310)
    assert [request for _, request, _ in one.history()][:2] == ["region:1:1", "by hand"]


def assert_waits(world: Desk) -> None:
    assert isinstance(world.ask("by hand"), Queued)
