"""A checkpoint that is held, as Airflow sees it: `validate` waits in the triggerer for a row that no action writes.
Coordinator, database and trigger are real."""

import asyncio

import pytest
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.module_loading import import_string
from firing import POLL, fire
from worlds import Judge, small_pipeline

from tidegate.airflow import checkpoint_dag
from tidegate.airflow.triggers import HoldTrigger, RequestTrigger
from tidegate.assembly import open_coordinator, open_operations, open_store
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.protocol.facts.errors import CheckpointHeldError
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.reasons import FailureReason

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
def pipeline(sink):
    return small_pipeline(sink, hold_for="2 h")


@pytest.fixture
def broken(monkeypatch):
    """A judge that finds a rule broken that holds."""
    judge = Judge("held")
    monkeypatch.setattr("tidegate.assembly.open_validator", lambda *_: judge)
    return judge


@pytest.fixture
def held(dag, run, regions, broken):
    """The task `validate` of a DAG run whose checkpoint is held, as it ended the first time."""
    for step in ("trigger", "snapshot", "acknowledge"):
        assert run(dag.get_task(step)).state == "success"
    return run(dag.get_task("validate"))


def test_validate_defers_to_a_trigger_that_knows_two_ids_and_no_secret(held, checkpoint):
    assert held.state == "deferred"
    assert held.message.classpath == "tidegate.airflow.triggers.HoldTrigger"
    assert held.message.trigger_kwargs == {"pipeline_id": "p", "checkpoint_id": 1, "poll_interval": 5.0}
    assert held.message.next_method == "poll"
    assert held.message.trigger_timeout is None
    assert checkpoint().phase is Phase.HELD


def test_the_dag_run_goes_on_to_its_end_when_a_person_has_approved(held, dag, run, checkpoint, broken, sink):
    open_operations("p").holds.approve(1, "ada")
    assert run(dag.get_task("validate"), next_method="poll").state == "success"
    for step in ("finalize", "notify"):
        assert run(dag.get_task(step)).state == "success"
    assert (checkpoint().status, checkpoint().decided_by) == (Status.COMPLETED, "ada")
    assert broken.asked == 2, "`snapshot` asks too, and leaves to `validate` what is not good"
    assert set(sink.visible) == {1}


def test_the_dag_run_fails_with_what_a_person_said(held, dag, run, checkpoint):
    open_operations("p").holds.reject(1, "grace", "a typing error")
    ran = run(dag.get_task("validate"), next_method="poll")
    assert (ran.state, type(ran.error)) == ("failed", AirflowFailException)
    assert "VALIDATION_REJECTED. grace rejected checkpoint 1 of pipeline p: a typing error" in str(ran.error)
    assert checkpoint().failure_reason is FailureReason.VALIDATION_REJECTED


@pytest.mark.parametrize("next_method", ["poll", None])
def test_a_task_that_is_woken_too_early_or_cleared_waits_on_and_judges_nothing(held, dag, run, broken, next_method):
    asked = broken.asked
    assert run(dag.get_task("validate"), next_method=next_method, try_number=4, retries=3).state == "deferred"
    assert broken.asked == asked


def test_a_database_that_is_away_when_the_task_looks_takes_no_try(held, dag, run, monkeypatch):
    monkeypatch.setenv("TIDEGATE_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    assert run(dag.get_task("validate"), next_method="poll", try_number=4, retries=3).state == "deferred"


def test_at_the_end_of_the_hold_the_task_ends_the_checkpoint(pipeline, run, regions, broken, sink):
    dag = checkpoint_dag(small_pipeline(sink, hold_for="10 ms"))
    for step in ("trigger", "snapshot", "acknowledge"):
        run(dag.get_task(step))
    ran = run(dag.get_task("validate"))
    while ran.state == "deferred":
        ran = run(dag.get_task("validate"), next_method="poll")
    assert ran.state == "failed"
    assert open_store().checkpoint("p", 1).failure_reason is FailureReason.HOLD_EXPIRED


def test_to_mark_validate_as_success_approves_nothing(held, dag, run, checkpoint, sink):
    ran = run(dag.get_task("finalize"))
    assert ran.state == "failed"
    assert "was not approved yet" in str(ran.error)
    assert (checkpoint().status, checkpoint().decision) == (Status.FAILED, None)
    assert sink.visible == {}


def test_to_mark_the_run_ends_what_is_held(held, dag, run, supervisor, checkpoint):
    steps = {"trigger": "success", "snapshot": "success", "acknowledge": "success", "validate": "skipped"}
    supervisor.task_states |= steps | {"finalize": "skipped", "notify": "skipped"}
    assert run(dag.get_task("abort")).state == "failed"
    assert checkpoint().failure_reason is FailureReason.COORDINATOR_SUSPEND


def test_another_step_that_meets_a_hold_aborts_nothing(held, dag, run, checkpoint, monkeypatch):
    def refuse(self, checkpoint_id):
        raise CheckpointHeldError("It is held.")

    monkeypatch.setattr(CheckpointCoordinator, "acknowledge", refuse)
    assert run(dag.get_task("acknowledge"), try_number=4, retries=3).state == "failed"
    assert checkpoint().phase is Phase.HELD


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_the_trigger_fires_on_the_notification_of_a_decision(held, decision):
    decide = lambda: getattr(open_operations("p").holds, decision)(1, "ada")  # noqa: E731
    events, seconds = asyncio.run(fire(HoldTrigger("p", 1, POLL), decide))
    assert events == [{"pipeline_id": "p"}]
    assert seconds < 2


@pytest.mark.parametrize("checkpoint_id", [1, 99])
def test_the_trigger_fires_at_once_when_nothing_is_held(held, pipeline, checkpoint_id):
    open_coordinator(pipeline).abort(1, FailureReason.TASK_FAILURE, "gone")
    events, _ = asyncio.run(fire(HoldTrigger("p", checkpoint_id, POLL), after=0))
    assert events == [{"pipeline_id": "p"}]


def test_the_trigger_fires_at_the_end_of_the_hold(pipeline, run, regions, broken, sink):
    dag = checkpoint_dag(small_pipeline(sink, hold_for="2 s"))
    for step in ("trigger", "snapshot", "acknowledge", "validate"):
        run(dag.get_task(step))
    events, seconds = asyncio.run(fire(HoldTrigger("p", 1, POLL), after=0))
    assert events == [{"pipeline_id": "p"}]
    assert seconds < 10


def test_the_trigger_does_not_fire_before_somebody_decides(held):
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(fire(HoldTrigger("p", 1, 0.1)), 2))


def test_a_waiting_request_is_not_woken_by_the_timeout_of_what_is_held(held, pipeline):
    """Its deadline may be long past; that of the hold is not."""
    open_coordinator(pipeline).trigger("r2", wait=True)
    with open_store().transaction("p") as tx:
        tx._connection.exec_driver_sql("UPDATE tidegate.checkpoints SET deadline = triggered_at")
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(fire(RequestTrigger("p", "r2", 0.1)), 2))


def test_the_trigger_that_a_triggerer_restores_is_the_same():
    path, kwargs = HoldTrigger("p", 7, 3.0).serialize()
    assert import_string(path)(**kwargs).serialize() == (path, kwargs)
