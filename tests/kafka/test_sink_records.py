"""What is written to topics: keys, values, headers and timestamps, of several sinks in one transaction."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kafka_brokers import Broker
from kafka_sinks import Watched, on_trial

from tidegate.ports import StageContext
from tidegate.protocol.facts.errors import RowsRefusedError, SupersededAttemptError
from tidegate.testing.attempts import KitAttempt, KitAttempts

AT = datetime(2026, 11, 29, 1, 2, 3, 456000, tzinfo=UTC)
HEADERS = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))


def test_a_row_becomes_a_record(broker: Broker, tmp_path: Path) -> None:
    schema = pa.schema({"k": pa.string(), "n": pa.int64(), "at": pa.timestamp("us", "UTC"), "h": HEADERS})
    row = {"k": "ä", "n": 7, "at": AT, "h": [{"key": "trace", "value": b"\x00"}]}
    rows = [row, {**row, "k": None, "n": None, "h": None}]
    for key, keys in (("k", ["ä".encode(), None]), ("n", [b"7", None]), (None, [None, None])):
        trial = on_trial(broker, tmp_path / "home", key=key, timestamp="at", headers="h")
        assert trial.sink.unstorable(schema) == []
        trial.commit(4, trial.stage(4, rows, schema=schema))
        by_value = {each.value(): each for each in broker.messages(trial.sink.topic)}
        first, second = (by_value[value] for value in sorted(by_value))
        if b"null" in (first.value() or b""):
            first, second = second, first
        assert first.value() == '{"k":"ä","n":7,"at":"2026-11-29T01:02:03.456000Z"}'.encode()
        assert second.value() == b'{"k":null,"n":null,"at":"2026-11-29T01:02:03.456000Z"}'
        assert [first.key(), second.key()] == keys
        assert first.timestamp()[1] == second.timestamp()[1] == int(AT.timestamp() * 1000)
        own = [("tidegate-checkpoint", b"4"), ("tidegate-pipeline", b"shop")]
        assert (first.headers(), second.headers()) == ([*own, ("trace", b"\x00")], own)
    trial = on_trial(broker, tmp_path / "home", key=["n", "k"], checkpoint_headers=False)
    trial.commit(1, trial.stage(1, [{"k": "a", "n": 1}], schema=pa.schema({"k": pa.string(), "n": pa.int32()})))
    [one] = broker.messages(trial.sink.topic)
    assert (one.key(), one.headers()) == (b'{"n":1,"k":"a"}', None)


def test_bytes_are_written_as_they_are(broker: Broker, tmp_path: Path) -> None:
    trial = on_trial(broker, tmp_path / "home", format="bytes")
    schema = pa.schema({"k": pa.string(), "value": pa.binary()})
    assert trial.sink.unstorable(schema) == []
    trial.commit(1, trial.stage(1, [{"k": "a", "value": b"\xff"}], schema=schema))
    [one] = broker.messages(trial.sink.topic)
    assert (one.key(), one.value()) == (b"a", b"\xff")


def test_avro_is_written_by_a_schema_or_by_that_of_the_columns(broker: Broker, tmp_path: Path) -> None:
    schema = {
        "type": "record",
        "name": "Row",
        "fields": [{"name": "k", "type": "long"}, {"name": "v", "type": "string"}],
    }
    columns = on_trial(broker, tmp_path / "home").schema
    for options in ({"avro": schema}, {"schemas": {3: schema}}, {}):
        trial = on_trial(broker, tmp_path / "home", format="avro", **options)
        assert trial.sink.unstorable(columns) == []
        assert json.loads(json.dumps(trial.sink.describe())) == trial.sink.describe()
        trial.take(1, trial.some_rows(1))
        [one] = broker.messages(trial.sink.topic)
        frame = b"\x00\x00\x00\x00\x03" if "schemas" in options else b""
        union = b"\x02" if not options else b""
        assert one.value() == frame + union + b"\x02" + union + b"\x0arow 1"
    strict = on_trial(broker, tmp_path / "home", format="avro", avro=schema)
    other = pa.schema({"k": pa.int64(), "more": pa.string()})
    assert strict.sink.unstorable(other) == [
        "column 'more' is no field of the Avro schema",
        "the stream has no column 'v', which the Avro schema needs",
    ]
    staged = strict.stage(1, [{"k": 1, "v": None}])
    with pytest.raises(RowsRefusedError, match=r"a row does not fit the Avro schema: .*The checkpoint is complete"):
        strict.commit(1, staged)
    strict.check("After a row that does not fit")


def test_equal_keys_go_to_the_partition_that_clients_in_java_choose(broker: Broker, tmp_path: Path) -> None:
    """murmur2("21") is -973932308, and so on, as in Kafka's own tests."""
    for key, hashed in (("21", -973932308), ("foobar", -790332482), ("a-little-bit-long-string", -985981536)):
        trial = on_trial(broker, tmp_path / "home", topic=broker.topic(7))
        trial.commit(1, trial.stage(1, [{"k": key}], schema=pa.schema({"k": pa.string()})))
        [one] = broker.messages(trial.sink.topic)
        assert one.partition() == (hashed & 0x7FFFFFFF) % 7


