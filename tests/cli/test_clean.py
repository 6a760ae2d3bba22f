"""`tidegate clean` as a user asks for it, on a real pipeline: what is kept, what goes, and what is damaged."""

import json

import pytest
from commands import Command, CommandHere, environment_of
from orders import Shop, check_tables, check_tables_of

from tidegate.cli.exit_codes import ExitCode

pytestmark = pytest.mark.spark

PROJECT = """
[tool.tidegate.pipelines]
orders = "shop:pipeline"
never = "shop:never"
"""
SHOP = """
import os
from pathlib import Path
from orders import orders_pipeline

pipeline = orders_pipeline(Path(os.environ["TIDEGATE_HOME"]), retained=1)
never = orders_pipeline(Path(os.environ["TIDEGATE_HOME"]), "never")
"""


@pytest.fixture
def project(tmp_path, postgres_url, connect_server):
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "shop.py").write_text(SHOP)
    return environment_of(tmp_path, postgres_url) | {"TIDEGATE_SPARK_REMOTE": connect_server}


def test_what_is_kept_is_shown_what_was_left_goes_and_damage_is_named(project, tmp_path):
    command, here, shop = Command(tmp_path, project), CommandHere(tmp_path, project), Shop(tmp_path)
    storage = tmp_path / ".tidegate/checkpoints"

    def cleaned(*arguments, code=ExitCode.OK):
        ended = here("clean", *arguments, "-o", "json")
        assert ended.returncode == code, ended.stderr
        (report,) = json.loads(ended.stdout)
        return report

    shop.deliver(files=1)
    assert command("savepoint", "orders", "--name", "first").returncode == ExitCode.OK
    then = list(shop.rows)
    shop.deliver(files=1)
    assert command("run", "orders").returncode == ExitCode.OK

    left = [storage / "orders/chk-1/balance/0-1-zombie.parquet", tmp_path / "tables/seen/_staging/chk-1/0-1-x.parquet"]
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"left")
    planned = cleaned("--dry-run")
    assert [(each["id"], each["why"]) for each in planned["kept"]] == [(1, "savepoint first"), (2, "latest, retained")]
    assert {each["path"] for each in planned["garbage"]} == {
        "orders/chk-1/balance/0-1-zombie.parquet",
        "_staging/chk-1/0-1-x.parquet",
    }
    assert not planned["changed"]
    assert all(path.exists() for path in left)
    assert cleaned() == planned | {
        "changed": True,
        "summary": [line.replace("To be d", "D") for line in planned["summary"]],
    }
    assert not any(path.exists() for path in left)
    check_tables(shop)
    shown = here("clean", "orders").stdout
    assert "Pipeline orders keeps" in shown
    assert "savepoint first" in shown
    assert here("clean", "never").returncode == ExitCode.NOT_FOUND

    stored = {path: path.stat().st_size for path in storage.rglob("*.parquet")}
    mine, whole = planned["kept"][0]["alone"], {path for path in stored if "/chk-1/" in str(path)}
    (damaged, *_) = sorted(whole)
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    hurt = cleaned("orders", code=ExitCode.DAMAGED)
    assert [(each["path"], each["checkpoints"]) for each in hurt["damage"]] == [
        (str(damaged.relative_to(storage)), [1, 2])
    ]
    assert "SHA-256" in hurt["damage"][0]["problem"]
    assert not hurt["changed"]
    damaged.write_bytes(content)

    assert here("restore", "orders", "--savepoint", "first", "--yes").returncode == ExitCode.OK
    check_tables_of(shop, then)
    assert here("restore", "orders", "--undo", "--yes").returncode == ExitCode.OK
    check_tables(shop)
    before = sum(path.stat().st_size for path in storage.rglob("*.parquet"))
    assert here("dispose", "orders", "first", "--yes").returncode == ExitCode.OK
    staged = 0
    assert before - sum(path.stat().st_size for path in storage.rglob("*.parquet")) <= mine["bytes"] + staged
    assert cleaned("orders")["damage"] == []
