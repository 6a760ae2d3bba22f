"""Pytest plugin: whatever a run starts or writes aside goes with it, however the run ends,
and is reported if a test left it.

A run has one temporary directory, and everything below it is found by it: processes have it in their environment, in
their command line or as their directory. A process beside the run waits for its end and clears up what is there then.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

#: Seconds that processes have, at the end of the run, to end by themselves:
#: helpers that notice that their parent is gone.
_GRACE = float(os.environ.get("UNDERTAKER_GRACE", "30"))
_SIGNAL_WHEN_PARENT_DIES = 1  # PR_SET_PDEATHSIG of prctl(2)


def pytest_configure(config: pytest.Config) -> None:
    """In the process that leads the run; its lanes inherit the directory."""
    if hasattr(config, "workerinput"):
        return
    if "MAKELEVEL" in os.environ:  # SIGKILL of make is not passed on
        ctypes.CDLL(None).prctl(_SIGNAL_WHEN_PARENT_DIES, signal.SIGTERM)
    # What failed tests leave in their own directories stays, to be looked at.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    home = Path(tempfile.mkdtemp(prefix="tidegate-tests-"))
    home.chmod(0o755)  # as root, an embedded Postgres runs as another user
    directory = home / "tmp"
    directory.mkdir()
    directory.chmod(0o1777)
    os.environ["TMPDIR"] = tempfile.tempdir = str(directory)
    undertaker = subprocess.Popen(
        [sys.executable, __file__, str(home)], stdin=subprocess.PIPE, start_new_session=True, cwd="/"
    )
    config.stash[_RUN] = (home, undertaker)


_RUN = pytest.StashKey[tuple[Path, "subprocess.Popen[bytes]"]]()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """After the lanes have ended: what is left is an error of the run."""
    if _RUN not in session.config.stash:
        return
    home, undertaker = session.config.stash[_RUN]
    processes = _after_grace(home, {undertaker.pid, os.getpid()})
    files = [each.name for each in (home / "tmp").iterdir() if _is_of_a_test(each.name)]
    if left := [f"process {each}" for each in processes] + [f"file {name}" for name in files]:
        _report(session, left)


def _is_of_a_test(name: str) -> bool:
    """Not what Spark leaves where a test has killed it, nor a killed driver's scratch directory,
    which the next start removes."""
    return name.startswith("tidegate-") and not name.startswith("tidegate-scratch-")


def pytest_unconfigure(config: pytest.Config) -> None:
    if _RUN in config.stash:
        undertaker = config.stash[_RUN][1]
        undertaker.communicate()


def _report(session: pytest.Session, left: Sequence[str]) -> None:
    message = "Tests left behind, and it was cleared up:\n" + "\n".join(left)
    reporter: Any = session.config.pluginmanager.getplugin("terminalreporter")
    report = pytest.TestReport("the end of the run", ("", None, ""), {}, "failed", message, "teardown")
    reporter.stats.setdefault("error", []).append(report)
    session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _after_grace(home: Path, own: set[int]) -> list[str]:
    """What still runs, with its command, after those that end by themselves have done so."""
    deadline = time.monotonic() + _GRACE
    while (found := _belonging(home, own)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return [f"{process.pid}: {' '.join(_ask(process.cmdline) or ())[:300]}" for process in found]


def _belonging(home: Path, but: set[int]) -> list[psutil.Process]:
    """Everything live that the run has started, and what that has started in turn: some hide their environment."""
    everybody = {process.pid: process for process in psutil.process_iter() if process.pid not in but}
    found = {pid for pid, process in everybody.items() if _is_of(process, home)}
    sessions = {_session_of(pid) for pid in found}
    found |= {pid for pid in everybody if _session_of(pid) in sessions & found}
    for pid in tuple(found):
        found |= {child.pid for child in _ask(lambda pid=pid: everybody[pid].children(recursive=True)) or ()}
    return [each for pid, each in everybody.items() if pid in found and _ask(each.status) != psutil.STATUS_ZOMBIE]


def _is_of(process: psutil.Process, home: Path) -> bool:
    return (
        (_ask(process.environ) or {}).get("TMPDIR") == str(home / "tmp")
        or any(str(home) in word for word in _ask(process.cmdline) or ())
        or (_ask(process.cwd) or "").startswith(str(home))
    )


def _ask(ask: Any) -> Any:
    """What a process says of itself; nothing where it is gone or does not say."""
    with suppress(psutil.Error, OSError):
        return ask()
    return None


def _session_of(pid: int) -> int:
    with suppress(OSError):
        return os.getsid(pid)
    return 0


def _bury(home: Path) -> None:
    """Waits for the end of its input: the run closes it, or dies and so does."""
    sys.stdin.read()
    for _ in range(2):  # a process that is being replaced by another program shows neither's words for a moment
        while found := _belonging(home, {os.getpid()}):
            for process in found:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(found, timeout=1.0)
        time.sleep(0.2)
    shutil.rmtree(home)


if __name__ == "__main__":
    _bury(Path(sys.argv[1]))
