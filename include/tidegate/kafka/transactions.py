"""Writes the rows of a checkpoint in one transaction of Kafka's, with the markers of its sinks.

The last producer with a transactional.id fences all earlier ones, whatever their attempt. So an attempt that was
overtaken must not go on after it has taken the id, and the newest attempt, which it has fenced, begins again.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

from tidegate.kafka import markers
from tidegate.kafka.clients import TIME_LIMIT, ClientErrors, producer_of
from tidegate.kafka.connections import Brokers
from tidegate.kafka.markers import Marker, Slot
from tidegate.kafka.sink_refusals import FENCED, Record, Refusals
from tidegate.ports import CommitAttempt
from tidegate.protocol.facts.errors import SupersededAttemptError
from tidegate.protocol.recovery.ownership import Owner

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, KafkaException, Message, Producer

log = logging.getLogger("tidegate")
Answer = TypeVar("Answer")

#: How often an attempt begins again that other producers have fenced.
_TRIES = 3
#: Milliseconds until brokers end an abandoned transaction: the longest that they allow by default.
TRANSACTION_TIMEOUT = 900_000
#: Seconds to wait for the answer to an abort.
_ABORT_LIMIT = 5.0
#: Errors of records that were discarded after another error.
_GIVEN_UP = ("_PURGE_QUEUE", "_PURGE_INFLIGHT")
#: The settings of a producer that the connection does not set itself.
_DEFAULTS = {"transaction.timeout.ms": TRANSACTION_TIMEOUT, "linger.ms": 20, "queue.buffering.max.kbytes": 65536}


class Produced(NamedTuple):
    """A record to write. `timestamp` is in milliseconds since 1970; 0 for now."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None = None
    timestamp: int = 0


@dataclass(frozen=True, slots=True)
class Work:
    """The rows that one sink writes for a checkpoint."""

    slot: Slot
    rows: int
    records: Callable[[], Iterator[Produced]]


class FencedError(Exception):
    """Another producer has taken the same transactional.id since, or the brokers have ended the transaction."""


def carry_out(
    brokers: Brokers, topic: str, works: Sequence[Work], checkpoint_id: int, attempt: CommitAttempt, refusals: Refusals
) -> None:
    """Write the rows that the topics do not have yet. `topic` has the markers. Raise `SinkError`, `ConfigurationError`,
    `SupersededAttemptError`."""
    slots = [work.slot for work in works]
    for _ in range(_TRIES):
        committed = markers.read(brokers, topic, refusals)
        if all(committed.has(slot, checkpoint_id) for slot in slots):
            return
        marker = committed.of(slots[0])
        if marker is None:
            raise refusals.lost_markers(slots[0].topic, topic)
        try:
            with transaction(brokers, transactional_id(marker.owner), refusals) as writing:
                return _write(writing, brokers, topic, works, checkpoint_id, attempt)
        except FencedError:
            attempt.confirm()  # an overtaken attempt has taken the same id, or this attempt itself was overtaken
            log.info("A producer of attempt %s was fenced. It begins again.", attempt.number)
    raise SupersededAttemptError(
        f"Attempt {attempt.number} at checkpoint {checkpoint_id} was fenced {_TRIES} times by another producer with "
        f"its transactional.id on the brokers of connection {brokers.connection!r}. Nothing of it is visible. If a "
        "copy of the pipeline's database is in use, let its pipelines write to other brokers."
    )


