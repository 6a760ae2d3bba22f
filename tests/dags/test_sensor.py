"""The wait for all acknowledgements, deferred or not, and the deadline it enforces.
Coordinator and database are real."""

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowRescheduleException

from tidegate.airflow import (
    AcknowledgeCheckpointSensor,
    SnapshotOperator,
    TriggerCheckpointOperator,
    checkpoint_dag,
)
from tidegate.assembly import open_coordinator, open_store
from tidegate.pipeline.config import CheckpointConfig
from tidegate.protocol.facts.reasons import FailureReason

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
def dag(pipeline):
    return checkpoint_dag(pipeline)


def test_the_sensor_defers_to_a_trigger_that_knows_two_ids_and_no_secret(dag, run, pipeline):
    open_coordinator(pipeline).start_region()
    run(dag.get_task("trigger"))
    ran = run(dag.get_task("acknowledge"))
    assert ran.state == "deferred"
    assert ran.message.classpath == "tidegate.airflow.triggers.AcknowledgeTrigger"
    assert ran.message.trigger_kwargs == {"pipeline_id": "p", "checkpoint_id": 1, "poll_interval": 5.0}
    assert ran.message.next_method == "poll"


def test_the_sensor_does_not_defer_when_all_have_acknowledged(dag, run, regions):
    run(dag.get_task("trigger"))
    run(dag.get_task("snapshot"))
    assert run(dag.get_task("acknowledge")).state == "success"


def test_a_resumed_sensor_looks_for_itself_and_waits_on_when_woken_too_early(pipeline, run, regions):
    with DAG("p", schedule=None):
        begin = TriggerCheckpointOperator(task_id="trigger", pipeline=pipeline)
        take, wait = (
            SnapshotOperator(task_id="s", pipeline=pipeline),
            AcknowledgeCheckpointSensor(task_id="a", pipeline=pipeline),
        )
        begin >> [take, wait]  # beside the snapshot, which may still come
    run(begin)
    assert run(wait, next_method="poll").state == "deferred"
    run(take)
    assert run(wait, next_method="poll").state == "success"


@pytest.mark.parametrize("next_method", [None, "poll"])
def test_behind_a_snapshot_that_was_marked_by_hand_the_sensor_waits_for_nobody(dag, run, next_method):
    run(dag.get_task("trigger"))
    ran = run(dag.get_task("acknowledge"), next_method=next_method)
    assert (ran.state, type(ran.error)) == ("failed", AirflowFailException)
    assert "marked by hand" in str(ran.error)
    assert open_store().checkpoint("p", 1).failure_reason is FailureReason.COORDINATOR_SUSPEND


def test_the_sensor_expires_a_checkpoint_whose_deadline_has_passed(pipeline, run):
    pipeline.checkpoints = CheckpointConfig(timeout="10 ms")
    dag = checkpoint_dag(pipeline)
    run(dag.get_task("trigger"))
    ran = run(dag.get_task("acknowledge"), next_method="poll")
    while ran.state == "deferred":
        ran = run(dag.get_task("acknowledge"), next_method="poll")
    assert ran.state == "failed"
    assert isinstance(ran.error, AirflowFailException)
    assert open_store().checkpoint("p", 1).failure_reason is FailureReason.CHECKPOINT_EXPIRED


def test_the_sensor_fails_at_once_with_the_recorded_cause(dag, run, pipeline):
    run(dag.get_task("trigger"))
    open_coordinator(pipeline).abort(1, FailureReason.CHECKPOINT_DECLINED, "a.csv has changed.")
    ran = run(dag.get_task("acknowledge"))
    assert ran.state == "failed"
    assert "CHECKPOINT_DECLINED. a.csv has changed." in str(ran.error)


def test_a_database_that_is_away_is_waited_for(dag, run, monkeypatch):
    run(dag.get_task("trigger"))
    monkeypatch.setenv("TIDEGATE_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    assert run(dag.get_task("acknowledge")).state == "deferred"


def test_without_the_triggerer_the_sensor_pokes(pipeline, run, regions, supervisor):
    with DAG("mine", schedule=None):
        wait = AcknowledgeCheckpointSensor(
            task_id="wait", pipeline=pipeline, checkpoint_id=1, deferrable=False, poke_interval=0.01
        )
    open_coordinator(pipeline).trigger("mine/r1")
    polls = []

    def poke(context):
        polls.append(1)
        if len(polls) == 3:
            open_coordinator(pipeline).abort(1, FailureReason.TASK_FAILURE, "gone")
        return AcknowledgeCheckpointSensor.poke(wait, context)

    wait.poke = poke
    assert run(wait).state == "failed"
    assert len(polls) == 3


def test_between_two_pokes_the_sensor_can_give_its_slot_back(pipeline, run):
    with DAG("mine", schedule=None):
        wait = AcknowledgeCheckpointSensor(
            task_id="wait", pipeline=pipeline, checkpoint_id=1, deferrable=False, mode="reschedule"
        )
    open_coordinator(pipeline).trigger("mine/r1")
    ran = run(wait)
    assert ran.state == "up_for_reschedule"
    assert not isinstance(ran.error, AirflowRescheduleException)
