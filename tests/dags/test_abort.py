"""What the task `abort` makes of a DAG run that has ended, whichever way. The coordinator and the database are real."""

import pytest
from airflow.sdk.exceptions import AirflowFailException
from dag_steps import complete

from tidegate.assembly import open_coordinator, open_store
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.reasons import FailureReason

pytestmark = pytest.mark.usefixtures("database")


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
