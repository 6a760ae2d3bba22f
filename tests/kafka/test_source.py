"""`KafkaSource`: what is read of a topic, whatever others do to it."""

from kafka_brokers import Broker
from topic_lives import TopicReader, values


def test_each_record_is_read_once_and_a_new_partition_from_its_first_record_on(broker: Broker) -> None:
    topic = broker.topic(3)
    for partition in range(3):
        broker.produce(topic, values(partition, 10 + partition), partition)
    reader = TopicReader(topic, splits=2)
    assert reader.ids() == [0, 1, 2, 10, 11, 12]
    assert reader.ids() == []
    broker.grow(topic, 5)
    broker.produce(topic, values(3), 3)
    broker.produce(topic, values(4), 4)
    broker.produce(topic, values(20), 0)
    assert reader.ids() == [3, 4, 20]
    assert reader.ids() == []
