"""Who may see which pipeline: whoever may read one of the DAGs that ask for its checkpoints.

Airflow's simple auth manager knows no rights by DAG, so a stricter one stands in its place.
"""

import threading
from collections.abc import Callable

import httpx
import pytest
from fastapi.routing import APIRoute
from records import SOMEBODY
from routes import PLAN, asked_of, example_of
from store_steps import at, triggered
from worlds import MemoryStorage

from tidegate.clock import SystemClock
from tidegate.coordination.context import PipelineContext
from tidegate.coordination.recovery.restores_on_pages import PlannedRestores
from tidegate.postgres.store import PostgresCheckpointStore

Get = Callable[..., httpx.Response]
Token = Callable[[str | None], str]
PIPELINE = "flight_delays"
FINAL = ("/cancel", "/dispose", "/drain", "/plan-restore", "/restore")


@pytest.fixture
def readable(airflow: None, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The DAGs with which anybody who is logged in may do anything. So may everybody with DAGs at all."""
    from airflow.api_fastapi.app import get_auth_manager

    allowed: set[str] = set()

    def is_authorized_dag(*, method: str, user: object, details: object = None, **_: object) -> bool:
        dag_id = getattr(details, "id", None)
        return dag_id is None or dag_id in allowed

    monkeypatch.setattr(get_auth_manager(), "is_authorized_dag", is_authorized_dag)
    return allowed


@pytest.fixture
def known(store: PostgresCheckpointStore) -> Callable[..., None]:
    """A pipeline with a checkpoint that was asked for by these DAGs."""

    def make(*dag_ids: str, pipeline: str = PIPELINE) -> None:
        triggered(store, pipeline_id=pipeline)
        with store.transaction(pipeline) as tx:
            for dag_id in dag_ids:
                tx.record_dag(dag_id, at(1))
        PlannedRestores(PipelineContext(pipeline, store, MemoryStorage(), SystemClock())).ask(
            PLAN, "1", SOMEBODY, "tidegate_restore"
        )

    return make


def routes() -> list[APIRoute]:
    from tidegate.ui.app import create_app

    return [route for route in create_app().routes if isinstance(route, APIRoute)]


def ask(get: Get, route: APIRoute, token: str) -> httpx.Response:
    """As those do who may ask for something: only the right to it may be missing."""
    return get(f"/tidegate{example_of(route)}", token=token, **asked_of(route, token))


def of_pipelines() -> list[APIRoute]:
    return [route for route in routes() if "{pipeline}" in route.path]


def of_dags() -> list[APIRoute]:
    return [route for route in routes() if "{dag_id}" in route.path]


def test_every_path_that_names_something_names_a_pipeline_or_dag_first() -> None:
    """The right is looked up from that parameter: a route that names a checkpoint otherwise would be open. Only scripts
    and style sheets are the same for everybody."""
    assert len(of_pipelines()) > 20
    assert len(of_dags()) == 2
    for route in routes():
        if "{" in route.path and not route.path.startswith("/static/"):
            assert route.path.split("{")[1].startswith(("pipeline}", "dag_id}")), route.path


def test_a_foreign_pipeline_is_refused_on_every_route(get: Get, token: Token, readable: set[str], known) -> None:
    known("their-dag")
    readable.add("another-dag")
    for route in [*of_pipelines(), *of_dags()]:
        response = ask(get, route, token("viewer"))
        assert response.status_code == 403, route.path
        assert "their-dag" not in response.text


def test_the_name_of_a_readable_dag_in_the_query_opens_nothing(get: Get, token: Token, readable, known) -> None:
    known("their-dag")
    readable.add("my-dag")
    for parameter in ("dag_id", "pipeline", "dag"):
        response = get(f"/tidegate/api/v1/pipelines/{PIPELINE}?{parameter}=my-dag", token=token("viewer"))
        assert response.status_code == 403


def test_one_readable_dag_of_two_is_enough_and_its_name_does_not_matter(get, token, readable, known) -> None:
    known("their-dag", "my-dag")
    readable.add("my-dag")
    assert get(f"/tidegate/api/v1/pipelines/{PIPELINE}", token=token("viewer")).status_code == 200
    readable.clear()
    readable.add(PIPELINE)  # a DAG of the pipeline's name that never asked for a checkpoint
    assert get(f"/tidegate/api/v1/pipelines/{PIPELINE}", token=token("viewer")).status_code == 403


def test_a_pipeline_without_a_dag_takes_the_right_to_read_dags_at_all(get, token, readable, known, monkeypatch) -> None:
    known()
    url = f"/tidegate/api/v1/pipelines/{PIPELINE}"
    assert get(url, token=token("viewer")).status_code == 200
    from airflow.api_fastapi.app import get_auth_manager

    monkeypatch.setattr(get_auth_manager(), "is_authorized_dag", lambda **_: False)
    for route in routes():
        assert ask(get, route, token("viewer")).status_code == 403, route.path


def test_the_list_has_what_may_be_read(get, token, readable, known) -> None:
    known("my-dag", pipeline="mine")
    known("their-dag", pipeline="theirs")
    known(pipeline="nobodys")
    readable.add("my-dag")
    document = get("/tidegate/api/v1/pipelines", token=token("viewer")).json()
    assert {line["pipeline_id"] for line in document["pipelines"]} == {"mine", "nobodys"}
    assert document["total"] == 2


def test_a_pipeline_that_there_is_not_is_not_found(get, token, readable) -> None:
    for route in of_pipelines():
        if not route.path.startswith("/docs/"):  # a report may be older than the database
            assert ask(get, route, token("op")).status_code == 404, route.path


def test_events_name_pipelines_that_may_be_read(get, token, readable, known, store, monkeypatch) -> None:
    monkeypatch.setattr("tidegate.ui.events.LONGEST", 1.5)
    known("my-dag", pipeline="mine")
    known("their-dag", pipeline="theirs")
    readable.add("my-dag")
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.2):
            triggered(store, pipeline_id="theirs")
            triggered(store, pipeline_id="mine")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        heard = get("/tidegate/api/v1/events", token=token("viewer")).text
    finally:
        over.set()
        thread.join()
    assert heard.startswith("event: back\n")
    assert 'data: {"pipelines": ["mine"]}' in heard
    assert "theirs" not in heard


def changing() -> list[APIRoute]:
    return [route for route in routes() if "GET" not in route.methods]


def test_who_may_only_read_changes_nothing_and_gets_grey_buttons(get: Get, token: Token, airflow, known) -> None:
    """With the roles of Airflow's own simple auth manager."""
    known("their-dag")
    assert len(changing()) == 12
    page = f"/tidegate/pipelines/{PIPELINE}"
    assert "the right to edit or delete" in get(page, token=token("viewer")).text
    assert "the right to delete one" in get(page, token=token("user")).text
    assert "the right to" not in get(page, token=token("op")).text
    for route in changing():
        final = route.path.endswith(FINAL)
        assert ask(get, route, token("viewer")).status_code == 403, route.path
        assert (ask(get, route, token("user")).status_code == 403) == final, route.path
        assert ask(get, route, token("op")).status_code in (200, 409), route.path


def test_what_cannot_be_taken_back_takes_the_right_to_delete(get: Get, token: Token, known, monkeypatch) -> None:
    known("their-dag")
    from airflow.api_fastapi.app import get_auth_manager

    monkeypatch.setattr(get_auth_manager(), "is_authorized_dag", lambda *, method, **_: method in ("GET", "PUT"))
    text = get(f"/tidegate/pipelines/{PIPELINE}", token=token("viewer")).text
    assert "the right to delete one" in text
    for route in changing():
        final = route.path.endswith(FINAL)
        assert (ask(get, route, token("viewer")).status_code == 403) == final, route.path


def test_who_may_not_read_may_not_act(get: Get, token: Token, known, monkeypatch) -> None:
    known("their-dag")
    from airflow.api_fastapi.app import get_auth_manager

    monkeypatch.setattr(get_auth_manager(), "is_authorized_dag", lambda *, method, **_: method != "GET")
    for route in changing():
        assert ask(get, route, token("viewer")).status_code == 403, route.path
