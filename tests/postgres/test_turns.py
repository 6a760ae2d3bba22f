"""Starters and stoppers of an embedded server take turns, and one that is stopped holds up nobody for ever."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.embedded_postgres import turns
from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.protocol.facts.errors import StoreUnavailableError

#: Starts to stop the server, and has the lock when it comes to the point.
HOLDER = """
import os, signal, sys
from pathlib import Path
from tidegate.embedded_postgres import server as embedded
class Held(embedded.EmbeddedPostgres):
    def _settled(self):
        print("there", flush=True)
        if sys.argv[2] == "stopped":
            os.kill(os.getpid(), signal.SIGSTOP)
        else:
            sys.stdin.read()
        return super()._settled()
Held(Path(sys.argv[1])).stop()
"""


@pytest.fixture(params=["stopped", "waiting"])
def holder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "postgres"), request.param]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "there\n"
            if request.param == "stopped":
                os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
            yield process
        finally:
            process.kill()


def test_whoever_waits_too_long_gets_an_error_that_names_the_holder(holder, request, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(turns, "PATIENCE", 0.5)
    server, pid = EmbeddedPostgres(tmp_path / "postgres"), holder.pid
    is_stopped = request.node.callspec.params["holder"] == "stopped"
    who = f"by process {pid}, which is stopped" if is_stopped else f"by process {pid}\\."
    what = f"`kill -CONT {pid}`.*`kill -KILL {pid}`" if is_stopped else f"`kill {pid}`"
    for act in (server.start, server.stop):
        with pytest.raises(StoreUnavailableError, match=f"held for more than 0 seconds {who}.*{what}, then repeat"):
            act()
    if is_stopped:
        os.kill(pid, signal.SIGCONT)
    holder.stdin.close()
    assert holder.wait(60) == 0
    server.stop()


def test_one_that_is_killed_gives_its_turn_back(holder, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(turns, "PATIENCE", 5.0)
    holder.kill()
    holder.wait(60)
    EmbeddedPostgres(tmp_path / "postgres").stop()
    assert (tmp_path / "postgres" / "lock").read_text() == f"{os.getpid()}\n"
