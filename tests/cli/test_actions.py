"""User actions on the command line: where the pipeline's code is broken or missing, and on record with who asked."""

import json
from getpass import getuser
from socket import gethostname

import pytest
from commands import CommandHere, environment_of
from store_steps import triggered

from tidegate.cli.exit_codes import ExitCode
from tidegate.protocol.facts.pipelines import PipelineStatus


@pytest.fixture
def here(tmp_path, postgres_url):
    """In a directory without code: `broken` is listed, and cannot be loaded."""
    (tmp_path / "pyproject.toml").write_text('[tool.tidegate.pipelines]\nbroken = "nothing:here"\n')
    return CommandHere(tmp_path, environment_of(tmp_path, postgres_url))


@pytest.mark.parametrize("name", ["elsewhere", "broken"])
def test_a_pipeline_that_the_database_knows_needs_no_code(here, store, name):
    triggered(store, pipeline_id=name)
    for arguments, said in (
        (("abort", name), f"Checkpoint 1 of pipeline {name} is FAILED: COORDINATOR_SUSPEND."),
        (("suspend", name), f"Pipeline {name} is SUSPENDED."),
        (("resume", name), f"Pipeline {name} is RUNNING."),
    ):
        shown = here(*arguments)
        assert (shown.returncode, shown.stderr.startswith(said)) == (ExitCode.OK, True), shown.stderr
    listed = here("savepoints", name, "-o", "json")
    assert (listed.returncode, json.loads(listed.stdout)) == (ExitCode.OK, [])
    shown = here("savepoint", name, "x")
    assert (shown.returncode, "has no savepoint 'x'" in shown.stderr) == (ExitCode.NOT_FOUND, True)
    refused = here("dispose", name, "x", "--yes")
    assert (refused.returncode, "has no savepoint 'x'" in refused.stderr) == (ExitCode.NOT_FOUND, True)
    assert here("rename", name, "x", "y").returncode == ExitCode.NOT_FOUND
    told = json.loads(here("audit", name, "-o", "json").stdout)
    assert [(each["kind"], each["status"]) for each in told] == [
        ("RENAME", "REFUSED"),
        ("DISPOSE", "REFUSED"),
        ("RESUME", "DONE"),
        ("SUSPEND", "DONE"),
        ("ABORT", "DONE"),
    ]
    assert {json.dumps(each["actor"]) for each in told} == {
        json.dumps({"kind": "CLI_USER", "name": getuser(), "origin": gethostname()})
    }
    assert told[-1]["checkpoint"] == 1
    assert told[0]["details"] == {"savepoint": "x", "name": "y"}


@pytest.mark.parametrize("name", ["elsewhere", "broken"])
def test_a_pipeline_is_cancelled_without_its_code(here, store, name):
    triggered(store, pipeline_id=name)
    shown = here("cancel", name, "--yes")
    assert (shown.returncode, shown.stderr) == (ExitCode.OK, f"Pipeline {name} is CANCELLED.\n")
    assert store.pipeline(name).status is PipelineStatus.CANCELLED


def test_one_that_nobody_knows_is_not_found(here):
    asked = ("suspend", "unknown"), ("suspend", "broken"), ("audit", "unknown"), ("cancel", "unknown", "--yes")
    for arguments in (*asked, ("savepoints", "unknown"), ("savepoint", "broken", "x")):
        assert here(*arguments).returncode == ExitCode.NOT_FOUND
    assert json.loads(here("audit", "-o", "json").stdout) == []


def test_the_table_fits_a_narrow_terminal_and_texts_do_not_control_it(here, store):
    triggered(store, pipeline_id="p")
    here("suspend", "p")
    assert here("dispose", "p", "\x1b[2J[red]" + "x" * 200, "--yes").returncode == ExitCode.NOT_FOUND
    shown = here("audit", "--limit", "2", COLUMNS="80", FORCE_COLOR="1", TERM="dumb").stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert "\x1b" not in shown
    assert "REFUSED" in shown
    assert "SUSPEND" in shown
    assert len(json.loads(here("audit", "--limit", "1", "-o", "json").stdout)) == 1
