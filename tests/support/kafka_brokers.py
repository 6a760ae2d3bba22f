"""A broker of Kafka's protocol for tests: one binary on a free port, or a real one that TIDEGATE_TEST_KAFKA names.

The binary writes what it holds some seconds later, so a test that kills it waits before. It knows no transaction
timeout, no ids of topics, no passwords and no TLS: tests of these are marked `real_broker`. A reader that begins behind
a transaction that was aborted does not see what the same transactional id commits later: all of it is hidden. A reader
waits for ever at records that were aborted if another transaction was open then and is still, as what was aborted is
left out and nothing tells that it was.
"""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, IsolationLevel, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec
from object_stores import wait_for_port
from public_directories import public_directory

REAL = "TIDEGATE_TEST_KAFKA"
VARIABLE = "TIDEGATE_CONNECTION_KAFKA_DEFAULT"


class Broker:
    """`servers`: its address. Topics have names that no other test has."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.settings: dict[str, Any] = {"bootstrap.servers": servers}
        self.admin = AdminClient(self.settings)

    @property
    def variable(self) -> str:
        """What the environment's variable of its connection says."""
        return json.dumps(self.settings)

    def topic(self, partitions: int = 1, name: str | None = None, **config: str) -> str:
        name = name or f"t-{uuid4().hex[:12]}"
        self._done(self.admin.create_topics([NewTopic(name, partitions, config=config)]))
        return name

    def delete(self, topic: str) -> None:
        self._done(self.admin.delete_topics([topic]))

    def grow(self, topic: str, partitions: int) -> None:
        self._done(self.admin.create_partitions([NewPartitions(topic, partitions)]))

    def forget(self, topic: str, partition: int, offset: int) -> None:
        """As retention does: rows before the offset are gone."""
        self._done(self.admin.delete_records([TopicPartition(topic, partition, offset)]))

    def produce(
        self,
        topic: str,
        values: Sequence[bytes | str | None],
        partition: int = -1,
        key: bytes | str | None = None,
        **given: Any,
    ) -> None:
        producer = Producer(self.settings)
        for value in values:
            producer.produce(topic, value, key, partition, **given)
        assert producer.flush(30) == 0

    def open_transaction(self, transactional_id: str) -> Producer:
        """A producer of somebody else, in a transaction."""
        producer = Producer({**self.settings, "transactional.id": transactional_id})
        producer.init_transactions(30)
        producer.begin_transaction()
        return producer

    def ends(self, topic: str, isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED) -> dict[int, int]:
        partitions = self.admin.list_topics(topic, timeout=30).topics[topic].partitions
        latest = {TopicPartition(topic, each): OffsetSpec.latest() for each in partitions}
        asked = self.admin.list_offsets(latest, isolation_level=isolation)
        return {place.partition: found.result().offset for place, found in asked.items()}

    def wait_for_commit(self, topic: str, seconds: float = 30) -> None:
        """Until a transaction has just been committed, and none is open."""
        first, deadline = self.ends(topic), time.monotonic() + seconds
        while (ends := self.ends(topic)) == first or self.ends(topic, IsolationLevel.READ_COMMITTED) != ends:
            assert time.monotonic() < deadline, f"nothing was committed to {topic}"
            time.sleep(0.02)

    def messages(self, topic: str, isolation: str = "read_committed") -> list[Message]:
        """All that an independent consumer sees, in the order of partitions and offsets."""
        reader = Consumer(
            {
                **self.settings,
                "group.id": f"reader-{uuid4().hex}",
                "isolation.level": isolation,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        ends = set(self.ends(topic))
        reader.assign([TopicPartition(topic, partition, 0) for partition in ends])
        found: list[Message] = []
        while ends:
            message = reader.poll(30)
            assert message is not None, f"no answer of the broker for {topic}"
            if message.error() is None:
                found.append(message)
            else:
                assert message.error().name() == "_PARTITION_EOF", message.error()
                ends.discard(message.partition())
        reader.close()
        return sorted(found, key=lambda each: (each.partition(), each.offset()))

    def rows(self, topic: str) -> list[dict[str, Any]]:
        """The committed values, which are JSON."""
        return [json.loads(each.value()) for each in self.messages(topic)]

    def _done(self, futures: Mapping[Any, Any]) -> None:
        for future in futures.values():
            future.result(30)


class OwnBroker(Broker):
    """A broker of this test session's own, which can be stopped and killed."""

    def __init__(self, directory: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._directory = directory
        self.start()
        super().__init__(f"127.0.0.1:{self.port}")

    def start(self) -> None:
        found = find_spec("noida_db")
        assert found is not None, "the test group is not installed"
        package = Path(str(found.origin)).parent
        log = self._directory / "broker.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [
                    package / "noida-db",  # and not the script that starts it, which ends before it
                    "start",
                    "--data-dir",
                    str(self._directory / "data"),
                    "--host",
                    "127.0.0.1",
                    "--only",
                    "kafka",
                    "--kafka-port",
                    str(self.port),
                ],
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        wait_for_port(self.port, self._process, log)

    def stop(self, how: int = signal.SIGTERM) -> None:
        """Its own process group: SIGTERM keeps what it holds, SIGKILL may lose the last seconds."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, how)
        self._process.wait(30)


@pytest.fixture(scope="session")
def kafka_server() -> Iterator[Broker]:
    """The session's broker."""
    if real := os.environ.get(REAL):
        yield Broker(real)
        return
    with public_directory("tidegate-broker-") as directory:
        broker = OwnBroker(directory)
        yield broker
        broker.stop(signal.SIGKILL)


@pytest.fixture
def broker(kafka_server: Broker, monkeypatch: pytest.MonkeyPatch) -> Broker:
    """The session's broker, as the connection `kafka_default`."""
    monkeypatch.setenv(VARIABLE, kafka_server.variable)
    return kafka_server


@pytest.fixture
def own_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnBroker]:
    """A broker of one test, which may stop it, as the connection `kafka_default`."""
    broker = OwnBroker(tmp_path)
    monkeypatch.setenv(VARIABLE, broker.variable)
    yield broker
    broker.stop(signal.SIGKILL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("real_broker") and REAL not in os.environ:
            item.add_marker(pytest.mark.skip(reason=f"only a real broker can show this: {REAL} names none"))
