"""What the actions of Airflow's users do to a checkpoint, on a real Airflow: the table in operate-in-airflow.md.

A DAG run waits either in line, behind a checkpoint of ours, or for the snapshots of a continuous region, which is us.
So the actions are made on runs that wait, and hardly any needs Spark.
"""

import psutil
import pytest
from live_airflow import PATIENCE, STEPS, alive_after
from marked_runs import ENDED_BY_HAND
from sizes import later

from local_stack.airflow_api import AirflowApiError
from tidegate.protocol.facts.errors import CheckpointExpiredError
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.reasons import FailureReason

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.mark.parametrize("state", ["failed", later("success")])
def test_a_run_that_is_marked_ends_its_checkpoint_at_once_and_counts_as_failed(marked, state):
    run_id = marked.waiting()
    with pytest.raises(AirflowApiError, match="409"):
        marked.api.call("DELETE", f"/dags/marked/dagRuns/{run_id}")
    with pytest.raises(AirflowApiError, match="409"):
        marked.api.trigger("marked", run_id)
    marked.mark(run_id, state)
    assert marked.end(run_id) == "failed"
    assert marked.states(run_id) | {"acknowledge": state} == {
        "trigger": "success", "snapshot": "success", "acknowledge": state, "validate": "skipped",
        "finalize": "skipped", "notify": "skipped", "abort": "failed",
    }  # fmt: skip
    assert (marked.newest().status, marked.newest().failure_reason) == (Status.FAILED, ENDED_BY_HAND)
    assert f"DAG run {run_id} was ended by hand" in marked.newest().failure_message
    ended = marked.newest().checkpoint_id
    assert marked.audited(run_id) == [("ABORT", ended), ("CHECKPOINT", ended)]
    shown = marked.world.page(f"pipelines/marked/checkpoints/{ended}").text
    assert f"DAG run {run_id} was ended by hand" in shown


@pytest.mark.long
def test_a_run_that_is_marked_while_it_waits_in_line_leaves_the_line(marked):
    first = marked.waiting()
    second = marked.waiting("trigger")
    marked.mark(second, "failed")
    assert marked.end(second) == "failed"
    assert marked.requests() == []
    assert marked.newest().status is Status.IN_PROGRESS, "the checkpoint of the first run is none of its business"
    marked.acknowledge()
    assert marked.end(first) == "success"
    assert marked.states(first) == dict.fromkeys(STEPS, "success") | {"abort": "skipped"}


@pytest.mark.long
def test_a_trigger_that_is_marked_as_done_while_it_waits_hands_nothing_on(marked):
    first, second = marked.waiting(), marked.waiting("trigger")
    marked.mark_task(second, "trigger", "success")
    assert marked.end(second) == "failed"
    assert marked.states(second)["snapshot"] == "failed"
    assert marked.requests() == []
    marked.acknowledge()
    assert marked.end(first) == "success"


@pytest.mark.long
def test_a_run_that_is_marked_before_it_began_asks_for_nothing(marked):
    before = marked.checkpoints()
    marked.pause(True)
    runs = {marked.api.trigger("marked"): state for state in ("failed", "success")}
    for run_id, state in runs.items():
        marked.mark(run_id, state)
    marked.pause(False)
    for run_id in runs:
        assert marked.end(run_id) == "success", "as one whose request is dropped"
        assert marked.states(run_id) == dict.fromkeys(STEPS, "skipped")
    assert (marked.checkpoints(), marked.requests()) == (before, [])


@pytest.mark.parametrize(
    ("task", "state", "failure"),
    [
        ("acknowledge", "failed", FailureReason.TASK_FAILURE),
        later("acknowledge", "success", FailureReason.VALIDATION_FAILED),
    ],
)
def test_a_waiting_task_that_is_marked_lets_nothing_pass_and_ends_the_checkpoint(marked, task, state, failure):
    run_id = marked.waiting()
    marked.mark_task(run_id, task, state)
    assert marked.end(run_id) == "failed"
    assert (marked.newest().status, marked.newest().failure_reason) == (Status.FAILED, failure)


