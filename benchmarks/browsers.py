"""Many browsers on one server: what each commit costs it, and how long the browsers wait for their page.

The server is a process of its own, over HTTP. A browser is played here, as `static/live.js` behaves: it hears events on
one connection, and asks for its page anew when its pipeline has changed, at most four times a second.
"""

import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import psycopg2
from many_checkpoints import LARGE

from tidegate.postgres.engine import database_url

#: Seconds between two questions of a browser, as in `static/live.js`; and between two commits.
APART, EVERY = 0.25, 1.0
_PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Watched:
    """`processor` is what the server used of one for each commit, in milliseconds; `median` and `longest` are from the
    commit to the whole page in the browser, in milliseconds. `listening` are the server's connections that listen."""

    browsers: int
    commits: int
    pages: int
    processor: float
    median: float
    longest: float
    connections: int
    listening: int


class Browser:
    def __init__(self, client: httpx.AsyncClient, page: str) -> None:
        self._client, self._page = client, page
        self.listens = asyncio.Event()
        self._changed = asyncio.Event()
        self.waited: list[float] = []
        self.since = 0.0  # the first commit that the page does not show yet

    async def hear(self) -> None:
        async with self._client.stream("GET", "/api/v1/events", timeout=None) as response:
            lines = response.aiter_lines()
            async for line in lines:
                if line == "event: back":
                    self.listens.set()
                elif line == "event: changed" and LARGE in json.loads((await anext(lines))[6:])["pipelines"]:
                    self._changed.set()

    async def follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            since, self.since = self.since, 0.0
            asked = time.perf_counter()
            (await self._client.get(self._page, headers={"Tidegate-Live": "1"}, timeout=_PATIENCE)).raise_for_status()
            if since:
                self.waited.append(time.perf_counter() - since)
            await asyncio.sleep(max(0.0, APART - (time.perf_counter() - asked)))


def watch(url: str, page: str, browsers: int, commits: int) -> Watched:
    """`browsers` that look at `page` while the pipeline changes `commits` times."""
    with _server(url) as (process, address):
        return asyncio.run(_watch(process, address, url, page, browsers, commits))


async def _watch(process: psutil.Process, address: str, url: str, page: str, number: int, commits: int) -> Watched:
    limits = httpx.Limits(max_connections=2 * number + 1, max_keepalive_connections=2 * number + 1)
    async with httpx.AsyncClient(base_url=address, limits=limits) as client:
        browsers = [Browser(client, page) for _ in range(number)]
        tasks = [asyncio.create_task(work) for each in browsers for work in (each.hear(), each.follow())]
        await asyncio.gather(*(each.listens.wait() for each in browsers))
        (await client.get(page, timeout=_PATIENCE)).raise_for_status()
        before = _processor(process)
        with closing(psycopg2.connect(_plain(url))) as connection:
            connection.autocommit = True
            for _ in range(commits):
                _commit(connection, browsers)
                await asyncio.sleep(EVERY)
            while any(each.since for each in browsers):
                await asyncio.sleep(0.01)
            used = _processor(process) - before
            connections, listening = _connections(connection)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    waited = [each for browser in browsers for each in browser.waited]
    return Watched(
        number, commits, len(waited), used / commits * 1000, statistics.median(waited) * 1000, max(waited) * 1000,
        connections, listening,
    )  # fmt: skip


def _commit(connection: "psycopg2.extensions.connection", browsers: list[Browser]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify('tidegate', %s)", [LARGE])  # as every transaction about it does
    now = time.perf_counter()
    for each in browsers:
        each.since = each.since or now


def _connections(connection: "psycopg2.extensions.connection") -> tuple[int, int]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*), count(*) FILTER (WHERE query LIKE 'LISTEN%%') FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name = 'tidegate'"
        )
        connections, listening = cursor.fetchone() or (0, 0)
    return int(connections), int(listening)


def _processor(process: psutil.Process) -> float:
    used = process.cpu_times()
    return float(used.user + used.system)


def _plain(url: str) -> str:
    return database_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


@contextmanager
def _server(url: str) -> Iterator[tuple[psutil.Process, str]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    program = [sys.executable, str(Path(__file__).with_name("page_app.py")), str(port)]
    process = subprocess.Popen(program, env={**os.environ, "TIDEGATE_DATABASE_URL": url})
    try:
        _wait_for(process, port)
        yield psutil.Process(process.pid), f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(_PATIENCE)


def _wait_for(process: "subprocess.Popen[bytes]", port: int) -> None:
    deadline = time.monotonic() + _PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("The server did not start.")
