"""User actions that take the pipeline's code, over HTTP: each starts one DAG run, in Airflow's own tables, with the
user's name. What the DAG runs then do is shown by tests/dags and, with a scheduler, by tests/scheduler."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import httpx
import pytest
from hands import PIPELINE, Hands, said
from registered_dags import forget, register, runs_of
from shown_pipelines import ShownPipeline
from worlds import Crash, MemorySink, MemoryStorage, small_pipeline

from tidegate.clock import SystemClock
from tidegate.coordination.all_operations import AllOperations
from tidegate.documents.restores import plan_digest, plan_document, shown_plan
from tidegate.protocol.recovery.restores_on_pages import action_of
from tidegate.testing.effects import Effects, MortalTransactions
from tidegate.ui.asking import asking_of

Token = Callable[[str | None], str]


@pytest.fixture
def hands(get: Callable[..., httpx.Response], token: Token, plugin: Any) -> Hands:
    plugin._app().state.dag_runs._restoring = (float("-inf"), {})
    return Hands(get, token("admin"))


@pytest.fixture
def shown(store: Any, airflow: None) -> ShownPipeline:
    """Two completed checkpoints, taken by the DAG `every_hour`; another DAG restores it."""
    from tidegate.airflow import checkpoint_dag, restore_dag

    pipeline = small_pipeline(MemorySink())
    pipeline.name = PIPELINE
    register(checkpoint_dag(pipeline, dag_id="every_hour"), restore_dag(pipeline, dag_id="way_back", tags=["mine"]))
    shown = ShownPipeline(store, MemoryStorage())
    shown.take(2)
    with store.transaction(PIPELINE) as tx:
        tx.record_dag("every_hour", shown.clock.now())
        tx.record_dag("long gone", shown.clock.now())
    return shown


def started(dag_id: str, request_id: str) -> Any:
    (run,) = (run for run in runs_of(dag_id) if run.run_id == f"tidegate__{request_id}")
    return run


@pytest.mark.parametrize(
    ("kind", "conf"),
    [
        ("CHECKPOINT", {"kind": "CHECKPOINT"}),
        ("SAVEPOINT", {"kind": "SAVEPOINT", "name": "x", "note": "y"}),
        ("STOP", {"kind": "SYNC_SAVEPOINT", "name": "x", "note": "y"}),
        ("DRAIN", {"kind": "SYNC_SAVEPOINT", "drain": True, "name": "x", "note": "y"}),
    ],
)
def test_a_scheduled_pipelines_checkpoint_is_one_run_of_its_dag(hands, shown, kind, conf) -> None:
    label = {} if kind == "CHECKPOINT" else {"name": "x", "note": "y"}
    request_id = str(uuid4())
    path, given = ("drain", label) if kind == "DRAIN" else ("requests", {"kind": kind, **label})
    first, second = (hands.do(path, request_id, **given) for _ in range(2))
    assert (first.status_code, first.json()) == (200, second.json())
    run = started("every_hour", request_id)
    assert (run.conf, run.triggering_user_name, run.run_type, run.state) == (conf, "somebody", "manual", "queued")
    assert first.json()["page"] == f"/dags/every_hour/runs/tidegate__{request_id}"
    (known,) = hands.audit()["audit"]
    assert (known["kind"], known["actor"]["name"], known["request_id"]) == (kind, "somebody", request_id)
    assert f"DAG run tidegate__{request_id} of DAG every_hour is started." in known["sentence"]


def test_of_several_dags_one_is_chosen_and_one_that_waits_says_so(hands, shown) -> None:
    from tidegate.airflow import checkpoint_dag

    pipeline = small_pipeline(MemorySink())
    register(checkpoint_dag(pipeline, dag_id="by_hand"), paused=True)
    with shown.store.transaction(PIPELINE) as tx:
        tx.record_dag("by_hand", shown.clock.now())
    unsaid = hands.do("requests", kind="CHECKPOINT")
    assert (unsaid.status_code, unsaid.json()["errors"][0]) == (
        409,
        f"Pipeline {PIPELINE} has several DAGs. Nothing was changed. Give one as dag_id: by_hand, every_hour.",
    )  # fmt: skip
    assert hands.do("requests", kind="CHECKPOINT", dag_id="way_back").status_code == 409
    code, sentence = said(hands.do("requests", kind="CHECKPOINT", dag_id="by_hand"))
    assert (code, "The DAG is paused" in sentence) == (200, True)
    text = hands.get(f"/tidegate/pipelines/{PIPELINE}", token=hands.credential).text
    assert "<option>by_hand</option><option>every_hour</option>" in text
    forget(["by_hand"])
    assert hands.do("requests", kind="CHECKPOINT").status_code == 200


def test_what_the_dags_form_or_airflow_refuses_is_refused_with_its_reason(hands, shown, monkeypatch) -> None:
    request_id = str(uuid4())
    assert hands.do("requests", request_id, kind="CHECKPOINT").status_code == 200
    with monkeypatch.context() as patch:
        patch.setattr("tidegate.ui.by_dag_run.run_id_of", lambda _: f"tidegate__{request_id}")
        code, sentence = said(hands.do("requests", kind="SAVEPOINT"))
    assert (code, "and is another one" in sentence) == (409, True)
    with monkeypatch.context() as patch:
        patch.setattr("tidegate.ui.by_dag_run.run_id_of", lambda _: "no such/id")
        code, sentence = said(hands.do("requests", kind="SAVEPOINT"))
    assert (code, "does not match" in sentence) == (409, True)
    code, sentence = said(hands.do("requests", kind="CHECKPOINT", name="x"))
    assert (code, "name" in sentence) == (409, True)
    assert [one["status"] for one in hands.audit()["audit"]] == ["REFUSED", "REFUSED", "REFUSED", "DONE"]


def plan(hands: Hands, shown: ShownPipeline, to: str = "1") -> str:
    """Asked for on the page, and made as the DAG run does; its id."""
    request_id = str(uuid4())
    assert hands.do("plan-restore", request_id, to=to).status_code == 200
    return make(shown, request_id)


def make(shown: ShownPipeline, request_id: str) -> str:
    from tidegate.coordination.recovery.restore import ToCheckpoint

    document = plan_document(shown.coordinator.plan_restore(ToCheckpoint(1)))
    shown.coordinator.operations.planned_restores.store(request_id, shown_plan(document), plan_digest(document))
    return request_id


def test_a_restore_is_planned_shown_and_confirmed_each_by_one_dag_run(hands, shown) -> None:
    request_id, confirmed = str(uuid4()), str(uuid4())
    first, second = (hands.do("plan-restore", request_id, to="1") for _ in range(2))
    assert (first.status_code, first.json()) == (200, second.json())
    assert first.json()["page"] == f"/tidegate/pipelines/{PIPELINE}/restore-plans/{request_id}"
    run = started("way_back", request_id)
    assert run.conf == {"pipeline": PIPELINE, "to": "1", "dry_run": True, "plan": request_id}
    below = f"pipelines/{PIPELINE}/restore-plans/{request_id}"

    def shows() -> str:
        return hands.get(f"/tidegate/{below}", token=hands.credential).text

    assert "being planned" in shows()
    assert "which is queued" in shows()
    early = hands.do(f"restore-plans/{request_id}/restore")
    assert (early.status_code, "Its plan is not made yet" in early.json()["sentence"]) == (409, True)
    make(shown, request_id)
    assert "Restore to checkpoint 1</button>" in shows()

    answers = [hands.do(f"restore-plans/{request_id}/restore", confirmed, leave=["out"]) for _ in range(2)]
    assert [said(answer) for answer in answers] == [
        (200, f"Pipeline {PIPELINE} is restored by DAG run tidegate__{confirmed}.")
    ] * 2
    assert started("way_back", confirmed).conf["dry_run"] is False
    assert "being restored" in shows()
    other = hands.do(f"restore-plans/{request_id}/restore")
    assert (other.status_code, "has confirmed this plan already" in other.json()["sentence"]) == (409, True)
    assert hands.audit()["audit"] == [], "the DAG run records it"
    document = hands.get(f"/tidegate/api/v1/{below}", token=hands.credential).json()
    assert (document["plan"]["checkpoint"]["id"], document["confirmed"]["by"]) == (1, "somebody")
    assert (document["accepted"]["leave"], document["answer"]) == (["out"], None)

    planned = shown.coordinator.operations.planned_restores.find(request_id)
    shown.coordinator.auditing.carry_out(action_of(planned, planned.confirmed), lambda entry: _done(shown, entry))
    assert "Restored, I said." in shows()
    assert said(hands.do(f"restore-plans/{request_id}/restore", confirmed, leave=["out"])) == (200, "Restored, I said.")
    document = hands.get(f"/tidegate/api/v1/{below}", token=hands.credential).json()
    assert document["answer"]["sentence"] == "Restored, I said."


def _done(shown: ShownPipeline, entry: Any) -> None:
    with shown.store.transaction(PIPELINE) as tx:
        entry.done(tx, shown.clock.now(), "Restored, I said.", 1)


def test_without_a_dag_that_restores_it_the_page_says_what_to_run(hands, shown, monkeypatch) -> None:
    forget(["way_back"])
    code, sentence = said(hands.do("plan-restore", to="1"))
    assert (code, f"No DAG restores pipeline {PIPELINE}" in sentence) == (409, True)
    text = hands.get(f"/tidegate/pipelines/{PIPELINE}/checkpoints/2", token=hands.credential).text
    assert f"tidegate restore {PIPELINE} --checkpoint 2 --dry-run" in text
    assert said(hands.do("plan-restore", to="latest"))[0] == 409


def test_who_may_not_trigger_a_dag_starts_none_and_sees_that(hands, shown, monkeypatch) -> None:
    planned = plan(hands, shown)
    from airflow.api_fastapi.app import get_auth_manager

    before = len(runs_of("way_back")), len(runs_of("every_hour"))
    monkeypatch.setattr(get_auth_manager(), "is_authorized_dag", lambda *, method, **_: method != "POST")
    for path, given in (
        ("plan-restore", {"to": "1"}),
        (f"restore-plans/{planned}/restore", {}),
        ("requests", {"kind": "CHECKPOINT"}),
    ):
        answer = hands.do(path, **given)
        assert (answer.status_code, "You may not trigger DAG" in answer.json()["errors"][0]) == (403, True)
    assert (len(runs_of("way_back")), len(runs_of("every_hour"))) == before
    assert hands.audit()["audit"] == []
    for page in ("", "/checkpoints/1", f"/restore-plans/{planned}"):
        text = hands.get(f"/tidegate/pipelines/{PIPELINE}{page}", token=hands.credential).text
        assert "Greyed-out actions require the right to trigger" in text, page


def test_the_dag_run_of_a_plan_that_ended_without_an_answer_is_named(hands, shown) -> None:
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    request_id = str(uuid4())
    hands.do("plan-restore", request_id, to="1")
    page = f"/tidegate/pipelines/{PIPELINE}/restore-plans/{request_id}"
    with create_session(scoped=False) as session:
        run = DagRun.find_duplicate("way_back", f"tidegate__{request_id}", session=session)
        assert run is not None
        run._state = "failed"
    assert "It ended without an answer, for the reason in its log." in hands.get(page, token=hands.credential).text
    with create_session(scoped=False) as session:
        session.delete(DagRun.find_duplicate("way_back", f"tidegate__{request_id}", session=session))
    assert "which is unknown to Airflow" in hands.get(page, token=hands.credential).text


@pytest.mark.parametrize("before", [True, False])
def test_after_a_crash_at_any_commit_asking_again_gives_one_dag_run_and_the_same_answer(
    hands, shown, plugin, monkeypatch, before
) -> None:
    """The API server dies, and its browser asks again with the same id."""
    planned = plan(hands, shown)
    asking, effects = asking_of(plugin._app()), Effects()
    mortal = MortalTransactions(shown.store, effects)
    dying = AllOperations(mortal, shown.storage, SystemClock(), lambda: None)  # type: ignore[arg-type]
    actions = (("requests", {"kind": "SAVEPOINT"}), ("plan-restore", {"to": "1"}),
                (f"restore-plans/{planned}/restore", {"leave": ["out"]}))  # fmt: skip
    for path, given in actions:
        at, request_id = 0, str(uuid4())
        while True:
            effects.die(at, before)
            with monkeypatch.context() as patch:
                patch.setattr(asking, "_operations", dying)
                try:
                    answer = hands.do(path, request_id, **given)
                except Crash:
                    at += 1
                    continue
            break
        assert at > 1
        assert answer.status_code == 200
        assert answer.json() == hands.do(path, request_id, **given).json()
        assert started("every_hour" if path == "requests" else "way_back", request_id).conf


def test_a_start_that_is_refused_after_the_confirmation_is_on_record(hands, shown, monkeypatch) -> None:
    planned, request_id = plan(hands, shown), str(uuid4())
    forget(["way_back"])
    answers = [hands.do(f"restore-plans/{planned}/restore", request_id) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [409, 409]
    assert answers[0].json() == answers[1].json()
    (known,) = hands.audit()["audit"]
    assert (known["kind"], known["status"], known["request_id"]) == ("RESTORE", "REFUSED", request_id)
    page = f"/tidegate/pipelines/{PIPELINE}/restore-plans/{planned}"
    assert "Make a new plan" in hands.get(page, token=hands.credential).text
