"""What the driver asks the brokers: which partitions a topic has, and what they hold. It reads no rows, but a few to
measure them."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from datetime import datetime
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec

from tidegate.kafka.clients import TIME_LIMIT, admin_of, consume, consumer_of
from tidegate.kafka.connections import Brokers
from tidegate.kafka.polls import Bounds, Found
from tidegate.kafka.refusals import NO_TOPIC, Topic

#: Records that are measured, and the seconds that this may take.
_SAMPLE, _PATIENCE = 200, 5.0
#: Seconds until it counts that brokers refuse this client, as one that starts may do for a moment.
_HOPE = 5
_EARLIEST = OffsetSpec.earliest()
_LATEST = OffsetSpec.latest()
#: Of a topic at brokers that have no ids.
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


class Asked:
    """Questions about a topic. Each raises what `refusals.Topic` says."""

    def __init__(self, brokers: Brokers, topic: Topic, was_read: bool, time_limit: float | None = None) -> None:
        self._brokers, self._topic, self._was_read = brokers, topic, was_read
        self._time_limit = TIME_LIMIT if time_limit is None else time_limit
        self._admin, self._client_errors = admin_of(brokers)
        self._listen()
        self._client_errors.forget()

    def partitions(self) -> tuple[str | None, list[int]]:
        """The id of the topic, and its partitions, each of which has a leader. It is never made by this question."""
        asked = self._admin.describe_topics(TopicCollection([self._topic.name]), request_timeout=self._time_limit)
        described = self._result(asked[self._topic.name])
        if leaderless := [each.id for each in described.partitions if each.leader is None]:
            raise self._topic.leaderless(sorted(leaderless))
        id_ = str(described.topic_id)
        return None if id_ == _NO_ID else id_, sorted(each.id for each in described.partitions)

    def found(self, is_wanted: Callable[[int], bool]) -> Found:
        """The topic, with the partitions that are wanted."""
        topic_id, partitions = self.partitions()
        wanted = [each for each in partitions if is_wanted(each)]
        first, end = (self._offsets(wanted, spec) for spec in (_EARLIEST, _LATEST))
        firsts, ends = self._each(first), self._each(end)
        return Found(topic_id, {each: Bounds(firsts[each], ends[each]) for each in wanted})

    def at(self, time: datetime, partitions: Iterable[int]) -> dict[int, int]:
        """By partition, the offset of the first record that is not older, if there is one."""
        found = self._each(self._offsets(partitions, OffsetSpec.for_timestamp(int(time.timestamp() * 1000))))
        return {each: offset for each, offset in found.items() if offset >= 0}

    def row_bytes(self, partition: int, offset: int) -> int | None:
        """The size of a record, as the next few are; None if none comes soon."""
        consumer, _ = consumer_of(self._brokers)
        try:
            consumer.assign([TopicPartition(self._topic.name, partition, offset)])
            told = consume(consumer, _SAMPLE, _PATIENCE)
        finally:
            consumer.close()
        sizes = [len(each.value() or b"") + len(each.key() or b"") for each in told if each.error() is None]
        return max(1, sum(sizes) // len(sizes)) if sizes else None

    def _offsets(self, partitions: Iterable[int], spec: OffsetSpec) -> "Mapping[TopicPartition, Future[Any]]":
        """The end is the last stable offset: what lies behind it is not committed, or may not be read yet."""
        asked = {TopicPartition(self._topic.name, each): spec for each in partitions}
        if not asked:
            return {}
        isolation = IsolationLevel.READ_COMMITTED
        return self._admin.list_offsets(asked, isolation_level=isolation, request_timeout=TIME_LIMIT)

    def _each(self, asked: "Mapping[TopicPartition, Future[Any]]") -> dict[int, int]:
        return {place.partition: self._result(future).offset for place, future in asked.items()}

    def _result(self, future: "Future[Any]") -> Any:
        try:
            return self._answer(future)
        except KafkaException as error:
            told: KafkaError = error.args[0]
            self._listen()
            if told.name() in NO_TOPIC and not self._was_read:
                raise self._topic.no_topic() from error
            raise self._topic.refused(
                told.name(), self._client_errors.why(told), self._client_errors.is_refused(told)
            ) from error

    def _answer(self, future: "Future[Any]") -> Any:
        """What the brokers answer. If they refuse this client, it is not waited for much longer."""
        no_answer = KafkaError(KafkaError.REQUEST_TIMED_OUT)
        for _ in range(_HOPE):
            with suppress(TimeoutError):
                return future.result(1)
        self._listen()
        if self._client_errors.is_refused(no_answer):
            raise KafkaException(no_answer)
        return future.result(TIME_LIMIT)

    def _listen(self) -> None:
        """Have the client tell what it has heard."""
        self._admin.poll(0)
