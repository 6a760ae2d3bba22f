"""Markers: a record for each sink on a compacted topic, with the checkpoints that its topic has.

They are written in the transactions of the rows. The offset of a consumer group could record the same, but is deleted
after some days. A record on a compacted topic stays.
"""

import json
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from tidegate.kafka.clients import TIME_LIMIT, admin_of, consumer_of
from tidegate.kafka.connections import Brokers
from tidegate.kafka.sink_refusals import Refusals, not_compacted
from tidegate.protocol.recovery.ownership import Owner
from tidegate.protocol.steps.applied import Applied

if TYPE_CHECKING:
    from confluent_kafka import Message

#: The topic of the markers, unless the sink names another one.
TOPIC = "_tidegate_commits"
#: The settings of a new topic. A closed segment is compacted, so a reader has an hour of records to read.
_CONFIG = {"cleanup.policy": "compact", "segment.ms": "3600000", "min.cleanable.dirty.ratio": "0.1"}
#: Seconds between two checks whether a transaction has ended.
_PAUSE = 0.2
#: Milliseconds that the brokers wait for more records before they report the end.
_WAIT = 10


@dataclass(frozen=True, slots=True)
class Slot:
    """A sink of a pipeline, and the topic that it writes to."""

    pipeline: str
    sink: str
    topic: str

    @property
    def key(self) -> bytes:
        return json.dumps([self.pipeline, self.sink, self.topic], separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class Marker:
    """The record of a sink's commits: the owner of its slot, the newest checkpoint, and the ids below it that were
    passed over, as ranges. Of the last commit it has the attempt, the number of rows, and the id that the topic then
    had."""

    pipeline: str
    sink: str
    database: str
    checkpoint_id: int = 0
    attempt: int = 0
    rows: int = 0
    topic_id: str = ""
    passed: tuple[tuple[int, int], ...] = ()

    @property
    def owner(self) -> Owner:
        return Owner(self.pipeline, self.sink, self.database)

    def has(self, checkpoint_id: int) -> bool:
        """Whether the rows of a checkpoint were committed."""
        return Applied(self.checkpoint_id, self.passed).has(checkpoint_id)

    def with_commit(self, checkpoint_id: int, attempt: int, rows: int, topic_id: str) -> "Marker":
        """Return the marker that is written with the rows of one more checkpoint."""
        now = Applied(self.checkpoint_id, self.passed).with_commit(checkpoint_id)
        return replace(self, checkpoint_id=now.newest, attempt=attempt, rows=rows, topic_id=topic_id, passed=now.passed)

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def parse(cls, value: bytes) -> "Marker":
        """Parse a marker. Raise `ValueError` if it is none. Fields that a later release adds are ignored."""
        try:
            content: dict[str, Any] = json.loads(value)
            content["passed"] = tuple((first, last) for first, last in content.get("passed", ()))
            names = cls.__dataclass_fields__
            return cls(**{name: item for name, item in content.items() if name in names})
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError("it is no marker") from error


@dataclass(frozen=True, slots=True)
class Markers:
    """The markers of a topic, by key. `undecided` are the keys of markers in transactions behind an open one of another
    producer. It is unknown whether they were committed until that one has ended."""

    committed: Mapping[bytes, Marker]
    undecided: Collection[bytes]

    def of(self, slot: Slot) -> Marker | None:
        return self.committed.get(slot.key)

    def has(self, slot: Slot, checkpoint_id: int) -> bool:
        """Whether the rows of a checkpoint were committed."""
        marker = self.of(slot)
        return marker is not None and marker.has(checkpoint_id)

    def is_decided(self, slot: Slot) -> bool:
        """Whether the marker of a slot is known. One that follows another has all checkpoints of that one."""
        return slot.key not in self.undecided


def read(brokers: Brokers, topic: str, refusals: Refusals) -> Markers:
    """Read all markers; none if there is no such topic. Raise `SinkError`, `ConfigurationError`."""
    if topic_id(brokers, topic, refusals) is None:
        return Markers({}, ())
    committed: dict[bytes, Marker] = {}
    stable = _read(brokers, topic, refusals, "read_committed", 0, lambda m: committed.update(_parsed(m, refusals)))
    undecided = set[bytes]()
    if stable < _end_of(brokers, topic, refusals):  # a transaction is open, or has just ended
        _read(brokers, topic, refusals, "read_uncommitted", stable, lambda m: undecided.update(_parsed(m, refusals)))
    return Markers(committed, undecided)


def read_decided(
    brokers: Brokers,
    topic: str,
    refusals: Refusals,
    slots: Collection[Slot],
    checkpoint_id: int | None,
    keep: Callable[[], None],
) -> Markers:
    """Read the markers once it is certain which of these slots have a checkpoint, and what the markers of the others
    are: of all if there is no checkpoint. Their own transactions must have ended. Raise `SinkUnavailableError` if a
    transaction of another producer stays open."""
    deadline = time.monotonic() + TIME_LIMIT
    while True:
        markers = read(brokers, topic, refusals)
        open_ = [each for each in slots if checkpoint_id is None or not markers.has(each, checkpoint_id)]
        if all(markers.is_decided(each) for each in open_):
            return markers
        if time.monotonic() > deadline:
            raise refusals.held_back(topic)
        keep()
        time.sleep(_PAUSE)


def make(brokers: Brokers, topic: str, refusals: Refusals) -> None:
    """Make the topic unless it exists and is compacted. Raise `SinkError`, `ConfigurationError`."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import NewTopic

    if policy_of(brokers, topic, refusals) is None:
        admin, client_errors = admin_of(brokers)
        [made] = admin.create_topics([NewTopic(topic, 1, config=_CONFIG)]).values()
        try:
            made.result(TIME_LIMIT)
        except KafkaException as error:
            if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                raise refusals.not_made(topic, error.args[0], client_errors) from error
    if problem := problem_of(brokers, topic, refusals):
        raise refusals.wrong_markers(problem)


def problem_of(brokers: Brokers, topic: str, refusals: Refusals) -> str | None:
    """Return why an existing topic cannot hold markers; None if it can, or does not exist."""
    policy = policy_of(brokers, topic, refusals)
    return None if policy is None or policy == "compact" else not_compacted(topic, policy)


def policy_of(brokers: Brokers, topic: str, refusals: Refusals) -> str | None:
    """Return the topic's `cleanup.policy`; None if there is no such topic. Raise `SinkError`, `ConfigurationError`."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource, ResourceType

    if topic_id(brokers, topic, refusals) is None:
        return None
    admin, client_errors = admin_of(brokers)
    futures = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)], request_timeout=TIME_LIMIT)
    try:
        return str(next(iter(futures.values())).result()["cleanup.policy"].value)
    except KafkaException as error:
        raise refusals.unmarked(topic, error.args[0], client_errors) from error


