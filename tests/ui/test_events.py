"""Server-sent events over a real server: what changed, for whom, and an end that holds up nobody."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import httpx
import pytest
from sqlalchemy import make_url, text
from store_steps import PIPELINE, triggered

from tidegate.postgres.engine import connect
from tidegate.reading.changes import Changes
from tidegate.ui.events import events

PATIENCE = 30.0
BROWSERS = 50
#: Connections to the database: the one that listens, the server's pool at its most, and the test's own.
MOST = 1 + 12 + 4
# The routes as they are, without the login, as the app inside another one that Airflow's server has.
SERVER = """
    import sys

    import uvicorn
    from fastapi import FastAPI

    from tidegate.assembly import open_readings
    from tidegate.ui.asking import Asking
    from airflow.api_fastapi.core_api.security import get_user
    from tidegate.ui.events import event_routes

    inner, outer = FastAPI(), FastAPI()
    inner.state.asking = Asking(open_readings)
    inner.include_router(event_routes)
    inner.dependency_overrides[get_user] = lambda: None
    outer.mount("/tidegate", inner)
    uvicorn.run(outer, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
"""


@pytest.fixture
def server(running_url: str, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {**os.environ, "TIDEGATE_DATABASE_URL": running_url, "AIRFLOW_HOME": str(tmp_path)}
    program = textwrap.dedent(SERVER)
    process = subprocess.Popen([sys.executable, "-c", program, str(port)], env=environment)
    url = f"http://127.0.0.1:{port}/tidegate/api/v1/pipelines/{PIPELINE}/events"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.1)
    yield process, url
    if process.poll() is None:
        process.kill()
    process.wait()


def test_fifty_browsers_hear_of_a_commit_over_one_connection_and_the_server_stops_at_once(
    server, store, running_url
) -> None:
    process, url = server
    triggered(store)

    async def follow(client: httpx.AsyncClient, listening: asyncio.Event) -> None:
        """Hears of one commit, and stays until the server ends the answer."""
        async with client.stream("GET", url) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            assert response.headers["x-accel-buffering"] == "no"
            lines = response.aiter_lines()
            assert await anext(lines) == "event: back"
            listening.set()
            while await anext(lines) != "event: changed":
                pass
            heard.append(await anext(lines))
            if len(heard) == BROWSERS:
                process.send_signal(signal.SIGTERM)
            async for _ in lines:
                pass

    async def work() -> None:
        limits = httpx.Limits(max_connections=BROWSERS)
        async with httpx.AsyncClient(timeout=PATIENCE, limits=limits) as client:
            listening = [asyncio.Event() for _ in range(BROWSERS)]
            following = [asyncio.create_task(follow(client, event)) for event in listening]
            await asyncio.gather(*(event.wait() for event in listening))
            assert await asyncio.to_thread(connections, running_url, "LISTEN%") == 1
            assert await asyncio.to_thread(connections, running_url) <= MOST
            await asyncio.to_thread(triggered, store)
            await asyncio.gather(*following)

    heard: list[str] = []
    asyncio.run(asyncio.wait_for(work(), 2 * PATIENCE))
    assert [json.loads(data.removeprefix("data: ")) for data in heard] == [{"pipelines": [PIPELINE]}] * BROWSERS
    assert process.wait(PATIENCE) in (0, -signal.SIGTERM)


def connections(url: str, last: str = "%") -> int:
    """Those to the database whose last statement was such a one."""
    engine = connect(make_url(url))
    try:
        with engine.connect() as connection:
            question = """
                SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND query LIKE :last AND pid <> pg_backend_pid()
            """
            return int(connection.execute(text(question), {"last": last}).scalar_one())
    finally:
        engine.dispose()


def test_only_what_may_be_read_is_told(running_url, store) -> None:
    engine = connect(make_url(running_url))
    changes = Changes(engine)

    async def work() -> list[str]:
        async with aclosing(events(changes, lambda name: name == "mine")) as stream:
            found = [await anext(stream)]
            await asyncio.to_thread(triggered, store, pipeline_id="theirs")
            await asyncio.to_thread(triggered, store, pipeline_id="mine")
            found.append(await anext(stream))
        return found

    try:
        first, second = asyncio.run(asyncio.wait_for(work(), PATIENCE))
    finally:
        changes.close()
        engine.dispose()
    assert first.startswith("event: back\n")
    assert second == 'event: changed\ndata: {"pipelines": ["mine"]}\n\n'


def test_an_answer_ends_after_a_while_so_that_rights_are_looked_at_anew(running_url, monkeypatch) -> None:
    monkeypatch.setattr("tidegate.ui.events.LONGEST", 0.2)
    engine = connect(make_url(running_url))
    changes = Changes(engine)

    async def work() -> int:
        return len([event async for event in events(changes, lambda name: True, heartbeat=0.05)])

    try:
        assert asyncio.run(asyncio.wait_for(work(), PATIENCE)) >= 2
    finally:
        changes.close()
        engine.dispose()
