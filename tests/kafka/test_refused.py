"""`KafkaSource`: what is refused, of topics that lose what is to be read and of brokers that refuse or are away."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from kafka_brokers import VARIABLE, Broker, OwnBroker
from topic_lives import TopicReader, values

from tidegate import KafkaSource
from tidegate.kafka import clients, rows, topic_queries
from tidegate.kafka.polls import Bounds, Found, begin
from tidegate.kafka.positions import Position
from tidegate.kafka.refusals import Topic
from tidegate.protocol.facts.errors import (
    CheckpointError,
    ConfigurationError,
    MissingConnectionError,
    PipelineDefinitionError,
    SourceChangedError,
    SourceUnavailableError,
)
from tidegate.sources.read_errors import AS_BEFORE


def raised(kind: type[CheckpointError], call: Callable[..., Any], *arguments: Any, **given: Any) -> str:
    with pytest.raises(kind) as caught:
        call(*arguments, **given)
    assert type(caught.value) is kind
    return str(caught.value)


def name(reader: TopicReader) -> str:
    return f"Topic {reader.topic!r} of connection 'kafka_default'"


def read(broker: Broker, partitions: int = 1, ids: int = 5) -> TopicReader:
    """A reader that has read so many records of the topic's partition 0."""
    reader = TopicReader(broker.topic(partitions))
    broker.produce(reader.topic, values(*range(ids)), 0)
    assert reader.ids() == list(range(ids))
    return reader


def test_a_topic_that_is_not_there(broker: Broker) -> None:
    reader = TopicReader("not-there")
    text = (
        "KafkaSource('not-there'): there is no such topic at connection 'kafka_default', or the user of the connection "
        "may not see it. Nothing was read. Make the topic, or grant that user to describe and read it."
    )
    assert raised(PipelineDefinitionError, reader.poll) == text
    assert reader.make().problems() == [text]
    topics = broker.admin.list_topics(timeout=30).topics
    assert "not-there" not in topics, "a question has made it"
    reader = read(broker)
    assert reader.make().problems() == []
    broker.delete(reader.topic)
    assert raised(SourceChangedError, reader.poll) == (
        f"{name(reader)} was read and is not there any more. {AS_BEFORE}If it was "
        "deleted, give the source another name, and it begins anew when the topic is there."
    )


def test_records_that_retention_has_deleted_before_they_were_read(broker: Broker) -> None:
    reader = read(broker, 2)
    broker.produce(reader.topic, values(5, 6, 7), 0)
    broker.forget(reader.topic, 0, 7)
    for _ in range(2):
        assert raised(SourceChangedError, reader.poll) == (
            f"{name(reader)} has lost the offsets 5 to 6 of partition 0, which were "
            f"not read: its retention has deleted them. The first that is left is 7. {AS_BEFORE}Keep records until "
            "they are read: retention.ms and retention.bytes of the topic set how long. To go on without these "
            "records, run `tidegate source skip`."
        )


def test_records_that_are_deleted_between_poll_and_read(broker: Broker) -> None:
    reader = read(broker)
    broker.produce(reader.topic, values(5, 6, 7), 0)
    segments = reader.poll()
    broker.forget(reader.topic, 0, 7)
    with pytest.raises(RuntimeError) as caught:
        reader.rows(segments)
    told = reader.make().explain(caught.value, segments)
    assert isinstance(told, SourceChangedError)
    assert str(told) == (
        f"{name(reader)} has lost offsets of partition 0, between 5 and 7, after "
        "this checkpoint began to read them: its retention has deleted them, or it was made anew. "
        f"{AS_BEFORE}To go on without the lost records, run `tidegate source skip`."
    )
    assert KafkaSource("other", schema="id BIGINT").explain(caught.value, segments) is None


def test_a_topic_that_was_made_anew(broker: Broker) -> None:
    reader = read(broker, 2)
    broker.delete(reader.topic)
    broker.topic(2, reader.topic)
    broker.produce(reader.topic, values(1), 0)
    assert raised(SourceChangedError, reader.poll) == (
        f"{name(reader)} ends at offset 1 in partition 0, but was read up to 5: the "
        f"topic was made anew, or its brokers have lost records. {AS_BEFORE}The offsets 1 to 4 are other records now, "
        "or none. To read the present records from the first one, run `tidegate source skip`."
    )
    broker.delete(reader.topic)
    broker.topic(1, reader.topic)
    assert raised(SourceChangedError, reader.poll) == (
        f"{name(reader)} has no partition 1 any more, which a topic never loses: "
        f"it was deleted and made anew. {AS_BEFORE}To read the new topic from its start, run `tidegate source skip`."
    )


@pytest.mark.real_broker
def test_a_topic_that_was_made_anew_and_is_longer_has_another_id(broker: Broker) -> None:
    reader = read(broker)
    broker.delete(reader.topic)
    time.sleep(2)
    broker.topic(1, reader.topic)
    broker.produce(reader.topic, values(*range(9)), 0)
    assert "it has another id" in raised(SourceChangedError, reader.poll)


