"""The broker of the tests hides what is not committed, which everything else here rests on."""

import pytest
from confluent_kafka import KafkaException, Producer
from kafka_brokers import Broker


def test_a_reader_of_committed_rows_sees_a_transaction_whole_or_not_at_all(broker: Broker) -> None:
    topic = broker.topic()
    broker.produce(topic, ["before"])
    first = broker.open_transaction(f"{topic}-writer")
    first.produce(topic, "aborted")
    first.flush(30)
    broker.produce(topic, ["after"])
    assert [each.value() for each in broker.messages(topic)] == [b"before"], "the last stable offset holds"
    first.abort_transaction(30)
    assert [each.value() for each in broker.messages(topic)] == [b"before", b"after"]
    second = broker.open_transaction(f"{topic}-writer")
    second.produce(topic, "committed")
    second.commit_transaction(30)
    assert [each.value() for each in broker.messages(topic)] == [b"before", b"after", b"committed"]


def test_the_last_to_ask_for_a_transactional_id_fences_the_others(broker: Broker) -> None:
    topic = broker.topic()
    older = broker.open_transaction(f"{topic}-writer")
    older.produce(topic, "of the older one")
    older.flush(30)
    newer: Producer = broker.open_transaction(f"{topic}-writer")
    with pytest.raises(KafkaException) as caught:
        older.commit_transaction(30)
    assert caught.value.args[0].name() in ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
    newer.produce(topic, "of the newer one")
    newer.commit_transaction(30)
    assert [each.value() for each in broker.messages(topic)] == [b"of the newer one"]
