"""What each step's outcome means to Airflow: success, skip, retry or failure.
The coordinator and the database are real."""

import os
import signal
import time
from datetime import UTC, datetime

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from tidegate.airflow import TriggerCheckpointOperator, checkpoint_dag
from tidegate.assembly import open_coordinator, open_store
from tidegate.pipeline.config import CheckpointConfig
from tidegate.protocol.errors import SourceChangedError
from tidegate.protocol.lifecycle import Phase, Status
from tidegate.protocol.names import Target
from tidegate.protocol.pipelines import PipelineStatus
from tidegate.protocol.reasons import FailureReason
from tidegate.protocol.records import CheckpointKind, Verdict

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
def dag(pipeline):
    return checkpoint_dag(pipeline)


@pytest.fixture
def checkpoint(pipeline):
    """The record of a checkpoint, as it is in the database now."""
    store = open_store()
    return lambda checkpoint_id=1: store.checkpoint(pipeline.name, checkpoint_id)


@pytest.fixture
def good(monkeypatch):
    """A judge that finds everything good, where Great Expectations would be asked."""
    return judge(monkeypatch, True)


def judge(monkeypatch, verdict):
    class Judge:
        asked = 0

        def validate(self, checkpoint, subtasks):
            Judge.asked += 1
            return [Verdict(Target.parse("sink:out"), "s", verdict, 1, 0 if verdict else 1)]

    monkeypatch.setattr("tidegate.assembly.open_validator", lambda region: Judge())
    return Judge


def complete(dag, run, run_id="r1", **arguments):
    for name in ("trigger", "snapshot", "acknowledge", "validate", "finalize", "notify"):
        ran = run(dag.get_task(name), run_id, **arguments)
        assert ran.state == "success", (name, ran.error)
    return ran


# -- trigger


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


@pytest.mark.parametrize("drain", [False, True])
def test_a_run_with_a_savepoint_to_stop_with_ends_the_pipeline_and_later_runs_are_skipped(
    pipeline, run, regions, good, checkpoint, drain
):
    def task(name):
        return checkpoint_dag(pipeline).get_task(name)

    stop = {"kind": "SYNC_SAVEPOINT", "drain": drain}
    run(task("trigger"), "r1")
    assert run(task("trigger"), "r2", conf=stop).state == "success"
    assert checkpoint(1).failure_reason is FailureReason.COORDINATOR_SUSPEND
    assert (checkpoint(2).kind, checkpoint(2).drain) == (CheckpointKind.SYNC_SAVEPOINT, drain)
    assert run(task("trigger"), "r3", run_type="scheduled").state == "skipped"
    for name in ("snapshot", "acknowledge", "validate", "finalize", "notify"):
        ran = run(task(name), "r2", conf=stop)
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
    coordinator.suspend()
    assert run(dag.get_task("trigger"), "r1", run_type="scheduled").state == "skipped"
    coordinator.resume()
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


# -- snapshot


def test_snapshot_acknowledges_and_stops_spark(dag, run, regions, checkpoint):
    run(dag.get_task("trigger"))
    assert run(dag.get_task("snapshot")).state == "success"
    assert checkpoint().phase is Phase.ACKNOWLEDGED


def test_a_snapshot_that_may_pass_is_retried_as_a_new_attempt_of_the_same_checkpoint(dag, run, regions, checkpoint):
    run(dag.get_task("trigger"))
    regions.before = lambda: (_ for _ in ()).throw(OSError("executor lost"))
    assert run(dag.get_task("snapshot"), try_number=1).state == "up_for_retry"
    assert checkpoint().status is Status.IN_PROGRESS
    regions.before = lambda: None
    assert run(dag.get_task("snapshot"), try_number=2).state == "success"
    assert [region.attempts for region in regions.opened] == [[1], [2]]


