"""`tidegate plan` on real checkpoints, and a run that goes on, or is refused in the same words."""

import json
from collections import Counter

import pytest
from commands import Command, CommandHere, environment_of
from orders import Shop, rows_of

from tidegate.cli.exit_codes import ExitCode

pytestmark = pytest.mark.spark

PROJECT = """
[tool.tidegate.pipelines]
shop = "shop:pipeline"
"""
SHOP = """
import os
from pathlib import Path
from tidegate import CheckpointConfig, FileSource, ParquetSink, Pipeline, count, max_, sum_

home = Path(os.environ["TIDEGATE_HOME"])
pipeline = Pipeline("shop", parallelism=2, max_parallelism=16, checkpoints=CheckpointConfig(retained=5))
orders = pipeline.source("orders", FileSource(str(home / "landing"), schema="customer string, amount {amount}"))
totals = orders.key_by("customer").aggregate({totals})
totals.sink("totals", ParquetSink(str(home / "tables/totals"), mode="latest"))
"""


def write(home, totals, amount="int"):
    (home / "shop.py").write_text(SHOP.format(totals=totals, amount=amount))


@pytest.fixture
def project(tmp_path, postgres_url, connect_server):
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    return environment_of(tmp_path, postgres_url) | {"TIDEGATE_SPARK_REMOTE": connect_server}


def verdicts(ended):
    return {each["name"] + " " + each["kind"]: each["verdict"] for each in json.loads(ended.stdout)["vertices"]}


@pytest.mark.long
def test_code_is_compared_before_it_is_deployed(project, tmp_path):
    command, here, shop = Command(tmp_path, project), CommandHere(tmp_path, project), Shop(tmp_path)
    write(tmp_path, '"totals", n=count(), most=max_("amount")')
    first = here("plan", "shop")
    assert first.returncode == ExitCode.OK, first.stderr
    assert "has no checkpoint that it could go on from" in first.stdout
    shop.deliver(files=2)
    assert command("run", "shop").returncode == ExitCode.OK
    same = here("plan", "shop", "-o", "json")
    assert (same.returncode, set(verdicts(same).values())) == (ExitCode.OK, {"same"}), same.stderr

    write(tmp_path, '"totals", n=count(), most=max_("amount")', amount="bigint")
    widened = here("plan", "shop", "-o", "json")
    assert verdicts(widened) == {"orders source": "same", "totals operator": "migrates", "totals sink": "same"}
    assert "column 'most' is widened from int to bigint" in widened.stdout
    changed = '"sums", n=count(), most=max_("amount"), total=sum_("amount"), previous="totals"'
    write(tmp_path, changed, amount="bigint")
    shown = here("plan", "shop")
    assert (shown.returncode, "Pipeline shop can go on from checkpoint 1." in shown.stdout) == (ExitCode.OK, True)
    for said in ("migrates", "was called 'totals'", "aggregate 'total', sum(amount), is new"):
        assert said in shown.stdout
    restore = here("restore", "shop", "--latest", "--dry-run", "-o", "json")
    (state,) = json.loads(restore.stdout)["operators"]
    assert state["matched"]
    assert state["changes"] == ["aggregate 'total', sum(amount), is new: it knows rows from now on"]
    shop.deliver(files=1)
    ended = command("run", "shop")
    assert ended.returncode == ExitCode.OK, ended.stderr
    counted = dict(Counter(customer for customer, _ in shop.rows))
    kept = {row["customer"]: row for row in rows_of(tmp_path / "tables/totals/current")}
    assert {customer: row["n"] for customer, row in kept.items()} == counted
    assert all(set(row) >= {"n", "most", "total"} for row in kept.values())
    state = json.loads(here("state", "shop", "sums", "-o", "json").stdout)
    assert {row["customer"]: row["n"] for row in state["rows"]} == counted

    older = here("restore", "shop", "--checkpoint", "1", "--dry-run")
    assert "aggregate 'total', sum(amount), is new" in older.stdout, older.stderr
    assert "column 'most' is widened from int to bigint" in older.stdout
    write(tmp_path, '"sums", n=count(), most=max_("amount")')
    narrow = here("plan", "shop", "-o", "json")
    assert narrow.returncode == ExitCode.INCOMPATIBLE
    assert not json.loads(narrow.stdout)["can_go_on"]
    (problem,) = (each for each in json.loads(narrow.stdout)["vertices"] if each["verdict"] == "refuses")
    assert "'most' is stored as bigint, now int, which cannot hold every value of it" in problem["changes"][0]
    shop.deliver(files=1)
    ran = command("run", "shop")
    assert ran.returncode == ExitCode.ABORTED
    said = " ".join(ran.stderr.split())
    assert problem["changes"][0] in said
    assert problem["way_out"] in said
