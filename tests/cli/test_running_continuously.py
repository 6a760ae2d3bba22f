"""`tidegate run --continuous` in a process of its own, with other commands beside it,
and every way in which it ends."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from commands import Command, CommandHere, environment_of
from orders import Shop, check_tables

from tidegate import assembly
from tidegate.cli.exit_codes import ExitCode
from tidegate.protocol.facts.lifecycle import COMMITTED
from tidegate.protocol.facts.pipelines import PipelineStatus

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

#: Seconds for anything that a process does, on a busy machine.
PATIENCE = 240

PROJECT = """
[tool.tidegate.pipelines]
orders = "shop:pipeline"
unlucky = "shop:unlucky"
"""
SHOP = """
import os
from pathlib import Path
from orders import orders_pipeline
from tidegate import CheckpointConfig, FileSource, ParquetSink, Pipeline, expect, suite

home = Path(os.environ["TIDEGATE_HOME"])
pipeline = orders_pipeline(home, interval="1 s")
unlucky = Pipeline("unlucky", checkpoints=CheckpointConfig(interval="1 s", tolerable_failed_checkpoints=0))
rows = unlucky.source("rows", FileSource("landing", schema="customer string, amount bigint"))
impossible = suite("s", expect("column_values_to_be_between", column="amount", min_value=1000))
rows.sink("out", ParquetSink("unlucky"), expect=impossible)
"""


class Running:
    """A process that runs a pipeline on and on."""

    def __init__(self, pipeline, home, environment, store):
        self.pipeline, self.store = pipeline, store
        self._before = self.completed()
        self._errors = (home / f"{pipeline}-{time.monotonic_ns()}.log").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tidegate.cli.main", "run", pipeline, "--continuous"],
            stderr=self._errors, cwd=home, env=environment, start_new_session=True,
        )  # fmt: skip

    def completed(self):
        return [record for record in self.store.history(self.pipeline, 1000) if record.status in COMMITTED]

    def wait_for_checkpoints(self, number):
        """As many have completed since it was started."""
        deadline = time.monotonic() + PATIENCE
        while len(self.completed()) < len(self._before) + number:
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            self.store.wait_for_change(self.pipeline, 1)

    def wait_for_tables(self, shop):
        """Every row delivered so far is in the tables, once: what arrives during a micro-batch is read after it."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return check_tables(shop)
            except (AssertionError, OSError):  # the latter of a version that was replaced while it was read
                assert self.process.poll() is None, self.said()
                if time.monotonic() >= deadline:
                    raise
            self.store.wait_for_change(self.pipeline, 1)

    def ended(self):
        """Its exit code and what it said last, in one line."""
        return self.process.wait(PATIENCE), " ".join(self.said().split())

    def said(self):
        self._errors.flush()
        with open(self._errors.name) as file:
            return file.read()[-6000:]

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._errors.close()


@pytest.fixture
def environment(tmp_path, postgres_url):
    """What a process needs to work on the project in `tmp_path`."""
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "shop.py").write_text(SHOP)
    return environment_of(tmp_path, postgres_url)


@pytest.fixture
def here(tmp_path, environment):
    """A command beside the region: in this process, since it needs no Spark."""
    return CommandHere(tmp_path, environment)


@pytest.fixture
def store(postgres_url):
    store = assembly.open_store(postgres_url)
    yield store
    store.close()


@pytest.fixture
def running(tmp_path, store):
    """`running("orders", environment)`: such a process, killed when the test ends."""
    started = []

    def start(pipeline, environment):
        started.append(Running(pipeline, tmp_path, environment, store))
        return started[-1]

    yield start
    for each in started:
        each.kill()


def test_it_takes_checkpoints_next_to_other_commands_until_another_one_takes_over_or_a_signal_comes(
    environment, running, tmp_path, store, connect_server, quick_python
):
    remote = environment | {"TIDEGATE_SPARK_REMOTE": connect_server}
    command = Command(tmp_path, remote, quick_python)
    shop = Shop(tmp_path)
    shop.deliver()
    first = running("orders", remote)
    first.wait_for_checkpoints(2)
    assert all(record.periodic for record in first.completed())
    shop.deliver()
    for kind in ("checkpoint", "savepoint"):
        asked = command(kind, "orders", "-o", "json")
        assert asked.returncode == ExitCode.OK, asked.stderr
        document = json.loads(asked.stdout)
        assert (document["status"], document["checkpoint_type"]) == ("COMPLETED", kind.upper())
        assert {sink["guarantee"] for sink in document["sinks"]} == {"EXACTLY_ONCE"}
    first.wait_for_tables(shop)

    second = running("orders", environment)  # with a JVM, which a signal must not leave behind
    code, said = first.ended()
    assert code == ExitCode.ABORTED, said
    assert "SupersededAttemptError Region attempt 1 of pipeline orders was superseded by attempt 2" in said
    assert "cli/main.py" not in said, "one paragraph, and no traceback of ours"
    shop.deliver()
    second.wait_for_tables(shop)
    os.kill(second.process.pid, signal.SIGTERM)
    began = time.monotonic()
    code, said = second.ended()
    print(f"SIGTERM to end: {time.monotonic() - began:.1f} s")
    assert time.monotonic() - began < 30  # a few, where nothing else runs
    assert (code, "Pipeline orders is RUNNING." in said) == (ExitCode.OK, True), said
    assert store.region("orders").seen_at is None
    check_tables(shop)


@pytest.mark.long
def test_stopping_suspending_and_failing_end_it_each_with_its_exit_code(
    environment, here, running, tmp_path, store, connect_server
):
    remote = environment | {"TIDEGATE_SPARK_REMOTE": connect_server}
    command = Command(tmp_path, remote)
    shop = Shop(tmp_path)
    shop.deliver()
    unlucky, first = running("unlucky", remote), running("orders", remote)
    code, said = unlucky.ended()
    assert code == ExitCode.PIPELINE_STOPPED, said
    assert "PipelineFailedError" in said
    assert "To continue, run `tidegate resume unlucky`" in said
    assert store.region("unlucky").seen_at is None

    first.wait_for_checkpoints(1)
    assert here("suspend", "orders").returncode == ExitCode.OK
    code, said = first.ended()
    assert (code, "Pipeline orders is SUSPENDED." in said) == (ExitCode.OK, True), said
    assert here("resume", "orders").returncode == ExitCode.OK

    second = running("orders", remote)
    shop.deliver()
    second.wait_for_tables(shop)
    shop.deliver()
    stopped = command("stop", "orders", "-o", "json")
    assert stopped.returncode == ExitCode.OK, stopped.stderr
    assert json.loads(stopped.stdout)["checkpoint_type"] == "SYNC_SAVEPOINT"
    code, said = second.ended()
    assert (code, "Pipeline orders is FINISHED." in said) == (ExitCode.OK, True), said
    pipeline = store.pipeline("orders")
    assert pipeline is not None
    assert pipeline.status is PipelineStatus.FINISHED
    assert store.region("orders").seen_at is None
    assert here("resume", "orders").returncode == ExitCode.OK
    taken = command("run", "orders")  # the scheduled way, with whatever came after the savepoint
    assert taken.returncode == ExitCode.OK, taken.stderr
    check_tables(shop)