def test_keys_that_are_gone_are_records_without_value(broker: Broker, tmp_path: Path) -> None:
    trial = on_trial(broker, tmp_path / "home", mode="upsert", topic=broker.topic(1))
    trial.commit(1, trial.stage(1, trial.some_rows(1, 2)))
    trial.commit(2, [*trial.stage(2, trial.some_rows(3)), *trial.stage_gone(2, 1)])
    trial.commit(3, trial.stage_whole(3, trial.some_rows(3)))
    found = [(each.key(), each.value() is None) for each in broker.messages(trial.sink.topic)]
    assert found == [(b"1", False), (b"2", False), (b"1", True), (b"3", False), (b"3", False)], "gone ones first"
    with pytest.raises(RowsRefusedError, match="have null in the column 'k', which is the key of their records"):
        trial.stage(4, [{"k": None, "v": "x"}])


def test_two_topics_change_in_one_transaction(broker: Broker, tmp_path: Path) -> None:
    one, other = (on_trial(broker, tmp_path / "home") for _ in range(2))
    attempts = KitAttempts(tmp_path / "attempt")

    def members(id_: int) -> Any:
        return [(each.sink, each.stage(id_, each.some_rows(id_))) for each in (one, other)]

    assert one.sink.group == other.sink.group
    one.sink.commit_group(1, members(1), attempts.next())
    staged = members(2)
    zombie = Watched(attempts.next(), {2: attempts.next})
    with pytest.raises(SupersededAttemptError):
        one.sink.commit_group(2, staged, zombie)
    assert [broker.rows(each.sink.topic) for each in (one, other)] == [[{"k": 1, "v": "row 1"}]] * 2
    one.sink.commit(2, staged[0][1], attempts.next())  # as if the group had got a member
    one.sink.commit_group(2, staged, attempts.next())
    for each in (one, other):
        assert sorted(row["k"] for row in broker.rows(each.sink.topic)) == [1, 2]
        assert each.sink.numbers()[0] == 2


def test_nothing_is_written_for_a_checkpoint_without_rows(broker: Broker, tmp_path: Path) -> None:
    appended, upserted = (on_trial(broker, tmp_path / "home", mode=mode) for mode in ("append", "upsert"))
    attempt = KitAttempt(1, tmp_path / "attempt")
    attempt.newest.write_text("1")
    appended.sink.commit(5, [], attempt)
    upserted.sink.commit(5, [], attempt)
    assert (appended.sink.numbers(), upserted.sink.numbers()) == ((0, 0), (5, 1))
    assert upserted.sink.shown_checkpoint() == 5, "the next checkpoint need not have all rows"
    writer = upserted.sink.writer()
    assert writer.stage(pa.table({"k": pa.array([], pa.int64())}), StageContext(6, 0, 1, "u")), "a table keeps columns"


def test_pipelines_of_the_same_topic_do_not_disturb_each_other(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    one, other = (on_trial(broker, tmp_path / name, pipeline=name, topic=topic) for name in ("one", "other"))
    one.take(1, one.some_rows(1))
    other.take(1, other.some_rows(2))
    one.take(2, one.some_rows(3))
    assert sorted(row["k"] for row in broker.rows(topic)) == [1, 2, 3]
