"""`tidegate clean` as a user asks for it, on a real pipeline: what is kept, what goes, and what is damaged."""

import json

import pytest
from commands import Command, CommandHere, environment_of
from orders import Shop, check_tables, check_tables_of
from store_steps import triggered

from tidegate.cli.exit_codes import ExitCode

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
def project(tmp_path, postgres_url):
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "shop.py").write_text(SHOP)
    return environment_of(tmp_path, postgres_url)


@pytest.mark.spark
def test_what_is_kept_is_shown_what_was_left_goes_and_damage_is_named(project, tmp_path, connect_server, quick_python):
    project |= {"TIDEGATE_SPARK_REMOTE": connect_server}
    command, here, shop = Command(tmp_path, project, quick_python), CommandHere(tmp_path, project), Shop(tmp_path)
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
    (damaged, *_) = sorted(storage.rglob("chk-1/**/*.parquet"))
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    hurt = cleaned("orders", code=ExitCode.DAMAGED)
    (damage,) = hurt["damage"]
    assert (damage["path"], damage["checkpoints"]) == (str(damaged.relative_to(storage)), [1, 2])
    assert "SHA-256" in damage["problem"]
    assert not hurt["changed"]
    damaged.write_bytes(content)

    assert here("restore", "orders", "--savepoint", "first", "--yes").returncode == ExitCode.OK
    check_tables_of(shop, then)
    assert here("restore", "orders", "--undo", "--yes").returncode == ExitCode.OK
    check_tables(shop)
    before = held(tmp_path)
    assert here("dispose", "orders", "first", "--yes").returncode == ExitCode.OK
    freed = before.keys() - held(tmp_path).keys()
    alone = planned["kept"][0]["alone"]
    assert (len(freed), sum(before[path] for path in freed)) == (alone["files"], alone["bytes"])
    assert cleaned("orders")["damage"] == []


def test_one_that_cannot_be_cleaned_up_after_does_not_hold_up_the_others(project, tmp_path, store):
    here = CommandHere(tmp_path, project)
    nothing = here("clean", "-o", "json")
    assert (nothing.returncode, json.loads(nothing.stdout)) == (ExitCode.OK, [])  # no checkpoint was ever asked for
    unknown = here("clean", "never")
    assert (unknown.returncode, "'never' has no checkpoints in" in unknown.stderr) == (ExitCode.NOT_FOUND, True)
    triggered(store, pipeline_id="orders")
    both = here("clean", "lost", "never", "orders", "-o", "json")
    assert both.returncode == ExitCode.NOT_FOUND
    assert [(each["pipeline"], each["kept"]) for each in json.loads(both.stdout)] == [("orders", [])]
    assert "No pipeline named 'lost'" in both.stderr
    assert "'never' has no checkpoints in" in both.stderr
    (tmp_path / "pyproject.toml").write_text("")
    none = here("clean")
    assert (none.returncode, "No pipeline was given" in none.stderr) == (ExitCode.USAGE, True)


def held(home):
    """Files of state and of sinks' staging, with their sizes."""
    found = [*(home / ".tidegate/checkpoints").rglob("*"), *(home / "tables").glob("*/_staging/*/*")]
    return {path: path.stat().st_size for path in found if path.is_file() and path.name[0] != "_"}
