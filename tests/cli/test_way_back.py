"""Savepoints and restores as a user asks for them, on a real pipeline."""

import json

import pytest
from commands import Command, CommandHere, environment_of
from orders import PROJECT, SHOP, Shop, check_tables, check_tables_of

from tidegate.cli.exit_codes import ExitCode

pytestmark = pytest.mark.spark


@pytest.fixture
def project(tmp_path, postgres_url, connect_server):
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "shop.py").write_text(SHOP)
    return environment_of(tmp_path, postgres_url) | {"TIDEGATE_SPARK_REMOTE": connect_server}


@pytest.mark.long
def test_a_savepoint_is_gone_back_to_by_its_name_and_the_restore_is_undone(project, tmp_path):
    command, here, shop = Command(tmp_path, project), CommandHere(tmp_path, project), Shop(tmp_path)

    def ok(ended):
        assert ended.returncode == ExitCode.OK, ended.stderr
        return ended

    shop.deliver(files=1)
    ok(command("savepoint", "orders", "--name", "first", "--note", "before the change"))
    then = list(shop.rows)
    shop.deliver(files=1)
    ok(command("run", "orders"))
    check_tables(shop)
    (listed,) = json.loads(ok(here("savepoints", "orders", "-o", "json")).stdout)
    assert (listed["id"], listed["name"], listed["note"]) == (1, "first", "before the change")
    assert "before the change" in ok(here("savepoints", "orders")).stdout
    ok(here("rename", "orders", "first", "day one"))
    assert json.loads(ok(here("savepoint", "orders", "day one", "-o", "json")).stdout)["is_savepoint"]

    planned = json.loads(ok(here("restore", "orders", "--savepoint", "day one", "--dry-run", "-o", "json")).stdout)
    assert (planned["checkpoint"]["id"], planned["abandoned_checkpoints"]) == (1, [2])
    assert [(each["source"], each["files"], each["missing"]) for each in planned["sources"]] == [("orders", 1, [])]
    assert [each["withdrawn_checkpoints"] for each in planned["sinks"]] == [[2]] * 5
    check_tables(shop)
    nobody = here("restore", "orders", "--savepoint", "day one")
    assert nobody.returncode == ExitCode.ABORTED  # nobody is there to confirm
    check_tables(shop)

    shown = ok(here("restore", "orders", "--checkpoint", "1", "--yes"))
    assert "Back to checkpoint 1. Checkpoints left behind: 2." in shown.stdout
    assert "Pipeline orders was restored to checkpoint 1." in shown.stderr
    check_tables_of(shop, then)
    history = json.loads(ok(here("checkpoints", "orders", "-o", "json")).stdout)
    assert [(each["id"], each["abandoned"]) for each in history] == [(2, True), (1, False)]
    assert "(left behind)" in ok(here("checkpoints", "orders")).stdout
    in_use = here("dispose", "orders", "day one", "--yes")
    assert (in_use.returncode, "goes on from it" in in_use.stderr) == (ExitCode.PIPELINE_STOPPED, True)
    ok(command("run", "orders"))
    check_tables(shop)

    ok(here("restore", "orders", "--undo", "--yes"))
    check_tables(shop)
    ok(here("dispose", "orders", "day one", "--yes"))
    assert json.loads(ok(here("savepoints", "orders", "-o", "json")).stdout) == []
