"""Records of a topic as Arrow: read by Spark's tasks, which need confluent-kafka and a way to the brokers."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, Message, TopicPartition

from tidegate.kafka.clients import Heard, consumer_of
from tidegate.kafka.connections import Brokers
from tidegate.kafka.positions import Range
from tidegate.kafka.refusals import Topic
from tidegate.protocol.facts.errors import MalformedRowsError
from tidegate.sources.read_errors import AS_BEFORE

#: What goes to the quarantine.
MALFORMED = "topic STRING, partition INT, offset BIGINT, value BINARY, reason STRING"
#: Records of one batch, and the seconds without a word from the brokers that are too many.
_BATCH, _PATIENCE = 10_000, 60.0
_OUT_OF_RANGE = {"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"}


@dataclass(frozen=True)
class KafkaRead:
    """What is read of a topic, and how. The settings of the brokers are not shown: they have passwords.

    Attributes:
        metadata: By column, what of the record it has besides the value.
    """

    brokers: Brokers
    topic: Topic
    format: str
    columns: str
    metadata: Mapping[str, str] = field(default_factory=dict)

    def batches(self, ranges: Sequence[Range], schema: pa.Schema, output: str = "rows") -> Iterator[pa.RecordBatch]:
        """The rows of some ranges, a consumer for all of them. Raises `SourceChangedError` if one is not there."""
        left = {partition: end for partition, _, end in ranges}
        if not left:
            return
        consumer, heard = consumer_of(self.brokers)
        try:
            consumer.assign([TopicPartition(self.topic.name, partition, start) for partition, start, _ in ranges])
            every = told_by(consumer, _BATCH, _PATIENCE)
            while left:
                told = next(every, [])
                if not told:
                    raise self.topic.refused("_TIMED_OUT", "no answer", False)
                rows = [row for each in told if (row := self._row(each, left, heard)) is not None]
                if rows:
                    yield pa.RecordBatch.from_pylist(rows, schema=schema)
        finally:
            consumer.close()

    def _row(self, message: Message, left: dict[int, int], heard: Heard) -> dict[str, Any] | None:
        partition, offset, error = message.partition() or 0, message.offset() or 0, message.error()
        if error is not None and error.name() in _OUT_OF_RANGE:
            raise self.topic.lost_meanwhile(partition, offset, left[partition])
        if error is not None and error.name() != "_PARTITION_EOF":
            raise self.topic.refused(error.name(), heard.why(error), heard.is_refused(error))
        end = left.get(partition, 0)
        if offset + 1 >= end:
            left.pop(partition, None)
        if offset >= end or error is not None:
            return None
        try:
            value = json.loads(message.value() or b"")
        except (TypeError, ValueError):
            raise MalformedRowsError(
                f"{self.topic}: record {offset} of partition {partition} is no JSON object. {AS_BEFORE}"
            ) from None
        return {**value, **{name: _metadata(message, kind) for name, kind in self.metadata.items()}}


def told_by(consumer: "Consumer", most: int, patience: float) -> Iterator[list[Message]]:
    """Up to so many messages at once, as soon as there is one, until none has come for so many seconds."""
    while first := consumer.consume(1, patience):
        yield [*first, *consumer.consume(most - 1, 0)]


def _metadata(message: Message, kind: str) -> Any:
    match kind:
        case "timestamp":
            return datetime.fromtimestamp(message.timestamp()[1] / 1000, UTC)
        case "headers":
            found: Any = message.headers() or []
            return [{"key": key, "value": value} for key, value in found]
        case _:
            return getattr(message, kind)()
