"""A checkpoint that is held, from the command line: who decides needs no code of the pipeline and no Spark."""

import getpass
import json

import pytest
from commands import Command, CommandHere, environment_of

from tidegate.cli.exit_codes import ExitCode

SHOP = """
from tidegate import FileSource, ParquetSink, Pipeline, expect, suite

pipeline = Pipeline("shop")
orders = pipeline.source("orders", FileSource("landing", schema="customer string, amount bigint"))
large = expect("column_values_to_be_between", column="amount", max_value=100, on_failure="hold", hold_for="2 h")
orders.sink("out", ParquetSink("tables/orders"), expect=suite("plausible", large))
"""


@pytest.fixture
def environment(tmp_path, postgres_url):
    (tmp_path / "pyproject.toml").write_text('[tool.tidegate.pipelines]\nshop = "shop:pipeline"\n')
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "a.csv").write_text("customer,amount\nada,5\ngrace,500\n")
    return environment_of(tmp_path, postgres_url)


@pytest.fixture
def here(tmp_path, environment):
    return CommandHere(tmp_path, environment)


@pytest.fixture
def command(tmp_path, environment, connect_server, quick_python):
    return Command(tmp_path, environment | {"TIDEGATE_SPARK_REMOTE": connect_server}, quick_python)


def details(here, checkpoint_id=1):
    return json.loads(here("checkpoint", "shop", str(checkpoint_id), "-o", "json").stdout)


@pytest.mark.spark
def test_a_run_is_held_approved_and_completed(command, here, tmp_path):
    for _ in range(2):  # and says the same again
        held = command("run", "shop")
        assert held.returncode == ExitCode.HELD, held.stderr
        assert "CheckpointHeldError Checkpoint 1 of pipeline shop is held until" in held.stderr
        assert "`tidegate approve shop 1`" in held.stderr
        assert "expect_column_values_to_be_between on amount, 1 unexpected, such as [500]" in held.stderr
    shown = details(here)
    assert (shown["status"], shown["phase"], shown["hold"]["decision"]) == ("IN_PROGRESS", "HELD", None)
    assert shown["hold"]["until_timestamp"] - shown["hold"]["held_timestamp"] == 2 * 3600 * 1000
    assert not list((tmp_path / "tables" / "orders").glob("checkpoint=*"))
    assert "1   HELD " in here("checkpoints", "shop").stdout
    assert "waits for approval until" in here("stats", "shop").stdout
    assert json.loads(here("stats", "shop", "-o", "json").stdout)["held"]["id"] == 1

    (tmp_path / "shop.py").rename(tmp_path / "gone.py")  # no code is needed to decide
    approved = here("approve", "shop", "--comment", "a wholesale order")
    assert approved.returncode == ExitCode.OK, approved.stderr
    assert f"Checkpoint 1 of pipeline shop was approved by {getpass.getuser()} at" in approved.stderr
    assert here("approve", "shop", "1").returncode == ExitCode.OK
    refused = here("reject", "shop", "1")
    assert refused.returncode == ExitCode.PIPELINE_STOPPED
    assert "(a wholesale order). That stands" in refused.stderr
    (tmp_path / "gone.py").rename(tmp_path / "shop.py")

    done = command("run", "shop", "-o", "json")
    assert done.returncode == ExitCode.OK, done.stderr
    assert json.loads(done.stdout)["id"] == 1
    assert list((tmp_path / "tables" / "orders").glob("checkpoint=1"))
    assert details(here)["hold"]["comment"] == "a wholesale order"
    assert "approved by" in here("checkpoint", "shop", "1").stdout
    assert json.loads(here("stats", "shop", "-o", "json").stdout)["held"] is None


@pytest.mark.long  # `docs/how-to/approve-data-by-hand.md` shows it, too
@pytest.mark.spark
def test_a_run_is_held_and_rejected_and_the_next_one_takes_the_corrected_data(command, here, tmp_path):
    assert command("run", "shop").returncode == ExitCode.HELD
    rejected = here("reject", "shop", "1", "--by", "ada", "--comment", "a typing error")
    assert (rejected.returncode, rejected.stdout) == (ExitCode.OK, "")
    assert "was rejected by ada at" in rejected.stderr
    assert details(here)["failure_reason"] == "VALIDATION_REJECTED"
    (tmp_path / "landing" / "a.csv").write_text("customer,amount\nada,5\ngrace,50\n")
    done = command("run", "shop", "-o", "json")
    assert (done.returncode, json.loads(done.stdout)["id"]) == (ExitCode.OK, 2)


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_who_decides_about_nothing_is_told_so(here, decision):
    assert here(decision, "shop").returncode == ExitCode.PIPELINE_STOPPED
    assert here(decision, "nobody").returncode == ExitCode.NOT_FOUND
    assert here("suspend", "shop").returncode == ExitCode.OK
    nothing = here(decision, "shop")
    assert nothing.returncode == ExitCode.PIPELINE_STOPPED
    assert "No checkpoint of pipeline shop waits for approval" in nothing.stderr
    assert here(decision, "shop", "7").returncode == ExitCode.NOT_FOUND
    assert here(decision, "shop", "7", "--by", "").returncode == ExitCode.USAGE


LATEST = """
from tidegate import FileSource, ParquetSink, Pipeline, expect, sum_, suite

pipeline = Pipeline("shop")
orders = pipeline.source("orders", FileSource("landing", schema="customer string, amount bigint"))
large = expect("column_values_to_be_between", column="total", max_value=100, on_failure="hold", hold_for="2 h")
totals = orders.key_by("customer").aggregate("totals", total=sum_("amount"))
totals.sink("out", ParquetSink("tables/totals", mode="latest"), expect=suite("plausible", large))
"""


@pytest.mark.spark
def test_an_approved_row_of_current_rows_holds_once_and_a_new_one_again(command, here, tmp_path):
    (tmp_path / "shop.py").write_text(LATEST)
    assert command("run", "shop").returncode == ExitCode.HELD
    assert here("approve", "shop", "1").returncode == ExitCode.OK
    assert command("run", "shop").returncode == ExitCode.OK
    (tmp_path / "landing" / "b.csv").write_text("customer,amount\nada,1\n")
    second = command("run", "shop")
    assert second.returncode == ExitCode.OK, second.stderr
    assert command("run", "shop").returncode == ExitCode.OK, "nothing arrived, and nothing is forgotten"
    (verdict,) = details(here, 2)["verdicts"]
    assert (verdict["success"], verdict["failed"], verdict["results"][0]["approved_from"]) == (True, 0, 1)
    assert "approved with checkpoint 1" in here("checkpoint", "shop", "2").stdout
    (tmp_path / "landing" / "c.csv").write_text("customer,amount\neve,700\n")
    held = command("run", "shop")
    assert held.returncode == ExitCode.HELD, held.stderr
