"""The DAG that a pipeline becomes: its tasks, their order and their defaults."""

import copy
from datetime import UTC, datetime, timedelta
from threading import Lock
from types import SimpleNamespace

import pytest
from airflow.models.taskinstance import TaskInstance
from airflow.sdk import DAG, TriggerRule
from airflow.serialization.serialized_objects import DagSerialization
from cases import for_each
from worlds import MemorySink, small_pipeline

from tidegate.airflow import (
    AbortCheckpointOperator,
    AcknowledgeCheckpointSensor,
    FinalizeCheckpointOperator,
    NotifyCheckpointOperator,
    SnapshotOperator,
    TriggerCheckpointOperator,
    ValidateCheckpointOperator,
    checkpoint_dag,
    restore_dag,
    sink_asset,
)
from tidegate.airflow.outcome import OUTLASTED
from tidegate.pipeline.definition import Pipeline
from tidegate.ports import CheckpointListener
from tidegate.protocol.facts.errors import PipelineDefinitionError

EDGES = {
    "trigger": {"snapshot", "abort"},
    "snapshot": {"acknowledge", "abort"},
    "acknowledge": {"validate", "abort"},
    "validate": {"finalize", "abort"},
    "finalize": {"notify", "abort"},
    "notify": set(),
    "abort": set(),
}


@pytest.fixture
def dag():
    return checkpoint_dag(small_pipeline(MemorySink()), schedule="*/10 * * * *")


def test_the_dag_is_called_like_its_pipeline_and_has_one_task_per_step(dag):
    assert dag.dag_id == "p"
    assert {task.task_id: task.downstream_task_ids for task in dag.tasks} == EDGES


def test_abort_is_a_teardown_and_decides_with_notify_about_the_dag_run(dag):
    abort = dag.get_task("abort")
    assert (abort.is_teardown, abort.on_failure_fail_dagrun) == (True, True)
    assert abort.trigger_rule == TriggerRule.ALL_DONE_SETUP_SUCCESS
    others = [task for task in dag.tasks if task is not abort]
    assert not any(task.is_setup for task in others), "abort would not run after a trigger that was marked"
    assert {task.trigger_rule for task in others} == {TriggerRule.ALL_SUCCESS}
    assert {task.task_id for task in dag.tasks if not task.downstream_task_ids} == {"notify", "abort"}


def test_a_run_may_ask_for_any_kind_and_is_not_offered_what_takes_more_than_to_trigger_it(dag):
    kind = dag.params.get_param("kind")
    assert kind.schema["enum"] == ["CHECKPOINT", "SAVEPOINT", "SYNC_SAVEPOINT"]
    assert kind.value == "CHECKPOINT"
    assert "stops" in kind.schema.get("description", kind.description)
    assert set(dag.params) == {"kind", "name", "note", "format", "directory"}
    assert set(restore_dag(small_pipeline(MemorySink())).params) == {"pipeline", "to", "from", "plan"}


def test_runs_do_not_overlap_nor_catch_up(dag):
    assert (dag.max_active_runs, dag.catchup) == (1, False)


def test_retries_outlast_a_component_that_is_away_and_end_soon_after(dag):
    """By Airflow's own arithmetic, which draws each delay between one and two times what is set."""
    for task in dag.tasks:
        ended = datetime.now(UTC)
        waited = timedelta()
        for try_number in range(1, task.retries + 1):
            instance = SimpleNamespace(
                task=task, try_number=try_number, dag_id=dag.dag_id, task_id=task.task_id, logical_date=None,
                end_date=ended, retry_delay_override=None,
            )  # fmt: skip
            waited += TaskInstance.next_retry_datetime(instance) - ended
        assert OUTLASTED <= waited <= 1.2 * OUTLASTED
        assert task.retry_delay <= timedelta(seconds=2)


def test_a_step_comes_before_those_it_follows_where_slots_are_scarce(dag):
    tasks = DagSerialization.from_dict(DagSerialization.to_dict(dag)).task_dict
    weights = [tasks[name].weight_rule.get_weight(SimpleNamespace(task=tasks[name])) for name in EDGES]
    assert weights[:6] == sorted(set(weights[:6])), "or DAG runs that wait keep the one they wait for from ending"
    assert weights[6] >= weights[4], "what is to be aborted holds the pipeline until then"


def test_only_trigger_hands_something_on(dag):
    assert [task.task_id for task in dag.tasks if task.do_xcom_push] == ["trigger"]


def test_notify_announces_every_sink(dag):
    assert dag.get_task("notify").outlets == [sink_asset("p", "out")]
    assert sink_asset("p", "out").uri == "tidegate://p/out"


def test_the_wait_is_deferred_by_default(dag):
    assert dag.get_task("acknowledge").deferrable


def test_airflow_shows_the_file_that_made_the_dag(dag):
    assert dag.fileloc == __file__


def test_options_of_the_dag_and_its_tasks_can_be_chosen():
    dag = checkpoint_dag(
        small_pipeline(MemorySink()),
        spark_conn_id="cluster",
        dag_id="other",
        max_active_runs=2,
        default_args={"retries": 0},
    )
    assert (dag.dag_id, dag.max_active_runs) == ("other", 2)
    assert {task.retries for task in dag.tasks} == {0}
    assert dag.get_task("snapshot").spark_conn_id == dag.get_task("validate").spark_conn_id == "cluster"
    assert dag.get_task("snapshot").retry_delay == timedelta(seconds=2)


def test_the_dag_survives_serialisation(dag):
    restored = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert {task.task_id: task.downstream_task_ids for task in restored.tasks} == EDGES
    assert restored.get_task("abort").is_teardown
    assert restored.get_task("abort").on_failure_fail_dagrun


class Locked(CheckpointListener):
    """Cannot be copied."""

    def __init__(self):
        self.lock = Lock()


@for_each("copied", [copy.deepcopy, lambda dag: dag.partial_subset(list(EDGES))])
def test_a_copied_dag_has_the_same_pipeline(copied):
    pipeline = small_pipeline(MemorySink())
    pipeline.listen(Locked())
    tasks = copied(checkpoint_dag(pipeline)).tasks
    assert {task.task_id for task in tasks} == set(EDGES)
    assert all(task.resolve_pipeline() is pipeline for task in tasks)


def test_a_wrong_pipeline_is_an_import_error_of_its_dag_file():
    with pytest.raises(PipelineDefinitionError, match="has no source"):
        checkpoint_dag(Pipeline("empty"))


def test_the_steps_can_be_placed_in_a_dag_of_ones_own():
    name = "tests.somewhere:pipeline"  # resolved when a step runs, not here
    with DAG("mine", schedule=None) as dag:
        begin = TriggerCheckpointOperator(task_id="begin", pipeline=name)
        steps = {"pipeline": name, "checkpoint_id": begin.output}
        take = SnapshotOperator(task_id="take", **steps)
        wait = AcknowledgeCheckpointSensor(task_id="wait", deferrable=False, mode="reschedule", **steps)
        judge = ValidateCheckpointOperator(task_id="judge", **steps)
        commit = FinalizeCheckpointOperator(task_id="commit", **steps)
        tell = NotifyCheckpointOperator(task_id="tell", outlets=[sink_asset("p", "out")], **steps)
        end = AbortCheckpointOperator(task_id="end", pipeline=name)
        [take, wait] >> judge >> commit >> tell
        [take, wait, judge, commit] >> end
    assert dag.get_task("take").upstream_task_ids == {"begin"}  # by the id it is given
    assert (wait.mode, wait.deferrable) == ("reschedule", False)