@pytest.mark.parametrize("task", ["validate", later("finalize")])
def test_a_step_that_is_marked_as_done_before_its_time_is_not_believed(marked, task):
    run_id = marked.waiting()
    marked.mark_task(run_id, task, "success")
    marked.acknowledge()
    assert marked.end(run_id) == "failed"
    assert marked.newest().status is Status.FAILED


@pytest.mark.long
@pytest.mark.parametrize("state", ["success", "failed"])
def test_rows_of_a_notify_that_is_marked_become_visible_with_the_next_run(marked, state):
    run_id = marked.waiting()
    marked.mark_task(run_id, "notify", state)
    marked.acknowledge()
    assert marked.end(run_id) == state
    assert (marked.newest().status, marked.newest().notified_at) == (Status.COMPLETED, None)
    completed = marked.newest().checkpoint_id
    again = marked.waiting()
    assert marked.world.store.checkpoint("marked", completed).notified_at is not None
    marked.acknowledge()
    assert marked.end(again) == "success"


@pytest.mark.long
def test_what_is_cleared_goes_on_with_the_same_checkpoint_until_that_has_ended(marked):
    run_id = marked.waiting()
    before = marked.newest().checkpoint_id
    marked.clear(run_id, "acknowledge")
    marked.wait_for(run_id, acknowledge="deferred")
    marked.clear(run_id, "trigger")
    marked.wait_for(run_id, trigger="success", acknowledge="deferred")
    assert marked.newest().checkpoint_id == before
    marked.acknowledge()
    assert marked.end(run_id) == "success"
    for tasks in (["notify"], ["finalize"], ["trigger"]):
        marked.clear(run_id, *tasks)
        assert marked.end(run_id) == "success"
    assert (marked.newest().checkpoint_id, marked.newest().status) == (before, Status.COMPLETED)


@pytest.mark.long
def test_a_step_of_a_failed_run_that_is_cleared_alone_says_that_its_checkpoint_has_ended(marked):
    run_id = marked.waiting()
    marked.mark(run_id, "failed")
    assert marked.end(run_id) == "failed"
    ended = marked.newest()
    marked.clear(run_id, "acknowledge", downstream=False)
    marked.wait_until(lambda: marked.world.tries(run_id, "marked")["acknowledge"] == 2, marked.newest)
    assert marked.end(run_id) == "failed"
    assert marked.states(run_id)["acknowledge"] == "failed"
    path = f"/dags/marked/dagRuns/{run_id}/taskInstances/acknowledge/logs/2"
    how = {"params": {"full_content": "true"}, "headers": {"accept": "application/json"}}
    assert f"Checkpoint {ended.checkpoint_id}" in str(marked.api.call("GET", path, **how)), "with the error's details"
    assert marked.newest() == ended


@pytest.mark.long
def test_an_abort_that_is_marked_and_a_trigger_that_is_cleared_alone_leave_a_checkpoint_to_its_deadline(marked):
    run_id = marked.waiting()
    marked.mark_task(run_id, "abort", "failed")
    marked.mark(run_id, "failed")
    assert marked.end(run_id) == "failed"
    left = marked.newest()
    assert left.status is Status.IN_PROGRESS
    marked.abort()
    marked.clear(run_id, "trigger", downstream=False)
    marked.wait_until(lambda: marked.newest().checkpoint_id > left.checkpoint_id, marked.newest)
    assert marked.end(run_id) == "failed"
    assert marked.states(run_id)["trigger"] == "success"
    assert (marked.newest().request_id, marked.newest().status) == (left.request_id, Status.IN_PROGRESS)
    marked.abort()


@pytest.mark.long
def test_a_run_with_the_id_of_a_deleted_one_takes_a_checkpoint_of_its_own(marked):
    for expected in (1, 2):
        run_id = marked.waiting(run_id="of_my_own")
        marked.acknowledge()
        assert marked.end(run_id) == "success"
        marked.api.call("DELETE", f"/dags/marked/dagRuns/{run_id}")
        mine = [one for one in marked.checkpoints() if one.request_id.startswith("marked/of_my_own/")]
        assert len([one for one in mine if one.completed_at is not None]) == expected


