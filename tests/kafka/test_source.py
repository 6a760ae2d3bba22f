"""`KafkaSource`: what is read of a topic, whatever others do to it."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from kafka_brokers import Broker
from topic_lives import TopicReader, values

from tidegate import KafkaSource, ParquetSink
from tidegate.kafka import source as sources
from tidegate.ports import CheckedSource, QuarantiningSource, RereadingSource

PLACES = pa.schema([("id", pa.int64()), ("place", pa.int32()), ("number", pa.int64())])


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


def test_after_splits_were_changed_each_partition_goes_on_where_it_was(broker: Broker) -> None:
    topic = broker.topic(5)
    reader = TopicReader(topic)
    for number, splits in enumerate((1, 3, 2, 7, 1)):
        ids = range(10 * number, 10 * number + 5)
        for partition, each in enumerate(ids):
            broker.produce(topic, values(each), partition)
        segments = reader.poll(splits=splits)
        assert sorted(row["id"] for row in reader.rows(segments)) == list(ids)
    assert reader.ids(splits=2) == []


def test_a_transaction_of_somebody_else_holds_back_what_lies_behind_it(broker: Broker) -> None:
    topic = broker.topic(2)
    broker.produce(topic, values(1), 0)
    other = broker.open_transaction(f"{topic}-other")
    other.produce(topic, values(2)[0], partition=0)
    other.flush(30)
    broker.produce(topic, values(3), 0)
    broker.produce(topic, values(4), 1)
    reader = TopicReader(topic)
    assert reader.ids() == [1, 4]
    assert reader.poll() == []
    other.abort_transaction(30)
    segments = reader.poll()
    assert [row["id"] for row in reader.rows(segments)] == [3]
    other.begin_transaction()
    other.produce(topic, values(5)[0], partition=0)
    other.flush(30)
    assert reader.poll() == []
    other.abort_transaction(30)
    segments = reader.poll()
    assert (len(segments), reader.rows(segments)) == (1, []), "a range that has no row at all"
    another = broker.open_transaction(f"{topic}-another")
    another.produce(topic, values(6)[0], partition=0)
    another.commit_transaction(30)
    assert reader.ids() == [6]


@pytest.mark.real_broker
def test_what_a_producer_commits_after_what_it_aborted_is_read(broker: Broker) -> None:
    """The binary hides it from a reader that begins in between."""
    topic = broker.topic()
    reader, other = TopicReader(topic), broker.open_transaction(f"{topic}-other")
    other.produce(topic, values(1)[0])
    other.flush(30)
    other.abort_transaction(30)
    assert reader.rows(reader.poll()) == []
    other.begin_transaction()
    other.produce(topic, values(2)[0])
    other.commit_transaction(30)
    assert reader.ids() == [2]


def test_it_begins_where_start_says_and_asks_once(broker: Broker) -> None:
    topic = broker.topic(2)
    then = datetime.now(UTC) - timedelta(hours=1)
    for hour in range(3):
        for partition in range(2):
            at = int((then + timedelta(minutes=10 * hour)).timestamp() * 1000)
            broker.produce(topic, values(10 * hour + partition), partition, timestamp=at)
    readers = {
        "earliest": TopicReader(topic),
        "latest": TopicReader(topic, start="latest"),
        "time": TopicReader(topic, start=then + timedelta(minutes=5)),
        "late": TopicReader(topic, start=datetime.now(UTC)),
        "offsets": TopicReader(topic, start={0: 2, 1: 3}),
    }
    found = {name: reader.poll() for name, reader in readers.items()}
    broker.produce(topic, values(99), 0)
    assert {name: sorted(row["id"] for row in readers[name].rows(each)) for name, each in found.items()} == {
        "earliest": [0, 1, 10, 11, 20, 21],
        "latest": [],
        "time": [10, 11, 20, 21],
        "late": [],
        "offsets": [20],
    }
    assert {name: reader.ids(start="earliest") for name, reader in readers.items()} == {name: [99] for name in readers}


def test_a_poll_takes_so_many_rows_of_each_partition_alike(broker: Broker) -> None:
    topic = broker.topic(4)
    for partition, rows in enumerate((1, 50, 50, 0)):
        broker.produce(topic, values(*range(rows)), partition)
    columns = {"schema": "id BIGINT", "metadata": {"place": "partition", "number": "offset"}}
    reader = TopicReader(topic, max_rows=21, columns=PLACES, **columns)
    source = reader.make()
    rows = reader.rows(reader.poll(source))
    assert {each: sum(row["place"] == each for row in rows) for each in range(4)} == {0: 1, 1: 10, 2: 10, 3: 0}
    assert all(row["id"] == row["number"] for row in rows)
    left = source.pending(0)
    assert left is not None
    assert (left.pieces, left.unit, source.is_behind(0, None)) == (80, "rows", True)
    source = reader.make(max_rows=None)
    assert len(reader.rows(reader.poll(source))) == 80
    assert (source.pending(0).pieces, source.is_behind(0, None)) == (0, False)  # type: ignore[union-attr]


def test_a_poll_takes_about_so_many_bytes_as_it_remembers(broker: Broker) -> None:
    topic = broker.topic()
    broker.produce(topic, [f'{{"id": {number:0990}}}'.replace("0" * 900, " " * 900) for number in range(100)])
    reader = TopicReader(topic)
    [segment] = reader.poll(max_bytes=10_000)
    assert (segment.reference["to"]["offsets"], segment.bytes) == ({"0": 10}, 9_980)
    [segment] = reader.poll(max_bytes=1)
    assert segment.reference["to"]["offsets"] == {"0": 11}


def test_a_large_range_is_read_by_several_tasks(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_TASK", 40)
    topic = broker.topic(2)
    broker.produce(topic, values(*range(100)), 0)
    broker.produce(topic, values(*range(100, 130)), 1)
    reader = TopicReader(topic)
    segments = reader.poll()
    found = reader.make().arrow_reader(segments)
    assert [each["to"] for each in found.ranges] == [[(0, 0, 40)], [(0, 40, 80)], [(0, 80, 100)], [(1, 0, 30)]]
    assert sorted(row["id"] for row in reader.rows(segments)) == list(range(130))
    one_by_one = [
        row["id"]
        for each in found.ranges
        for batch in found.read_one(each, reader.columns)
        for row in batch.to_pylist()
    ]
    assert sorted(one_by_one) == list(range(130))


def test_what_a_restore_would_read_again(broker: Broker) -> None:
    topic = broker.topic(2)
    reader = TopicReader(topic)
    broker.produce(topic, values(1, 2, 3), 0)
    reader.poll()
    before = reader.taken[0]
    broker.produce(topic, values(4, 5), 0)
    broker.produce(topic, values(6), 1)
    reader.poll()
    after, source = reader.taken[0], reader.make()
    assert isinstance(source, RereadingSource)
    assert isinstance(source, CheckedSource)
    assert isinstance(source, QuarantiningSource)
    found = source.read_since(0, before, after, None)
    assert (found.pieces, found.missing, found.bytes > 20) == (3, [], True)
    assert source.read_since(0, None, after, None).pieces == 6
    assert source.read_since(0, after, after, None).pieces == 0
    assert source.read_since(0, before, None, None).pieces == 0
    broker.forget(topic, 0, 4)
    assert source.read_since(0, before, after, None).missing == [f"the offsets 3 to 3 of partition 0 of topic {topic}"]
    broker.delete(topic)
    broker.topic(1, topic)
    assert source.read_since(0, before, after, None).missing == [
        f"the offsets 3 to 4 of partition 0 of topic {topic}",
        f"the offsets 0 to 0 of partition 1 of topic {topic}",
    ]


def test_its_identity_is_no_address_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_CONNECTION_SHOP", '{"bootstrap.servers": "a:1", "sasl.password": "hidden"}')
    source = KafkaSource(
        "clicks",
        "shop",
        3,
        schema="id BIGINT, at TIMESTAMP",
        metadata={"who": "key", "at": "timestamp"},
        start=datetime(2026, 11, 28, tzinfo=UTC),
        malformed="quarantine",
        quarantine=ParquetSink("tables/malformed"),
    )
    assert source.describe() == {
        "type": "KafkaSource",
        "path": "kafka://shop/clicks",
        "splits": 3,
        "format": "json",
        "schema": "id BIGINT, at TIMESTAMP",
        "metadata": {"who": "key", "at": "timestamp"},
        "start": "2026-11-28T00:00:00+00:00",
        "malformed": "quarantine",
        "max_rows": None,
    }
    assert source.schema == "id BIGINT, at TIMESTAMP, `who` BINARY"
    assert "hidden" not in repr(source._read())
