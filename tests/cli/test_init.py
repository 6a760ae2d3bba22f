"""`tidegate init` begins a project that runs, and `tidegate pipelines`, `tidegate db` say what there is."""

import json
import os
import runpy
import tomllib
from pathlib import Path

import pytest
import yaml
from commands import Command, CommandHere, environment_of

from tidegate.cli.exit_codes import ExitCode
from tidegate.pipeline.vertices import SinkVertex
from tidegate.project.scaffold import begin
from tidegate.protocol.facts.errors import ConfigurationError

LIBRARY = Path(__file__).parents[2] / "include"


def standing_alone(home):
    """The environment of a user who has set nothing but where this library is."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "TIDEGATE"))}
    return kept | {"PYTHONPATH": str(LIBRARY), "COLUMNS": "500"}


@pytest.fixture
def shop(tmp_path):
    """A project in an empty directory, and what runs a command in it."""
    here = CommandHere(tmp_path, standing_alone(tmp_path))
    begun = here("init", "shop")
    assert begun.returncode == 0, begun.stderr
    yield tmp_path / "shop", CommandHere(tmp_path / "shop", standing_alone(tmp_path))
    CommandHere(tmp_path / "shop", standing_alone(tmp_path))("db", "stop")


def test_a_project_has_the_layout_of_this_one_and_registers_its_pipeline(shop):
    home, _ = shop
    made = [path for path in home.rglob("*") if path.is_file() and path.parent.name != "__pycache__"]
    assert {str(path.relative_to(home)) for path in made} == {
        *("dags/example.py", "include/shop/orders.py", "include/shop/pipelines.py", "tests/test_example.py"),
        *("pyproject.toml", "docker-compose.yaml", ".env.example", ".gitignore", "landing/orders/orders-0001.csv"),
    }
    for path in home.rglob("*.py"):
        compile(path.read_text(), path, "exec")
    assert not [path for path in made if "PROJECT_" in path.read_text()]
    project = tomllib.loads((home / "pyproject.toml").read_text())
    assert project["tool"]["tidegate"]["pipelines"] == {"example": "shop.pipelines:example"}
    assert yaml.safe_load((home / "docker-compose.yaml").read_text())["services"].keys() == {"postgres", "airflow"}


def test_what_reads_starts_no_server_and_what_writes_makes_and_upgrades_it(shop):
    home, tidegate = shop
    nothing = tidegate("checkpoints", "example")
    assert (nothing.returncode, "No database was found" in nothing.stderr) == (ExitCode.USAGE, True)
    listed = json.loads(tidegate("pipelines", "-o", "json").stdout)
    assert [(each["pipeline"], each["registered"], each["status"]) for each in listed] == [
        ("example", "shop.pipelines:example", None)
    ]
    assert not (home / ".tidegate").exists()

    requested = tidegate("savepoints", "example")  # reads: it does not make one either
    assert requested.returncode == ExitCode.USAGE
    assert tidegate("db", "start").returncode == 0
    (ours,) = [each for each in json.loads(tidegate("db", "status", "-o", "json").stdout) if each["this_project"]]
    assert ours["pid"]
    assert tidegate("savepoints", "example").returncode == 0  # the schema is there
    assert tidegate("db", "stop").returncode == 0
    stopped = tidegate("checkpoints", "example")
    assert (stopped.returncode, "`tidegate db start`" in stopped.stderr) == (ExitCode.UNAVAILABLE, True)
    (ours,) = [each for each in json.loads(tidegate("db", "status", "-o", "json").stdout) if each["this_project"]]
    assert ours["pid"] is None
    assert "No embedded server is running" in tidegate("db", "stop").stderr


def test_outside_of_a_project_nothing_is_started(tmp_path):
    tidegate = CommandHere(tmp_path, standing_alone(tmp_path))
    for refused in (tidegate("db", "start"), tidegate("db", "upgrade")):
        assert refused.returncode == ExitCode.USAGE
        assert "tidegate init" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_server_of_somebody_else_is_not_upgraded_by_itself(tmp_path, postgres_server, quick_python):
    postgres_server.create_database("theirs")
    (tmp_path / "program.py").write_text("from tidegate import Pipeline\npipeline = Pipeline('p')\n")
    tidegate = CommandHere(tmp_path, environment_of(tmp_path, postgres_server.url("theirs")))
    refused = tidegate("run", "program:pipeline")
    assert (refused.returncode, "Run `tidegate db upgrade` first" in refused.stderr) == (ExitCode.USAGE, True)


def test_a_project_of_ones_own_gets_what_it_lacks_and_loses_nothing(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "mine"\n')
    (tmp_path / ".gitignore").write_text("mine\n")
    begin(tmp_path, "mine")
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())
    assert (project["project"]["name"], list(project["tool"]["tidegate"]["pipelines"])) == ("mine", ["example"])
    assert (tmp_path / ".gitignore").read_text() == "mine\n"
    with pytest.raises(ConfigurationError, match=r"dags/example.py, .* would be overwritten. Nothing was written"):
        begin(tmp_path, "mine")


@pytest.mark.parametrize(
    ("directory", "name", "package"), [("my-shop", None, "my_shop"), ("json", None, "json_pipelines"), ("a", "b", "b")]
)
def test_the_package_is_called_after_the_directory_or_as_is_said(tmp_path, directory, name, package):
    begin(tmp_path / directory, name)
    assert (tmp_path / directory / "include" / package / "pipelines.py").exists()


def test_its_tables_are_in_postgres_too_if_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    begin(tmp_path, "mine", postgres=True)
    pipeline = runpy.run_path(str(tmp_path / "include/mine/pipelines.py"))["example"]
    sinks = {each.name: each.sink.describe()["type"] for each in pipeline.vertices if isinstance(each, SinkVertex)}
    assert sinks == {
        "orders": "ParquetSink", "totals": "ParquetSink", "orders_mart": "PostgresSink", "totals_mart": "PostgresSink",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["class", "json", "1st", "a-b"])
def test_a_name_that_is_none_for_a_package_is_refused(tmp_path, name):
    with pytest.raises(ConfigurationError, match="Nothing was written"):
        begin(tmp_path / "new", name)
    assert not (tmp_path / "new").exists()


@pytest.mark.long
@pytest.mark.spark
def test_the_test_that_a_project_begins_with_kills_the_example_and_passes(shop):
    home, _ = shop
    command = Command(home, standing_alone(home))
    ended = command.python("-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert ended.returncode == 0, ended.stdout + ended.stderr