def topic_id(brokers: Brokers, topic: str, refusals: Refusals) -> str | None:
    """Return the id of a topic; None if there is no such topic. The query does not make it. Raise `SinkError`,
    `ConfigurationError`."""
    from confluent_kafka import KafkaException, TopicCollection

    admin, client_errors = admin_of(brokers)
    [future] = admin.describe_topics(TopicCollection([topic]), request_timeout=TIME_LIMIT).values()
    try:
        return str(future.result().topic_id)
    except KafkaException as error:
        if error.args[0].name() == "UNKNOWN_TOPIC_OR_PART":
            return None
        raise refusals.unmarked(topic, error.args[0], client_errors) from error


def _end_of(brokers: Brokers, topic: str, refusals: Refusals) -> int:
    """Return the offset behind the newest record, committed or not."""
    from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    admin, client_errors = admin_of(brokers)
    latest = {TopicPartition(topic, 0): OffsetSpec.latest()}
    uncommitted = IsolationLevel.READ_UNCOMMITTED
    [future] = admin.list_offsets(latest, isolation_level=uncommitted, request_timeout=TIME_LIMIT).values()
    try:
        return int(future.result().offset)
    except KafkaException as error:
        raise refusals.unmarked(topic, error.args[0], client_errors) from error


def _parsed(message: "Message", refusals: Refusals) -> dict[bytes, Marker]:
    key, value = message.key(), message.value()
    if key is None or value is None:
        return {}
    try:
        return {bytes(key): Marker.parse(bytes(value))}
    except ValueError as error:
        raise refusals.strange_marker(str(message.topic()), int(message.offset() or 0)) from error


def _read(
    brokers: Brokers,
    topic: str,
    refusals: Refusals,
    isolation: str,
    start: int,
    see: Callable[["Message"], None],
) -> int:
    """Read to the end that this isolation level has, and return its offset."""
    from confluent_kafka import KafkaException, TopicPartition

    consumer, client_errors = consumer_of(
        brokers, isolation_level=isolation, auto_offset_reset="earliest", fetch_wait_max_ms=_WAIT
    )
    try:
        consumer.assign([TopicPartition(topic, 0, start)])
        deadline = time.monotonic() + TIME_LIMIT
        while time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is None:
                continue
            error = message.error()
            if error is None:
                see(message)
            elif error.name() == "_PARTITION_EOF":
                return int(message.offset() or 0)
            else:
                raise refusals.unmarked(topic, error, client_errors)
        raise refusals.unmarked_in_time(topic, client_errors)
    except KafkaException as error:
        raise refusals.unmarked(topic, error.args[0], client_errors) from error
    finally:
        consumer.close()
