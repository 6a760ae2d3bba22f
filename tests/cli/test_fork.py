"""`tidegate fork` on real pipelines: new code on the state of another one, which goes on."""

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
"""
PROGRAM = """
from tidegate import CheckpointConfig, FileSource, ParquetSink, Pipeline, count, sum_

def defined(name, tables, parallelism=2):
    pipeline = Pipeline(name, parallelism=parallelism, max_parallelism=16, checkpoints=CheckpointConfig(retained=1))
    rows = pipeline.source("rows", FileSource("landing", schema="k string, n bigint"))
    counts = rows.key_by("k").aggregate("counts", rows=count(), total=sum_("n"))
    rows.sink("log", ParquetSink(f"{tables}/log"))
    counts.sink("current", ParquetSink(f"{tables}/current", mode="latest"))
    return pipeline

shop, trial, careless = defined("shop", "tables"), defined("trial", "trial", 3), defined("careless", "tables/log")
"""


@pytest.fixture
def project(tmp_path, postgres_url, connect_server):
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "landing").mkdir()
    return Project(tmp_path, environment_of(tmp_path, postgres_url) | {"TIDEGATE_SPARK_REMOTE": connect_server})


class Project:
    def __init__(self, home, environment):
        self.home, self.rows = home, 0
        self.spark, self.here = Command(home, environment), CommandHere(home, environment)

    def deliver(self):
        """A file with a row of a key of its own, and one of a key that all have."""
        self.rows += 1
        (self.home / "landing" / f"{self.rows}.csv").write_text(f"k,n\nall,{self.rows}\nk{self.rows},1\n")

    def ok(self, *arguments):
        ended = (self.spark if arguments[0] in ("run", "savepoint", "fork", "compare") else self.here)(*arguments)
        assert ended.returncode == ExitCode.OK, ended.stderr
        return ended

    def current(self, tables):
        import pyarrow.parquet as pq

        rows = pq.read_table(self.home / tables / "current" / "current").to_pylist()
        return {row["k"]: (row["rows"], row["total"]) for row in rows}

    def expected(self):
        return {"all": (self.rows, sum(range(1, self.rows + 1)))} | {f"k{n}": (1, 1) for n in range(1, self.rows + 1)}

    def refused(self, *arguments, said):
        """The code that a fork ends with, which must say that."""
        ended = self.here("fork", *arguments, "--yes")
        assert said in " ".join(ended.stderr.split())
        return ended.returncode


def test_new_code_goes_on_from_a_savepoint_beside_the_original(project):
    project.deliver()
    project.ok("savepoint", "shop", "--name", "kept")
    for arguments, code, said in (
        (["shop", "trial"], ExitCode.USAGE, "Say what to begin with, in one way"),
        (["shop", "trial", "--savepoint", "lost"], ExitCode.NOT_FOUND, "no savepoint 'lost' in this database"),
        (["shop", "nobody", "--savepoint", "kept"], ExitCode.NOT_FOUND, "No pipeline named 'nobody' is listed"),
        (["shop", "shop", "--savepoint", "kept"], ExitCode.USAGE, "cannot be forked to itself"),
        (["shop", "careless", "--latest"], ExitCode.USAGE, "writes where sink 'log' of pipeline shop does"),
        (["shop", "trial", "--from", "nowhere"], ExitCode.USAGE, "it has no marker _savepoint"),
    ):
        assert project.refused(*arguments, said=said) == code

    forked = project.ok("fork", "shop", "trial", "--savepoint", "kept", "--yes", "-o", "json")
    assert "Pipeline trial was forked from shop, savepoint kept." in forked.stderr
    planned = json.loads(forked.stdout)
    assert planned["forked_from"] == {"pipeline": "shop", "checkpoint": 1, "savepoint": "kept"}
    assert planned["sources"] == [{"source": "rows", "taken_over": True, "files": 1, "bytes": 15}]
    assert [(each["operator_id"], each["rows"], each["matched"]) for each in planned["operators"]] == [
        ("counts", 2, True)
    ]
    assert planned["sinks"] == [
        {"sink": "log", "filled_from_state": False},
        {"sink": "current", "filled_from_state": True},
    ]
    effective = "as its checkpoint 2. If that command was cut short, it has taken effect"
    assert project.refused("shop", "trial", "--savepoint", "kept", said=effective) == ExitCode.USAGE
    assert "(forked from shop, savepoint kept)" in project.ok("checkpoints", "trial").stdout

    project.deliver()
    for name in ("shop", "trial"):
        project.ok("run", name)
    assert project.current("tables") == project.current("trial") == project.expected()
    compared = project.spark("compare", "shop", "trial", "-o", "json")
    found = {(each["part"], each["name"]): each for each in json.loads(compared.stdout)["compared"]}
    assert found["TABLE", "current"]["likeness"] == found["STATE", "counts"]["likeness"] == "SAME"
    assert [(side["number"], side["surplus"]) for side in found["TABLE", "log"]["rows"]] == [(4, 2), (2, 0)]

    state = project.ok("state", "trial", "counts", "-o", "json").stdout
    project.ok("restore", "shop", "--latest", "--yes")
    project.ok("dispose", "shop", "kept")
    project.ok("cancel", "shop", "--yes")
    assert list((project.home / ".tidegate/checkpoints/shop").rglob("*.parquet")) == []
    assert project.ok("state", "trial", "counts", "-o", "json").stdout == state
    project.deliver()
    project.ok("run", "trial")
    assert project.current("trial") == project.expected()
