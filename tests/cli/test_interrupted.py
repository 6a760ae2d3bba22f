"""Ctrl-C, and what a command prints where nobody looks at a screen."""

import io
import signal
import subprocess
import sys
import time

import pytest
from commands import environment_of
from rich.console import Console

from tidegate.cli.console import PlainConsole
from tidegate.cli.exit_codes import ExitCode
from tidegate.cli.progress import shown_on

PROJECT = """
[tool.tidegate.pipelines]
shop = "shop:pipeline"
"""
SHOP = """
import os
import time
from pathlib import Path
from tidegate import FileSource, ParquetSink, Pipeline

home = Path(os.environ["TIDEGATE_HOME"])
pipeline = Pipeline("shop", parallelism=1)
orders = pipeline.source("orders", FileSource("landing", schema="customer string, amount int"))

def waiting(batches):
    (home / "begun").touch()
    while (home / "slow").exists():
        time.sleep(0.05)
    yield from batches

def slow(rows):
    return rows.mapInArrow(waiting, rows.schema)

orders.transform(slow).sink("orders", ParquetSink("tables/orders"))
"""


def heeding_interrupts():
    """A shell lets what it starts in the background ignore SIGINT, and the tests' processes inherit it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.spark
def test_what_was_interrupted_goes_on_when_the_command_is_repeated(tmp_path, postgres_url, connect_server):
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "1.csv").write_text("customer,amount\nann,5\n")
    (tmp_path / "slow").touch()
    environment = environment_of(tmp_path, postgres_url) | {"TIDEGATE_SPARK_REMOTE": connect_server}
    command = [sys.executable, "-m", "tidegate.cli.main", "run", "shop"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=heeding_interrupts,
    ) as process:
        assert process.stdout is not None
        steps = [process.stdout.readline() for _ in range(3)]
        # While a line is written, Rich would write it once more.
        for _ in range(1200):
            if (tmp_path / "begun").exists():
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        try:
            said, _ = process.communicate(timeout=120)
        finally:
            process.kill()
    assert steps == [
        "Pipeline shop: starting Spark\n",
        "Pipeline shop: checking the definition\n",
        "Checkpoint 1: snapshot\n",
    ]
    assert process.returncode == ExitCode.INTERRUPTED, said
    assert said.startswith(
        "Interrupted. Checkpoint 1 of pipeline shop stays in progress with the subtasks that have acknowledged"
    )
    assert said.count("\n") == 1, said
    (tmp_path / "slow").unlink()
    again = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert again.returncode == ExitCode.OK, again.stderr
    assert "Checkpoint 1 COMPLETED" in again.stdout
    before = ["Pipeline shop: starting Spark", "Pipeline shop: checking the definition"]
    steps = [f"Checkpoint 1: {step}" for step in ("snapshot", "validate", "finalize", "notify")]
    assert again.stderr.splitlines() == [*before, *steps]


def test_a_terminal_has_a_bar_and_nothing_of_it_stays():
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with shown_on(console, "checkpoint 7", 4) as shown:
        shown.step("snapshot", 0)
        shown.advance(3)
    assert "checkpoint 7: snapshot" in (printed := console.file.getvalue())
    assert "3/4" in printed
    assert printed.endswith("\x1b[2K")


def test_lines_that_nobody_looks_at_on_a_screen_are_not_broken(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    PlainConsole().print("word " * 400)
    assert capsys.readouterr().out.count("\n") == 1
