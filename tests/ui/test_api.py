"""The JSON API: Flink's names, pages by key, hostile values, errors that say what happened."""

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from airflow_dags import schedule
from described import Description, path_of
from readings import HOSTILE
from shown_pipelines import ShownPipeline
from store_steps import FIRST, PIPELINE, SINK, acknowledged, completed, fail_checkpoint, handle, triggered
from worlds import MemoryStorage

from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.records import CheckpointKind, HandleKind

Ask = Callable[..., httpx.Response]
API = "/tidegate/api/v1"


@pytest.fixture
def ask(get: Callable[..., httpx.Response], described: Description, token: Callable[[str], str]) -> Ask:
    """Every answer is held against what the API says of itself."""
    viewer = token("viewer")

    def ask_(path: str) -> httpx.Response:
        response = get(f"{API}{path}", token=viewer)
        if response.status_code not in (200, 422):
            assert list(response.json()) == ["errors"]
        elif response.status_code == 200 and not path.partition("?")[0].endswith(("_metadata", ".json")):
            assert described.wrong(path_of(f"{API}{path}"), response.json()) == []
        return response

    return ask_


@pytest.fixture
def past(store: PostgresCheckpointStore) -> PostgresCheckpointStore:
    """A completed checkpoint, a failed one, and one in progress."""
    completed(store, {FIRST: [handle("flights/chk-1/a", 1)], SINK: [handle("chk-1/s", 1, HandleKind.STAGED)]})
    fail_checkpoint(store, triggered(store))
    acknowledged(store)
    return store


OF_PIPELINE = (
    "", "/checkpoints", "/checkpoints/config", "/checkpoints/1", "/checkpoints/1/subtasks/carriers",
    "/checkpoints/1/files", "/checkpoints/1/verdicts", "/history", "/series", "/sources", "/state",
    "/tables", "/doubts", "/quality",
)  # fmt: skip


def test_the_overview_is_flinks(ask, past) -> None:
    document = ask(f"/pipelines/{PIPELINE}/checkpoints").json()
    assert {"counts", "summary", "latest", "history"} <= document.keys()
    assert document["counts"] == {"restored": 0, "total": 3, "in_progress": 1, "completed": 1, "failed": 1}
    assert [row["status"] for row in document["history"]] == ["IN_PROGRESS", "FAILED", "COMPLETED"]
    newest = document["history"][-1]
    assert newest.items() >= document["latest"]["completed"].items()
    assert (newest["tasks"], newest["is_savepoint"], newest["alignment_buffered"]) == ({}, False, 0)
    assert (newest["processed_data"], newest["persisted_data"], newest["discarded"]) == (0, 0, False)


def test_a_checkpoint_has_tasks_and_they_have_subtasks(ask, past) -> None:
    details = ask(f"/pipelines/{PIPELINE}/checkpoints/1").json()
    assert list(details["tasks"]) == ["source", "carriers"]
    carriers = details["tasks"]["carriers"]
    assert (carriers["id"], carriers["num_subtasks"], carriers["num_acknowledged_subtasks"]) == ("carriers", 2, 2)
    task = ask(f"/pipelines/{PIPELINE}/checkpoints/1/subtasks/carriers?limit=1").json()
    assert (task["id"], [each["index"] for each in task["subtasks"]], task["next_index"]) == ("carriers", [0], 0)
    assert task["subtasks"][0]["handles"][0]["sha256"] == "0" * 64
    missing = ask(f"/pipelines/{PIPELINE}/checkpoints/1/subtasks/nobody")
    assert missing.status_code == 404


def test_a_failure_says_what_to_do(ask, past) -> None:
    failure = ask(f"/pipelines/{PIPELINE}/checkpoints/2").json()["failure"]
    assert failure["reason"] == "TASK_FAILURE"
    assert failure["advice"].startswith("The task's log has the error.")


def test_history_pages_follow_each_other(ask, past) -> None:
    first = ask(f"/pipelines/{PIPELINE}/history?limit=2").json()
    second = ask(f"/pipelines/{PIPELINE}/history?limit=2&before={first['next_before']}").json()
    assert [row["id"] for row in first["history"] + second["history"]] == [3, 2, 1]
    assert second["next_before"] is None


def test_everything_of_a_hostile_pipeline_is_text(ask, store) -> None:
    triggered(store, request_id=HOSTILE, pipeline_id=HOSTILE)
    base = f"/pipelines/{quote(HOSTILE, safe='')}"
    listed = ask("/pipelines").json()["pipelines"]
    assert [line["pipeline_id"] for line in listed] == [HOSTILE]
    # A slash in a name ends the path's segment, whoever encodes it: such a pipeline has no page of its own.
    assert ask(base).status_code == 404
    plain = HOSTILE.replace("/", "")
    triggered(store, request_id=HOSTILE, pipeline_id=plain)
    for rest in ("", "/checkpoints", "/history", "/series", "/tables", "/checkpoints/1"):
        response = ask(f"/pipelines/{quote(plain, safe='')}{rest}")
        assert response.status_code == 200, rest
        assert response.headers["content-type"] == "application/json"
    assert ask(f"/pipelines/{quote(plain, safe='')}/history").json()["history"][0]["request_id"] == HOSTILE


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/pipelines/nobody", 404),
        (f"/pipelines/{PIPELINE}/checkpoints/99", 404),
        (f"/pipelines/{PIPELINE}/checkpoints/0", 422),
        (f"/pipelines/{PIPELINE}/checkpoints/99999999999999999999", 422),
        (f"/pipelines/{PIPELINE}/checkpoints/x", 422),
        (f"/pipelines/{PIPELINE}/history?limit=100000", 422),
        (f"/pipelines/{PIPELINE}/history?before=-1", 422),
        (f"/pipelines/{PIPELINE}/history?status=GONE", 400),
        (f"/pipelines/{PIPELINE}/history?kind=GONE", 422),
        (f"/pipelines/{PIPELINE}/history?since=2026-01-01T00:00:00", 400),
        (f"/pipelines/{PIPELINE}/history?text=a%00b", 400),
        (f"/pipelines/{PIPELINE}%00", 404),
        (f"/pipelines/{PIPELINE}/checkpoints/1/files?after=x", 400),
        ("/pipelines?after=x", 400),
        (f"/pipelines/{PIPELINE}/checkpoints/2/_metadata", 404),
        (f"/pipelines/{PIPELINE}/checkpoints/1/_metadata", 404),  # nobody has written it
        (f"/pipelines/{PIPELINE}/series?points=0", 422),
    ],
)
def test_a_wrong_question_gets_its_status(ask, past, path, status) -> None:
    assert ask(path).status_code == status


