"""A run of tests leaves nothing behind: what a test forgot is an error of the run,
and what was killed is cleared up."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from sizes import later

PROJECT = Path(__file__).parents[2]
BEGUN_BY = {
    "pytest": [sys.executable, "-m", "pytest"],
    "make": [
        "make",
        "-f",
        str(PROJECT / "Makefile"),
        f"BIN={Path(sys.executable).parent}",
        "INSTALLED=installed",
        "test",
    ],
}

#: A process with a session and an environment of its own, as servers have; and a file.
FORGETFUL = """
import os, subprocess, sys, tempfile, time

def test_forgets():
    home = tempfile.mkdtemp(prefix="tidegate-")
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    server = subprocess.Popen(command, start_new_session=True, env={}, cwd=home)
    print(f"left {home} {server.pid}", flush=True)
    time.sleep(float(os.environ["FORGETFUL_STAYS"]))
"""


class Run:
    """A run of the forgetful test, until it has left something behind."""

    def __init__(self, directory: Path, begun_by: str, stays: float) -> None:
        (directory / "test_forgetful.py").write_text(FORGETFUL)
        for needed in ("requirements.txt", "pyproject.toml", "installed"):  # by the rule that installs
            (directory / needed).touch()
        options = ["-p", "undertaker", "-p", "no:cacheprovider", "-s", "test_forgetful.py"]
        self.process = subprocess.Popen(
            [*BEGUN_BY[begun_by], *([f"ARGS={' '.join(options)}"] if begun_by == "make" else options)],
            env={**os.environ, "PYTHONPATH": str(PROJECT / "tests/support"), "FORGETFUL_STAYS": str(stays)}
            | {"UNDERTAKER_GRACE": "1"},
            cwd=directory,
            text=True,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        self.output = self.process.stdout
        line = next(line for line in self.output if "left " in line)
        home, pid = line.rpartition("left ")[2].split()
        self.left_file, self.left_process = Path(home), int(pid)

    def assert_all_is_gone(self) -> None:
        deadline = time.monotonic() + 60
        while self.left_file.parents[1].exists() or psutil.pid_exists(self.left_process):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_what_a_test_leaves_behind_is_an_error_of_the_run(tmp_path: Path) -> None:
    run = Run(tmp_path, "pytest", stays=0)
    printed, _ = run.process.communicate()
    assert run.process.returncode == 1
    assert "1 passed, 1 error" in printed.splitlines()[-1]
    assert f"process {run.left_process}" in printed
    assert f"file {run.left_file.name}" in printed
    run.assert_all_is_gone()


@pytest.mark.parametrize(
    ("begun_by", "number"),
    [
        ("pytest", signal.SIGKILL),
        ("make", signal.SIGTERM),
        later("pytest", signal.SIGTERM),
        later("make", signal.SIGKILL),
    ],
)
def test_a_run_that_is_ended_from_outside_leaves_nothing(begun_by: str, number: signal.Signals, tmp_path: Path) -> None:
    run = Run(tmp_path, begun_by, stays=600)
    run.process.send_signal(number)
    run.process.communicate()
    run.assert_all_is_gone()
