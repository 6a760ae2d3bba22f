"""What connects `tidegate.kafka` itself with brokers in memory: clients that take the place of confluent-kafka's.

Each call is an effect, before which others may go first, where a process may die or stand still, and whose answer may
be lost: then nobody knows whether it was carried out.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from confluent_kafka import OFFSET_BEGINNING, IsolationLevel, KafkaError, KafkaException
from worlds import Crash

from simulator.brokers import Brokers, FencedError
from simulator.scheduler import require
from tidegate.kafka import markers, source, topic_queries, transactions
from tidegate.kafka.clients import ClientErrors

CONNECTION = "simulated"


@dataclass(frozen=True)
class Kafka:
    """The brokers of one simulated run, as a process sees them: `tidegate.kafka.connections.Brokers`.

    `step` is called at each effect, and `die` where the process dies. `trouble`: the probability that it does so before
    it hears of an effect, that an answer is lost, or that others write to the same topics meanwhile. The witness alone
    knows `is_newest`, whether the attempt that has these clients is the newest one, and `whole`, by pipeline and
    checkpoint the transaction that its rows came with.
    """

    brokers: Brokers
    step: Callable[[str], None]
    die: Callable[[str], None]
    clock: Any
    draws: Random
    trouble: Callable[[], float]
    is_newest: Callable[[], bool] = lambda: True
    connection: str = CONNECTION
    settings: Mapping[str, Any] = field(default_factory=dict)
    whole: dict[Any, Any] = field(default_factory=dict)
    met: Counter[str] = field(default_factory=Counter)

    @property
    def servers(self) -> str:
        return self.connection

    def quietly(self) -> "Kafka":
        """In no step of anybody."""
        return replace(self, step=lambda what: None, trouble=lambda: 0.0)

    def strikes(self) -> bool:
        return self.draws.random() < self.trouble()

    def call(self, what: str, effect: Callable[[], Any]) -> Any:
        """Raises `KafkaException`."""
        self.step(what)
        is_lost = self.strikes()
        try:
            answer = None if is_lost and self.draws.random() < 0.5 else effect()
        except FencedError as error:
            self.met["fenced"] += 1
            raise KafkaException(KafkaError(KafkaError._FENCED, str(error), fatal=True)) from error
        if self.strikes():
            self.die(f"and does not hear that it {what}")
        if is_lost:
            self.clock.sleep(self.draws.choice([1, 5, 40]))
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the answer is lost", retriable=True))
        return answer

    def others_write(self, topics: Sequence[str]) -> None:
        """Another pipeline writes to the same topics in a transaction, which it leaves open if it dies."""
        if self.strikes():
            self.met["others write"] += 1
            name = f"another one {self.draws.randrange(3)}"
            epoch = self.brokers.initialise(name)
            for topic in topics:
                self.brokers.append(name, epoch, self.draws.choice(self.brokers.topic(topic)), None, None)
            if self.draws.random() < 0.5:
                self.brokers.end(name, epoch, self.draws.random() < 0.7)


@contextmanager
def in_memory(clock: Any) -> Iterator[None]:
    """Inside, whoever has a `Kafka` reaches its brokers, and waits by this clock."""
    time = SimpleNamespace(monotonic=clock.monotonic, sleep=clock.sleep)
    with ExitStack() as stack:
        stack.enter_context(patch.object(transactions, "producer_of", SimulatedProducer.of))
        for module in (markers, transactions):
            stack.enter_context(patch.object(module, "time", time))
        for asks in (markers, topic_queries):
            stack.enter_context(patch.object(asks, "consumer_of", SimulatedConsumer.of))
            stack.enter_context(patch.object(asks, "admin_of", lambda kafka: (SimulatedAdmin(kafka), ClientErrors())))
        stack.enter_context(patch.object(source, "brokers_of", lambda connection: connection))
        stack.enter_context(patch.object(source, "_TASK", 3))
        yield


class SimulatedProducer:
    """`confluent_kafka.Producer` with a transactional id. Records leave with `flush`."""

    def __init__(self, kafka: Kafka, name: str) -> None:
        self._kafka, self._name, self._epoch = kafka, name, 0
        self._waiting: list[tuple[Any, ...]] = []
        self._failed: KafkaException | None = None
        self._began_as_newest = self._wrote_as_newest = True

    @classmethod
    def of(cls, kafka: Kafka, transactional_id: str, **own: Any) -> tuple["SimulatedProducer", ClientErrors]:
        return cls(kafka, transactional_id), ClientErrors()

    def init_transactions(self, limit: float) -> None:
        def initialise() -> None:
            self._epoch = self._kafka.brokers.initialise(self._name)
            self._began_as_newest = self._kafka.is_newest()
            self._kafka.met["fences newer"] += not self._began_as_newest

        self._call(f"initialises {self._name}", initialise)

    def begin_transaction(self) -> None: ...

    def produce(self, topic: str, value: Any, key: Any, on_delivery: Any, **options: Any) -> None:
        if self._failed is not None:
            raise self._failed
        self._waiting.append((topic, value, key, on_delivery, options.get("headers") or []))

    def poll(self, seconds: float) -> int:
        return 0

    def flush(self, seconds: float) -> int:
        kafka = self._kafka
        kafka.others_write(sorted({topic for topic, *_ in self._waiting}))
        for number, (topic, value, key, on_delivery, headers) in enumerate(self._waiting):
            if number == 0 or kafka.draws.random() < 0.3:
                kafka.step(f"produces {len(self._waiting) - number} to {topic}")
            log = kafka.draws.choice(kafka.brokers.topic(topic))
            try:
                kafka.brokers.append(self._name, self._epoch, log, key, value, dict(headers))
                require(self._began_as_newest, f"{self._name} was overtaken before it began, and writes to {topic}")
                self._wrote_as_newest = kafka.is_newest()
            except FencedError as error:
                self._fail(error)
                on_delivery(self._failed.args[0], _message(topic=topic, key=key, value=value))
        self._waiting = []
        return 0

    def commit_transaction(self, limit: float) -> None:
        self.flush(limit)

        def commit() -> None:
            self._kafka.brokers.end(self._name, self._epoch, True)
            require(self._wrote_as_newest, f"{self._name} was overtaken before it had written all, and commits")

        self._call(f"commits {self._name}", commit)

    def abort_transaction(self, limit: float) -> None:
        """Nobody does that who is dead: Python unwinds what a kill would not."""
        if not isinstance(sys.exc_info()[1], Crash):
            self._call(f"aborts {self._name}", lambda: self._kafka.brokers.end(self._name, self._epoch, False))

    def purge(self) -> None:
        self._waiting = []

    def _call(self, what: str, effect: Callable[[], None]) -> None:
        if self._failed is not None:
            raise self._failed
        try:
            self._kafka.call(what, effect)
        except KafkaException as error:
            self._failed = error if error.args[0].fatal() else None
            raise
        self._kafka.step(f"has done: {what}")

    def _fail(self, error: FencedError) -> None:
        self._kafka.met["fenced while it writes"] += 1
        self._failed = KafkaException(KafkaError(KafkaError._FENCED, str(error), fatal=True))


def _message(**said: Any) -> Any:
    return SimpleNamespace(**{name: lambda each=each: each for name, each in said.items()})


class SimulatedConsumer:
    """`confluent_kafka.Consumer` of one partition."""

    def __init__(self, kafka: Kafka, is_committed: bool) -> None:
        self._kafka, self._is_committed = kafka, is_committed
        self._at, self._topic, self._has_begun = 0, "", False

    @classmethod
    def of(
        cls, kafka: Kafka, isolation_level: str = "read_committed", **own: Any
    ) -> tuple["SimulatedConsumer", ClientErrors]:
        return cls(kafka, isolation_level == "read_committed"), ClientErrors()

    def assign(self, places: Sequence[Any]) -> None:
        (place,) = places
        self._topic = place.topic
        self._log = self._kafka.brokers.topic(place.topic)[place.partition]
        self._at = self._log.first if place.offset == OFFSET_BEGINNING else place.offset

    def poll(self, seconds: float) -> Any:
        if not self._has_begun:
            self._kafka.step(f"reads {self._topic} from {self._at}")
            self._kafka.brokers.expire()
            self._has_begun = True
        while self._at < (self._log.stable if self._is_committed else self._log.high):
            record, at = self._log.records[self._at], self._at
            self._at += 1
            transaction = record.transaction
            if transaction is not None and (transaction.is_committed or not self._is_committed):
                return self._message(at, record.key, record.value, None)
        return self._message(self._at, None, None, KafkaError(KafkaError._PARTITION_EOF, "the end"))

    def consume(self, most: int, seconds: float) -> list[Any]:
        found = [self.poll(seconds)]
        while len(found) < most and found[-1].error() is None:
            found.append(self.poll(seconds))
        return found

    def _message(self, offset: int, key: Any, value: Any, error: KafkaError | None) -> Any:
        return _message(offset=offset, key=key, value=value, error=error, topic=self._topic)

    def close(self) -> None: ...


class SimulatedAdmin:
    """`confluent_kafka.admin.AdminClient`."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka

    def poll(self, seconds: float) -> int:
        return 0

    def describe_topics(self, topics: Any, request_timeout: float) -> dict[str, Any]:
        return {
            name: self._asked(f"asks for topic {name}", lambda name=name: self._topic(name))
            for name in topics.topic_names
        }

    def _topic(self, name: str) -> Any:
        if name not in self._kafka.brokers.topics:
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "it is not there"))
        logs = self._kafka.brokers.topics[name]
        partitions = [SimpleNamespace(id=number, leader=self) for number in range(len(logs))]
        return SimpleNamespace(topic_id=f"id of {name}", partitions=partitions)

    def list_offsets(self, places: Mapping[Any, Any], isolation_level: Any, request_timeout: float) -> dict[Any, Any]:
        is_committed = isolation_level is IsolationLevel.READ_COMMITTED
        self._kafka.brokers.expire()

        def offset(place: Any, spec: Any) -> Any:
            log = self._kafka.brokers.topic(place.topic)[place.partition]
            end = log.stable if is_committed else log.high
            return SimpleNamespace(offset=log.first if "Earliest" in type(spec).__name__ else end)

        what = "asks for offsets of"
        return {
            place: self._asked(f"{what} {place.topic}/{place.partition}", lambda p=place, s=spec: offset(p, s))
            for place, spec in places.items()
        }

    def create_topics(self, topics: Sequence[Any]) -> dict[str, Any]:
        def make(topic: Any) -> None:
            self._kafka.brokers.topic(topic.topic, topic.num_partitions)

        return {each.topic: self._asked(f"makes topic {each.topic}", lambda each=each: make(each)) for each in topics}

    def describe_configs(self, resources: Sequence[Any], request_timeout: float) -> dict[Any, Any]:
        said = {"cleanup.policy": SimpleNamespace(value="compact")}
        return {each: self._asked("asks for settings", lambda: said) for each in resources}

    def _asked(self, what: str, effect: Callable[[], Any]) -> Any:
        """A future whose answer comes when it is waited for."""
        return SimpleNamespace(result=lambda limit=None: self._kafka.call(what, effect))