def test_metadata_is_downloaded_as_it_is(ask, past, tmp_path: Path) -> None:
    where = tmp_path / "checkpoints" / PIPELINE / "chk-1" / "_metadata"
    where.parent.mkdir(parents=True)
    content = json.dumps({"format": "tidegate-checkpoint", "version": 1, "pipeline": PIPELINE, "checkpoint_id": 1})
    where.write_text(content)
    response = ask(f"/pipelines/{PIPELINE}/checkpoints/1/_metadata")
    assert (response.status_code, response.text) == (200, content)
    assert "attachment" in response.headers["content-disposition"]
    where.unlink()
    where.symlink_to("/etc/passwd")
    refused = ask(f"/pipelines/{PIPELINE}/checkpoints/1/_metadata")
    assert refused.status_code == 404
    assert "root:" not in refused.text


def test_the_description_names_every_route(ask) -> None:
    from tidegate.ui.actions import action_routes
    from tidegate.ui.api import api_routes
    from tidegate.ui.events import event_routes

    described = ask("/openapi.json").json()
    paths = {route.path for route in [*api_routes.routes, *event_routes.routes, *action_routes.routes]}
    assert set(described["paths"]) == paths - {"/api/v1/openapi.json"}
    assert described["servers"] == [{"url": "/tidegate"}]


def test_every_answer_of_a_pipeline_that_has_everything_is_as_described(ask, store, tmp_path) -> None:
    storage = MemoryStorage()
    flights = ShownPipeline(store, storage, hold_for="2 h", text=HOSTILE.replace("/", ""))
    flights.take(2)
    flights.complete(request="by-hand", kind=CheckpointKind.SAVEPOINT, name="before", note="for the auditors")
    flights.coordinator.operations.holds.approve(flights.hold(), "eve")
    with store.transaction(flights.name) as tx:
        tx.record_dag("hourly", flights.clock.now())
        tx.record_restore(1, flights.clock.now())
    schedule("hourly", flights.clock.now())
    for path, content in storage.files.items():
        if path.endswith("_metadata"):
            (tmp_path / "checkpoints" / path).parent.mkdir(parents=True)
            (tmp_path / "checkpoints" / path).write_bytes(content)
    paths = [f"/pipelines/flight_delays{path}" for path in OF_PIPELINE]
    more = ("/checkpoints/3", "/checkpoints/4", "/quality?target=sink:late_flights&suite=late flights", "/audit")
    for path in (*paths, *(f"/pipelines/flight_delays{each}" for each in more), "/pipelines", "/token"):
        assert ask(path).status_code == 200, path


def test_what_is_not_as_described_is_noticed(get, token, described, past) -> None:
    path = f"{API}/pipelines/{PIPELINE}/checkpoints/1"
    answer = get(path, token=token("viewer")).json()
    assert described.wrong(path_of(path), answer) == []
    tasks = answer["tasks"]
    for wrong in ({"more": 1}, {"id": "1"}, {"status": "DONE"}, {"tasks": {"a": {}}}, {"phases": [{"phase": "x"}]},
                  {"tasks": {**tasks, "source": {**tasks["source"], "summary": {}}}}, {"dag_run": {}}):  # fmt: skip
        assert described.wrong(path_of(path), answer | wrong), wrong
    for missing in answer:
        assert described.wrong(path_of(path), {name: answer[name] for name in answer if name != missing}), missing


def test_each_route_says_which_fields_its_answer_has(get, token) -> None:
    document = get(f"{API}/openapi.json", token=token("viewer")).json()
    untyped = set()
    for path, operations in document["paths"].items():
        for operation in operations.values():
            for content in operation["responses"]["200"].get("content", {"": {}}).values():
                if not {"$ref", "anyOf", "items"} & content.get("schema", {}).keys():
                    untyped.add(path.removeprefix("/api/v1"))
    one = "/pipelines/{pipeline}"
    assert untyped == {"/events", f"{one}/events", f"{one}/checkpoints/{{checkpoint}}/_metadata"}


def test_a_database_that_is_away_is_said(ask, past, postgres_server, monkeypatch, plugin) -> None:
    assert ask("/pipelines").status_code == 200
    from tidegate.protocol.facts.errors import StoreUnavailableError

    def lost(*_: object) -> None:
        raise StoreUnavailableError("The database is away.")

    monkeypatch.setattr(plugin._app().state.asking, "readings", lost)
    response = ask("/pipelines")
    assert (response.status_code, response.json()) == (503, {"errors": ["The database is away."]})


@pytest.mark.parametrize("path", OF_PIPELINE)
def test_every_answer_is_json_that_no_cache_keeps(ask, past, path) -> None:
    response = ask(f"/pipelines/{PIPELINE}{path}")
    assert response.status_code == 200
    response.json()
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-content-type-options"] == "nosniff"
