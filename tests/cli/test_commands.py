"""The commands as a user runs them, on a real database, and their exit codes."""

import json
import re

import pytest
from commands import Command, CommandHere, environment_of
from orders import Shop, check_tables
from sizes import later
from store_steps import triggered

from tidegate.cli.exit_codes import ExitCode

PROJECT = """
[tool.tidegate.pipelines]
orders = "shop:pipeline"
strict = "shop:strict"
nothing = "shop:home"
"""
SHOP = """
import os
from pathlib import Path
from orders import orders_pipeline
from tidegate import FileSource, ParquetSink, Pipeline, expect, suite

home = Path(os.environ["TIDEGATE_HOME"])
pipeline = orders_pipeline(home)
strict = Pipeline("strict")
rows = strict.source("rows", FileSource("landing", schema="customer string, amount bigint"))
impossible = suite("s", expect("column_values_to_be_between", column="amount", min_value=1000))
rows.sink("out", ParquetSink("strict"), expect=impossible)
"""


@pytest.fixture
def project(tmp_path, postgres_url):
    """The environment of a project's commands."""
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "shop.py").write_text(SHOP)
    return environment_of(tmp_path, postgres_url)


@pytest.fixture
def command(tmp_path, project):
    """Each in a process of its own from its start on, and with a JVM of its own if it needs Spark."""
    return Command(tmp_path, project)


@pytest.fixture
def remote_command(tmp_path, project, connect_server, quick_python):
    """On a Spark and in a Python that run, which saves each command the start of a JVM and the imports."""
    return Command(tmp_path, project | {"TIDEGATE_SPARK_REMOTE": connect_server}, quick_python)


@pytest.fixture
def here(tmp_path, project):
    """In this process: what needs no Spark."""
    return CommandHere(tmp_path, project)


@pytest.mark.spark
@pytest.mark.parametrize("how", ["remote_command", later("command")])  # README runs one with a JVM of its own
def test_a_run_its_history_and_its_details(how, here, tmp_path, request):
    shop, run = Shop(tmp_path), request.getfixturevalue(how)
    shop.deliver()
    first = run("run", "orders", "-o", "json")
    assert first.returncode == ExitCode.OK, first.stderr
    document = json.loads(first.stdout)
    assert (document["id"], document["status"]) == (1, "COMPLETED")
    assert {sink["sink"] for sink in document["sinks"]} == {"visits", "totals_log", "totals", "balance_log", "seen"}
    assert {sink["guarantee"] for sink in document["sinks"]} == {"EXACTLY_ONCE"}
    check_tables(shop)

    history = json.loads(here("checkpoints", "orders", "-o", "json").stdout)
    assert [row["id"] for row in history] == [1]
    statistics = json.loads(here("stats", "orders", "-o", "json").stdout)
    assert statistics["counts"] == {"restored": 0, "total": 1, "in_progress": 0, "completed": 1, "failed": 0}
    assert statistics["latest"] | {"completed": None} == dict.fromkeys(("completed", "failed", "savepoint", "restored"))
    assert statistics["latest"]["completed"].items() <= history[0].items()
    durations = statistics["summary"]["end_to_end_duration"]
    assert durations["min"] == durations["p50"] == durations["max"] == history[0]["end_to_end_duration"]
    assert [(lag["pending"], lag["unit"]) for lag in statistics["lag"]] == [(0, "files")]
    shown = here("stats", "orders").stdout
    assert ("End to End Duration" in shown, "Lag: 0 files, polled at" in shown) == (True, True)
    assert "COMPLETED" in here("checkpoints", "orders").stdout
    too_late = here("abort", "orders", "1")
    assert (too_late.returncode, "can no longer be aborted" in too_late.stderr) == (ExitCode.PIPELINE_STOPPED, True)

    details = json.loads(here("checkpoint", "orders", "1", "-o", "json").stdout)
    assert sum(len(task["subtasks"]) for task in details["tasks"].values()) == details["num_subtasks"]
    runs = [
        handle
        for task in details["tasks"].values()
        for subtask in task["subtasks"]
        for handle in subtask["handles"]
        if handle["kind"] == "RUN"
    ]
    assert runs
    for handle in runs:
        assert (tmp_path / ".tidegate/checkpoints" / handle["path"]).stat().st_size == handle["bytes"]
    assert "Subtasks" in here("checkpoint", "orders", "1").stdout


@pytest.mark.spark
def test_a_checkpoint_by_hand_is_taken_once_however_often_it_is_asked_for(remote_command, tmp_path):
    Shop(tmp_path).deliver()
    for _ in range(2):
        asked = remote_command("savepoint", "orders", "--request-id", "by hand", "--name", "first", "-o", "json")
        assert asked.returncode == ExitCode.OK, asked.stderr
        document = json.loads(asked.stdout)
        assert (document["id"], document["request_id"], document["checkpoint_type"]) == (1, "by hand", "SAVEPOINT")


