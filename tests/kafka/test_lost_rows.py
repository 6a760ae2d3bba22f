"""A topic loses rows before they are read, and its connection has a password: what commands say, do, and never show."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from commands import Command, environment_of
from kafka_brokers import VARIABLE, Broker
from sqlalchemy import create_engine, select
from topic_lives import values

from tidegate.cli.exit_codes import ExitCode
from tidegate.postgres.tables import metadata

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SECRET = "never-shown-4711"
PIPELINE = """
from tidegate import CheckpointConfig, KafkaSink, KafkaSource, ParquetSink, Pipeline

pipeline = Pipeline("clicks", checkpoints=CheckpointConfig(retained=9))
rows = pipeline.source("clicks", KafkaSource({topic!r}, splits=2, schema="id BIGINT"))
rows.sink("table", ParquetSink("table"))
rows.sink("copies", KafkaSink({copies!r}))
"""


def test_lost_rows_are_skipped_on_purpose_and_no_secret_is_shown_anywhere(
    broker: Broker, tmp_path: Path, postgres_url: str, connect_server: str, quick_python: list[str]
) -> None:
    topic, copies, printed = broker.topic(3), broker.topic(), list[str]()
    (tmp_path / "shop.py").write_text(PIPELINE.format(topic=topic, copies=copies))
    signs_in = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "ann"}
    # The binary takes any password, and a real broker takes the connection that the tests are given.
    settings = broker.settings if "sasl.password" in broker.settings else {**broker.settings, **signs_in}
    secret = settings.setdefault("sasl.password", SECRET)
    environment = environment_of(tmp_path, postgres_url) | {"TIDEGATE_SPARK_REMOTE": connect_server}
    environment.pop("AIRFLOW_HOME", None)  # of other tests, in whose Airflow the doctor would look for connections
    command = Command(tmp_path, environment | {VARIABLE: json.dumps(settings)}, quick_python)

    def here(*arguments: str, code: ExitCode = ExitCode.OK, **changes: str) -> str:
        ended = command(*arguments, **changes)
        printed.append(ended.stdout + ended.stderr)
        assert ended.returncode == code, printed[-1]
        return str(ended.stdout)

    def document(*arguments: str) -> Any:
        return json.loads(here(*arguments, "-o", "json"))

    for partition in range(3):
        broker.produce(topic, values(partition), partition)
    here("run", "shop:pipeline")
    for partition in range(3):
        broker.produce(topic, values(10 + partition, 20 + partition, 30 + partition), partition)
    broker.forget(topic, 0, 3)
    broker.forget(topic, 1, 4)
    here("run", "shop:pipeline", code=ExitCode.ABORTED)
    assert "has lost the offsets 1 to 2 of partition 0" in printed[-1]
    assert "`tidegate source skip`" in printed[-1]

    planned = document("source", "skip", "shop:pipeline", "clicks", "--dry-run")
    lost = [
        {"part": "0", "first": 1, "last": 2, "next": 3},
        {"part": "1", "first": 1, "last": 3, "next": 4},
    ]
    assert (planned["pipeline"], planned["source"], planned["checkpoint"], planned["lost"]) == (
        "clicks",
        "clicks",
        1,
        lost,
    )
    here("source", "skip", "shop:pipeline", "clicks", "--yes")
    here("source", "skip", "shop:pipeline", "clicks", "--yes", code=ExitCode.USAGE)
    assert "It has lost nothing since checkpoint 1" in printed[-1]
    here("run", "shop:pipeline")
    expected = [0, 1, 2, 12, 22, 30, 32]
    assert sorted(row["id"] for row in broker.rows(copies)) == expected
    assert sorted(pq.read_table(tmp_path / "table")["id"].to_pylist()) == expected

    [refused, done] = [each for each in document("audit", "clicks") if each["kind"] == "SKIP"]
    assert (done["status"], done["details"]) == ("DONE", {"source": "clicks", "lost": lost})
    assert "0: 1 to 2 (goes on at 3); 1: 1 to 3 (goes on at 4)" in done["sentence"]
    assert refused["status"] == "REFUSED"
    assert [part["part"] for part in document("stats", "clicks")["parts"]] == ["0", "1", "2"]
    again = document("restore", "shop:pipeline", "--checkpoint", "1", "--dry-run")
    assert again["skipped"] == [], "the skip of the checkpoint itself counts"

    document("doctor")
    here("check", "shop:pipeline")
    document("checkpoint", "clicks", "1")
    wrong = json.dumps({**settings, "bootstrap.servers": "127.0.0.1:1"})
    here("check", "shop:pipeline", **{VARIABLE: wrong})
    assert not any(secret in said for said in printed)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "_metadata" for path in files)
    assert [path for path in files if secret.encode() in path.read_bytes()] == []
    engine = create_engine(postgres_url)
    with engine.connect() as connection:
        stored = {
            table.name: [str(row) for row in connection.execute(select(table))] for table in metadata.tables.values()
        }
    engine.dispose()
    assert stored["checkpoints"]
    assert stored["source_skips"]
    assert [name for name, rows in stored.items() if any(secret in row for row in rows)] == []
