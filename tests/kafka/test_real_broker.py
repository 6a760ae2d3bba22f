"""What the small broker of the tests cannot show: compaction, passwords and TLS. CONTRIBUTING lists all such tests."""

import ast
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka_brokers import VARIABLE, Broker
from topic_lives import TopicReader, values

from tidegate.protocol.facts.errors import ConfigurationError

PROJECT = Path(__file__).parents[2]
SASL, TLS = "TIDEGATE_TEST_KAFKA_SASL", "TIDEGATE_TEST_KAFKA_TLS"
WRONG = "wrong-and-not-shown"
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "500",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "1000",
}


def marked() -> Iterator[str]:
    """The tests that have the mark."""
    for file in PROJECT.glob("tests/**/test_*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef) and "pytest.mark.real_broker" in map(ast.unparse, node.decorator_list):
                yield node.name


def test_the_list_of_what_only_a_real_broker_shows_is_that_of_the_marks() -> None:
    section = (PROJECT / "CONTRIBUTING.md").read_text().partition("## Kafka itself\n")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `(test_\w+)` \|", section, re.MULTILINE)
    assert listed
    assert sorted(listed) == sorted(marked())
    assert all(name in section for name in (SASL, TLS))


@pytest.mark.real_broker
def test_a_compacted_topic_is_read_with_its_gaps(broker: Broker) -> None:
    topic = broker.topic(1, **COMPACTED)
    reader = TopicReader(topic)
    broker.produce(topic, values(0), key="first")
    assert reader.ids() == [0]
    for number in range(1, 30):
        broker.produce(topic, values(number), key="same")
    segments = reader.poll()
    end = time.monotonic() + 120
    while len(broker.messages(topic)) >= 30 and time.monotonic() < end:
        time.sleep(1)
        broker.produce(topic, values(99), key="last")  # a segment is closed when the next record comes
    left = [row["id"] for row in reader.rows(segments)]
    assert 0 < len(left) < 29, "the topic was not compacted"
    assert left == sorted(left)


@pytest.mark.real_broker
def test_a_wrong_password_is_refused_and_not_shown(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    if SASL not in os.environ:
        pytest.skip(f"{SASL} names no listener with SASL")
    right = json.loads(os.environ[SASL])
    topic = broker.topic()
    broker.produce(topic, values(1))
    monkeypatch.setenv(VARIABLE, json.dumps({**right, "sasl.password": WRONG}))
    with pytest.raises(ConfigurationError, match=r"refuse it.*Correct its user and password") as caught:
        TopicReader(topic).poll()
    assert WRONG not in str(caught.value)
    monkeypatch.setenv(VARIABLE, json.dumps(right))
    assert TopicReader(topic).ids() == [1]


@pytest.mark.real_broker
def test_a_certificate_of_an_unknown_authority_is_refused(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    if TLS not in os.environ:
        pytest.skip(f"{TLS} names no listener with TLS")
    monkeypatch.setenv(VARIABLE, json.dumps({"bootstrap.servers": os.environ[TLS], "security.protocol": "SSL"}))
    with pytest.raises(ConfigurationError, match=r"refuse it.*whether it uses TLS"):
        TopicReader(broker.topic()).poll()
