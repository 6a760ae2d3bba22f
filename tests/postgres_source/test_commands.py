"""A pipeline that reads a table in Postgres, by commands: it is checked, run with another parallelism, compared with
changed code, and restored."""

import json
from pathlib import Path

import pytest
from commands import Command, environment_of
from marts import Server
from outbox_lives import INDEX, TABLE, insert

from tidegate.cli.exit_codes import ExitCode

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

PIPELINE = """
from tidegate import CheckpointConfig, Pipeline, PostgresSink, PostgresSource, count

def pipeline(*given, parallelism=2, columns="id BIGINT, v STRING", **options):
    pipeline = Pipeline("outbox", parallelism=parallelism, checkpoints=CheckpointConfig(retained=9))
    source = PostgresSource(*(given or ["outbox", "shop"]), **{{"schema": columns, "max_rows": 2, **options}})
    rows = pipeline.source("rows", source)
    rows.sink("rows", PostgresSink("rows", columns=["id", "v"]))
    rows.key_by("v").aggregate("counts", n=count()).sink("counts", PostgresSink("counts", "upsert", key="v"))
    return pipeline

outbox = pipeline({given})
"""
#: What is changed, the verdict on the source, and what the plan says of it.
CHANGES = [
    ("", "same", ""),
    ("max_rows=5", "same", "max_rows"),
    ('key="id"', "same", "key"),
    ('on_change="ignore"', "same", "on_change"),
    ('start="7/1 5:5:"', "same", "start"),
    ('columns="id BIGINT, v STRING, xid BIGINT"', "same", "schema"),
    ("parallelism=3", "same", ""),
    ('"other", "shop"', "refuses", "postgres://shop/public.other"),
    ('"outbox", "mart"', "refuses", "postgres://mart/public.outbox"),
    ('"outbox", "shop", "tx"', "same", "xid"),
]


def test_it_is_checked_run_compared_and_restored(
    tmp_path: Path, postgres_url: str, shop: Server, connect_server: str, quick_python: list[str]
) -> None:
    environment = environment_of(tmp_path, postgres_url) | {"TIDEGATE_SPARK_REMOTE": connect_server}
    command = Command(tmp_path, environment, quick_python)

    def write(given: str = "") -> None:
        (tmp_path / "shop.py").write_text(PIPELINE.format(given=given))

    write()
    missing = command("check", "shop:outbox")
    assert missing.returncode == ExitCode.USAGE, missing.stderr
    assert "there is no such table" in missing.stdout
    shop.do(TABLE)
    unindexed = command("check", "shop:outbox")
    assert unindexed.returncode == ExitCode.OK, unindexed.stdout
    assert "has no index that begins with xid" in unindexed.stderr
    shop.do(INDEX)
    insert(shop, 1, 2, 3)
    assert command("run", "shop:outbox").returncode == ExitCode.OK
    mart = Server(postgres_url)
    assert mart.rows("SELECT id FROM public.rows ORDER BY id") == [1, 2]
    assert "1 row" in command("stats", "outbox").stdout
    shown = command("stats", "outbox", "-o", "json")
    assert '"unit": "rows"' in shown.stdout, shown.stdout + shown.stderr

    for given, verdict, said in CHANGES:
        write(given)
        planned = command("plan", "shop:outbox", "-o", "json")
        [found] = [
            each
            for each in json.loads(planned.stdout)["vertices"]
            if (each["name"], each["kind"]) == ("rows", "source")
        ]
        assert (given, found["verdict"]) == (given, verdict)
        assert said in str(found), found

    write('parallelism=3, key="id"')
    insert(shop, 4)
    for _ in range(2):
        ended = command("run", "shop:outbox")
        assert ended.returncode == ExitCode.OK, ended.stderr
    assert mart.rows("SELECT id FROM public.rows ORDER BY id") == [1, 2, 3, 4]
    assert mart.rows("SELECT n FROM public.counts") == [4]

    [xid] = shop.rows("SELECT xid::text FROM public.outbox WHERE id = 3")
    shop.do("DELETE FROM public.outbox WHERE id = 3")
    restored = command("restore", "shop:outbox", "--checkpoint", "1", "--dry-run", "-o", "json")
    assert "1 row of table public.outbox" in restored.stdout, restored.stderr
    refused = command("restore", "shop:outbox", "--checkpoint", "1", "--yes")
    assert (refused.returncode, "put them back, or lose" in refused.stderr) == (ExitCode.USAGE, True)
    shop.do(f"INSERT INTO public.outbox (id, xid) VALUES (3, '{xid}')")  # noqa: S608
    assert command("restore", "shop:outbox", "--checkpoint", "1", "--yes").returncode == ExitCode.OK
    changed = command("run", "shop:outbox")
    assert changed.returncode == ExitCode.ABORTED, changed.stderr
    assert "has rows that were updated after they were polled" in changed.stderr
    write('parallelism=3, key="id", on_change="ignore"')
    for _ in range(3):
        ended = command("run", "shop:outbox")
        assert ended.returncode == ExitCode.OK, ended.stderr
    assert mart.rows("SELECT id FROM public.rows ORDER BY id") == [1, 2, 3, 4]