def _write(
    writing: "Transaction",
    brokers: Brokers,
    topic: str,
    works: Sequence[Work],
    checkpoint_id: int,
    attempt: CommitAttempt,
) -> None:
    attempt.confirm()  # otherwise the newest attempt, fenced by now, could not tell that from being overtaken
    slots = [work.slot for work in works]
    decided = markers.read_decided(brokers, topic, writing.refusals, slots, checkpoint_id, attempt.keep)
    left = [(work, decided.of(work.slot)) for work in works if not decided.has(work.slot, checkpoint_id)]
    ids = {work.slot.topic: _present(brokers, work.slot.topic, writing.refusals) for work, _ in left}
    if not left:
        return
    writing.begin()
    for work, _ in left:
        for record in work.records():
            writing.produce(work.slot.topic, record, attempt.keep)
    writing.flush(attempt.keep)
    for work, marker in left:  # last, because other readers of markers wait for an open transaction
        if marker is None:
            raise writing.refusals.lost_markers(work.slot.topic, topic)
        following = marker.with_commit(checkpoint_id, attempt.number, work.rows, ids[work.slot.topic])
        writing.produce(topic, Produced(work.slot.key, following.to_json()), attempt.keep)
    writing.flush(attempt.keep)
    attempt.confirm()
    writing.commit()


def _present(brokers: Brokers, topic: str, refusals: Refusals) -> str:
    """Return the id of a topic that must exist. Producing would make a missing topic, if the brokers do so."""
    found = markers.topic_id(brokers, topic, refusals)
    if found is None:
        raise refusals.no_topic(topic)
    return found


def take_slot(brokers: Brokers, topic: str, slot: Slot, owner: Owner, anew: bool, refusals: Refusals) -> Owner:
    """Give a slot to an owner if it has none; with `anew`, in any case. Return the owner that it then has. Raise
    `SinkError`, `ConfigurationError`."""
    markers.make(brokers, topic, refusals)
    while True:
        try:
            with transaction(brokers, f"tidegate-owner-{slot.key.decode()}", refusals) as writing:
                known = markers.read(brokers, topic, refusals).of(slot)
                if known is None or (known.owner != owner and anew):
                    known = _last_of_former(brokers, topic, slot, known, refusals)
                if known is not None and (known.owner == owner or not anew):
                    return known.owner
                before = known or Marker("", "", "")
                taken = replace(before, pipeline=owner.pipeline, sink=owner.sink, database=owner.database)
                writing.begin()
                writing.produce(topic, Produced(slot.key, taken.to_json()), lambda: None)
                writing.commit()
                return owner
        except FencedError:  # another process marks it at this moment
            continue


def _last_of_former(
    brokers: Brokers, topic: str, slot: Slot, known: Marker | None, refusals: Refusals
) -> Marker | None:
    """Fence the former owner of a slot, and return the marker that it leaves behind. `known` may be an older one."""
    while True:
        if known is not None:
            _fence(brokers, known.owner, refusals)
        marker = markers.read_decided(brokers, topic, refusals, [slot], None, lambda: None).of(slot)
        if marker is None or (known is not None and known.owner == marker.owner):
            return marker
        known = marker


def _fence(brokers: Brokers, former: Owner, refusals: Refusals) -> None:
    """Fence a process of the former owner that has stopped in a transaction, so that it cannot end it any more."""
    with transaction(brokers, transactional_id(former), refusals):
        pass


def transactional_id(owner: Owner) -> str:
    """Return the id of all sinks of a pipeline. It is the same for each attempt, so a later one fences those before."""
    return f"tidegate-{owner.database}-{owner.pipeline}"


@contextmanager
def transaction(brokers: Brokers, id_: str, refusals: Refusals) -> "Iterator[Transaction]":
    """Open a producer for at most one transaction, which is aborted unless it was committed. Other producers with this
    id are fenced from here on, and their uncommitted records are aborted."""
    settings = {name: value for name, value in _DEFAULTS.items() if name not in brokers.settings}
    own = {name.replace(".", "_"): value for name, value in settings.items()}
    producer, client_errors = producer_of(
        brokers, transactional_id=id_, delivery_report_only_error=True, partitioner="murmur2_random", **own
    )
    timeout = float(brokers.settings.get("transaction.timeout.ms", TRANSACTION_TIMEOUT)) / 1000
    writing = Transaction(producer, client_errors, refusals, timeout)
    writing.fence_others()
    try:
        yield writing
    finally:
        writing.end()


