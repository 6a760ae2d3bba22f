"""A REST catalog of Iceberg tables in a process of its own, as pyiceberg's configuration names it."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from object_stores import wait_for_port
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table

SERVER = Path(__file__).with_name("rest_server.py")
#: The commit of several tables, and of one, as faults are ordered for them.
TOGETHER, ALONE = "POST /v1/lake/transactions/commit", "POST /v1/lake/namespaces/"


class RestCatalogServer:
    """`name`: as the configuration calls it."""

    name = "lake"

    def __init__(self, directory: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._directory = directory
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        log = self._directory / "rest.log"
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, str(SERVER), str(self.port), str(self._directory / "catalog.db")],
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        wait_for_port(self.port, self._process, log)

    def stop(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def say(self, **given: Any) -> None:
        """`token` that is asked for; whether several tables can be committed `together`."""
        ordered = urllib.request.Request(f"{self.url}/said", json.dumps(given).encode(), method="PUT")
        ordered.add_header("Content-Type", "application/json")
        urllib.request.urlopen(ordered, timeout=30).close()

    def fault(self, request: str, status: int = 0, when: str = "before", times: int = 1, **given: Any) -> None:
        """Without a status, the connection breaks."""
        self.say(faults=[{"request": request, "status": status, "when": when, "times": times, **given}])

    def commits(self) -> list[list[str]]:
        """Of each commit, the tables that it changed."""
        with urllib.request.urlopen(f"{self.url}/said", timeout=30) as answered:
            found: list[list[str]] = json.load(answered)["commits"]
            return found

    def table(self, name: str) -> Table:
        catalog = RestCatalog(self.name, uri=self.url)
        try:
            return catalog.load_table(name)
        finally:
            catalog.close()

    def rows(self, name: str) -> list[dict[str, Any]]:
        return self.table(name).scan().to_arrow().to_pylist()

    def values(self, name: str) -> list[Any]:
        return sorted(row["v"] for row in self.rows(name))


@contextmanager
def rest_catalog(directory: Path) -> Iterator[RestCatalogServer]:
    server = RestCatalogServer(directory)
    try:
        yield server
    finally:
        server.stop()
