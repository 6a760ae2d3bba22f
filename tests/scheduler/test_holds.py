"""A checkpoint that is held, under a real Airflow: `validate` waits in the triggerer, outlives it, and goes on when a
person has decided."""

import pytest
from live_airflow import PATIENCE, STEPS, wait_for
from worlds import MemoryStorage

from tidegate.clock import SystemClock
from tidegate.coordination.context import PipelineContext
from tidegate.coordination.steps.hold import Holds
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.reasons import FailureReason

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(900)]

DAG_ID = "overruled"


def waits(world, run_id):
    states = lambda: world.states(run_id, DAG_ID)  # noqa: E731
    wait_for(lambda: states()["validate"] == "deferred", states)


def triggerer(world):
    """The process that waits for all that is deferred; None while there is none."""
    return next((one.leader() for one in world.stack.sessions() if one.name == "triggerer"), None)


def clear(world, run_id, task):
    body = {"dry_run": False, "dag_run_id": run_id, "task_ids": [task], "only_failed": False}
    world.api.call("POST", f"/dags/{DAG_ID}/clearTaskInstances", json=body)


def test_a_held_run_outlives_its_triggerer_and_a_clear_and_completes_when_approved(world):
    holds = Holds(PipelineContext(DAG_ID, world.store, MemoryStorage(), SystemClock()))
    world.lay("first", ("a", 1), ("b", 500), pipeline=DAG_ID)
    run_id = world.api.trigger(DAG_ID)
    waits(world, run_id)
    held = world.checkpoints(DAG_ID)[0]
    assert (held.status, held.phase) == (Status.IN_PROGRESS, Phase.HELD)

    clear(world, run_id, "validate")
    waits(world, run_id)
    killed = triggerer(world)
    killed.kill()
    wait_for(lambda: triggerer(world) not in (None, killed), lambda: "no triggerer came back")
    assert world.checkpoints(DAG_ID)[0] == held

    holds.approve(held.checkpoint_id, "ada", "it is right")
    assert world.api.wait(DAG_ID, run_id, PATIENCE) == "success"
    assert world.states(run_id, DAG_ID) == dict.fromkeys(STEPS, "success") | {"abort": "skipped"}
    assert world.rows(DAG_ID) == [("a", 1), ("b", 500)]
    assert world.checkpoints(DAG_ID)[0].decided_by == "ada"


@pytest.mark.long
def test_a_held_run_fails_when_it_is_rejected_or_marked(world):
    holds = Holds(PipelineContext(DAG_ID, world.store, MemoryStorage(), SystemClock()))
    world.lay("second", ("c", 900), pipeline=DAG_ID)
    run_id = world.api.trigger(DAG_ID)
    waits(world, run_id)
    holds.reject(None, "grace", "a typing error")
    assert world.api.wait(DAG_ID, run_id, PATIENCE) == "failed"
    assert world.states(run_id, DAG_ID)["validate"] == "failed"
    assert world.checkpoints(DAG_ID)[0].failure_reason is FailureReason.VALIDATION_REJECTED
    assert "c" not in {k for k, _ in world.rows(DAG_ID)}

    run_id = world.api.trigger(DAG_ID)
    waits(world, run_id)
    world.api.call("PATCH", f"/dags/{DAG_ID}/dagRuns/{run_id}", json={"state": "failed"})
    assert world.api.wait(DAG_ID, run_id, PATIENCE) == "failed"
    wait_for(lambda: world.checkpoints(DAG_ID)[0].status is Status.FAILED, lambda: world.checkpoints(DAG_ID)[0])
    assert world.checkpoints(DAG_ID)[0].failure_reason is FailureReason.COORDINATOR_SUSPEND


@pytest.mark.long
def test_a_validate_that_is_marked_as_done_while_it_waits_for_a_person_approves_nothing(world):
    world.lay("marked", ("d", 700), pipeline=DAG_ID)
    run_id = world.api.trigger(DAG_ID)
    waits(world, run_id)
    path = f"/dags/{DAG_ID}/dagRuns/{run_id}/taskInstances/validate"
    world.api.call("PATCH", path, json={"new_state": "success"})
    assert world.api.wait(DAG_ID, run_id, PATIENCE) == "failed"
    ended = world.checkpoints(DAG_ID)[0]
    assert (ended.status, ended.decided_by) == (Status.FAILED, None)
