"""What the Checkpoints page asks the restore DAG for is planned, stored and carried out as shown, for nobody else."""

import pytest
from dag_steps import complete
from worlds import MemoryStorage

from tidegate.airflow import checkpoint_dag, restore_dag
from tidegate.assembly import open_store
from tidegate.clock import SystemClock
from tidegate.coordination.context import PipelineContext
from tidegate.coordination.recovery.restores_on_pages import PlannedRestores
from tidegate.pipeline.config import CheckpointConfig
from tidegate.protocol.observing.actions import ActionKind, Actor, ActorKind, AnswerStatus
from tidegate.protocol.recovery.restore_plan import Accepted

pytestmark = pytest.mark.usefixtures("database")
DAG = "tidegate_restore"
AMY, BOB = (Actor(ActorKind.AIRFLOW_USER, name, "10.0.0.1") for name in ("amy", "bob"))


@pytest.fixture
def plans(pipeline, run, regions, good):
    """With checkpoints 1 and 2 behind it."""
    pipeline.checkpoints = CheckpointConfig(retained=5)
    dag = checkpoint_dag(pipeline)
    complete(dag, run, "r1")
    complete(dag, run, "r2")
    return PlannedRestores(PipelineContext("p", open_store(), MemoryStorage(), SystemClock()))


@pytest.fixture
def work(pipeline, run):
    """The DAG run that was started for a request, as the page fills in its form."""

    def work(plan, request=None, user="amy", **arguments):
        conf = {"pipeline": "p", "to": "1", "plan": plan, "dry_run": request is None}
        run_id = arguments.pop("run_id", f"tidegate__{request or plan}")
        return run(restore_dag(pipeline).get_task("restore"), run_id, conf=conf, user=user, retries=0, **arguments)

    return work


def restores():
    with open_store().transaction("p") as tx:
        return [restore.checkpoint_id for restore in tx.restores()]


def newest():
    return open_store().audit("p", 1)[0]


def test_a_plan_is_stored_and_carried_out_once_by_whoever_confirmed_it(plans, work, supervisor):
    plans.ask("plan", "1", AMY, DAG)
    assert work("plan").state == "skipped"
    planned = plans.find("plan")
    assert (planned.document["checkpoint"]["id"], planned.document["abandoned_checkpoints"]) == (1, [2])
    assert work("plan", clear_number=1).state == "skipped"
    assert (plans.find("plan"), restores()) == (planned, [])

    plans.confirm("plan", "yes", Accepted(leave=("out",)), AMY, DAG)
    assert work("plan", "yes").state == "success"
    assert work("plan", "yes", clear_number=1).state == "success"
    assert restores() == [1]
    known = newest()
    assert (known.action.kind, known.answer.status) == (ActionKind.RESTORE, AnswerStatus.DONE)
    assert (known.action.request_id, known.action.actor) == ("yes", AMY)
    assert known.action.actor.kind is ActorKind.AIRFLOW_USER
    assert known.action.details["dag_run"] == f"{DAG}/tidegate__yes"
    assert work("plan").state == "skipped", "the run that planned it may be cleared afterwards"
    assert restores() == [1]

    plans.ask("back", "undo", BOB, DAG)
    assert work("back", user="bob").state == "skipped"
    plans.confirm("back", "undone", Accepted(leave=("out",)), BOB, DAG)
    assert work("back", "undone", user="bob").state == "success"
    assert (restores(), newest().action.kind, newest().action.actor) == ([1, 2], ActionKind.UNDO, BOB)


def test_a_plan_that_has_changed_is_not_carried_out_and_shown_anew(plans, work, pipeline, run):
    plans.ask("plan", "1", AMY, DAG)
    work("plan")
    plans.confirm("plan", "yes", Accepted(leave=("out",)), AMY, DAG)
    complete(checkpoint_dag(pipeline), run, "r3")
    for clear_number in (0, 1):
        assert work("plan", "yes", clear_number=clear_number).state == "failed"
    assert (restores(), newest().answer.status) == ([], AnswerStatus.REFUSED)
    assert "since the plan was shown, it has changed" in newest().answer.sentence
    anew = plans.find("yes")
    assert (anew.document["abandoned_checkpoints"], anew.requested.actor) == ([2, 3], AMY)
    plans.confirm("yes", "now", Accepted(leave=("out",)), AMY, DAG)
    assert work("yes", "now").state == "success"
    assert restores() == [1]


def test_what_is_not_accepted_is_refused_and_on_record(plans, work, sink):
    plans.ask("plan", "1", AMY, DAG)
    work("plan")
    stuck = [each["sink"] for each in plans.find("plan").document["sinks"] if not each["can_rewind"]]
    plans.confirm("plan", "yes", Accepted(leave=("strange",)), AMY, DAG)
    assert work("plan", "yes").state == "failed"
    assert (restores(), newest().answer.status) == ([], AnswerStatus.REFUSED)
    assert "strange" in newest().answer.sentence
    assert all(name in newest().answer.sentence for name in stuck)


def test_what_cannot_be_planned_says_why_on_the_page(plans, work):
    plans.ask("plan", "99", AMY, DAG)
    assert work("plan").state == "failed"
    assert "99" in plans.find("plan").refusal
    assert plans.find("plan").document is None


@pytest.mark.parametrize(
    "how", [{"user": "bob"}, {"user": None}, {"run_id": "manual__1"}, {"run_id": "tidegate__yes", "user": "bob"}]
)
def test_a_dag_run_that_the_page_has_not_started_plans_and_restores_nothing(plans, work, how):
    """Whoever may trigger the DAG can fill in its form, with the id of another's plan and of its DAG run."""
    plans.ask("plan", "1", AMY, DAG)
    ran = work("plan", **how)
    assert (ran.state, plans.find("plan").planned_at) == ("failed", None)
    assert "was not started by the page for request plan of amy" in str(ran.error.__cause__ or ran.error)
    work("plan")
    plans.confirm("plan", "yes", Accepted(leave=("out",)), AMY, DAG)
    before = newest()
    assert work("plan", "yes", **{"run_id": "manual__2", **how}).state == "failed"
    assert (restores(), newest()) == ([], before)
    assert work("nowhere").state == "failed"


def test_a_restore_that_died_after_its_commit_is_answered_as_done(plans, work, monkeypatch):
    from tidegate.coordination.steps.notify import Delivery

    plans.ask("plan", "1", AMY, DAG)
    work("plan")
    plans.confirm("plan", "yes", Accepted(leave=("out",)), AMY, DAG)

    def die(*_):
        raise RuntimeError("killed")

    with monkeypatch.context() as killed:
        killed.setattr(Delivery, "deliver", die)
        assert work("plan", "yes").state == "failed"
    assert restores() == [1]
    assert work("plan", "yes", clear_number=1).state == "success"
    assert restores() == [1]
    assert newest().answer.status is AnswerStatus.DONE
