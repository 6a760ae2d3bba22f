"""A corrected file is taken on purpose: back to before it was read, and the tables are as if it had come so."""

import json
import os

import pytest
from commands import Command, CommandHere, environment_of

from tidegate.cli.exit_codes import ExitCode

SHOP = """
from tidegate import CheckpointConfig, FileSource, ParquetSink, Pipeline, sum_

shop = Pipeline("shop", parallelism=1, checkpoints=CheckpointConfig(retained=2))
orders = shop.source("orders", FileSource("landing", schema="customer string, amount int"))
totals = orders.key_by("customer").aggregate("totals", total=sum_("amount"))
totals.sink("totals", ParquetSink("tables/totals", mode="latest"))
"""


@pytest.mark.spark
def test_a_corrected_file_is_read_as_it_is_now(tmp_path, postgres_url, connect_server, quick_python):
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "landing").mkdir()
    environment = environment_of(tmp_path, postgres_url) | {"TIDEGATE_SPARK_REMOTE": connect_server}
    command, here = Command(tmp_path, environment, quick_python), CommandHere(tmp_path, environment)

    def deliver(name, amount):
        (tmp_path / "landing" / name).write_text(f"customer,amount\neve,{amount}\n")

    def run():
        ended = command("run", "shop:shop")
        assert ended.returncode == ExitCode.OK, ended.stderr
        (row,) = json.loads(here("state", "shop", "totals", "-o", "json").stdout)["rows"]
        return row["total"]

    def replace(*arguments):
        return here("source", "replace", "shop:shop", "orders", *arguments)

    def refused(*files, because):
        ended = replace(*files, "--yes")
        assert (ended.returncode, because in " ".join(ended.stderr.split())) == (ExitCode.USAGE, True), ended.stderr
        assert "Nothing was changed." in ended.stderr

    refused("1.csv", because="1.csv was not read by source orders of pipeline shop")
    deliver("1.csv", 1)
    assert run() == 1
    deliver("2.csv", 20)
    assert run() == 21
    deliver("1.csv", 1000)
    refused("1.csv", because="the oldest is 1. Nothing was changed. State and tables hold the rows as they were read.")
    deliver("1.csv", 1)
    refused("1.csv", because="1.csv is as checkpoint 1 of pipeline shop has read it")
    deliver("2.csv", 300)
    at_once = command("run", "shop:shop")
    assert at_once.returncode == ExitCode.ABORTED
    assert "file as it is now with `tidegate source replace`." in at_once.stderr

    document = json.loads(replace("landing/2.csv", "--dry-run", "-o", "json").stdout)
    (file,) = document["files"]
    assert (file["file"], file["read_by_checkpoint"]) == ("2.csv", 2)
    assert (file["then"]["bytes"], file["now"]["bytes"]) == (23, 24)
    assert file["then"]["checksum"] != file["now"]["checksum"]
    back = document["restore"]
    assert (back["checkpoint"]["id"], back["abandoned_checkpoints"]) == (1, [2])
    assert [(each["files"], each["missing"]) for each in back["sources"]] == [(1, [])]
    shown = replace(str(tmp_path / "landing/2.csv"), "--dry-run").stdout
    assert "Source orders:" in shown
    assert "Back to checkpoint 1. Checkpoints left behind: 2." in shown
    assert replace("2.csv").returncode == ExitCode.ABORTED  # nobody is there to confirm

    done = replace("2.csv", "--yes")
    assert done.returncode == ExitCode.OK, done.stderr
    assert done.stderr == (
        "Pipeline shop was restored to checkpoint 1. The next checkpoint reads 2.csv as it is now.\n"
    )
    refused("2.csv", because="the next checkpoint reads it as it is")
    assert run() == 301
    audited = json.loads(here("audit", "shop", "-o", "json").stdout)
    restores = [each for each in audited if each["kind"] == "RESTORE"]
    assert [each["status"] for each in restores].count("DONE") == 1
    assert all(each["details"]["source"] == "orders" for each in restores)
    os.unlink(tmp_path / "landing/2.csv")
    refused("2.csv", because="2.csv is gone")
