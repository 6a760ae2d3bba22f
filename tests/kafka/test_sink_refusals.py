"""What is said of a topic that a sink cannot write to, each time with what is safe and what helps."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError
from kafka_brokers import VARIABLE, Broker, OwnBroker
from kafka_sinks import SCHEMA, on_trial

from tidegate import KafkaSink
from tidegate.kafka import clients, markers, transactions
from tidegate.kafka.clients import ClientErrors
from tidegate.kafka.sink_refusals import Record, forward
from tidegate.protocol.facts.errors import (
    ConfigurationError,
    PipelineDefinitionError,
    RowsRefusedError,
    SinkError,
    SinkUnavailableError,
)
from tidegate.protocol.recovery.ownership import Owner

COMPLETE = (
    "The checkpoint is complete, its rows are staged and safe, and readers of committed records see none of them."
)


def test_options_that_make_no_sense() -> None:
    for options, text in (
        ({"topic": ""}, "needs the name of a topic"),
        ({"markers": "out"}, "not that of the markers"),
        ({"mode": "latest"}, 'the mode is \'latest\', but must be "append" or "upsert"'),
        ({"format": "xml"}, "the format is 'xml', but must be"),
        ({"mode": "upsert"}, 'mode="upsert" needs key='),
    ):
        with pytest.raises(PipelineDefinitionError, match=text):
            KafkaSink(**{"topic": "out", **options})


def test_a_check_finds_what_rows_and_topics_lack(broker: Broker, tmp_path: Path) -> None:
    sink = on_trial(broker, tmp_path / "home", key="id", timestamp="v", headers="k").sink
    assert sink.unstorable(SCHEMA) == [
        "the stream has no column 'id', which the sink names",
        "column 'v' is string, and the timestamp of records is of a TIMESTAMP",
        "column 'k' is int64, and headers are an ARRAY<STRUCT<key: STRING, value: BINARY>>",
    ]
    [problem] = on_trial(broker, tmp_path / "home", format="bytes", key=None).sink.unstorable(SCHEMA)
    assert problem.startswith('format="bytes" takes rows with one column of bytes or text besides')
    deleted, kept = KafkaSink("never-made"), broker.topic(1, **{"cleanup.policy": "delete"})
    assert deleted.placed("p", "s").unstorable(SCHEMA) == [
        "there is no topic 'never-made' at connection 'kafka_default': make it"
    ]
    wrong = KafkaSink(broker.topic(), markers=kept).placed("p", "s")
    policy = f"topic '{kept}', on which sinks record their commits, has cleanup.policy=delete"
    assert wrong.unstorable(SCHEMA)[0].startswith(policy)
    with pytest.raises(
        RowsRefusedError, match=rf"{policy}, so that it would lose them\. Set its cleanup\.policy to compact"
    ):
        wrong.mark(Owner("p", "s", "d"))
    assert "never-made" not in broker.admin.list_topics(timeout=30).topics, "asking makes no topic"


def test_a_record_that_is_too_large_is_named(broker: Broker, tmp_path: Path) -> None:
    text = r"topic '.*' does not take the record with the key '1', which has (\d+) bytes\. " + COMPLETE.replace(
        ".", r"\."
    )
    for topic, size in ((broker.topic(1), 2_000_000), (broker.topic(1, **{"max.message.bytes": "2000"}), 50_000)):
        trial = on_trial(broker, tmp_path / "home", topic=topic)
        value = pa.array([str(number) for number in range(size // 5)])
        rows = [{"k": 0, "v": "small"}, {"k": 1, "v": "".join(value.to_pylist())}, {"k": 2, "v": "small"}]
        staged = trial.stage(1, rows)
        with pytest.raises(RowsRefusedError, match=text) as caught:
            trial.commit(1, staged)
        assert "message.max.bytes in connection 'kafka_default'" in str(caught.value)
        trial.take(2, trial.some_rows(2))
        trial.check("After the next checkpoint", trial.some_rows(2))


def test_a_topic_or_record_that_has_gone(broker: Broker, tmp_path: Path) -> None:
    trial = on_trial(broker, tmp_path / "home")
    staged = trial.stage(1, trial.some_rows(1))
    broker.delete(trial.sink.topic)
    with pytest.raises(RowsRefusedError, match=rf"there is no topic '{trial.sink.topic}'.*\. {COMPLETE}"):
        trial.commit(1, staged)
    assert trial.sink.topic not in broker.admin.list_topics(timeout=30).topics, "producing would have made it"
    broker.topic(2, trial.sink.topic)
    trial.commit(1, staged)
    other = KafkaSink(trial.sink.topic, markers=trial.sink.markers).placed("shop", "another")
    with pytest.raises(SinkError, match="no record of this sink any more, so it is unknown which checkpoints"):
        other.commit(2, [*trial.stage(2, trial.some_rows(2))], trial.attempts.next())
    strange = broker.topic(1, **{"cleanup.policy": "compact"})
    broker.produce(strange, ["what is this"], key="x")
    with pytest.raises(
        RowsRefusedError, match=f"the record at offset 0 of topic '{strange}' was not written by Tidegate"
    ):
        KafkaSink(trial.sink.topic, markers=strange).placed("shop", "s").mark(Owner("shop", "s", "d"))


def test_brokers_that_are_away(own_broker: OwnBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (clients, markers, transactions):
        monkeypatch.setattr(module, "TIME_LIMIT", 2.0)
    trial = on_trial(own_broker, tmp_path / "home")
    staged = trial.stage(1, trial.some_rows(1))
    own_broker.stop()
    with pytest.raises(
        SinkUnavailableError, match=r"cannot be read: the brokers of connection 'kafka_default' did not"
    ):
        trial.commit(1, staged)
    assert trial.sink.unstorable(SCHEMA) == [], "the first run finds out"
    own_broker.start()
    trial.commit(1, staged)
    trial.check("After they have come back")


def test_what_brokers_say_is_explained() -> None:
    refusals = forward("events", ["out", "more"], 3)

    def said(code: int, record: Record | None = None) -> Any:
        return refusals.of(KafkaError(code), ClientErrors(), record)

    for code, kind, text in (
        (
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            ConfigurationError,
            "may not write to the topic: WRITE and DESCRIBE on it",
        ),
        (
            KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            ConfigurationError,
            "transactional ids with the prefix tidegate-",
        ),
        (KafkaError.INVALID_TRANSACTION_TIMEOUT, ConfigurationError, "transaction.max.timeout.ms"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, RowsRefusedError, "the topic does not exist any more"),
        (KafkaError.INVALID_TIMESTAMP, RowsRefusedError, "message.timestamp.before.max.ms"),
        (KafkaError._AUTHENTICATION, ConfigurationError, "Correct its user and password, and whether it uses TLS"),
        (KafkaError.NOT_ENOUGH_REPLICAS, SinkUnavailableError, "did not answer as they should"),
    ):
        found = said(code)
        assert type(found) is kind, found
        assert text in str(found)
        assert str(found).startswith("The rows of checkpoint 3 cannot be written to topics 'out' and 'more'")
        assert COMPLETE in str(found)
        assert str(found).endswith("then repeat the notify step, or run again.")
    assert "has 9 bytes" in str(said(KafkaError.MSG_SIZE_TOO_LARGE, Record("out", None, 9)))
    assert "may not make it" in str(
        refusals.not_made("m", KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED), ClientErrors())
    )
    assert "which was open for 1000 s" in str(refusals.took_too_long(1000))


@pytest.mark.real_broker
def test_a_transaction_that_may_last_too_long_or_does(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = on_trial(broker, tmp_path / "home")
    staged = trial.stage(1, trial.some_rows(1))
    settings = {**broker.settings, "transaction.timeout.ms": 2_000_000_000}
    monkeypatch.setenv(VARIABLE, str(settings).replace("'", '"'))
    with pytest.raises(ConfigurationError, match=r"transaction\.max\.timeout\.ms"):
        trial.commit(1, staged)
