"""What people trigger in Airflow is on record with the DAG run and its user; what a schedule triggers is not."""

import pytest
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from tidegate.airflow import restore_dag
from tidegate.assembly import open_store
from tidegate.protocol.observing.actions import ActionKind, ActorKind, AnswerStatus

pytestmark = pytest.mark.usefixtures("database")


def audited(limit: int = 9):
    return open_store().audit("p", limit)


@pytest.mark.parametrize("run_type", ["manual", "backfill", "operator_triggered"])
def test_a_dag_run_that_somebody_triggered(dag, run, run_type):
    conf = {"kind": "SAVEPOINT", "name": "mine", "password": "geheim"}
    for attempt in (1, 2):
        run(dag.get_task("trigger"), "r1", run_type=run_type, user="alice", conf=conf, try_number=attempt)
    [known] = audited()
    assert (known.action.kind, known.answer.status, known.answer.checkpoint_id) == ("SAVEPOINT", "DONE", 1)
    assert (known.action.actor.kind, known.action.actor.name) == (ActorKind.DAG_RUN, "p/r1")
    assert known.action.actor.origin == f"{run_type} DAG run, triggered by alice"
    assert known.action.details == {"conf": {"kind": "SAVEPOINT", "name": "mine", "password": "***"}}


def test_a_dag_run_that_is_cleared_asks_again(dag, run):
    run(dag.get_task("trigger"), "r1", user="alice")
    run(dag.get_task("trigger"), "r1", user="alice", clear_number=1)
    assert [each.answer.sentence for each in audited()] == [
        "Checkpoint 1 of pipeline p goes on.",
        "Checkpoint 1 of pipeline p is triggered.",
    ]


@pytest.mark.parametrize("run_type", ["scheduled", "asset_triggered"])
def test_a_dag_run_of_a_schedule_is_no_action_until_somebody_ends_it_by_hand(dag, run, supervisor, run_type):
    run(dag.get_task("trigger"), run_type=run_type)
    assert audited() == []
    supervisor.task_states = {"trigger": "success", "snapshot": "skipped", "notify": "skipped"}
    run(dag.get_task("abort"), run_type=run_type)
    [known] = audited()
    assert (known.action.kind, known.answer.checkpoint_id) == (ActionKind.ABORT, 1)
    assert "ended by hand; Airflow does not record by whom" in known.action.actor.origin
    run(dag.get_task("abort"), run_type=run_type)
    assert len(audited()) == 1


def test_a_refused_dag_run_is_on_record(dag, run, pipeline):
    assert run(dag.get_task("trigger"), conf={"drain": True}, user="alice").state == "failed"
    [known] = audited()
    assert known.answer.status is AnswerStatus.REFUSED
    assert "cannot drain the pipeline" in known.answer.sentence


@pytest.fixture
def restore(pipeline, run):
    def restore(run_id: str = "r1", **conf):
        task: BaseOperator = restore_dag(pipeline).get_task("restore")
        return run(task, run_id, conf={"pipeline": "p", **conf}, user="alice")

    return restore


def test_a_form_shows_a_plan_and_restores_nothing(dag, run, regions, good, restore):
    """Whoever may trigger the DAG can fill it in."""
    from dag_steps import complete

    complete(dag, run, "r1")
    complete(dag, run, "r2")
    before = len(audited())
    assert restore("plan", to="1").state == "skipped"
    assert restore("plan", to="1", dry_run=True).state == "skipped"
    for to in ("1", "undo", "latest"):
        ran = restore("form", to=to, dry_run=False)
        assert isinstance(ran.error, AirflowFailException)
        assert "A form cannot restore pipeline p" in str(ran.error)
    assert restore("missing", to="nine").state == "failed"
    with open_store().transaction("p") as tx:
        assert tx.restores() == []
    assert len(audited()) == before