def test_a_deterministic_failure_is_not_retried_and_its_cause_is_recorded(dag, run, regions, checkpoint):
    def change():
        raise SourceChangedError("landing/a.csv has changed.")

    run(dag.get_task("trigger"))
    regions.before = change
    ran = run(dag.get_task("snapshot"), try_number=1)
    assert ran.state == "failed"
    assert isinstance(ran.error, AirflowFailException)
    assert str(ran.error) == "landing/a.csv has changed."
    assert checkpoint().failure_reason is FailureReason.CHECKPOINT_DECLINED
    assert checkpoint().failure_message == "Task snapshot failed for good: landing/a.csv has changed."


def test_the_last_try_records_its_cause(dag, run, regions, checkpoint):
    run(dag.get_task("trigger"))
    regions.before = lambda: (_ for _ in ()).throw(OSError("executor lost"))
    assert run(dag.get_task("snapshot"), try_number=4).state == "failed"
    assert checkpoint().failure_reason is FailureReason.TASK_FAILURE
    assert checkpoint().failure_message == "Task snapshot failed for good: OSError: executor lost"


def test_a_snapshot_that_somebody_stops_ends_its_spark_and_leaves_the_checkpoint_to_its_retry(
    dag, run, regions, checkpoint
):
    def stopped():
        os.kill(os.getpid(), signal.SIGTERM)  # as Airflow does when the task is cleared or marked
        assert regions.opened[-1].session.stopped
        raise OSError("Job cancelled")

    run(dag.get_task("trigger"))
    regions.before = stopped
    assert run(dag.get_task("snapshot"), try_number=4).state == "failed"
    assert checkpoint().status is Status.IN_PROGRESS


def test_a_snapshot_of_an_acknowledged_checkpoint_needs_no_spark(dag, run, regions):
    run(dag.get_task("trigger"))
    run(dag.get_task("snapshot"))
    assert run(dag.get_task("snapshot"), try_number=2).state == "success"
    assert len(regions.opened) == 1


def test_a_continuous_region_takes_the_snapshot_without_the_tasks_spark(dag, run, regions, pipeline, checkpoint):
    coordinator = open_coordinator(pipeline)
    attempt = coordinator.start_region().attempt
    run(dag.get_task("trigger"))
    assert run(dag.get_task("snapshot")).state == "success"
    assert regions.opened == []
    assert run(dag.get_task("acknowledge")).state == "deferred"
    task = coordinator.begin_snapshot(attempt, 1)
    regions.region().snapshot(task, lambda acks: coordinator.record_acknowledgements(1, acks))
    assert run(dag.get_task("acknowledge"), next_method="look").state == "success"
    assert checkpoint().phase is Phase.ACKNOWLEDGED
    coordinator.end_region(attempt)


def test_spark_is_stopped_once_the_checkpoint_has_ended(dag, run, regions, pipeline, checkpoint, monkeypatch):
    """A job that hangs must not hold the pipeline: it ends with the checkpoint, and is not retried."""
    monkeypatch.setattr("tidegate.airflow.running_region.LOOK_EVERY", 0.05)
    run(dag.get_task("trigger"))

    def hang():
        open_coordinator(pipeline).abort(1, FailureReason.CHECKPOINT_EXPIRED, "Too late.")
        deadline = time.monotonic() + 10
        while not regions.opened[-1].session.stopped:
            assert time.monotonic() < deadline, "Spark was not stopped"
            time.sleep(0.01)
        raise OSError("Job cancelled")

    regions.before = hang
    ran = run(dag.get_task("snapshot"), try_number=1)
    assert ran.state == "failed"
    assert isinstance(ran.error, AirflowFailException)
    assert "Too late." in str(ran.error)


def test_an_id_that_is_none_says_where_ids_come_from(dag, run):
    ran = run(dag.get_task("finalize"), try_number=1)
    assert ran.state == "up_for_retry"
    assert "name that task 'trigger', or pass checkpoint_id=<task>.output" in str(ran.error)


def test_a_step_of_an_unknown_checkpoint_fails_at_once(dag, run, supervisor):
    supervisor.xcoms["trigger"] = 7
    ran = run(dag.get_task("finalize"))
    assert ran.state == "failed"
    assert "has no checkpoint 7" in str(ran.error)


