"""Airflow's callbacks and notifiers for what happens to a pipeline, and its own metrics. Airflow's task runner is the
real one."""

import copy
import json

import pytest
from airflow.sdk.bases.notifier import BaseNotifier
from dag_steps import complete, judge
from receivers import receiving

from tidegate.airflow import checkpoint_dag, watch_dag
from tidegate.assembly import open_coordinator, open_store
from tidegate.pipeline.config import CheckpointConfig
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.reasons import FailureReason

pytestmark = pytest.mark.usefixtures("database")

WANTED = ("pipeline", "checkpoint", "event", "reason", "sentence", "message", "link")


class Told(list):
    """A callback. It is called with a context that is good for this moment only."""

    def __call__(self, context):
        self.append({name: context[name] for name in WANTED} | {"task": context["ti"].task_id})

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        raise TypeError("not fit to be copied")


class Message(BaseNotifier):
    """One of Airflow's own kind: it renders its template into itself."""

    template_fields = ("text",)

    def __init__(self, text, sent):
        super().__init__()
        self.text, self.sent = text, sent

    def notify(self, context):
        self.sent.append(self.text)


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def dag(pipeline, told):
    return checkpoint_dag(pipeline, on_checkpoint_failed=told)


@pytest.fixture
def fail(run, regions, monkeypatch):
    """Takes a DAG run to a failed validation."""

    def fail(dag, run_id="r1"):
        judge(monkeypatch, False)
        for name in ("trigger", "snapshot", "acknowledge"):
            assert run(dag.get_task(name), run_id).state == "success"
        assert run(dag.get_task("validate"), run_id).state == "failed"

    return fail


def test_a_callback_is_called_once_by_the_task_that_failed_the_checkpoint(
    dag, run, fail, told, supervisor, monkeypatch
):
    monkeypatch.setenv("TIDEGATE_PAGES_URL", "https://a/tidegate")
    fail(dag)
    supervisor.task_states = {"trigger": "success", "validate": "failed", "finalize": "upstream_failed"}
    run(dag.get_task("abort"))
    run(dag.get_task("trigger"), "r2")
    (call,) = told
    assert call | {"message": ""} == {
        "pipeline": "p",
        "checkpoint": 1,
        "event": "CHECKPOINT_FAILED",
        "reason": "VALIDATION_FAILED",
        "sentence": "The staged data did not meet its expectations.",
        "message": "",
        "link": "https://a/tidegate/pipelines/p/checkpoints/1",
        "task": "validate",
    }
    assert call["message"] == open_store().checkpoint("p", 1).failure_message


def test_a_checkpoint_that_completes_calls_nobody(dag, run, regions, good, told):
    complete(dag, run)
    assert told == []


def test_what_a_killed_task_told_nobody_the_teardown_tells(dag, run, regions, told, supervisor, pipeline):
    run(dag.get_task("trigger"))
    open_coordinator(pipeline).abort(1, FailureReason.TASK_FAILURE, "killed right after this")
    supervisor.task_states = {"trigger": "success", "snapshot": "failed", "finalize": "upstream_failed"}
    run(dag.get_task("abort"))
    assert [(call["checkpoint"], call["task"]) for call in told] == [(1, "abort")]


def test_or_else_the_next_dag_run_does(dag, run, told, pipeline):
    run(dag.get_task("trigger"))
    open_coordinator(pipeline).abort(1, FailureReason.TASK_FAILURE, "the whole run is gone")
    run(dag.get_task("trigger"), "r2")
    assert [(call["checkpoint"], call["task"]) for call in told] == [(1, "trigger")]


def test_a_notifier_renders_its_template_anew_for_each_event(pipeline, run, fail):
    sent = []
    message = Message("{{ pipeline }} {{ checkpoint }}: {{ reason }} in {{ ti.task_id }}", sent)
    dag = checkpoint_dag(pipeline, on_checkpoint_failed=[message, lambda context: sent.append("second")])
    fail(dag)
    fail(dag, "r2")
    assert sent == [
        "p 1: VALIDATION_FAILED in validate", "second", "p 2: VALIDATION_FAILED in validate", "second",
    ]  # fmt: skip
    assert message.text.startswith("{{ pipeline }}")


