"""Rows of a topic as Arrow, read by Spark's tasks, which need confluent-kafka and access to the brokers.

One consumer reads some ranges of offsets, a block of records at a time. It is assigned its partitions, joins no group
and commits nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Literal

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, Message, TopicPartition

from tidegate.kafka.clients import consumer_of, poll_events
from tidegate.kafka.column_types import arrow_columns
from tidegate.kafka.connections import Brokers
from tidegate.kafka.formats import Format
from tidegate.kafka.positions import Range
from tidegate.kafka.record_columns import Block
from tidegate.kafka.refusals import Topic
from tidegate.kafka.values.byte_values import binaries
from tidegate.kafka.values.decoded import Decoder, Misfit
from tidegate.protocol.facts.errors import CheckpointError, MalformedRowsError
from tidegate.sources.arrow_columns import strings
from tidegate.sources.read_errors import AS_BEFORE

#: The columns of the quarantine. The value is null where the record has none.
MALFORMED = "topic STRING, partition INT, offset BIGINT, value BINARY, reason STRING"
#: Seconds without a record before reading fails. Meanwhile librdkafka keeps trying to reach the brokers.
PATIENCE = 60.0

#: As above, in seconds, if the brokers refuse the client, or a partition ends before the range does.
_HOPE = 10.0
#: The rows and bytes of one block.
_ROWS, _BYTES = 1_000, 8 << 20
_FIRST_ROWS = 200  # of a block, until it is known how large records are
_WAIT = 1.0  # seconds without a record, after which the reasons to give up are checked
_SAMPLE = 50  # records of a block that are measured
_AHEAD = 32 << 10  # KiB that librdkafka fetches ahead, half of its default
_SHOWN = 300  # characters of a reason in an error
_END, _OUT_OF_RANGE, _NO_ANSWER = "_PARTITION_EOF", ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"), "_TIMED_OUT"
#: Events that only report that something is tried again.
_PASSING = {"_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", _NO_ANSWER, "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION"}


@dataclass(frozen=True)
class KafkaRead:
    """The records to read, and the rows to make of them.

    Attributes:
        brokers: The brokers of the topic.
        topic: The topic.
        format: The format of its values.
        columns: All columns of a row, as Spark DDL.
        metadata: The columns that are not part of the value, and which part of the record each has.
        malformed: Whether a malformed record is an error, or left out of the rows.
    """

    brokers: Brokers
    topic: Topic
    format: Format
    columns: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    malformed: Literal["fail", "quarantine"] = "fail"

    def batches(self, ranges: Sequence[Range], schema: pa.Schema, output: str = "rows") -> Iterator[pa.RecordBatch]:
        """Read ranges whose ends are those of committed records.

        Args:
            ranges: The ranges.
            schema: Some of the columns, or some of `MALFORMED`.
            output: `"rows"`, or `"malformed"` for malformed records.

        Returns:
            Batches of the schema. A range may have no row: offsets are also those of aborted transactions.

        Raises:
            MalformedRowsError: If a record is malformed and there is no quarantine.
            SourceChangedError: If a range does not exist any more.
            SourceUnavailableError: If the brokers do not answer for a minute.
            ConfigurationError: If the brokers refuse the connection.
        """
        values = [each for each in arrow_columns(self.columns) if each.name not in self.metadata]
        decoder = self.format.decoder(pa.schema(values))
        reading = _Reading(self.brokers, self.topic)
        for block in reading.blocks(ranges):
            batch = self._batch(decoder, block, schema, output)
            if batch.num_rows:
                yield batch

    def _batch(self, decoder: Decoder, block: Block, schema: pa.Schema, output: str) -> pa.RecordBatch:
        found = decoder.decode(block.values())
        if found.misfits and self.malformed == "fail":
            raise self._unfit(block, found.misfits[0])
        if output == "malformed":
            arrays = [_of_misfits(each.name, block, found.misfits) for each in schema]
        else:
            rows = block if found.records is None else block.taken(found.records)
            arrays = [
                rows.column(self.metadata[each.name]) if each.name in self.metadata else found.columns.column(each.name)
                for each in schema
            ]
        fitted = [
            each if each.type == kind.type else each.cast(kind.type) for each, kind in zip(arrays, schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(fitted, schema=schema)

    def _unfit(self, block: Block, misfit: Misfit) -> MalformedRowsError:
        """Return the error for a malformed record. It does not quote the record: an unexpected topic may hold
        secrets."""
        place = f"partition {block.partitions[misfit.record]}, offset {block.offsets[misfit.record]}"
        reason = misfit.reason if len(misfit.reason) <= _SHOWN else f"{misfit.reason[:_SHOWN]}…"
        return MalformedRowsError(
            f"{self.topic} has a malformed record: {place} ({reason}). {AS_BEFORE}"
            'Correct the schema, or let the source quarantine such records with malformed="quarantine", then repeat '
            "the step."
        )


def _of_misfits(name: str, block: Block, misfits: Sequence[Misfit]) -> pa.Array:
    if name == "reason":
        return strings(misfit.reason for misfit in misfits)
    if name == "value":
        return binaries([misfit.value for misfit in misfits])
    return block.taken(np.array([misfit.record for misfit in misfits], np.int64)).column(name)


class _Reading:
    """The records of some ranges, by one consumer."""

    def __init__(self, brokers: Brokers, topic: Topic) -> None:
        self._brokers, self._topic = brokers, topic
        self._rows = _FIRST_ROWS

    def blocks(self, ranges: Sequence[Range]) -> Iterator[Block]:
        """Yield blocks of records. Those of a partition are in the order of their offsets."""
        waiting = [each for each in ranges if each[1] < each[2]]
        if not waiting:
            return
        own = {"queued_max_messages_kbytes": _AHEAD, **_given(self._brokers, "queued.max.messages.kbytes")}
        self._consumer, self._client_errors = consumer_of(self._brokers, **own)
        try:
            while waiting:
                taken: dict[int, Range] = {}
                for piece in waiting:
                    taken.setdefault(piece[0], piece)  # a partition may have two ranges, read one after the other
                waiting = [piece for piece in waiting if taken[piece[0]] is not piece]
                yield from self._assigned(taken)
        finally:
            self._consumer.close()

    def _assigned(self, ranges: Mapping[int, Range]) -> Iterator[Block]:
        """Read one range of each partition."""
        self._highs = np.full(max(ranges) + 1, -1, np.int64)
        self._nexts = self._highs.copy()
        for partition, low, high in ranges.values():
            self._nexts[partition], self._highs[partition] = low, high
        self._alone = next(iter(ranges)) if len(ranges) == 1 else None
        self._ends: dict[int, int] = {}  # the ends of partitions that end before their range does
        self._consumer.incremental_assign([self._place(each, low) for each, low, _ in ranges.values()])
        last = monotonic()
        while (left := int(np.maximum(self._highs - self._nexts, 0).sum())) > 0:
            events = poll_events(self._consumer, min(self._rows, left), _WAIT)
            if not events:
                self._require_hope(monotonic() - last)
                continue
            last = monotonic()
            block = self._block(events)
            if len(block.messages):
                self._measure(block)
                yield block

    def _block(self, events: Sequence[Message]) -> Block:
        """Return the records among some events, as far as they are in the ranges."""
        errors: list[Message] = []
        if any(map(Message.error, events)):
            errors = [event for event in events if event.error() is not None]
            events = [event for event in events if event.error() is None]
        offsets = np.fromiter(map(Message.offset, events), np.int64, len(events))
        if self._alone is None:
            partitions = np.fromiter(map(Message.partition, events), np.int64, len(events))
        else:
            partitions = np.full(len(events), self._alone)
        before = self._nexts < self._highs
        if self._alone is None:
            np.maximum.at(self._nexts, partitions, offsets + 1)
        elif events:
            self._nexts[self._alone] = offsets[-1] + 1
        for event in errors:
            self._take(event)
        inside = offsets < self._highs[partitions]
        if done := np.flatnonzero(before & (self._nexts >= self._highs)).tolist():
            self._consumer.incremental_unassign([self._place(each) for each in done])
        if inside.all():
            return Block(events, partitions, offsets)
        return Block(events, partitions, offsets).taken(np.flatnonzero(inside))

    def _take(self, event: Message) -> None:
        """Take an event that is no record. Raise its error, unless it passes."""
        error, partition = event.error(), event.partition()
        assert error is not None
        if error.name() == _END and partition is not None:
            end = int(event.offset() or 0)
            if end < self._highs[partition]:
                self._ends[partition] = end
            else:
                self._nexts[partition] = end
        elif error.name() in _OUT_OF_RANGE and partition is not None:
            raise self._lost(partition)
        elif error.name() not in _PASSING:
            raise self._refused(error)

    def _require_hope(self, waited: float) -> None:
        """Raise an error if nothing has arrived for too long."""
        error = KafkaError(KafkaError.REQUEST_TIMED_OUT)
        if waited > _HOPE:
            for partition, end in self._ends.items():
                if end < self._highs[partition]:
                    raise self._lost(partition)
            if self._client_errors.is_refused(error):
                raise self._refused(error)
        if waited > PATIENCE:
            raise self._refused(error)

    def _lost(self, partition: int) -> CheckpointError:
        return self._topic.lost_meanwhile(partition, int(self._nexts[partition]), int(self._highs[partition]))

    def _refused(self, error: KafkaError) -> CheckpointError:
        return self._topic.refused(error.name(), self._client_errors.why(error), self._client_errors.is_refused(error))

    def _measure(self, block: Block) -> None:
        """Set the number of rows of the next block, so that it has about as many bytes as a block may have."""
        some = block.messages[:_SAMPLE]
        self._rows = max(1, min(_ROWS, _BYTES * len(some) // max(1, sum(map(len, some)))))

    def _place(self, partition: int, offset: int = -1001) -> TopicPartition:
        return TopicPartition(self._topic.name, partition, offset)


def _given(brokers: Brokers, name: str) -> dict[str, object]:
    """Return a setting that the connection has itself."""
    return {name.replace(".", "_"): brokers.settings[name]} if name in brokers.settings else {}