def test_what_brokers_say_decides() -> None:
    """Without a broker: what the binary of the tests cannot say."""
    topic, there = Topic("clicks", "shop"), {0: Bounds(0, 9)}
    position = Position("one", {0: 5}, {0: 0}, 10)
    assert begin(topic, position, Found("one", there), None) == position
    assert begin(topic, position, Found(None, there), None).offsets == {0: 5}
    assert raised(SourceChangedError, begin, topic, position, Found("two", there), None) == (
        "Topic 'clicks' of connection 'shop' was deleted and made anew since it was read: it has another id. "
        f"{AS_BEFORE}Its offsets are not those of this pipeline. To read the new topic from its start, run "
        "`tidegate source skip`."
    )
    assert str(topic.leaderless([1, 3])) == (
        "Topic 'clicks' of connection 'shop' cannot be read: no broker leads partitions 1, 3 at the moment. "
        f"{AS_BEFORE}Repeat the step when the brokers have chosen one."
    )
    assert isinstance(topic.refused("NOT_LEADER_FOR_PARTITION", "", False), SourceUnavailableError)
    may_not = topic.refused("TOPIC_AUTHORIZATION_FAILED", "", False)
    assert (type(may_not), str(may_not)) == (
        ConfigurationError,
        "The user of connection 'shop' may not read topic 'clicks' (TOPIC_AUTHORIZATION_FAILED). "
        f"{AS_BEFORE}Grant it to read and describe the topic.",
    )
    wrong = topic.refused("_TIMED_OUT", "_AUTHENTICATION: Authentication failed", True)
    assert (type(wrong), str(wrong)) == (
        ConfigurationError,
        f"The brokers of connection 'shop' refuse it (_AUTHENTICATION: Authentication failed). {AS_BEFORE}Correct its "
        "user and password, and whether it uses TLS: security.protocol, sasl.* and ssl.*.",
    )


@pytest.mark.parametrize(
    ("start", "text"),
    [
        (
            {0: 6, 1: 0},
            "start= begins partition 0 with offset 6, but the partition has the offsets 2 to 4. Nothing was ",
        ),
        (
            {0: 1, 1: 0},
            "start= begins partition 0 with offset 1, but the partition has the offsets 2 to 4. Nothing was ",
        ),
        ({0: 5, 1: 1}, "start= begins partition 1 with offset 1, but the partition has no records, and begins with 0."),
        ({0: 5}, "start= has no offset for partition 1. Nothing was read. Name an offset for each partition that is "),
        ({0: 5, 1: 0, 2: 0, 3: 9}, "start= names partitions 2, 3, which the topic does not have. Nothing was read."),
    ],
)
def test_offsets_of_start_that_are_not_there(broker: Broker, start: dict[int, int], text: str) -> None:
    topic = broker.topic(2)
    broker.produce(topic, values(*range(5)), 0)
    broker.forget(topic, 0, 2)
    assert raised(PipelineDefinitionError, TopicReader(topic, start=start).poll).startswith(
        f"KafkaSource('{topic}'): {text}"
    )


def test_a_connection_that_is_wrong(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The brokers are there and speak no TLS."""
    wrong = {**broker.settings, "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
    secret = {"sasl.username": "ann", "sasl.password": "secret-word"}
    reader = read(broker)
    broker.produce(reader.topic, values(5))
    segments = reader.poll()
    monkeypatch.setenv(VARIABLE, json.dumps({**wrong, **secret}))
    text = raised(ConfigurationError, reader.poll)
    assert text.startswith("The brokers of connection 'kafka_default' refuse it (_TRANSPORT: sasl_ssl://127.0.0.1:")
    [problem] = reader.make().problems()
    for each in (text, problem):
        # The client says of one connection that the handshake failed, and of another that it was closed.
        assert "SSL handshake failed" in each or "SSL connection closed by peer" in each
        assert "Correct its user and password, and whether it uses TLS" in each
        assert "secret" not in each
    assert problem.partition("bootstrap")[0] == text.partition("bootstrap")[0]
    monkeypatch.setattr(rows, "_HOPE", 1)
    with pytest.raises(RuntimeError) as caught:
        reader.rows(segments)
    told = reader.make().explain(caught.value, segments)
    assert type(told) is ConfigurationError
    assert "secret" not in str(told)
    missing = TopicReader("clicks", connection="nowhere")
    assert "There is no connection 'nowhere' to Kafka" in raised(MissingConnectionError, missing.poll)
    assert missing.make().problems() == []


def test_brokers_that_are_away_are_asked_again(own_broker: OwnBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (topic_queries, clients):
        monkeypatch.setattr(module, "TIME_LIMIT", 3)
    monkeypatch.setattr(rows, "PATIENCE", 3)
    reader = read(own_broker)
    own_broker.produce(reader.topic, values(5))
    segments = reader.poll()
    time.sleep(4)  # until the binary has written it
    own_broker.stop()
    text = raised(SourceUnavailableError, reader.poll)
    assert text.startswith(f"{name(reader)} cannot be read: its brokers do not ")
    assert "Check that they run and that their addresses are right, then repeat the step." in text
    with pytest.raises(RuntimeError) as caught:
        reader.rows(segments)
    assert isinstance(reader.make().explain(caught.value, segments), SourceUnavailableError)
    own_broker.start()
    assert [row["id"] for row in reader.rows(segments)] == [5]
    own_broker.produce(reader.topic, values(6))
    assert reader.ids() == [6]
