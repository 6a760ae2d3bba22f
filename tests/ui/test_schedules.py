"""When a pipeline's DAGs run next: what Airflow's scheduler has computed, of those that the user may read."""

from datetime import UTC, datetime, timedelta

from airflow_dags import schedule
from store_steps import PIPELINE, at, triggered

SOON = datetime.now(UTC).replace(microsecond=0) + timedelta(days=5, hours=12)
MILLISECONDS = round(SOON.timestamp() * 1000)


def known(store, *dag_ids: str) -> None:
    triggered(store)
    with store.transaction(PIPELINE) as tx:
        for dag_id in dag_ids:
            tx.record_dag(dag_id, at(1))


def test_the_next_run_of_each_dag_is_airflows(get, token, store) -> None:
    schedule("hourly", SOON)
    schedule("paused", SOON, is_paused=True)
    schedule("once", None)
    schedule("vanished", SOON, is_stale=True)
    schedule("of another pipeline", SOON)
    known(store, "hourly", "paused", "once", "vanished", "unknown")
    expected = [
        {"dag_id": "hourly", "run_after_timestamp": MILLISECONDS, "is_paused": False},
        {"dag_id": "once", "run_after_timestamp": -1, "is_paused": False},
        {"dag_id": "paused", "run_after_timestamp": MILLISECONDS, "is_paused": True},
    ]
    viewer = token("viewer")
    assert get(f"/tidegate/api/v1/pipelines/{PIPELINE}", token=viewer).json()["next_runs"] == expected
    (line,) = get("/tidegate/api/v1/pipelines", token=viewer).json()["pipelines"]
    assert line["next_runs"] == expected
    for page in ("/tidegate/", f"/tidegate/pipelines/{PIPELINE}"):
        shown = get(page, token=viewer).text
        assert "next run in 5 d" in shown
        assert "no further scheduled run" in shown


def test_a_dag_that_one_may_not_read_does_not_say_when_it_runs(get, token, store, monkeypatch) -> None:
    from airflow.api_fastapi.app import get_auth_manager

    def is_authorized_dag(*, details: object = None, **_: object) -> bool:
        return getattr(details, "id", None) != "theirs"

    monkeypatch.setattr(get_auth_manager(), "is_authorized_dag", is_authorized_dag)
    schedule("mine", SOON)
    schedule("theirs", SOON)
    known(store, "mine", "theirs")
    for path in (f"/pipelines/{PIPELINE}", "/pipelines"):
        answer = get(f"/tidegate/api/v1{path}", token=token("viewer")).text
        assert answer.count("run_after_timestamp") == 1
        assert '{"dag_id":"mine","run_after_timestamp"' in answer


def test_without_airflow_nothing_is_said(tmp_path) -> None:
    from tidegate.ui.app import create_app
    from tidegate.ui.one_user import OneUser

    app = create_app(tmp_path, users=OneUser("secret", 1))
    assert app.state.schedules.next_runs({"hourly"}) == {}
