"""Several projects with one database: what is the same pipeline, what is another one of its name,
and what was moved."""

import json

import pytest
from commands import Command, CommandHere, environment_of

from tidegate.cli.exit_codes import ExitCode

PROJECT = """
[tool.tidegate.pipelines]
flights = "program:pipeline"
"""
PROGRAM = """
from tidegate import FileSource, ParquetSink, Pipeline

pipeline = Pipeline("flights")
rows = pipeline.source("rows", FileSource({source!r}, schema="k bigint"))
rows.sink("out", ParquetSink({sink!r}))
"""
TRIGGER = """
from tidegate import assembly
print(assembly.open_coordinator(assembly.load_pipeline("flights")).trigger("r"))
"""


class Project:
    """A home with a pipeline `flights`."""

    def __init__(self, home, url, python, source="landing", sink="tables"):
        home.mkdir()
        self.home = home
        environment = environment_of(home, url)
        self._here, self._process = CommandHere(home, environment), Command(home, environment, python)
        (home / "pyproject.toml").write_text(PROJECT)
        self.define(source, sink)

    def define(self, source, sink):
        (self.home / "program.py").write_text(PROGRAM.format(source=source, sink=sink))

    def tidegate(self, *arguments, **changes):
        """`run` may start Spark, and then belongs into a process of its own."""
        return (self._process if arguments[0] == "run" else self._here)(*arguments, **changes)

    def rename(self, name):
        """Another pipeline, with the same tables."""
        self.home.joinpath("pyproject.toml").write_text(PROJECT.replace("flights", name))
        program = self.home / "program.py"
        program.write_text(program.read_text().replace('Pipeline("flights")', f'Pipeline("{name}")'))

    def trigger(self):
        ended = self._process.python("-c", TRIGGER)
        assert ended.returncode == 0, ended.stderr


@pytest.fixture
def project(tmp_path, postgres_url, quick_python):
    return lambda name, **places: Project(tmp_path / name, postgres_url, quick_python, **places)


def test_another_project_with_a_pipeline_of_the_name_is_refused(project):
    project("first").trigger()
    second = project("second", source="incoming")
    refused = second.tidegate("run", "flights")
    assert refused.returncode == ExitCode.USAGE, refused.stderr
    assert "source 'rows' is FileSource at landing, and here it is FileSource at incoming" in refused.stderr
    assert "`tidegate relocate flights`" in refused.stderr
    assert "Traceback" not in refused.stderr
    continuous = second.tidegate("run", "flights", "--continuous", TIDEGATE_SPARK_REMOTE="sc://never.asked")
    assert (continuous.returncode, continuous.stderr) == (ExitCode.USAGE, refused.stderr)


def test_places_below_the_home_are_the_same_wherever_that_is_mounted(project):
    project("laptop").trigger()
    container = project("container")
    container.define(str(container.home / "landing"), f"file://{container.home}/./tables/")
    container.trigger()


def test_a_pipeline_that_was_moved_on_purpose_goes_on_once_that_was_said(project, tmp_path):
    one = project("one")
    one.trigger()
    one.define("landing", str(tmp_path / "mount" / "tables"))
    assert one.tidegate("run", "flights").returncode == ExitCode.USAGE
    busy = one.tidegate("relocate", "flights", "--yes")
    assert (busy.returncode, "checkpoint 1 is in progress" in busy.stderr) == (ExitCode.PIPELINE_STOPPED, True)
    assert one.tidegate("suspend", "flights").returncode == ExitCode.OK
    assert one.tidegate("relocate", "flights").returncode == ExitCode.ABORTED  # nobody is there to confirm
    said = one.tidegate("relocate", "flights", "--yes")
    assert said.returncode == ExitCode.OK, said.stderr
    assert "sink 'out' is ParquetSink at tables, and here it is ParquetSink at" in said.stderr
    assert "no source or sink has moved" in one.tidegate("relocate", "flights").stderr
    assert one.tidegate("resume", "flights").returncode == ExitCode.OK
    one.trigger()
    assert json.loads(one.tidegate("checkpoints", "flights", "-o", "json").stdout)[0]["status"] == "IN_PROGRESS"


def test_a_directory_of_another_pipeline_is_taken_over_when_that_was_said(project):
    one = project("one")
    one.trigger()
    one.rename("trips")
    refused = one.tidegate("run", "trips")
    assert refused.returncode == ExitCode.USAGE, refused.stderr
    assert "belongs to pipeline flights" in refused.stderr
    assert "`tidegate relocate trips --take-over`" in refused.stderr
    plainly = one.tidegate("relocate", "trips", "--yes")
    assert (plainly.returncode, "belongs to pipeline flights" in plainly.stderr) == (ExitCode.USAGE, True)
    assert one.tidegate("relocate", "trips", "--take-over").returncode == ExitCode.ABORTED  # nobody is there to confirm
    assert json.loads((one.home / "tables" / "_owner").read_text())["pipeline"] == "flights"
    said = one.tidegate("relocate", "trips", "--take-over", "--yes", "-o", "json")
    assert said.returncode == ExitCode.OK, said.stderr
    (moved,) = json.loads(said.stdout)["moved"]
    assert "belongs to pipeline flights, and is taken over with its content" in moved
    assert json.loads((one.home / "tables" / "_owner").read_text())["pipeline"] == "trips"
    told = json.loads(one.tidegate("audit", "trips", "-o", "json").stdout)
    assert [(each["kind"], each["status"], each["details"]) for each in told] == [
        ("RELOCATE", "DONE", {"take_over": True})
    ]
    assert "no source or sink has moved" in one.tidegate("relocate", "trips", "--take-over", "--yes").stderr
