"""`tidegate compare` on two real pipelines."""

import json

import pytest
from commands import Command, environment_of

from tidegate.cli.exit_codes import ExitCode

pytestmark = pytest.mark.spark

PROGRAM = """
from tidegate import FileSource, ParquetSink, Pipeline, count

def defined(name, *more):
    pipeline = Pipeline(name)
    rows = pipeline.source("rows", FileSource(f"landing/{name}", schema="k string, n bigint"))
    counts = rows.key_by("k").aggregate("counts", rows=count())
    rows.sink("all", ParquetSink(f"tables/{name}/all"))
    for sink in ("current", *more):
        counts.sink(sink, ParquetSink(f"tables/{name}/{sink}", mode="latest"))
    return pipeline

old, new = defined("old"), defined("new", "more")
"""


@pytest.mark.long
def test_tables_and_state_that_differ_are_named_with_some_of_the_rows(tmp_path, postgres_url, connect_server):
    (tmp_path / "program.py").write_text(PROGRAM)
    for name, rows in {"old": ["a,1", "b,2"], "new": ["b,2", "a,1", "a,3"]}.items():
        landing = tmp_path / "landing" / name
        landing.mkdir(parents=True)
        (landing / "1.csv").write_text("\n".join(["k,n", *rows]))
    command = Command(tmp_path, environment_of(tmp_path, postgres_url) | {"TIDEGATE_SPARK_REMOTE": connect_server})
    nothing = command("compare", "program:old", "program:new")
    assert nothing.returncode == ExitCode.NOT_FOUND, nothing.stderr
    for name in ("old", "new"):
        ended = command("run", f"program:{name}")
        assert ended.returncode == ExitCode.OK, ended.stderr

    ended = command("compare", "program:old", "program:new", "-o", "json")
    assert ended.returncode == ExitCode.DIFFERENT, ended.stderr
    document = json.loads(ended.stdout)
    assert document["pipelines"] == [{"pipeline": "old", "checkpoint": 1}, {"pipeline": "new", "checkpoint": 1}]
    found = {(each["part"], each["name"]): each for each in document["compared"]}
    assert {key: each["likeness"] for key, each in found.items()} == {
        ("TABLE", "more"): "ONLY_IN_SECOND",
        ("TABLE", "all"): "DIFFERENT",
        ("TABLE", "current"): "DIFFERENT",
        ("STATE", "counts"): "DIFFERENT",
    }
    assert found["TABLE", "all"]["rows"] == [
        {"number": 2, "surplus": 0, "sample": []},
        {"number": 3, "surplus": 1, "sample": ['{"k":"a","n":3}']},
    ]
    counted = [(rows["number"], rows["sample"]) for rows in found["STATE", "counts"]["rows"]]
    assert counted == [(2, ['{"k":"a","rows":1}']), (2, ['{"k":"a","rows":2}'])]
    same = command("compare", "program:old", "program:old")
    assert (same.returncode, "table all, only" in same.stdout) == (ExitCode.OK, False)
