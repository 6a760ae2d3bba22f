"""The reports of checkpoints, served behind Airflow's login."""

import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from fastapi.routing import APIRoute
from routes import asked_of, example_of
from shown_pipelines import HOSTILE, ShownPipeline
from worlds import MemoryStorage

from tidegate.ui.urls import docs_url

Get = Callable[..., httpx.Response]
Token = Callable[[str | None], str]
REPORT = "/tidegate/docs/flight_delays/chk-7/index.html"


def test_no_route_answers_without_a_login(get: Get, docs: Path) -> None:
    """Also one that is added later: it is found in the app's own list."""
    from tidegate.ui.app import create_app

    routes = create_app(docs).routes
    assert routes
    for route in routes:
        assert isinstance(route, APIRoute), f"{route} is not behind the app's dependencies"
        path = example_of(route)
        response = get(f"/tidegate{path}", **asked_of(route, ""))
        assert response.status_code == 401, path
        assert "negative" not in response.text


@pytest.mark.parametrize("role", ["viewer", "admin"])
def test_who_may_read_the_dag_reads_the_report(get: Get, token: Token, role: str) -> None:
    response = get(REPORT, token=token(role))
    assert (response.status_code, response.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "minutes must not be negative" in response.text


def test_the_login_cookie_of_a_browser_is_enough(get: Get, token: Token) -> None:
    assert get(REPORT, cookie=token("viewer")).status_code == 200


def test_a_user_without_a_role_is_refused(get: Get, token: Token) -> None:
    assert get(REPORT, token=token(None)).status_code == 403


def test_a_forged_token_is_refused(get: Get, token: Token) -> None:
    header, _, signature = token("admin").split(".")
    _, claims, _ = token("viewer").split(".")
    assert get(REPORT, token=f"{header}.{claims}.{signature}").status_code == 401


def test_the_page_may_run_nothing_load_nothing_and_stay_in_no_shared_cache(get: Get, token: Token) -> None:
    headers = get(REPORT, token=token("viewer")).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert "frame-ancestors 'self'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "private, no-cache"


@pytest.mark.parametrize(
    "path",
    [
        "flight_delays/chk-9/index.html",  # no such checkpoint
        "flight_delays/chk-x/index.html",
        "flight_delays/chk-7/",
        "flight_delays/chk-7/notes.bin",
        "flight_delays/chk-7/link.html",  # a link out of the root
        "flight_delays/chk-8/secret.html",  # below a directory that is a link out of the root
        "flight_delays/chk-7/%2e%2e",
        "flight_delays/chk-7/..%2f..%2f..%2fsecret.html",
        "flight_delays/chk-7/%2e%2e/%2e%2e/%2e%2e/secret.html",
        "flight_delays/chk-7/..%5c..%5csecret.html",
        "%2e%2e/chk-7/secret.html",
        "..%2fdocs%2fflight_delays/chk-7/index.html",
        "flight_delays/chk-7/index.html%00.png",
        "flight_delays/chk-7/%2fetc%2fpasswd",
        "flight_delays/chk-7/.hidden.html",
        f"flight_delays/chk-7/{'x' * 300}.html",  # longer than a name may be in a file system
        f"{'x' * 300}/chk-7/index.html",
        f"{'x' * 5000}/chk-7/index.html",  # longer than a path may be
        f"flight_delays/chk-{'9' * 5000}/index.html",  # more digits than Python makes a number of
        "flight_delays/chk-%d9%a7/index.html",  # a digit, but not one of ours
        "flight_delays/chk-7/%ff%fe.html",  # not UTF-8
        "flight_delays/chk-7/%00.html",
        "flight_delays%00/chk-7/index.html",
        "flight_delays/chk-7/circle.html",  # links that lead in a circle
        "flight_delays/chk-7/folder.html",
    ],
)
def test_whatever_is_not_a_report_is_not_found(get: Get, token: Token, path: str) -> None:
    response = get(f"/tidegate/docs/{path}", token=token("admin"))
    assert response.status_code == 404
    assert "secret" not in response.text


def test_the_apis_own_open_pages_are_left_out(get: Get) -> None:
    for path in ("docs", "redoc", "openapi.json"):
        assert get(f"/tidegate/{path}").status_code == 404


def test_a_link_leads_to_the_report_that_is_served(get: Get, token: Token) -> None:
    assert docs_url("flight_delays/chk-7/index.html") == REPORT
    assert get(docs_url("flight_delays/chk-7/index.html"), token=token("viewer")).status_code == 200


def test_a_link_keeps_the_path_that_airflow_is_served_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://example.org/airflow/")
    assert docs_url("flight_delays/chk-7/index.html") == f"/airflow{REPORT}"


def test_loading_the_plugin_imports_no_web_app_and_nothing_heavy(tmp_path: Path) -> None:
    program = (
        "import sys; import airflow.plugins_manager; before = set(sys.modules);"
        "import tidegate.airflow.plugin; new = set(sys.modules) - before;"
        "bad = [m for m in new if m.split('.')[0] in ('pyspark', 'pandas', 'great_expectations', 'fastapi')];"
        "sys.exit(str(bad + [m for m in new if m == 'tidegate.ui.app']) if bad or 'tidegate.ui.app' in new else 0)"
    )
    environment = {"AIRFLOW_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120, env=environment)


def test_a_report_says_what_a_person_has_decided(get: Get, token: Token, docs: Path, store) -> None:
    flights = ShownPipeline(store, MemoryStorage(), hold_for="2 h", ago=timedelta(minutes=30))
    held = flights.hold()
    report = f"/tidegate/docs/flight_delays/chk-{held}/index.html"
    page = docs / "flight_delays" / f"chk-{held}" / "index.html"
    page.parent.mkdir()
    page.write_text("<!DOCTYPE html><h1>flight_delays</h1><h1>again</h1>")
    (page.parent / "other.html").write_text("<h1>other</h1>")

    def shown(name: str = report) -> str:
        return get(name, token=token("viewer")).text

    assert "UTC. No decision was made yet.</strong></p><h1>again" in shown()
    flights.coordinator.operations.holds.approve(held, "eve <b>", HOSTILE)
    text = shown()
    assert "Approved by eve &lt;b&gt; at " in text
    assert text.count("<h1>") == 2
    assert "<script>" not in text
    assert shown(report.replace("index", "other")) == "<h1>other</h1>"
    quality = get("/tidegate/api/v1/pipelines/flight_delays/quality?target=sink:late_flights&suite=late flights",
                  token=token("viewer")).json()["verdicts"][0]["hold"]  # fmt: skip
    assert (quality["decision"], quality["decided_by"], quality["waits"]) == ("APPROVED", "eve <b>", False)
    for path in ("quality", f"checkpoints/{held}"):
        assert (
            "Approved by eve &lt;b&gt;" in get(f"/tidegate/pipelines/flight_delays/{path}", token=token("viewer")).text
        )