@pytest.mark.long
def test_a_paused_dag_goes_on_where_it_was(marked):
    run_id = marked.waiting()
    marked.pause(True)
    marked.acknowledge()
    marked.wait_until(lambda: marked.newest().phase is Phase.ACKNOWLEDGED, marked.newest)
    marked.pause(False)
    assert marked.end(run_id) == "success"


@pytest.mark.long
def test_a_run_that_was_paused_past_its_deadline_fails_and_the_next_one_goes_on(marked, ahead):
    run_id = marked.waiting()
    marked.pause(True)
    with pytest.raises(CheckpointExpiredError):
        ahead.acknowledge(marked.newest().checkpoint_id)
    marked.pause(False)
    assert marked.end(run_id) == "failed"
    assert (marked.newest().status, marked.newest().failure_reason) == (Status.FAILED, FailureReason.CHECKPOINT_EXPIRED)
    again = marked.waiting()
    marked.acknowledge()
    assert marked.end(again) == "success"


@pytest.mark.long
def test_a_run_that_airflow_times_out_leaves_its_checkpoint_to_the_deadline_or_to_tidegate_abort(marked):
    run_id = marked.api.trigger("timed")
    assert marked.end(run_id, "timed") == "failed"
    assert marked.states(run_id, "timed")["abort"] == "skipped"
    assert marked.newest().status is Status.IN_PROGRESS
    marked.abort()


@pytest.mark.long
def test_a_dag_that_is_deleted_leaves_the_checkpoint_of_its_run_to_the_deadline(marked):
    run_id = marked.waiting(dag_id="deleted")
    marked.api.call("DELETE", "/dags/deleted")
    assert marked.newest().request_id.startswith(f"deleted/{run_id}/")
    marked.acknowledge()
    waiting = marked.waiting("trigger")
    assert (marked.newest().status, marked.newest().phase) == (Status.IN_PROGRESS, Phase.ACKNOWLEDGED)
    marked.abort()
    marked.wait_for(waiting, acknowledge="deferred")
    marked.acknowledge()
    assert marked.end(waiting) == "success"


@pytest.mark.long
def test_a_task_that_exceeds_its_execution_timeout_is_tried_again_and_then_ends_the_checkpoint(world):
    world.lay("one", ("a", 1), pipeline="brief")
    world.hold("brief")
    run_id, state = world.run("brief")
    assert (state, world.tries(run_id, "brief")["snapshot"]) == ("failed", 2)
    assert world.states(run_id, "brief") == {
        "trigger": "success", "snapshot": "failed", "acknowledge": "upstream_failed", "validate": "upstream_failed",
        "finalize": "upstream_failed", "notify": "upstream_failed", "abort": "success",
    }  # fmt: skip
    (ended,) = world.checkpoints("brief")
    assert (ended.status, ended.failure_reason) == (Status.FAILED, FailureReason.TASK_FAILURE)


@pytest.mark.parametrize(
    ("path", "body"), [("", {"state": "failed"}), later("/taskInstances/snapshot", {"new_state": "success"})]
)
def test_a_snapshot_that_runs_is_killed_with_its_jvm_when_it_or_the_run_is_marked(world, path, body):
    world.lay("one", ("a", 1), pipeline="doomed")
    world.hold("doomed")
    run_id = world.api.trigger("doomed")
    driver = psutil.Process(world.driver("doomed"))
    family = [driver, *driver.children(recursive=True)]
    assert any(process.name() == "java" for process in family)
    world.api.call("PATCH", f"/dags/doomed/dagRuns/{run_id}{path}", json=body)
    assert world.api.wait("doomed", run_id, PATIENCE) == "failed"
    ended = world.checkpoints("doomed")[0]
    assert (ended.status, ended.failure_reason) == (Status.FAILED, ENDED_BY_HAND)
    assert alive_after(family) == []
    assert world.home.joinpath("doomed.hold").exists(), "nobody let it go"