class Transaction:
    """One transaction. `refusals` has its errors, `timeout` the seconds after which the brokers end it."""

    def __init__(self, producer: "Producer", client_errors: ClientErrors, refusals: Refusals, timeout: float) -> None:
        self.refusals, self._timeout = refusals, timeout
        self._producer, self._client_errors = producer, client_errors
        self._refused: tuple[KafkaError, Record] | None = None
        self._since: float | None = None

    def fence_others(self) -> None:
        self._until_done(lambda: self._producer.init_transactions(TIME_LIMIT))

    def begin(self) -> None:
        self._call(self._producer.begin_transaction)
        self._since = time.monotonic()

    def produce(self, topic: str, record: Produced, keep: Callable[[], None]) -> None:
        from confluent_kafka import KafkaException

        key, value, headers, timestamp = record
        options: dict[str, Any] = {"headers": headers} if headers else {}
        if timestamp:
            options["timestamp"] = timestamp
        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=self._delivered, **options)
            except BufferError:  # enough is on its way
                keep()
                self._served(lambda: self._producer.poll(0.1))
            except KafkaException as error:
                self._raise(error, Record(topic, key, len(value or b"")))
            else:
                return

    def flush(self, keep: Callable[[], None]) -> None:
        """Wait until the brokers have all records."""
        while self._served(lambda: self._producer.flush(1)):
            keep()

    def commit(self) -> None:
        """Commit, and repeat the request if its answer is lost. If it stays unknown, the next attempt finds out."""
        self._until_done(lambda: self._producer.commit_transaction(TIME_LIMIT))
        self._since = None

    def end(self) -> None:
        """Abort an uncommitted transaction. If the brokers are unreachable, the next producer does that."""
        from confluent_kafka import KafkaException

        if self._since is not None:
            with suppress(KafkaException, SystemError):
                self._producer.abort_transaction(_ABORT_LIMIT)
        self._producer.purge()

    def _served(self, call: Callable[[], int]) -> int:
        """Call the client, which runs callbacks, and raise its errors and those of records."""
        left = self._call(call)
        self._raise_refused()
        return left

    def _until_done(self, call: Callable[[], object]) -> None:
        """Repeat a call while librdkafka reports that it may be repeated."""
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + TIME_LIMIT
        while True:
            try:
                self._surfacing(call)
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    self._raise(error)
            else:
                return

    def _call(self, call: Callable[[], Answer]) -> Answer:
        from confluent_kafka import KafkaException

        try:
            return self._surfacing(call)
        except KafkaException as error:
            self._raise(error)

    def _surfacing(self, call: Callable[[], Answer]) -> Answer:
        """Call the client, and raise `KafkaException` for its fatal errors. It sets one before it runs callbacks. These
        wrap it in a `SystemError`, or lose it where they catch errors, as handlers of logs do."""
        from confluent_kafka import KafkaException

        try:
            return call()
        except SystemError as error:
            try:
                self._producer.begin_transaction()  # every call of a transaction raises a fatal error again
            except KafkaException as fatal:
                if fatal.args[0].fatal():
                    raise fatal from error
            raise

    def _delivered(self, error: "KafkaError | None", message: "Message") -> None:
        if error is None or error.name() in _GIVEN_UP:
            return
        record = Record(str(message.topic()), message.key(), len(message.value() or b""))
        if self._refused is not None:
            first, largest = self._refused
            # Brokers refuse a whole batch. If one of its records is too large, it is the largest.
            if error.name() != first.name() or record.bytes <= largest.bytes:
                return
        self._refused = error, record

    def _raise_refused(self) -> None:
        if self._refused is not None:
            self._raise_for(*self._refused)

    def _raise(self, raised: "KafkaException", record: Record | None = None) -> NoReturn:
        self._raise_refused()  # the reason why this call failed
        self._raise_for(raised.args[0], record, raised)

    def _raise_for(self, error: "KafkaError", record: Record | None, raised: Exception | None = None) -> NoReturn:
        if error.name() in FENCED:
            self._since, since = None, self._since
            if since is not None and (open_for := time.monotonic() - since) > self._timeout:
                raise self.refusals.took_too_long(open_for) from raised
            raise FencedError from raised
        raise self.refusals.of(error, self._client_errors, record) from raised
