"""`tidegate fork` on real pipelines: bad input, the plan, and what is shown of it afterwards."""

import json

import pytest
from commands import Command, CommandHere, environment_of

from tidegate.cli.exit_codes import ExitCode

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

PROJECT = """
[tool.tidegate.pipelines]
shop = "program:shop"
trial = "program:trial"
careless = "program:careless"
wrong = "program:wrong"
"""
PROGRAM = """
from tidegate import CheckpointConfig, FileSource, ParquetSink, Pipeline, count, max_, sum_

def defined(name, tables, parallelism=2, **more):
    pipeline = Pipeline(name, parallelism=parallelism, max_parallelism=16, checkpoints=CheckpointConfig(retained=1))
    rows = pipeline.source("rows", FileSource("landing", schema="k string, n bigint"))
    counts = rows.key_by("k").aggregate("counts", **{"rows": count(), "total": sum_("n")} | more)
    rows.sink("log", ParquetSink(f"{tables}/log"))
    counts.sink("current", ParquetSink(f"{tables}/current", mode="latest"))
    return pipeline

shop, trial = defined("shop", "tables"), defined("trial", "trial", 3, most=max_("n"))
careless, wrong = defined("careless", "tables/log"), defined("wrong", "wrong", total=max_("n"))
"""


@pytest.fixture
def project(tmp_path, postgres_url, connect_server):
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "1.csv").write_text("k,n\na,1\nb,2\n")
    return Project(tmp_path, environment_of(tmp_path, postgres_url) | {"TIDEGATE_SPARK_REMOTE": connect_server})


class Project:
    def __init__(self, home, environment):
        self.spark, self.here = Command(home, environment), CommandHere(home, environment)

    def ok(self, *arguments):
        ended = (self.spark if arguments[0] in ("savepoint", "fork") else self.here)(*arguments)
        assert ended.returncode == ExitCode.OK, ended.stderr
        return ended

    def refused(self, *arguments, said):
        """The code that a fork ends with, which must say that."""
        ended = self.here("fork", *arguments, "--yes")
        assert said in " ".join(ended.stderr.split())
        return ended.returncode


@pytest.mark.long
def test_what_does_not_fit_is_said_and_what_happens_is_shown(project):
    project.ok("savepoint", "shop", "--name", "kept")
    for arguments, code, said in (
        (["shop", "trial"], ExitCode.USAGE, "Exactly one option must name the origin"),
        (["shop", "trial", "--savepoint", "lost"], ExitCode.NOT_FOUND, "no savepoint 'lost' in this database"),
        (["shop", "nobody", "--savepoint", "kept"], ExitCode.NOT_FOUND, "No pipeline named 'nobody' is listed"),
        (["shop", "shop", "--savepoint", "kept"], ExitCode.USAGE, "cannot be forked to itself"),
        (["shop", "careless", "--latest"], ExitCode.USAGE, "writes where sink 'log' of pipeline shop does"),
        (["shop", "trial", "--from", "nowhere"], ExitCode.USAGE, "it has no marker _savepoint"),
    ):
        assert project.refused(*arguments, said=said) == code

    unfit = project.spark("fork", "shop", "wrong", "--savepoint", "kept", "--yes")
    assert (unfit.returncode, "StateSchemaError" in unfit.stderr, "total" in unfit.stderr) == (1, True, True)
    assert project.here("checkpoints", "wrong").stdout.count("COMPLETED") == 0

    forked = project.ok("fork", "shop", "trial", "--savepoint", "kept", "--yes", "-o", "json")
    assert "Pipeline trial was forked from shop, savepoint kept." in forked.stderr
    planned = json.loads(forked.stdout)
    assert planned["forked_from"] == {"pipeline": "shop", "checkpoint": 1, "savepoint": "kept"}
    assert planned["sources"] == [{"source": "rows", "taken_over": True, "files": 1, "bytes": 12}]
    (state,) = planned["operators"]
    assert (state["operator_id"], state["rows"], state["matched"]) == ("counts", 2, True)
    assert any("most" in change for change in state["changes"])
    assert planned["sinks"] == [
        {"sink": "log", "filled_from_state": False},
        {"sink": "current", "filled_from_state": True},
    ]
    effective = "as its checkpoint 2. If that command was cut short, it has taken effect"
    assert project.refused("shop", "trial", "--savepoint", "kept", said=effective) == ExitCode.USAGE
    assert "(forked from shop, savepoint kept)" in project.ok("checkpoints", "trial").stdout

    assert "there is nothing before it to go back to" in project.here("restore", "trial", "--undo").stderr