def test_a_pipeline_is_suspended_resumed_and_cancelled(here):
    def status():
        return json.loads(here("stats", "orders", "-o", "json").stdout)["pipeline"]["status"]

    shown = here("suspend", "orders")
    assert (shown.returncode, shown.stderr) == (ExitCode.OK, "Pipeline orders is SUSPENDED.\n")
    assert status() == "SUSPENDED"
    dropped = here("run", "orders", "-o", "json")
    assert dropped.returncode == ExitCode.DROPPED
    assert json.loads(dropped.stdout)["dropped"] == "NOT_ALL_REQUIRED_TASKS_RUNNING"
    assert here("resume", "orders").returncode == ExitCode.OK
    assert status() == "RUNNING"
    assert here("cancel", "orders").returncode != ExitCode.OK  # nobody is there to confirm
    assert here("cancel", "orders", "--yes").returncode == ExitCode.OK
    refused = here("resume", "orders")
    assert refused.returncode == ExitCode.PIPELINE_STOPPED
    assert "Pipeline orders is CANCELLED and cannot become RUNNING" in refused.stderr


def test_a_checkpoint_is_aborted_by_hand(here, store):
    assert "no checkpoint in progress" in here("abort", "orders").stderr
    assert here("abort", "orders", "1").returncode == ExitCode.NOT_FOUND
    triggered(store, pipeline_id="orders")
    for arguments in ((), ("1",)):
        shown = here("abort", "orders", *arguments)
        assert shown.returncode == ExitCode.OK, shown.stderr
        if not arguments:
            assert shown.stderr.startswith("Checkpoint 1 of pipeline orders is FAILED: COORDINATOR_SUSPEND.")
    assert here("abort", "orders").returncode == ExitCode.OK


@pytest.mark.long
@pytest.mark.spark
def test_a_pipeline_is_stopped_with_a_savepoint_resumed_and_drained(remote_command, here, tmp_path):
    shop = Shop(tmp_path)
    shop.deliver()
    stopped = remote_command("stop", "orders", "-o", "json")
    assert stopped.returncode == ExitCode.OK, stopped.stderr
    savepoint = json.loads(stopped.stdout)
    assert (savepoint["id"], savepoint["status"], savepoint["checkpoint_type"]) == (1, "COMPLETED", "SYNC_SAVEPOINT")
    assert (savepoint["drain"], savepoint["num_finished_subtasks"]) == (False, 0)
    assert savepoint["external_path"] == "orders/chk-1/_metadata"
    shown = "Pipeline orders is FINISHED. It was stopped with savepoint 1 (orders/chk-1/_metadata)"
    assert shown in stopped.stderr
    check_tables(shop)
    dropped = here("run", "orders", "-o", "json")
    assert dropped.returncode == ExitCode.DROPPED
    assert "`tidegate resume orders` continues from it" in json.loads(dropped.stdout)["message"]
    assert here("resume", "orders").returncode == ExitCode.OK

    shop.deliver(files=1)
    drained = remote_command("stop", "orders", "--drain")
    assert drained.returncode == ExitCode.OK, drained.stderr
    assert "It was drained by savepoint 2" in drained.stderr
    check_tables(shop)
    details = json.loads(here("checkpoint", "orders", "2", "-o", "json").stdout)
    assert details["num_finished_subtasks"] == details["num_subtasks"]
    assert all(subtask["finished"] for task in details["tasks"].values() for subtask in task["subtasks"])
    refused = here("resume", "orders")
    assert refused.returncode == ExitCode.PIPELINE_STOPPED
    assert "FINISHED and cannot be resumed. It was drained by savepoint 2" in " ".join(refused.stderr.split())


@pytest.mark.long
@pytest.mark.spark
def test_a_stop_that_was_cut_short_is_gone_on_with_and_never_as_another_kind(remote_command, here, tmp_path):
    Shop(tmp_path).deliver()
    begin = (
        "from tidegate import assembly; from tidegate.protocol.facts.records import CheckpointKind as K;"
        "c = assembly.open_coordinator(assembly.load_pipeline('orders'));"
        "c.trigger('stop:1', kind=K.SYNC_SAVEPOINT)"
    )
    begun = remote_command.python("-c", begin)
    assert begun.returncode == 0, begun.stderr
    other = here("stop", "orders", "--drain")
    assert other.returncode == ExitCode.DROPPED
    assert "`tidegate stop` continues with it" in " ".join(other.stdout.split())
    assert here("resume", "orders").returncode == ExitCode.PIPELINE_STOPPED
    again = remote_command("stop", "orders", "-o", "json")
    assert again.returncode == ExitCode.OK, again.stderr
    assert json.loads(again.stdout)["request_id"] == "stop:1"


