"""`tidegate ui`: the pages on this machine, for whoever has the address that it printed, and for nobody else."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from getpass import getuser
from socket import gethostname
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import httpx
import pytest
from commands import environment_of
from shown_pipelines import ShownPipeline
from worlds import MemoryStorage


class Started:
    def __init__(self, address: str) -> None:
        self.address = address
        parts = urlsplit(address)
        self.site = f"http://{parts.netloc}"
        self.token = parse_qs(parts.query)["token"][0]


@pytest.fixture
def started(store, running_url, tmp_path) -> Iterator[Started]:
    ShownPipeline(store, MemoryStorage()).take(1)
    environment = environment_of(tmp_path, running_url) | {"AIRFLOW_HOME": str(tmp_path / "airflow")}
    command = [sys.executable, "-m", "tidegate.cli.main", "ui"]
    process = subprocess.Popen(
        command,
        env={**os.environ, **environment},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    yield Started(process.stdout.readline().strip())
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert "Ctrl-C" in said
    assert "Traceback" not in said
    assert not (tmp_path / "airflow").exists()  # it is not even imported


def test_whoever_has_the_address_gets_in_and_the_token_leaves_it(started):
    with httpx.Client(follow_redirects=True) as browser:
        page = browser.get(started.address)
        assert (page.status_code, page.url) == (200, httpx.URL(f"{started.site}/"))
        assert "flight_delays" in page.text
        assert started.token not in page.text
        assert browser.get(f"{started.site}/pipelines/flight_delays").status_code == 200
        with browser.stream("GET", f"{started.site}/api/v1/events") as events:
            assert next(events.iter_lines()) == "event: back"
    entered = httpx.get(f"{started.site}/pipelines/flight_delays/history?status=FAILED&token={started.token}")
    assert (entered.status_code, entered.headers["location"]) == (303, "/pipelines/flight_delays/history?status=FAILED")
    cookie = entered.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


def test_nobody_else_gets_in(started):
    for path in ("/", "/pipelines/flight_delays", "/api/v1/pipelines", "/api/v1/events", "/static/menu/menu.svg"):
        assert httpx.get(f"{started.site}{path}").status_code == 401, path
        assert httpx.get(f"{started.site}{path}", params={"token": started.token[:-1]}).status_code == 401, path
        cookies = {f"tidegate_{urlsplit(started.site).port}": "x"}
        assert httpx.get(f"{started.site}{path}", cookies=cookies).status_code == 401, path
    assert "Open the address that `tidegate ui` printed" in httpx.get(f"{started.site}/").text.replace("&#96;", "`")
    bearer = {"Authorization": f"Bearer {started.token}"}
    assert httpx.get(f"{started.site}/api/v1/pipelines", headers=bearer).status_code == 200


def test_what_its_user_does_by_hand_is_on_record_with_the_user_of_this_machine(started):
    below = "/api/v1/pipelines/flight_delays"
    with httpx.Client(base_url=started.site) as browser:
        browser.get(started.address)
        body = {"request_id": str(uuid4())}
        assert browser.post(f"{below}/suspend", json=body).status_code == 403
        header = {"Tidegate-Token": browser.get("/api/v1/token").json()["token"]}
        assert started.token not in header.values()
        elsewhere = header | {"Origin": "http://127.0.0.1:1"}
        assert browser.post(f"{below}/suspend", json=body, headers=elsewhere).status_code == 403
        done = browser.post(f"{below}/suspend", json=body, headers=header | {"Origin": started.site})
        assert (done.status_code, done.json()["sentence"]) == (200, "Pipeline flight_delays is SUSPENDED.")
        (audited,) = browser.get(f"{below}/audit").json()["audit"]
    assert audited["actor"] == {"kind": "CLI_USER", "name": getuser(), "origin": gethostname()}


def test_a_name_of_another_site_leads_nowhere(started):
    """A page of that site could otherwise read what this server answers."""
    for host in ("attacker.example", f"attacker.example:{urlsplit(started.site).port}"):
        answer = httpx.get(started.address, headers={"Host": host})
        assert answer.status_code == 421
        assert "set-cookie" not in answer.headers
