"""A continuous run when something goes wrong: what the region is notified of, what the run does,
and what is committed."""

from collections.abc import Callable

import pytest
from live_pipelines import Live, shown
from user_actions import resume
from worlds import MortalStore

from tidegate.ports import CheckpointStore
from tidegate.protocol.facts.errors import (
    CheckpointDeclinedError,
    PipelineFailedError,
    SinkError,
    StopIncompleteError,
    StoreUnavailableError,
    SupersededAttemptError,
    UnknownOutcomeError,
)
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason

# -- a checkpoint fails, and the run goes on


def check_one_failure(one: Live, reason: str) -> None:
    """Checkpoint 2 of some failed; the region heard of it once, nothing is lost and nothing acknowledged twice."""
    assert one.history()[1][2] == reason
    assert one.notified.count("aborted 2, latest 1") == 1
    assert {what for id_, _, what in one.history() if id_ != 2} <= {"COMPLETED", "SUBSUMED", "DISCARDED"}
    assert len(one.acknowledged) == len(set(one.acknowledged))
    assert len(one.history()) > 2
    one.check()


def test_a_declined_snapshot_fails_its_checkpoint_only(live: Callable[..., Live]) -> None:
    one = live(interval="10 s")
    one.orders[2] = FailureReason.CHECKPOINT_DECLINED
    one.run(until=45)
    check_one_failure(one, "CHECKPOINT_DECLINED")
    found = one.world.store.checkpoint("p", 2)
    assert found is not None
    assert found.failure_message == "the disk is full"


def test_a_rejected_checkpoint_is_aborted_and_the_next_one_takes_its_rows(live: Callable[..., Live]) -> None:
    one = live(interval="10 s")
    one.at(19, lambda: setattr(one.judge, "verdict", False))
    one.at(29, lambda: setattr(one.judge, "verdict", True))
    one.run(until=45)
    check_one_failure(one, "VALIDATION_FAILED")
    assert not any(path.startswith("chk-2/") for path in one.world.sink.staged)


def test_a_checkpoint_that_is_not_answered_expires_at_its_deadline(live: Callable[..., Live]) -> None:
    one = live(interval="10 s", timeout="15 s")
    one.orders[2] = "silent"
    one.run(until=65)
    check_one_failure(one, "CHECKPOINT_EXPIRED")
    found = one.world.store.checkpoint("p", 2)
    assert found is not None
    assert found.failed_at == found.deadline


def test_a_late_answer_counts_for_nothing(live: Callable[..., Live]) -> None:
    one = live(interval="10 s", timeout="15 s")
    one.orders[2] = "silent"
    one.at(35, one.orders.clear)  # the round that answers is the one in which the deadline passes
    one.run(until=65)
    check_one_failure(one, "CHECKPOINT_EXPIRED")
    assert one.acknowledged.count(2) == 1


def test_one_that_somebody_else_aborts_is_no_more_than_that(live: Callable[..., Live]) -> None:
    one = live(interval="10 s")
    one.orders[2] = "silent"
    one.at(24, lambda: one.world.coordinator.abort(2, FailureReason.TASK_FAILURE, "a DAG run was stopped"))
    one.run(until=45)
    check_one_failure(one, "TASK_FAILURE")


def test_one_that_somebody_else_aborts_in_the_moment_it_expires_ends_no_run(live: Callable[..., Live]) -> None:
    one = live(interval="10 s", timeout="15 s")
    one.orders[2] = "silent"
    acknowledge = one.world.coordinator.acknowledge

    def too_late(checkpoint_id: int) -> object:
        one.world.coordinator.abort(checkpoint_id, FailureReason.TASK_FAILURE, "a DAG run was stopped")
        return acknowledge(checkpoint_id)

    one.world.coordinator.acknowledge = too_late
    one.run(until=65)
    check_one_failure(one, "TASK_FAILURE")


def test_what_nobody_has_foreseen_while_completing_fails_the_checkpoint_and_not_the_run(
    live: Callable[..., Live],
) -> None:
    one = live(interval="10 s")

    class Broken:
        def validate(self, checkpoint: object, subtasks: object, settled: object = ()) -> list[object]:
            raise ZeroDivisionError("division by zero")

    def judge(checkpoint: object, subtasks: object, settled: object = ()) -> object:
        return (Broken() if checkpoint.checkpoint_id == 2 else one.judge).validate(checkpoint, subtasks, settled)

    one.run(until=45, validator=type("Sometimes", (), {"validate": staticmethod(judge)})())
    check_one_failure(one, "FINALIZE_CHECKPOINT_FAILURE")
    found = one.world.store.checkpoint("p", 2)
    assert found is not None
    assert found.failure_message == "ZeroDivisionError: division by zero"