def test_a_database_that_is_away_is_worth_a_retry(dag, run, monkeypatch):
    monkeypatch.setenv("TIDEGATE_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    assert run(dag.get_task("trigger")).state == "up_for_retry"


# -- validate, finalize


def test_a_failed_validation_is_not_retried(dag, run, regions, checkpoint, monkeypatch):
    judge(monkeypatch, False)
    run(dag.get_task("trigger"))
    run(dag.get_task("snapshot"))
    ran = run(dag.get_task("validate"), try_number=1)
    assert ran.state == "failed"
    assert isinstance(ran.error, AirflowFailException)
    assert checkpoint().failure_reason is FailureReason.VALIDATION_FAILED
    assert run(dag.get_task("finalize")).state == "failed"


def test_a_repeated_validation_gives_the_first_answer_without_spark(dag, run, regions, good):
    run(dag.get_task("trigger"))
    run(dag.get_task("snapshot"))
    run(dag.get_task("validate"))
    opened = len(regions.opened)
    assert run(dag.get_task("validate"), try_number=2).state == "success"
    assert (good.asked, len(regions.opened)) == (1, opened)


# -- notify


def test_notify_announces_every_sink_with_its_rows(dag, run, regions, good, sink):
    ran = complete(dag, run)
    assert [(profile.uri, profile.type) for profile in ran.message.task_outlets] == [("tidegate://p/out", "Asset")]
    assert [event["extra"] for event in ran.message.outlet_events] == [{"checkpoint_id": 1, "rows": 6}]
    assert set(sink.visible) == {1}


def test_a_crash_before_airflow_knew_of_the_success_loses_no_event(dag, run, regions, good, supervisor):
    complete(dag, run)  # the task ended, but its message, events included, never arrived
    again = run(dag.get_task("notify"), try_number=2)
    assert [event["extra"] for event in again.message.outlet_events] == [{"checkpoint_id": 1, "rows": 6}]


def test_a_cleared_finished_run_changes_nothing(dag, run, regions, good, supervisor, sink, checkpoint):
    complete(dag, run)
    supervisor.events = [{"uri": "tidegate://p/out", "extra": {"checkpoint_id": 1, "rows": 6}}]
    before, visible, opened = checkpoint(), dict(sink.visible), len(regions.opened)
    ran = complete(dag, run, try_number=2, clear_number=1)
    assert supervisor.xcoms["trigger"] == 1
    assert (checkpoint(), sink.visible, len(regions.opened)) == (before, visible, opened)
    assert checkpoint(2) is None
    assert (ran.message.task_outlets, ran.message.outlet_events) == ([], [])


@pytest.mark.parametrize("try_number", [1, 2])  # the first try may be lost before it has asked
def test_a_dag_run_that_has_the_id_of_a_deleted_one_is_another_request(dag, run, regions, good, checkpoint, try_number):
    complete(dag, run)
    refused = run(dag.get_task("trigger"), try_number=try_number)  # as a backfill that is repeated: same id and date
    assert (refused.state, type(refused.error)) == ("failed", AirflowFailException)
    assert "for a deleted DAG run" in str(refused.error)
    complete(dag, run, run_after=datetime.now(UTC))  # as one started by hand
    assert checkpoint(2).status is Status.COMPLETED


@pytest.fixture
def interruptible():
    """As every process of Airflow is. A run of the tests in the background may have been started to ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_a_task_of_airflow_dags_test_for_good_and_of_a_real_run_for_a_retry(dag, run, regions):
    signals = [signal.SIGTERM, signal.SIGINT, signal.SIGINT]

    def interrupt():
        os.kill(os.getpid(), signals.pop(0))
        time.sleep(30)

    regions.before = interrupt
    run(dag.get_task("trigger"))
    for _ in ("SIGTERM", "SIGINT"):
        ran = run(dag.get_task("snapshot"), user="dag_test")
        assert (ran.state, type(ran.error)) == ("failed", AirflowFailException), ran.error
    assert run(dag.get_task("snapshot")).state == "up_for_retry"


def test_the_event_of_another_checkpoint_does_not_stand_for_this_one(dag, run, regions, good, supervisor):
    supervisor.events = [
        {"uri": "tidegate://p/out", "extra": {"checkpoint_id": 9, "rows": 1}},
        {"uri": "x", "extra": {}},
    ]
    assert len(complete(dag, run).message.outlet_events) == 1


# -- abort

HEALTHY = dict.fromkeys(("trigger", "snapshot", "acknowledge", "validate", "finalize"), "success")


def test_abort_names_the_task_that_died_without_leaving_a_cause(dag, run, supervisor, checkpoint):
    run(dag.get_task("trigger"))
    supervisor.task_states = dict.fromkeys(("acknowledge", "validate", "finalize", "notify"), "upstream_failed") | {
        "trigger": "success",
        "snapshot": "failed",
    }
    assert run(dag.get_task("abort")).state == "success"
    assert checkpoint().failure_reason is FailureReason.TASK_FAILURE
    assert checkpoint().failure_message.startswith("Task snapshot failed for good")


def test_abort_keeps_the_cause_that_is_on_record(dag, run, supervisor, pipeline, checkpoint):
    run(dag.get_task("trigger"))
    open_coordinator(pipeline).abort(1, FailureReason.VALIDATION_FAILED, "Rows are wrong.")
    supervisor.task_states = HEALTHY | {"validate": "failed", "finalize": "upstream_failed"}
    assert run(dag.get_task("abort")).state == "success"
    assert (checkpoint().failure_reason, checkpoint().failure_message) == (
        FailureReason.VALIDATION_FAILED,
        "Rows are wrong.",
    )


@pytest.mark.parametrize(
    "states",
    [
        {"trigger": "success", "snapshot": "failed", "acknowledge": "skipped", "notify": "skipped"},  # the run, failed
        {
            "trigger": "success",
            "snapshot": "success",
            "acknowledge": "skipped",
            "notify": "skipped",
        },  # the run, success
        HEALTHY,  # finalize alone, success
    ],
)
def test_abort_ends_the_checkpoint_of_a_run_that_was_marked_and_fails_the_run(dag, run, supervisor, checkpoint, states):
    run(dag.get_task("trigger"))
    supervisor.task_states = states
    ran = run(dag.get_task("abort"))
    assert (ran.state, type(ran.error)) == ("failed", AirflowFailException)
    assert "ended by hand" in str(ran.error)
    assert checkpoint().failure_reason is FailureReason.COORDINATOR_SUSPEND
    assert "DAG run r1 was ended by hand" in checkpoint().failure_message


def test_abort_takes_a_request_that_waits_out_of_the_queue(dag, run, supervisor, pipeline):
    run(dag.get_task("trigger"), "r1")
    assert run(dag.get_task("trigger"), "r2").state == "deferred"
    supervisor.task_states = {"trigger": "failed", "snapshot": "skipped", "notify": "skipped"}
    assert run(dag.get_task("abort"), "r2").state == "failed"
    with open_store().transaction(pipeline.name) as tx:
        assert tx.requests() == []
        assert [record.checkpoint_id for record in tx.in_progress()] == [1]


def test_abort_leaves_a_completed_checkpoint_alone(dag, run, supervisor, regions, good, checkpoint):
    complete(dag, run)
    supervisor.task_states = HEALTHY
    assert run(dag.get_task("abort")).state == "skipped"
    supervisor.task_states = HEALTHY | {"notify": "skipped"}  # the run was marked between its last two tasks
    ran = run(dag.get_task("abort"))
    assert ran.state == "failed"
    assert "it stands" in str(ran.error)
    assert checkpoint().status is Status.COMPLETED


def test_abort_is_skipped_when_nothing_was_triggered(dag, run, supervisor):
    supervisor.task_states = {"trigger": "skipped", "snapshot": "skipped"}
    assert run(dag.get_task("abort")).state == "skipped"
