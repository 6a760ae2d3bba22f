"""What a request for a checkpoint becomes in Airflow: an id, a wait, a skip or a failure. The coordinator is real."""

from contextlib import closing
from datetime import UTC, datetime

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException
from dag_steps import complete
from user_actions import resume, suspend

from tidegate.airflow import TriggerCheckpointOperator, checkpoint_dag
from tidegate.assembly import open_coordinator, open_readings, open_store
from tidegate.clock import SystemClock
from tidegate.coordination.context import PipelineContext
from tidegate.coordination.operations import PipelineOperations
from tidegate.pipeline.config import CheckpointConfig
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.facts.savepoints import UNLABELLED
from tidegate.protocol.observing.actions import Actor, ActorKind

pytestmark = pytest.mark.usefixtures("database")


def test_trigger_hands_on_the_id_and_nothing_else(dag, run, supervisor, checkpoint):
    assert run(dag.get_task("trigger")).state == "success"
    assert supervisor.xcoms == {"trigger": 1}
    assert checkpoint().request_id.startswith("p/r1/")
    assert not checkpoint().periodic


@pytest.mark.parametrize(
    ("run_type", "periodic"),
    [("scheduled", True), ("manual", False), ("backfill", False), ("asset_triggered", False)],
)
def test_only_scheduled_runs_are_periodic(dag, run, checkpoint, run_type, periodic):
    run(dag.get_task("trigger"), run_type=run_type)
    assert checkpoint().periodic is periodic


def test_the_dag_that_asks_is_recorded_whatever_it_is_called(pipeline, run):
    with DAG("another.name"):
        asking = TriggerCheckpointOperator(task_id="trigger", pipeline=pipeline)
    assert run(asking).state == "success"
    with closing(open_readings()) as readings:
        assert readings.dags("p") == ("another.name",)
        (row,) = readings.history("p").history
        assert (row.dag_run.dag_id, row.dag_run.run_id) == ("another.name", "r1")
        assert readings.checkpoints_of_run("another.name", "r1") == (("p", 1),)
        assert readings.checkpoints_of_run("another_name", "r1") == ()


def waiting_requests(pipeline):
    with open_store().transaction(pipeline.name) as tx:
        return [request.request_id for request in tx.requests()]


def test_a_second_run_waits_in_the_triggerer_while_the_first_holds_the_pipeline(
    dag, run, regions, good, checkpoint, pipeline
):
    run(dag.get_task("trigger"), "r1")
    ran = run(dag.get_task("trigger"), "r2")
    assert ran.state == "deferred"
    assert ran.message.classpath == "tidegate.airflow.triggers.RequestTrigger"
    (request,) = waiting_requests(pipeline)
    assert request.startswith("p/r2/")
    assert ran.message.trigger_kwargs == {"pipeline_id": "p", "request_id": request, "poll_interval": 5.0}
    assert run(dag.get_task("trigger"), "r2", next_method="ask").state == "deferred"
    complete(dag, run, "r1")
    assert run(dag.get_task("trigger"), "r2", next_method="ask").state == "success"
    assert checkpoint(2).request_id.startswith("p/r2/")


def test_a_savepoint_asked_for_by_a_parameter_overtakes_what_waits(pipeline, run, regions, good, checkpoint):
    def ask(*arguments, **options):
        """With a DAG of its own: a run's parameters are written into it, and Airflow gives each task a process."""
        return run(checkpoint_dag(pipeline).get_task("trigger"), *arguments, **options)

    ask("r1")
    ask("r2")
    ask("r3", conf={"kind": "SAVEPOINT"})
    complete(checkpoint_dag(pipeline), run, "r1")
    assert ask("r2", next_method="ask").state == "deferred"
    assert ask("r3", next_method="ask", conf={"kind": "SAVEPOINT"}).state == "success"
    assert checkpoint(2).request_id.startswith("p/r3/")
    assert checkpoint(2).kind is CheckpointKind.SAVEPOINT


def asked_on_page(request_id, user="amy", kind=CheckpointKind.SYNC_SAVEPOINT, drain=True):
    """What the page records once it has started the DAG run."""
    actor = Actor(ActorKind.AIRFLOW_USER, user, "10.0.0.1")
    operations = PipelineOperations(PipelineContext("p", open_store(), None, SystemClock()))
    assert operations.request_of_run(request_id, actor, lambda: "started", kind, UNLABELLED, drain).status == "DONE"


DRAIN = {"kind": "SYNC_SAVEPOINT", "drain": True}


@pytest.mark.parametrize(
    ("run_id", "user"),
    [("manual__1", "amy"), ("tidegate__stop", "amy"), ("tidegate__of-amy", "bob"), ("tidegate__of-amy", None)],
)
def test_a_run_that_no_page_has_started_for_its_user_drains_nothing(dag, run, checkpoint, run_id, user):
    """Whoever may trigger the DAG can fill in its parameters, and choose the DAG run's id."""
    asked_on_page("of-amy")
    asked_on_page("stop", drain=False)
    ran = run(dag.get_task("trigger"), run_id, conf=DRAIN, user=user)
    assert isinstance(ran.error, AirflowFailException)
    assert "may not drain pipeline p" in str(ran.error)
    assert "Checkpoints page" in str(ran.error)
    assert checkpoint() is None


def test_a_run_that_begins_before_the_page_has_recorded_it_is_repeated(dag, run, checkpoint):
    assert run(dag.get_task("trigger"), "tidegate__1", conf=DRAIN, user="amy").state == "up_for_retry"
    assert checkpoint() is None
    asked_on_page("1")
    assert run(dag.get_task("trigger"), "tidegate__1", conf=DRAIN, user="amy", try_number=2).state == "success"
    assert checkpoint(1).drain


