"""Pytest plugin: one Spark session for all tests of a run, and a Spark Connect server for those that ask."""

import logging
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from quick_daemon import SERVER
from shared import end_process_group, place_of_all_lanes, shared

from tidegate.spark.session.connect_server import TOKEN
from tidegate.spark.session.sessions import SparkSettings, open_session

SUPPORT = str(Path(__file__).parent)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A classic session on two cores, set up as a region's own; a Spark task that fails is tried once more."""
    conf = {"spark.driver.memory": "1g", "spark.log.level": "OFF"}
    session = open_session(SparkSettings(master="local[2,2]", conf=conf))
    logging.getLogger("py4j").setLevel(logging.ERROR)  # it logs while the interpreter ends
    yield session
    stop_with_java(session)


def stop_with_java(session: SparkSession) -> None:
    """A session's JVM would go on for as long as this process does."""
    gateway = SparkContext._gateway
    session.stop()
    gateway.shutdown()  # objects that are collected later are no longer announced to Java
    gateway.proc.stdin.close()
    gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None


@pytest.fixture(scope="session")
def connect_server(tmp_path_factory: pytest.TempPathFactory, quick_python: list[str]) -> Iterator[str]:
    """The address of a Spark Connect server, which all lanes share."""
    base = place_of_all_lanes(tmp_path_factory)

    def start() -> dict[str, Any]:
        return _start_server(base / "connect", quick_python[-1])

    with shared(base / "connect.json", start, end_process_group) as known:
        yield known["address"]


#: What this lane has started, and perhaps another one ends.
_STARTED: list["subprocess.Popen[bytes]"] = []


def _start_server(home: Path, python: str) -> dict[str, Any]:
    """Ours, in a process group of its own, on a free loopback port. `python`: the address of what its daemons come
    from."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home.mkdir(exist_ok=True)
    token = secrets.token_urlsafe(16)
    # As ours has it, but forked. A server without it, as users' are, is in spark/test_connect.py.
    daemon = "spark.python.daemon.module=quick_daemon"
    command = [sys.executable, "-m", "tidegate.spark.session.connect_server", "--port", str(port)]
    command += ["--directory", str(home / "private"), "--conf", "spark.driver.memory=1g", "--conf", daemon]
    environment = {
        **os.environ,
        TOKEN: token,
        "PYTHONPATH": os.pathsep.join([SUPPORT, *filter(None, [os.environ.get("PYTHONPATH")])]),
        SERVER: python,
    }
    with (home / "server.log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=home, start_new_session=True)
    _wait_for(port, server, home / "server.log")
    _STARTED.append(server)
    return {"address": f"sc://localhost:{port}/;token={token}", "pid": server.pid}


def _wait_for(port: int, server: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()[-3000:]
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise TimeoutError(log.read_text()[-3000:])
