"""Pipelines that read topics, run as users run them."""

from pathlib import Path

import pytest
from commands import Command, environment_of
from kafka_brokers import Broker

from tidegate.cli.exit_codes import ExitCode

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

PIPELINE = """
from tidegate import CheckpointConfig, KafkaSource, ParquetSink, Pipeline, count

def pipeline(topic, **options):
    pipeline = Pipeline("clicks", parallelism=2, checkpoints=CheckpointConfig(retained=9))
    source = KafkaSource(topic, **{{"splits": 2, "schema": "page STRING, who BIGINT", **options}})
    rows = pipeline.source("clicks", source)
    rows.key_by("page").aggregate("pages", n=count()).sink("pages", ParquetSink("tables/pages", mode="latest"))
    return pipeline

clicks = pipeline({given})
"""


def test_it_is_run(
    broker: Broker, tmp_path: Path, postgres_url: str, connect_server: str, quick_python: list[str]
) -> None:
    environment = environment_of(tmp_path, postgres_url) | {"TIDEGATE_SPARK_REMOTE": connect_server}
    command = Command(tmp_path, environment, quick_python)
    topic = broker.topic(3)
    (tmp_path / "shop.py").write_text(PIPELINE.format(given=repr(topic)))
    broker.produce(topic, [f'{{"page": "{"ab"[n % 2]}", "who": {n}}}' for n in range(10)])
    ended = command("run", "shop:clicks")
    assert ended.returncode == ExitCode.OK, ended.stderr
    broker.produce(topic, ['{"page": "b", "who": 1}'])
    ended = command("run", "shop:clicks")
    assert ended.returncode == ExitCode.OK, ended.stderr
    read = command.python("-c", "import tidegate; print(tidegate.read('clicks').arrow()['pages'].to_pydict()['n'])")
    assert read.stdout == "[5, 6]\n", read.stderr