# -- the pipeline fails, or is taken over


def test_too_many_failures_end_the_run_as_failed(live: Callable[..., Live]) -> None:
    one = live(interval="10 s", tolerable_failed_checkpoints=1)
    one.judge.verdict = False
    record = one.run()
    assert (record.status, len(one.history())) == (PipelineStatus.FAILED, 2)
    assert "2 checkpoints" in (record.message or "")
    with pytest.raises(PipelineFailedError):
        one.run()
    resume(one.world.coordinator)
    one.judge.verdict = True
    one.run(until=one.second + 15)
    one.check()


def test_a_newer_region_ends_the_run_and_what_is_left_of_it_changes_nothing(live: Callable[..., Live]) -> None:
    one = live(interval="10 s")
    one.orders[2] = "silent"
    one.at(22, lambda: one.world.coordinator.start_region())
    with pytest.raises(SupersededAttemptError, match="Region attempt 1 of pipeline p was superseded by attempt 2"):
        one.run()
    region = one.world.store.region("p")
    assert (region.attempt, region.seen_at is not None) == (2, True), "the newer one goes on"
    assert one.history()[-1] == (2, "region:1:2", "JOB_FAILOVER_REGION")
    one.run(until=45)
    one.check()


def test_a_stop_that_fails_ends_the_run_and_the_pipeline_goes_on_with_the_next(live: Callable[..., Live]) -> None:
    """The region's sources have stopped, which it cannot take back."""
    one = live()
    one.judge.verdict = False
    one.at(5, lambda: one.world.stop("stop"))
    with pytest.raises(CheckpointDeclinedError, match="stopped reading"):
        one.run()
    pipeline = one.world.store.pipeline("p")
    assert pipeline is not None
    assert pipeline.status is PipelineStatus.RUNNING
    one.judge.verdict = True
    one.at(12, lambda: one.world.stop("stop again"))
    assert one.run().status is PipelineStatus.FINISHED
    one.check()


# -- sinks that cannot commit


@pytest.mark.parametrize("error", [SinkError("the disk is full"), OSError("the disk is full")])
def test_a_sink_that_cannot_commit_ends_the_run_and_the_next_one_makes_up_for_it(
    live: Callable[..., Live], error: Exception
) -> None:
    one = live(interval="10 s")

    def refuse(checkpoint_id: int) -> None:
        raise error

    one.at(19, lambda: setattr(one.world.sink, "before_commit", refuse))
    for _ in range(2):
        with pytest.raises(type(error), match="the disk is full"):
            one.run(until=100)
    assert one.second < 30, "it did not wait for the next checkpoint to find out"
    assert one.history()[-1] == (2, "region:1:2", "COMPLETED"), "past the commit point nothing is undone"
    assert "completed 2" not in one.notified
    one.world.sink.before_commit = lambda checkpoint_id: None
    one.run(until=55)
    one.check()


@pytest.mark.parametrize("error", [SinkError("the disk is full"), OSError("the disk is full")])
def test_a_stop_whose_sinks_cannot_commit_names_its_savepoint_and_the_next_attempt_finishes(
    live: Callable[..., Live], error: Exception
) -> None:
    one = live()

    def refuse(checkpoint_id: int) -> None:
        raise error

    one.world.sink.before_commit = refuse
    one.at(5, lambda: one.world.stop("stop"))
    for _ in range(2):
        with pytest.raises(StopIncompleteError, match=r"Savepoint 1 .* p/chk-1/_metadata .* the disk is full"):
            one.run(until=100)
    one.world.sink.before_commit = lambda checkpoint_id: None
    one.world.coordinator.notify(1)
    pipeline = one.world.store.pipeline("p")
    assert pipeline is not None
    assert pipeline.status is PipelineStatus.FINISHED
    one.check()


# -- the store


