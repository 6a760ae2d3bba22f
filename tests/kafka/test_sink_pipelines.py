"""A pipeline that writes topics, run as users run it: checked, compared with changed code, killed, restored."""

import json
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest
from commands import Command, environment_of
from kafka_brokers import Broker

from tidegate.cli.exit_codes import ExitCode

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

PIPELINE = """
from tidegate import CheckpointConfig, FileSource, KafkaSink, Pipeline, expect, suite, sum_

NAME = {name!r}

def shop(orders=None, **changed):
    pipeline = Pipeline("shop", parallelism=2, checkpoints=CheckpointConfig(retained=9))
    rows = pipeline.source("orders", FileSource("landing", schema="customer STRING, cents BIGINT"))
    not_null = suite("named", expect("column_values_to_not_be_null", column="customer"))
    rows.sink("orders", orders or KafkaSink(NAME + "-orders", key="customer"), expect=not_null)
    totals = rows.key_by("customer").aggregate("totals", cents=sum_("cents"))
    totals.sink("totals", KafkaSink(**{{"topic": NAME + "-totals", "mode": "upsert", "key": "customer", **changed}}))
    return pipeline

pipeline = shop({given})
"""
#: What is changed of the sink of upserts, and whether the next checkpoint gives it all rows. None: it is refused.
CHANGES = [
    ("", False),
    ("checkpoint_headers=False", False),
    ('format="json"', False),
    ('timestamp=None, key=["customer"]', False),
    ('topic=NAME + "-more"', None),
    ('connection="other"', None),
]


def test_it_is_checked_run_compared_and_restored(
    broker: Broker, tmp_path: Path, postgres_url: str, connect_server: str, quick_python: list[str]
) -> None:
    environment = environment_of(tmp_path, postgres_url) | {"TIDEGATE_SPARK_REMOTE": connect_server}
    command = Command(tmp_path, environment, quick_python)
    name = f"shop-{uuid4().hex[:8]}"
    landing = tmp_path / "landing"
    landing.mkdir()

    def write(given: str = "") -> None:
        (tmp_path / "shop.py").write_text(PIPELINE.format(name=name, given=given))

    def deliver(number: int, *rows: tuple[str, int]) -> None:
        (landing / f"{number}.csv").write_text(
            "\n".join(["customer,cents", *(f"{customer},{cents}" for customer, cents in rows), ""])
        )

    def run() -> None:
        ended = command("run", "shop:pipeline")
        assert ended.returncode == ExitCode.OK, ended.stdout + ended.stderr

    def orders() -> list[tuple[str, str, int]]:
        """With the checkpoint of each."""
        found = []
        for each in broker.messages(f"{name}-orders"):
            row, headers = json.loads(each.value()), dict(each.headers())
            found.append((headers["tidegate-checkpoint"].decode(), row["customer"], row["cents"]))
        return sorted(found)

    def totals() -> dict[str, int]:
        """As a table that is made of the topic."""
        latest = {each.key().decode(): each.value() for each in broker.messages(f"{name}-totals")}
        return {key: json.loads(value)["cents"] for key, value in latest.items() if value is not None}

    write()
    missing = command("check", "shop:pipeline")
    assert missing.returncode == ExitCode.USAGE, missing.stderr
    assert f"there is no topic '{name}-orders' at connection 'kafka_default': make it" in missing.stdout
    for kind in ("orders", "totals"):
        broker.topic(3, f"{name}-{kind}")
    deliver(1, ("ann", 5), ("bob", 7))
    run()
    deliver(2, ("ann", 1))
    run()
    assert orders() == [("1", "ann", 5), ("1", "bob", 7), ("2", "ann", 1)]
    assert totals() == {"ann": 6, "bob": 7}
    assert len(broker.messages(f"{name}-totals")) == 3, "only what has changed"

    for given, whole in CHANGES:
        write(given)
        planned = command("plan", "shop:pipeline", "-o", "json")
        assert (planned.returncode == ExitCode.OK) == (whole is not None), (given, planned.stdout + planned.stderr)
        if whole is None:
            assert "kafka://kafka_default/" in planned.stdout or "no connection 'other'" in planned.stderr, planned
    write()

    refused = command("restore", "shop:pipeline", "--checkpoint", "1", "--yes")
    assert refused.returncode == ExitCode.USAGE, refused.stdout
    assert "--leave orders --leave totals" in refused.stderr, refused.stderr
    restored = command(
        "restore", "shop:pipeline", "--checkpoint", "1", "--leave", "orders", "--leave", "totals", "--yes"
    )
    assert restored.returncode == ExitCode.OK, restored.stderr
    assert totals() == {"ann": 6, "bob": 7}, "what was written stays"
    run()
    assert Counter(orders()) == Counter([("1", "ann", 5), ("1", "bob", 7), ("2", "ann", 1), ("3", "ann", 1)])
    assert totals() == {"ann": 6, "bob": 7}
    assert len(broker.messages(f"{name}-totals")) == 3 + 2, "it may lack rows after a restore, and is given all once"

    deliver(3, ("", 1))
    failed = command("run", "shop:pipeline")
    assert failed.returncode != ExitCode.OK
    assert len(orders()) == 4, "rows that were not as expected are on no topic"
