"""`tidegate watch` as a user asks for it: once for cron, and in the foreground, with a real webhook."""

import json
import signal
import subprocess
import sys
import time

import pytest
from commands import CommandHere, environment_of
from receivers import receiving

from tidegate.assembly import open_coordinator
from tidegate.cli.exit_codes import ExitCode
from tidegate.protocol.facts.reasons import FailureReason

PROJECT = """
[tool.tidegate.pipelines]
p = "watched:pipeline"
"""
WATCHED = """
from worlds import MemorySink, small_pipeline
from tidegate.pipeline.config import CheckpointConfig

pipeline = small_pipeline(MemorySink())
pipeline.checkpoints = CheckpointConfig(stale_after="2 s")
"""


@pytest.fixture
def project(tmp_path, postgres_url, monkeypatch):
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "watched.py").write_text(WATCHED)
    for name, value in environment_of(tmp_path, postgres_url).items():
        monkeypatch.setenv(name, value)
    return environment_of(tmp_path, postgres_url)


@pytest.fixture
def coordinator(project):
    from worlds import MemorySink, small_pipeline

    return open_coordinator(small_pipeline(MemorySink()))


def test_one_look_has_an_exit_code_of_its_own_when_something_is_not_well(project, tmp_path, coordinator):
    here = CommandHere(tmp_path, project)

    def look(code):
        ended = here("watch", "--once", "-o", "json")
        assert ended.returncode == code, ended.stderr
        (health,) = json.loads(ended.stdout)
        return health

    assert look(ExitCode.OK)["status"] == "CREATED"
    coordinator.trigger("a")
    assert look(ExitCode.OK)["well"] is True
    coordinator.abort(1, FailureReason.TASK_FAILURE, "gone")
    failed = look(ExitCode.UNWELL)
    assert (failed["stale"], failed["failed_checkpoint"], failed["failure_reason"]) == (False, 1, "TASK_FAILURE")
    time.sleep(2.1)
    stale = look(ExitCode.UNWELL)
    assert stale["stale"] is True
    assert stale["stale_since_timestamp"] > 0
    assert "It is stale since" in stale["summary"]
    table = here("watch", "--once", "p")
    assert (table.returncode, "no" in table.stdout) == (ExitCode.UNWELL, True)


def test_it_says_what_to_watch(project, tmp_path):
    (tmp_path / "pyproject.toml").write_text("")
    ended = CommandHere(tmp_path, project)("watch", "--once")
    assert ended.returncode == ExitCode.USAGE
    assert "No pipeline was given" in ended.stderr


@pytest.mark.parametrize("signal_", [signal.SIGINT, signal.SIGTERM])
def test_in_the_foreground_it_tells_what_happens_and_when_time_passes_until_it_is_ended(
    project, tmp_path, coordinator, signal_
):
    with receiving() as receiver:
        watching = subprocess.Popen(
            [sys.executable, "-m", "tidegate.cli.main", "watch"], cwd=tmp_path, stderr=subprocess.PIPE, text=True,
            env=project | {"TIDEGATE_WEBHOOK_URL": f"{receiver.url}/hidden", "TIDEGATE_WEBHOOK_SECRET": "very secret"},
        )  # fmt: skip
        try:
            assert "Watching p." in watching.stderr.readline()
            coordinator.trigger("a")
            coordinator.abort(1, FailureReason.TASK_FAILURE, "gone")
            kinds = _until(receiver, 2)
        finally:
            watching.send_signal(signal_)
            said = watching.communicate(timeout=30)[1]
    assert kinds == ["CHECKPOINT_FAILED", "PIPELINE_STALE"]
    assert watching.returncode == 0
    assert "Checkpoint 1 failed, TASK_FAILURE" in said
    assert "It is stale since" in said
    assert "hidden" not in said
    assert "very secret" not in said


def _until(receiver, number):
    deadline = time.monotonic() + 60
    while len(receiver.requests) < number and time.monotonic() < deadline:
        time.sleep(0.05)
    return [json.loads(request.body)["event"] for request in receiver.requests]
