"""What is aborted from outside: a checkpoint with `tidegate abort`, a whole request by the end of its DAG run."""

from collections.abc import Callable
from uuid import uuid4

import pytest
from desks import Desk
from live_pipelines import Live
from records import SOMEBODY
from worlds import Judge

from tidegate.ports import CheckpointStore
from tidegate.protocol.facts.errors import CheckpointCompletedError, CheckpointNotFoundError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.steps.trigger import Dropped, Queued, Triggered

SUSPEND = FailureReason.COORDINATOR_SUSPEND


@pytest.fixture
def desk(store: CheckpointStore) -> Desk:
    return Desk(store, tolerable_failed_checkpoints=0)


def aborted(desk: Desk, checkpoint_id: int | None = None) -> str:
    return desk.coordinator.operations.abort(str(uuid4()), SOMEBODY, checkpoint_id).require_done().sentence


def ended(desk: Desk, checkpoint_id: int) -> tuple[Status, FailureReason | None]:
    record = desk.store.checkpoint("p", checkpoint_id)
    assert record is not None
    return record.status, record.failure_reason


@pytest.mark.parametrize("named", [True, False])
def test_a_checkpoint_is_aborted_once_and_the_next_in_line_may_start(desk: Desk, named: bool) -> None:
    assert desk.ask("one") == Triggered(1)
    assert isinstance(desk.ask("two"), Queued)
    said = aborted(desk, 1 if named else None)
    assert said.startswith("Checkpoint 1 of pipeline p is FAILED: COORDINATOR_SUSPEND. It was aborted by hand")
    assert ended(desk, 1) == (Status.FAILED, SUSPEND)
    assert aborted(desk, 1) == said
    assert aborted(desk) == "Pipeline p has no checkpoint in progress. Nothing was changed."
    assert desk.ask("two") == Triggered(2)
    desk.complete(2)


def test_it_counts_as_no_failure(desk: Desk) -> None:
    desk.ask("one")
    aborted(desk)
    pipeline = desk.store.pipeline("p")
    assert pipeline is not None
    assert pipeline.status is PipelineStatus.RUNNING, "none is tolerated"


def test_what_has_ended_otherwise_stays_as_it_ended(desk: Desk) -> None:
    desk.ask("one")
    desk.coordinator.abort(1, FailureReason.TASK_FAILURE, "It came too late.")
    assert "TASK_FAILURE. It came too late." in aborted(desk, 1)
    desk.ask("two")
    desk.complete(2)
    with pytest.raises(CheckpointCompletedError, match="can no longer be aborted"):
        aborted(desk, 2)
    assert ended(desk, 2) == (Status.COMPLETED, None)
    with pytest.raises(CheckpointNotFoundError, match="no checkpoint 3"):
        aborted(desk, 3)


def test_a_pipeline_whose_savepoint_to_stop_with_is_aborted_runs_on(desk: Desk) -> None:
    desk.stop("stop")
    aborted(desk)
    pipeline = desk.store.pipeline("p")
    assert pipeline is not None
    assert pipeline.status is PipelineStatus.RUNNING
    assert desk.ask("next") == Triggered(2)


def test_a_request_is_aborted_wherever_it_has_got_to(desk: Desk) -> None:
    assert desk.coordinator.abort_request("one", SUSPEND, "by hand") is None
    desk.ask("one")
    desk.ask("two")
    desk.ask("three")
    assert desk.coordinator.abort_request("two", SUSPEND, "by hand") is None
    assert isinstance(desk.ask("three", wait=False), Dropped), "the first is in progress still"
    aborted = desk.coordinator.abort_request("one", SUSPEND, "by hand")
    assert aborted is not None
    assert (aborted.checkpoint_id, aborted.status, aborted.failure_reason) == (1, Status.FAILED, SUSPEND)
    assert desk.ask("four", wait=False) == Triggered(2), "nobody stands in line"
    desk.acknowledge(2)
    desk.coordinator.validate(2, Judge(True))
    desk.coordinator.finalize(2)
    completed = desk.coordinator.abort_request("four", SUSPEND, "by hand")
    assert completed is not None
    assert completed.status is Status.COMPLETED
    assert desk.coordinator.abort_request("one", SUSPEND, "again") == aborted


def test_a_continuous_run_hears_of_it_and_the_next_checkpoint_takes_the_rows(live: Callable[..., Live]) -> None:
    one = live(interval="10 s", timeout="60 s")
    one.orders[2] = "silent"
    one.at(25, lambda: aborted(one.world))
    one.run(until=45)
    assert one.history()[1][2] == "COORDINATOR_SUSPEND"
    assert one.notified.count("aborted 2, latest 1") == 1
    assert one.notified.count("completed 3") == 1
    one.check()