@pytest.mark.spark
def test_validation_that_fails_has_an_exit_code_and_leaves_nothing_visible(remote_command, here, tmp_path):
    Shop(tmp_path).deliver()
    result = remote_command("run", "strict")
    assert result.returncode == ExitCode.VALIDATION_FAILED
    assert "expect_column_values_to_be_between on amount" in result.stderr
    assert "Nothing became visible" in result.stderr
    assert not list((tmp_path / "strict").glob("checkpoint=*"))
    details = json.loads(here("checkpoint", "strict", "1", "-o", "json").stdout)
    assert (details["status"], details["failure_reason"]) == ("FAILED", "VALIDATION_FAILED")
    assert details["verdicts"][0]["success"] is False
    report = f"Report: {tmp_path / '.tidegate/docs' / details['verdicts'][0]['docs_path']}\n"
    assert result.stderr.endswith(report)
    page = here("checkpoint", "strict", "1").stdout
    assert report in page
    for shown in (result.stderr, page):
        heads, failed = shown.partition("Failed expectations:\n")[2].splitlines()[:2]
        assert heads.split() == ["Target", "Expectation", "Column", "Observed", "Unexpected", "Samples"]
        assert re.split("  +", failed)[:3] == ["sink:out", "column_values_to_be_between", "amount"]
        assert re.fullmatch(r"\d+ of \d+ rows", re.split("  +", failed)[3])


@pytest.mark.parametrize(
    ("arguments", "changes", "code", "words"),
    [
        (["run", "unknown"], {}, ExitCode.NOT_FOUND, "listed: nothing, orders, strict"),
        (["run", "shop:nothing"], {}, ExitCode.NOT_FOUND, "cannot be loaded"),
        (["run", "nothing"], {}, ExitCode.NOT_FOUND, "not a tidegate Pipeline"),
        (["checkpoints", "orders"], {}, ExitCode.NOT_FOUND, "has no checkpoints in this database"),
        (["checkpoint", "orders", "7"], {}, ExitCode.NOT_FOUND, "has no checkpoint 7"),
        (["checkpoints", "orders"], {"TIDEGATE_DATABASE_URL": "postgresql://a:geheim@127.0.0.1:1/x"},
         ExitCode.UNAVAILABLE, "127.0.0.1"),
        (["run", "orders", "--continuous"], {"TIDEGATE_SPARK_REMOTE": "sc://127.0.0.1:1/;token=geheim"},
         ExitCode.UNAVAILABLE, "127.0.0.1:1 cannot be used: Failed to connect to remote host: Connection refused. "),
        (["checkpoint"], {}, ExitCode.USAGE, "Missing argument"),
        (["checkpoint", "orders", "7", "--request-id", "x"], {}, ExitCode.USAGE, "Leave the ID out"),
        (["savepoint", "orders", "x", "--name", "y"], {}, ExitCode.USAGE, "leave 'x' out"),
        (["savepoint", "orders", "x"], {}, ExitCode.NOT_FOUND, "has no savepoint 'x'"),
        (["rename", "orders", "x"], {}, ExitCode.USAGE, "Neither a new name nor a --note was given"),
        (["dispose", "orders", "x"], {}, ExitCode.NOT_FOUND, "It has none"),
        (["restore", "orders"], {}, ExitCode.USAGE, "Exactly one option must name the target"),
        (["restore", "orders", "--latest", "--undo"], {}, ExitCode.USAGE, "Exactly one option must name the target"),
        (["restore", "orders", "--undo"], {}, ExitCode.PIPELINE_STOPPED, "no restore that could be undone"),
        (["restore", "orders", "--checkpoint", "7"], {}, ExitCode.NOT_FOUND, "has none that can be restored"),
        (["restore", "orders", "--savepoint", "x"], {}, ExitCode.NOT_FOUND, "has no savepoint 'x'"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_paragraph_and_an_exit_code(here, arguments, changes, code, words):
    result = here(*arguments, **changes)
    assert result.returncode == code, result.stderr
    assert words in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert "geheim" not in result.stderr + result.stdout


def test_the_schema_is_created_and_an_old_one_gets_the_command_to_run(here, postgres_server):
    postgres_server.create_database("unmigrated")
    url = {"TIDEGATE_DATABASE_URL": postgres_server.url("unmigrated")}
    refused = here("checkpoints", "orders", **url)
    assert refused.returncode == ExitCode.USAGE
    assert "tidegate db upgrade" in refused.stderr
    for _ in range(2):
        assert here("db", "upgrade", **url).returncode == ExitCode.OK
    assert here("checkpoints", "orders", **url).returncode == ExitCode.NOT_FOUND


def test_what_caused_an_error_is_shown_to_those_who_ask(tmp_path):
    here = CommandHere(tmp_path, environment_of(tmp_path, "postgresql+psycopg2://nobody@127.0.0.1:1/none"))
    short, long = here("checkpoints", "orders"), here("--verbose", "checkpoints", "orders")
    assert (short.returncode, long.returncode) == (6, 6)
    assert long.stderr.startswith(short.stderr)
    assert "Caused by" not in short.stderr
    assert "\nCaused by psycopg2.OperationalError: connection to server" in long.stderr
    assert "Traceback" not in long.stderr
