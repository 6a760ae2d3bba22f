"""What is said of topics beside their rows: by `tidegate doctor`, and to catalogues."""

import json
import os
from pathlib import Path

import pytest
from cases import for_each
from commands import CommandHere
from kafka_brokers import VARIABLE, Broker

from tidegate import KafkaSink, KafkaSource
from tidegate.ports import RemoteEndpoint
from tidegate.project.doctor import examine
from tidegate.protocol.facts.errors import ConfigurationError, MissingConnectionError

SECRET = "do-not-show"
PROJECT = """
[project]
name = "shop"
[tool.tidegate.pipelines]
clicks = "topics:pipeline"
pages = "topics:pages"
"""
PIPELINES = """
from tidegate import KafkaSink, KafkaSource, ParquetSink, Pipeline

def clicks(topic, connection="kafka_default"):
    return KafkaSource(topic, connection, schema="n BIGINT")

pipeline = Pipeline("clicks")
pipeline.source("clicks", clicks("{there}")).sink("pages", KafkaSink("{missing}"))
pages = Pipeline("pages")
pages.source("same", clicks("{there}")).sink("table", ParquetSink("table"))
pages.source("away", clicks("{there}", "away")).sink("other", ParquetSink("other"))
pages.source("unknown", clicks("{there}", "unknown")).sink("third", ParquetSink("third"))
"""


def test_doctor_looks_whether_brokers_answer_and_have_the_topics(broker: Broker, tmp_path: Path) -> None:
    there = broker.topic(3)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "topics.py").write_text(PIPELINES.format(there=there, missing="not-there"))
    away = json.dumps({"bootstrap.servers": "127.0.0.1:1", "sasl.password": SECRET})
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "TIDEGATE"))}
    connections = {VARIABLE: broker.variable, "TIDEGATE_CONNECTION_AWAY": away}
    ended = CommandHere(tmp_path, kept | connections | {"HOME": str(tmp_path)})("doctor", "-o", "json")
    found = {each["what"]: each for each in json.loads(ended.stdout) if each["what"] in ("kafka", "pipelines")}
    assert {what: each["ok"] for what, each in found.items()} == {"kafka": True, "pipelines": True}
    assert found["kafka"]["says"].startswith("confluent-kafka 2.")
    assert ", fastavro 1." in found["kafka"]["says"]
    looked = [
        (each["ok"], each["says"], each["mend"]) for each in json.loads(ended.stdout) if each["what"] == "brokers"
    ]
    has, missing, gone, unknown = looked
    assert has == (True, f"topic '{there}' with 3 partitions at {broker.servers} (connection 'kafka_default')", None)
    assert missing[::2] == (False, "tidegate check clicks")
    assert f"There is no topic 'not-there' at {broker.servers}, the brokers of connection" in missing[1]
    assert (gone[0], "do not answer" in gone[1]) == (False, True)
    assert "There is no connection 'unknown' to Kafka" in unknown[1]
    assert SECRET not in ended.stdout + ended.stderr
    topics = broker.admin.list_topics(timeout=30).topics
    assert "not-there" not in topics, "a question has made it"


def test_a_package_that_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(missing: str) -> object:
        return lambda package: None if package == missing else "9.9"

    says = {}
    for missing in ("confluent-kafka", "fastavro"):
        monkeypatch.setattr("tidegate.project.doctor.installed", installed(missing))
        says[missing] = next(each for each in examine({}) if each.what == "kafka")
    assert says["confluent-kafka"].says == "confluent-kafka is not installed: KafkaSource and KafkaSink do not run."
    assert says["fastavro"].says == 'confluent-kafka 9.9. fastavro is not installed: format="avro" does not run.'
    assert {(each.ok, each.mend) for each in says.values()} == {(None, "pip install 'tidegate[kafka]'")}


@for_each(
    ("servers", "namespace"),
    [
        ("broker-1:9093,broker-2:9092", "kafka://broker-1:9093"),
        ("broker", "kafka://broker:9092"),
        (" SASL_SSL://broker:9094 , b", "kafka://broker:9094"),
        ("[::1]:9095", "kafka://[::1]:9095"),
        ("[::1]", "kafka://[::1]:9092"),
    ],
)
def test_a_topic_is_named_as_openlineage_names_it(
    servers: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"bootstrap.servers": servers, "sasl.password": SECRET}
    monkeypatch.setenv("TIDEGATE_CONNECTION_EVENTS", json.dumps(settings))
    for endpoint in (KafkaSource("clicks", "events", schema="n BIGINT"), KafkaSink("clicks", "events")):
        assert isinstance(endpoint, RemoteEndpoint)
        assert endpoint.dataset() == (namespace, "clicks")


def test_without_its_connection_a_topic_has_no_name_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(MissingConnectionError):
        KafkaSink("clicks").dataset()
    monkeypatch.setenv(VARIABLE, json.dumps({"bootstrap.servers": "a:1", "sasl.pasword": SECRET}))
    with pytest.raises(ConfigurationError) as caught:
        KafkaSink("clicks").reached()
    assert SECRET not in str(caught.value)
