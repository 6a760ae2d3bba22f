"""Ranges of a topic become rows: where they end, what else a record has, and what is malformed."""

from datetime import UTC, datetime
from typing import Any

import pytest
from kafka_brokers import Broker, OwnBroker

from tidegate.kafka.column_types import arrow_columns
from tidegate.kafka.connections import brokers_of
from tidegate.kafka.declared import METADATA
from tidegate.kafka.formats import Format
from tidegate.kafka.positions import Range
from tidegate.kafka.refusals import Topic
from tidegate.kafka.rows import MALFORMED, KafkaRead
from tidegate.protocol.facts.errors import MalformedRowsError, SourceChangedError, SourceUnavailableError

BYTES = "value BINARY"
JSON = "id BIGINT, name STRING"


def read(topic: str, columns: str = BYTES, form: Any = None, **given: Any) -> KafkaRead:
    given["format"] = Format(form or ("bytes" if columns == BYTES else "json"))
    return KafkaRead(brokers_of("kafka_default"), Topic(topic, "kafka_default"), columns=columns, **given)


def rows(of: KafkaRead, ranges: list[Range], columns: str | None = None, **given: Any) -> list[dict[str, Any]]:
    schema = arrow_columns(columns or of.columns)
    found = list(of.batches(ranges, schema, **given))
    assert all(batch.schema == schema for batch in found)
    return [row for batch in found for row in batch.to_pylist()]


def test_a_range_is_what_lies_between_two_offsets_and_a_partition_may_have_two(broker: Broker) -> None:
    topic = broker.topic(2)
    for partition in (0, 1):
        broker.produce(topic, [f"{partition}-{each}" for each in range(10)], partition)
    found = rows(read(topic), [(0, 2, 4), (1, 8, 10), (0, 9, 10), (1, 0, 0)])
    assert sorted(row["value"].decode() for row in found) == ["0-2", "0-3", "0-9", "1-8", "1-9"]
    assert [row["value"].decode() for row in found if row["value"][:1] == b"0"] == ["0-2", "0-3", "0-9"]


def test_what_was_aborted_leaves_gaps_and_a_range_may_have_no_row(broker: Broker) -> None:
    topic = broker.topic()
    broker.produce(topic, ["first"])
    writer = broker.open_transaction(f"{topic}-writer")
    for each in range(5):
        writer.produce(topic, f"aborted {each}")
    writer.flush(30)
    writer.abort_transaction(30)
    end = broker.ends(topic)[0]
    assert end == 7, "five rows and a control record"
    assert rows(read(topic), [(0, 1, end)]) == []
    assert [row["value"] for row in rows(read(topic), [(0, 0, end)])] == [b"first"]
    broker.produce(topic, ["last"])
    assert rows(read(topic), [(0, 2, end)]) == [], "the range ends before a record, and not at the end of the partition"
    assert [row["value"] for row in rows(read(topic), [(0, 2, end + 1)])] == [b"last"]


def test_what_a_record_has_next_to_its_value(broker: Broker) -> None:
    topic = broker.topic(2)
    at = datetime(2026, 11, 28, 12, 30, 1, 250_000, tzinfo=UTC)
    millis = int(at.timestamp() * 1000)
    broker.produce(topic, ["a"], 1, key="k", timestamp=millis, headers=[("h", b"1"), ("h", None)])
    broker.produce(topic, [None], 1, key=None, timestamp=millis + 1)
    names = {f"_{name}": name for name in METADATA}
    columns = ", ".join([BYTES, *(f"_{name} {kind}" for name, kind in METADATA.items())])
    of = read(topic, columns, "bytes", metadata=names)
    first, second = rows(of, [(1, 0, 2)])
    assert first == {
        "value": b"a",
        "_key": b"k",
        "_timestamp": at,
        "_partition": 1,
        "_offset": 0,
        "_headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
        "_topic": topic,
    }
    assert (second["value"], second["_key"], second["_headers"], second["_offset"]) == (None, None, None, 1)
    assert rows(of, [(1, 0, 2)], "_offset BIGINT") == [{"_offset": 0}, {"_offset": 1}]


def test_malformed_records_are_told_one_by_one_with_their_place(broker: Broker) -> None:
    topic = broker.topic()
    values = ['{"id": 1, "name": "x"}', "oops", None, '[{"id": 2}, {"id": "3"}, {"id": 4}]', '{"id": 5}', ""]
    broker.produce(topic, values)
    of = read(topic, f"{JSON}, at BIGINT", metadata={"at": "offset"}, malformed="quarantine")
    found = rows(of, [(0, 0, 6)])
    assert [(row["id"], row["at"]) for row in found] == [(1, 0), (2, 3), (4, 3), (5, 4)]
    told = rows(of, [(0, 0, 6)], MALFORMED, output="malformed")
    assert [(row["offset"], row["value"], row["reason"]) for row in told] == [
        (1, b"oops", "not JSON from character 1 on"),
        (2, None, "it has no value: a tombstone"),
        (3, b'{"id": "3"}', "does not fit the schema: id = 3"),
        (5, b"", "it has no JSON"),
    ]
    assert {(row["topic"], row["partition"]) for row in told} == {(topic, 0)}
    with pytest.raises(
        MalformedRowsError, match=rf"Topic '{topic}'.*partition 0, offset 1 \(not JSON from character 1"
    ):
        rows(read(topic, JSON), [(0, 0, 6)])


def test_records_that_retention_deletes_are_an_error_and_no_jump(broker: Broker) -> None:
    topic = broker.topic()
    broker.produce(topic, [f"{each}" for each in range(10)])
    broker.forget(topic, 0, 4)
    with pytest.raises(SourceChangedError, match=rf"Topic '{topic}'.*has lost offsets of partition 0, between 2 and 9"):
        rows(read(topic), [(0, 2, 10)])
    assert len(rows(read(topic), [(0, 4, 10)])) == 6


def test_a_partition_that_ends_before_its_range_is_an_error(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.kafka.rows._HOPE", 0.1)
    topic = broker.topic()
    broker.produce(topic, ["a", "b"])
    with pytest.raises(SourceChangedError, match="has lost offsets of partition 0, between 2 and 4"):
        rows(read(topic), [(0, 0, 5)])


def test_large_records_are_read_in_small_blocks(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.kafka.rows._BYTES", 4_000)
    monkeypatch.setattr("tidegate.kafka.rows._FIRST_ROWS", 1)
    topic = broker.topic()
    broker.produce(topic, ["x" * 1_000] * 9)
    schema = arrow_columns(BYTES)
    sizes = [batch.num_rows for batch in read(topic).batches([(0, 0, 9)], schema)]
    assert sum(sizes) == 9
    assert max(sizes) <= 4
    broker.produce(topic, ["y" * 900_000])
    (row,) = rows(read(topic), [(0, 9, 10)])
    assert len(row["value"]) == 900_000


def test_brokers_that_go_away_are_waited_for_and_then_an_error(
    own_broker: OwnBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.kafka.rows.PATIENCE", 3.0)
    topic = own_broker.topic()
    own_broker.produce(topic, ["a"])
    own_broker.stop()
    with pytest.raises(SourceUnavailableError, match=rf"Topic '{topic}'.*cannot be read: its brokers do not answer"):
        rows(read(topic), [(0, 0, 1)])
