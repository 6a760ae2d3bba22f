"""`tidegate check`, what a run checks by itself, and modules of pipelines that cannot be imported: exit code 2, with
file and line."""

import json
from contextlib import closing
from types import SimpleNamespace

import pytest
from commands import Command, CommandHere, environment_of

from tidegate import assembly
from tidegate.cli.exit_codes import ExitCode

SHOP = """
from tidegate import FileSource, ParquetSink, Pipeline, count

def pipeline(name, taken):
    made = Pipeline(name)
    orders = made.source("orders", FileSource("landing", schema="customer string, amount int"))
    left = orders.transform(lambda rows: rows.drop(taken))
    left.key_by("customer").aggregate("totals", n=count("amount")).sink("totals", ParquetSink("tables/t"))
    return made

right, wrong = pipeline("right", "nothing"), pipeline("wrong", "amount")
"""
NOWHERE = "postgresql+psycopg2://nobody@127.0.0.1:1/none"


@pytest.mark.spark
def test_a_definition_is_checked_without_data_and_without_a_database(tmp_path, connect_server, quick_python):
    (tmp_path / "shop.py").write_text(SHOP)
    command = Command(
        tmp_path, environment_of(tmp_path, NOWHERE) | {"TIDEGATE_SPARK_REMOTE": connect_server}, quick_python
    )
    right = command("check", "shop:right")
    assert (right.returncode, right.stdout) == (
        ExitCode.OK,
        "The definition of pipeline right is correct.\n",
    ), right.stderr
    wrong = command("check", "shop:wrong", "-o", "json")
    assert wrong.returncode == ExitCode.USAGE, wrong.stderr
    said = json.loads(wrong.stdout)
    assert said["pipeline"] == "wrong"
    assert [problem[:66] for problem in said["problems"]] == [
        "The operator 'totals' of pipeline 'wrong' needs column 'amount', b"
    ]


COUNTED = """
import os
from tidegate import FileSource, ParquetSink, Pipeline, count

def left(rows):
    with open("looked", "a") as file:
        file.write(".")
    return rows.drop(os.environ["TAKEN"])

shop = Pipeline("counted", parallelism=1)
orders = shop.source("orders", FileSource("landing", schema="customer string, amount int"))
orders.transform(left).key_by("customer").aggregate("totals", n=count("amount")).sink("t", ParquetSink("tables/t"))
"""


@pytest.mark.spark
def test_a_run_checks_a_definition_once_before_it_reads(tmp_path, connect_server, quick_python, postgres_url):
    (tmp_path / "counted.py").write_text(COUNTED)
    (tmp_path / "landing").mkdir()
    environment = environment_of(tmp_path, postgres_url) | {"TIDEGATE_SPARK_REMOTE": connect_server}
    command = Command(tmp_path, environment, quick_python)

    def run(taken, file):
        (tmp_path / "landing" / file).write_text("customer,amount\neve,1\n")
        (tmp_path / "looked").unlink(missing_ok=True)
        ended = command("run", "counted:shop", TAKEN=taken)
        return ended, (tmp_path / "looked").stat().st_size

    refused, _ = run("amount", "a.csv")
    assert refused.returncode == ExitCode.USAGE, refused.stderr
    assert "needs column 'amount', but its input has only customer." in refused.stderr
    assert "Nothing was read, and committed data is untouched." in refused.stderr
    assert "snapshot" not in refused.stderr
    assert command("checkpoints", "counted").returncode == ExitCode.NOT_FOUND, "nothing was triggered"
    (first, looked), (second, again) = run("nothing", "b.csv"), run("nothing", "c.csv")
    assert (first.returncode, second.returncode) == (ExitCode.OK, ExitCode.OK), first.stderr + second.stderr
    assert looked > again > 0


def test_a_continuous_run_checks_a_definition_before_it_is_the_region(tmp_path, postgres_url, monkeypatch):
    (tmp_path / "counted.py").write_text(COUNTED)
    monkeypatch.setattr(assembly, "open_region", lambda *_: SimpleNamespace(session=None))
    monkeypatch.setattr(assembly, "definition_problems", lambda graph, session: ["A column is missing."])
    ended = CommandHere(tmp_path, environment_of(tmp_path, postgres_url))("run", "counted:shop", "--continuous")
    assert ended.returncode == ExitCode.USAGE, ended.stderr
    assert "PipelineDefinitionError A column is missing. The definition of pipeline counted was" in ended.stderr
    with closing(assembly.open_store(postgres_url)) as store:
        assert store.region("counted").attempt == 0


@pytest.mark.parametrize(
    ("source", "code", "message"),
    [
        ("def x(:", ExitCode.USAGE, "{file}, line 1: SyntaxError: invalid syntax. Nothing was started."),
        (
            "from tidegate import Pipeline\n\npipeline = Pipeline('shop', paralelism=2)",
            ExitCode.USAGE,
            "{file}, line 3: TypeError: Pipeline.__init__() got an unexpected keyword argument 'paralelism'",
        ),
        ("import not_there_at_all", ExitCode.USAGE, "{file}, line 1: ModuleNotFoundError: No module named 'not_there"),
        ("from tidegate import nothing", ExitCode.USAGE, "{file}, line 1: ImportError: cannot import name 'nothing'"),
        ("{}['k']", ExitCode.USAGE, "{file}, line 1: KeyError: 'k'"),
        (
            "from tidegate import FileSource\nFileSource('landing', schema='')",
            ExitCode.USAGE,
            "PipelineDefinitionError FileSource('landing'): it needs a schema in Spark DDL",
        ),
        (
            "from tidegate import Pipeline\nother = Pipeline('shop')",
            ExitCode.NOT_FOUND,
            "has no 'pipeline'. It has these pipelines: other.",
        ),
        ("pipeline = 7", ExitCode.NOT_FOUND, "is of type int, not a tidegate Pipeline"),
    ],
)
def test_a_module_that_cannot_be_imported_is_told_with_file_and_line(source, code, message, tmp_path, request):
    name = f"broken_{abs(hash(request.node.name))}"
    file = tmp_path / f"{name}.py"
    file.write_text(source)
    ended = CommandHere(tmp_path, environment_of(tmp_path, NOWHERE))("check", f"{name}:pipeline")
    assert ended.returncode == code, ended.stderr
    assert message.replace("{file}", str(file)) in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr


def test_a_module_that_is_not_there_is_not_found(tmp_path):
    ended = CommandHere(tmp_path, environment_of(tmp_path, NOWHERE))("check", "no_such_package.module:pipeline")
    assert ended.returncode == ExitCode.NOT_FOUND
    assert "there is no module 'no_such_package' on Python's path, nor in" in " ".join(ended.stderr.split())
