"""Queries of the driver to the brokers: the partitions of a topic, and their offsets. It reads only a few records, to
measure them."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from datetime import datetime
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec

from tidegate.kafka.clients import TIME_LIMIT, admin_of, consumer_of, poll_events
from tidegate.kafka.connections import Brokers
from tidegate.kafka.polls import Bounds, Found
from tidegate.kafka.refusals import NO_TOPIC, Topic

#: The number of records that are measured, and the seconds that this may take.
_SAMPLE, _PATIENCE = 200, 5.0
#: Seconds until it counts that brokers refuse this client. Brokers that are just starting may refuse it for a moment.
_HOPE = 5
_EARLIEST = OffsetSpec.earliest()
_LATEST = OffsetSpec.latest()
#: The id of a topic at brokers without ids.
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


class TopicQueries:
    """Queries about a topic. Each raises the errors of `refusals.Topic`."""

    def __init__(self, brokers: Brokers, topic: Topic, was_read: bool, time_limit: float | None = None) -> None:
        self._brokers, self._topic, self._was_read = brokers, topic, was_read
        self._time_limit = TIME_LIMIT if time_limit is None else time_limit
        self._admin, self._client_errors = admin_of(brokers)
        self._deliver_errors()
        self._client_errors.forget()

    def partitions(self) -> tuple[str | None, list[int]]:
        """Return the id of the topic, and its partitions, each of which has a leader. The query never makes the
        topic."""
        futures = self._admin.describe_topics(TopicCollection([self._topic.name]), request_timeout=self._time_limit)
        described = self._result(futures[self._topic.name])
        if leaderless := [each.id for each in described.partitions if each.leader is None]:
            raise self._topic.leaderless(sorted(leaderless))
        id_ = str(described.topic_id)
        return None if id_ == _NO_ID else id_, sorted(each.id for each in described.partitions)

    def found(self, is_wanted: Callable[[int], bool]) -> Found:
        """Return the topic with the partitions that are wanted."""
        topic_id, partitions = self.partitions()
        wanted = [each for each in partitions if is_wanted(each)]
        first, end = (self._offsets(wanted, spec) for spec in (_EARLIEST, _LATEST))
        firsts, ends = self._offset_of_each(first), self._offset_of_each(end)
        return Found(topic_id, {each: Bounds(firsts[each], ends[each]) for each in wanted})

    def at(self, time: datetime, partitions: Iterable[int]) -> dict[int, int]:
        """Return the offset of the first record that is not older than `time`, for partitions that have one."""
        found = self._offset_of_each(self._offsets(partitions, OffsetSpec.for_timestamp(int(time.timestamp() * 1000))))
        return {each: offset for each, offset in found.items() if offset >= 0}

    def row_bytes(self, partition: int, offset: int) -> int | None:
        """Return the average size of the next few records; None if none arrives soon."""
        consumer, _ = consumer_of(self._brokers)
        try:
            consumer.assign([TopicPartition(self._topic.name, partition, offset)])
            messages = poll_events(consumer, _SAMPLE, _PATIENCE)
        finally:
            consumer.close()
        sizes = [len(each.value() or b"") + len(each.key() or b"") for each in messages if each.error() is None]
        return max(1, sum(sizes) // len(sizes)) if sizes else None

    def _offsets(self, partitions: Iterable[int], spec: OffsetSpec) -> "Mapping[TopicPartition, Future[Any]]":
        """Request offsets. The end is the last stable offset: later records are not committed, or may not be read
        yet."""
        specs = {TopicPartition(self._topic.name, each): spec for each in partitions}
        if not specs:
            return {}
        isolation = IsolationLevel.READ_COMMITTED
        return self._admin.list_offsets(specs, isolation_level=isolation, request_timeout=TIME_LIMIT)

    def _offset_of_each(self, futures: "Mapping[TopicPartition, Future[Any]]") -> dict[int, int]:
        return {place.partition: self._result(future).offset for place, future in futures.items()}

    def _result(self, future: "Future[Any]") -> Any:
        try:
            return self._answer(future)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            self._deliver_errors()
            errors = self._client_errors
            if reason.name() in NO_TOPIC and not self._was_read:
                raise self._topic.no_topic() from error
            raise self._topic.refused(reason.name(), errors.why(reason), errors.is_refused(reason)) from error

    def _answer(self, future: "Future[Any]") -> Any:
        """Return the brokers' answer. If they refuse this client, it is not waited for much longer."""
        no_answer = KafkaError(KafkaError.REQUEST_TIMED_OUT)
        for _ in range(_HOPE):
            with suppress(TimeoutError):
                return future.result(1)
        self._deliver_errors()
        if self._client_errors.is_refused(no_answer):
            raise KafkaException(no_answer)
        return future.result(TIME_LIMIT)

    def _deliver_errors(self) -> None:
        """Let the client report its errors to the callback."""
        self._admin.poll(0)
