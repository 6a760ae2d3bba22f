"""Pipelines that read topics, run as users run them."""

import json
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from commands import Command, environment_of
from kafka_brokers import Broker

from tidegate.cli.exit_codes import ExitCode

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

PIPELINE = """
from tidegate import CheckpointConfig, KafkaSource, ParquetSink, Pipeline, count, window

def pipeline(topic={topic!r}, connection="kafka_default", schema="page STRING, who BIGINT", **options):
    pipeline = Pipeline("clicks", parallelism=2, checkpoints=CheckpointConfig(retained=9))
    bad = {{"malformed": "quarantine", "quarantine": ParquetSink("tables/bad")}}
    given = {{"splits": 2, "metadata": {{"at": "timestamp"}}, "max_rows": 200, **bad, **options}}
    source = KafkaSource(topic, connection, schema=schema, **given)
    rows = pipeline.source("clicks", source, event_time="at")
    rows.key_by("page").aggregate("pages", n=count()).sink("pages", ParquetSink("tables/pages", mode="latest"))
    hours = rows.key_by("page").aggregate("hours", window("at", "1 h"), n=count())
    hours.sink("hours", ParquetSink("tables/hours"))
    return pipeline

clicks = pipeline({given})
"""
#: What is changed, the verdict on the source, and what the plan says of it.
CHANGES = [
    ("", "same", ""),
    ("splits=3", "same", "splits"),
    ('start="latest"', "same", "start"),
    ("max_rows=9", "same", "max_rows"),
    ('format="bytes", schema="page BINARY"', "same", "format"),
    ('schema="page STRING, who BIGINT, more STRING"', "same", "schema"),
    ('metadata={"at": "timestamp", "place": "offset"}', "same", "metadata"),
    ('malformed="fail", quarantine=None', "same", "malformed"),
    ('topic="other"', "refuses", "kafka://kafka_default/other"),
    ('connection="other"', "refuses", "kafka://other/"),
]
HOUR = 3_600_000
THEN = int(time.time()) // 3600 * HOUR - 5 * HOUR


def test_it_is_checked_run_compared_and_restored(
    broker: Broker, tmp_path: Path, postgres_url: str, connect_server: str, quick_python: list[str]
) -> None:
    environment = environment_of(tmp_path, postgres_url) | {"TIDEGATE_SPARK_REMOTE": connect_server}
    command = Command(tmp_path, environment, quick_python)
    topic = f"clicks-{uuid4().hex[:8]}"

    def write(given: str = "") -> None:
        (tmp_path / "shop.py").write_text(PIPELINE.format(topic=topic, given=given))

    def run() -> None:
        ended = command("run", "shop:clicks")
        assert ended.returncode == ExitCode.OK, ended.stdout + ended.stderr

    def shown() -> dict[str, list[dict[str, Any]]]:
        """All tables as of the latest checkpoint."""
        asked = "{name: rows.to_pylist() for name, rows in tidegate.read('clicks').arrow().items()}"
        read = command.python("-c", f"import json, tidegate; print(json.dumps({asked}, default=str))")
        assert read.returncode == 0, read.stderr
        return json.loads(read.stdout)

    def pages() -> dict[str, int]:
        return {row["page"]: row["n"] for row in shown()["pages"]}

    def click(hour: int, *values: str) -> None:
        broker.produce(topic, values, timestamp=THEN + hour * HOUR)

    write()
    missing = command("check", "shop:clicks")
    assert missing.returncode == ExitCode.USAGE, missing.stderr
    assert "there is no such topic at connection" in missing.stdout
    broker.topic(3, topic)
    assert command("check", "shop:clicks").returncode == ExitCode.OK
    click(0, *(f'{{"page": "{"ab"[n % 2]}", "who": {n}}}' for n in range(30)), "no JSON", '{"page": "a", "who": "ann"}')
    click(2, '{"page": "c", "who": 1}')
    run()
    assert pages() == {"a": 15, "b": 15, "c": 1}
    [hours, bad] = [shown()[name] for name in ("hours", "clicks_quarantine")]
    assert sorted((row["page"], row["n"]) for row in hours) == [("a", 15), ("b", 15)], (
        "the record's time is the event's"
    )
    assert {(row["topic"], row["reason"] != "") for row in bad} == {(topic, True)}
    assert len(bad) == 2
    stats = command("stats", "clicks", "-o", "json")
    assert '"unit": "rows"' in stats.stdout, stats.stdout + stats.stderr

    for given, verdict, said in CHANGES:
        write(given)
        planned = command("plan", "shop:clicks", "-o", "json")
        vertices = json.loads(planned.stdout)["vertices"]
        [found] = [each for each in vertices if (each["name"], each["kind"]) == ("clicks", "source")]
        assert (given, found["verdict"]) == (given, verdict)
        assert said in str(found), found

    write("splits=3")
    broker.grow(topic, 5)
    click(2, *(f'{{"page": "d", "who": {n}}}' for n in range(50)))
    run()
    run()
    counted = {"a": 15, "b": 15, "c": 1, "d": 50}
    assert pages() == counted
    planned = command("restore", "shop:clicks", "--checkpoint", "1", "--dry-run", "-o", "json")
    assert json.loads(planned.stdout)["sources"][0]["files"] >= 0, planned.stdout
    assert command("restore", "shop:clicks", "--checkpoint", "1", "--yes").returncode == ExitCode.OK
    assert pages() == {"a": 15, "b": 15, "c": 1}
    run()
    run()
    assert pages() == counted

    for partition, end in broker.ends(topic).items():
        broker.forget(topic, partition, end)
    planned = command("restore", "shop:clicks", "--checkpoint", "1", "--dry-run", "-o", "json")
    assert f"of topic {topic}" in planned.stdout, planned.stderr
    refused = command("restore", "shop:clicks", "--checkpoint", "1", "--yes")
    assert refused.returncode == ExitCode.USAGE, refused.stderr
    assert f"of topic {topic}" in refused.stderr
    assert pages() == counted