def test_a_callback_that_raises_harms_nothing_and_the_others_are_called(pipeline, run, fail, told, capsys):
    def rude(context):
        raise RuntimeError("no patience")

    dag = checkpoint_dag(pipeline, on_checkpoint_failed=[rude, told])
    fail(dag)
    assert open_store().checkpoint("p", 1).failure_reason is FailureReason.VALIDATION_FAILED
    assert len(told) == 1


def test_a_pipeline_that_fails_calls_another_one(pipeline, fail, told):
    pipeline.checkpoints = CheckpointConfig(tolerable_failed_checkpoints=0)
    fail(checkpoint_dag(pipeline, on_pipeline_failed=told))
    assert [(call["event"], call["checkpoint"], call["reason"]) for call in told] == [("PIPELINE_FAILED", None, None)]


def test_two_dags_are_two_who_want_to_know(pipeline, run, fail, told):
    other = Told()
    fail(checkpoint_dag(pipeline, on_checkpoint_failed=told))
    watching = watch_dag(pipeline, on_checkpoint_failed=other)
    assert run(watching.get_task("watch").unmap({"pipeline": "p"})).state == "success"
    assert run(watching.get_task("watch").unmap({"pipeline": "p"})).state == "success"
    assert (len(told), len(other)) == (1, 1)


def test_a_webhook_hears_of_it_whatever_else_there_is(dag, fail, told, monkeypatch):
    with receiving() as receiver:
        monkeypatch.setenv("TIDEGATE_WEBHOOK_URL", receiver.url)
        receiver.answer = lambda request: 500
        fail(dag)
    assert [json.loads(request.body)["checkpoint_id"] for request in receiver.requests] == [1]
    assert len(told) == 1


def test_airflow_copies_a_dag_and_not_what_it_calls(dag, told):
    assert copy.deepcopy(dag).get_task("abort").callbacks.by_kind == dag.get_task("abort").callbacks.by_kind


# -- the DAG that watches


@pytest.fixture
def watched(pipeline):
    pipeline.checkpoints = CheckpointConfig(stale_after="1 ms")
    return pipeline


def test_a_stale_pipeline_is_told_once_and_once_when_it_is_well_again(watched, run, regions, good, told):
    dag = watch_dag(watched, on_pipeline_stale=told, on_pipeline_fresh=told)
    assert dag.get_task("watch").expand_input.value == {"pipeline": ["p"]}
    look = dag.get_task("watch").unmap({"pipeline": "p"})
    run(look)
    assert told == [], "it has not begun"
    taken = checkpoint_dag(watched)
    run(taken.get_task("trigger"))
    for _ in range(2):
        assert run(look).state == "success"
    assert [(call["event"], call["checkpoint"]) for call in told] == [("PIPELINE_STALE", None)]
    for name in ("snapshot", "acknowledge", "validate", "finalize", "notify"):
        assert run(taken.get_task(name)).state == "success"
    run(look)
    assert [call["event"] for call in told[1:]] == ["PIPELINE_FRESH"]
    assert open_store().checkpoint("p", 1).status is Status.COMPLETED


# -- Airflow's own metrics


def test_airflows_metrics_have_the_figures_if_it_sends_any(dag, run, regions, good, monkeypatch):
    sent = {}

    class Recorded:
        def gauge(self, stat, value, rate=1, delta=False, *, tags=None, **more):
            sent[stat] = value, tags

        def __getattr__(self, name):
            return lambda *given, **more: None

    from airflow.sdk.observability import stats

    stats.initialize(factory=Recorded, export_legacy_names=False)
    complete(dag, run)
    assert sent == {}, "nobody asked for metrics"
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
    complete(dag, run, "r2")
    assert sent["tidegate.p.lastCompletedCheckpointId"] == (2, {"pipeline": "p"})
    assert sent["tidegate.p.numberOfCompletedCheckpoints"][0] == 2
    assert not [name for name in sent if name.endswith("ExternalPath")]