def test_a_run_that_drained_may_be_cleared_and_drains_nothing_anew(dag, run, checkpoint):
    """Who clears it may be another user, and Airflow does not say who."""
    asked_on_page("1")
    drain = {"conf": DRAIN, "user": "amy"}
    assert run(dag.get_task("trigger"), "tidegate__1", **drain).state == "success"
    assert run(dag.get_task("trigger"), "tidegate__1", clear_number=1, **drain).state == "success"
    with open_store().transaction("p") as tx:
        tx.fail(1, FailureReason.CHECKPOINT_DECLINED, "on purpose", datetime.now(UTC))
    assert run(dag.get_task("trigger"), "tidegate__1", clear_number=2, **drain).state == "failed"
    assert checkpoint(2) is None


@pytest.mark.parametrize("drain", [False, True])
def test_a_run_with_a_savepoint_to_stop_with_ends_the_pipeline_and_later_runs_are_skipped(
    pipeline, run, regions, good, checkpoint, drain
):
    def task(name):
        return checkpoint_dag(pipeline).get_task(name)

    stop = {"kind": "SYNC_SAVEPOINT", "drain": drain}
    run(task("trigger"), "r1")
    if drain:
        asked_on_page("2")
    assert run(task("trigger"), "tidegate__2", conf=stop, user="amy").state == "success"
    assert checkpoint(1).failure_reason is FailureReason.COORDINATOR_SUSPEND
    assert (checkpoint(2).kind, checkpoint(2).drain) == (CheckpointKind.SYNC_SAVEPOINT, drain)
    assert run(task("trigger"), "r3", run_type="scheduled").state == "skipped"
    for name in ("snapshot", "acknowledge", "validate", "finalize", "notify"):
        ran = run(task(name), "tidegate__2", conf=stop, user="amy")
        assert ran.state == "success", (name, ran.error)
    assert open_store().pipeline("p").status is PipelineStatus.FINISHED
    assert run(task("trigger"), "r4", run_type="scheduled").state == "skipped"
    assert run(task("trigger"), "r5").state == "skipped"


def test_a_run_that_would_drain_without_stopping_fails_at_once(dag, run, checkpoint):
    ran = run(dag.get_task("trigger"), conf={"kind": "SAVEPOINT", "drain": True})
    assert ran.state == "failed"
    assert isinstance(ran.error, AirflowFailException)
    assert "A SAVEPOINT cannot drain the pipeline" in str(ran.error)
    assert checkpoint() is None


def test_a_request_that_may_not_wait_is_skipped(pipeline, run, checkpoint):
    with DAG("d", schedule=None):
        trigger = TriggerCheckpointOperator(task_id="trigger", pipeline=pipeline, wait=False)
    run(trigger, "r1")
    assert run(trigger, "r2").state == "skipped"
    assert checkpoint(2) is None


def test_a_suspended_pipeline_skips_its_runs_and_a_failed_one_fails_them_at_once(pipeline, run):
    pipeline.checkpoints = CheckpointConfig(tolerable_failed_checkpoints=0)
    dag = checkpoint_dag(pipeline)
    coordinator = open_coordinator(pipeline)
    suspend(coordinator)
    assert run(dag.get_task("trigger"), "r1", run_type="scheduled").state == "skipped"
    resume(coordinator)
    assert run(dag.get_task("trigger"), "r2").state == "success"
    coordinator.abort(1, FailureReason.CHECKPOINT_DECLINED, "it broke")
    ran = run(dag.get_task("trigger"), "r3")
    assert ran.state == "failed"
    assert isinstance(ran.error, AirflowFailException)
    assert "Checkpoint 1: CHECKPOINT_DECLINED, it broke" in str(ran.error)


def test_a_scheduled_run_is_skipped_within_the_minimum_pause_and_a_manual_one_is_not(
    pipeline, run, regions, good, checkpoint
):
    pipeline.checkpoints = CheckpointConfig(min_pause="1 h")
    dag = checkpoint_dag(pipeline)
    complete(dag, run, "r1")
    assert run(dag.get_task("trigger"), "r2", run_type="scheduled").state == "skipped"
    assert run(dag.get_task("trigger"), "r3", run_type="manual").state == "success"
    assert checkpoint(2).request_id.startswith("p/r3/")


def test_a_repeated_trigger_resumes_its_checkpoint(dag, run, supervisor, checkpoint):
    run(dag.get_task("trigger"))
    assert run(dag.get_task("trigger"), try_number=2).state == "success"
    assert supervisor.xcoms == {"trigger": 1}
    assert checkpoint(2) is None


def test_a_cleared_failed_run_gets_a_new_checkpoint(dag, run, supervisor, pipeline):
    run(dag.get_task("trigger"))
    open_coordinator(pipeline).abort(1, FailureReason.TASK_FAILURE, "gone")
    assert run(dag.get_task("trigger")).state == "success"
    assert supervisor.xcoms == {"trigger": 2}


@pytest.mark.parametrize("try_number", [1, 2])  # the first try may be lost before it has asked
def test_a_dag_run_that_has_the_id_of_a_deleted_one_is_another_request(dag, run, regions, good, checkpoint, try_number):
    complete(dag, run)
    refused = run(dag.get_task("trigger"), try_number=try_number)  # as a backfill that is repeated: same id and date
    assert (refused.state, type(refused.error)) == ("failed", AirflowFailException)
    assert "for a deleted DAG run" in str(refused.error)
    complete(dag, run, run_after=datetime.now(UTC))  # as one started by hand
    assert checkpoint(2).status is Status.COMPLETED