class Unreachable:
    """A store that cannot be reached for a while, from some moment on."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store
        self.is_away = False

    def __getattr__(self, name: str) -> object:
        if self.is_away and name != "close":
            raise StoreUnavailableError("The database is away.")
        return getattr(self._store, name)


def test_a_store_that_is_away_ends_the_run_and_the_next_attempt_goes_on(live: Callable[..., Live]) -> None:
    one = live(interval="10 s")
    away = Unreachable(one.world.store)
    one.world.reopen(away)
    one.orders[2] = "silent"
    one.at(22, lambda: setattr(away, "is_away", True))
    with pytest.raises(StoreUnavailableError):
        one.run(until=100)
    with pytest.raises(StoreUnavailableError):
        one.run(until=100)
    away.is_away = False
    one.run(until=45)
    assert one.history()[1] == (2, "region:1:2", "JOB_FAILOVER_REGION")
    one.check()


@pytest.mark.parametrize("step", ["validate", "finalize", "notify"])
def test_a_store_that_is_away_while_a_checkpoint_is_completed_is_tried_again(
    live: Callable[..., Live], step: str
) -> None:
    one = live()  # without an interval, so that no later request makes up for anything
    real, failures = getattr(one.world.coordinator, step), iter([1, 2, 3])

    def away(*arguments: object, **named: object) -> object:
        if next(failures, None):
            raise StoreUnavailableError("The database is away.")
        return real(*arguments, **named)

    setattr(one.world.coordinator, step, away)
    one.at(3, lambda: one.world.ask("by hand"))
    one.run(until=15)
    assert one.history() == [(1, "by hand", "COMPLETED")]
    assert one.notified == ["begin 1", "completed 1"]
    assert shown(one.world.sink)
    one.check()


@pytest.mark.parametrize("step", ["validate", "finalize", "notify"])
def test_a_pipeline_that_has_read_everything_finishes_although_the_store_is_away_for_a_moment(
    live: Callable[..., Live], step: str
) -> None:
    one = live()
    real, failures = getattr(one.world.coordinator, step), iter([1])

    def away(*arguments: object, **named: object) -> object:
        if next(failures, None):
            raise StoreUnavailableError("The database is away.")
        return real(*arguments, **named)

    setattr(one.world.coordinator, step, away)
    one.end = 4
    assert one.run().status is PipelineStatus.FINISHED
    assert shown(one.world.sink) == [0, 1, 2, 3]


@pytest.mark.parametrize("landed", [True, False])
def test_a_connection_lost_at_the_commit_gives_one_result(live: Callable[..., Live], landed: bool) -> None:
    one = live(interval="10 s")
    mortal = MortalStore(one.world.store)
    one.world.reopen(mortal)
    finalize = one.world.coordinator.finalize
    commit_of_second = 1  # transactions of finalize before it: a look

    def lose(checkpoint_id: int, notifies: bool) -> object:
        if checkpoint_id == 2:
            mortal.plan = commit_of_second, f"connection lost {'after' if landed else 'before'} commit"
        return finalize(checkpoint_id, notifies)

    one.world.coordinator.finalize = lose
    one.run(until=45)
    assert mortal.plan is None, "the loss was not met"
    if not landed:
        return check_one_failure(one, "FINALIZE_CHECKPOINT_FAILURE")
    assert "completed 2" in one.notified
    assert not any(what.startswith("aborted") for what in one.notified)
    one.check()


def test_an_outcome_that_cannot_be_seen_is_looked_at_again(live: Callable[..., Live]) -> None:
    one = live()
    finalize, failures = one.world.coordinator.finalize, iter([1, 2])

    def unseen(checkpoint_id: int, notifies: bool) -> object:
        record = finalize(checkpoint_id, notifies)
        if next(failures, None):
            raise UnknownOutcomeError("The connection was lost.")
        return record

    one.world.coordinator.finalize = unseen
    one.at(3, lambda: one.world.ask("by hand"))
    one.run(until=12)
    found = one.world.store.checkpoint("p", 1)
    assert found is not None
    assert (found.status, found.notified_at is not None) == (Status.COMPLETED, True)
    one.check()


@pytest.mark.parametrize("error", [StoreUnavailableError("away"), UnknownOutcomeError("lost")])
def test_what_ended_the_run_is_the_news_even_if_the_region_cannot_be_ended(
    live: Callable[..., Live], error: Exception
) -> None:
    one = live()

    def refuse(attempt: int) -> None:
        raise error

    one.world.coordinator.end_region = refuse
    one.at(5, lambda: one.world.coordinator.start_region())
    with pytest.raises(SupersededAttemptError):
        one.run()
