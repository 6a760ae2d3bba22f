"""A `KafkaSink` under trial, attempts in which something happens at a chosen moment, and a network that is cut."""

import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

import pyarrow as pa
from kafka_brokers import Broker

from tidegate import KafkaSink
from tidegate.ports import CommitAttempt
from tidegate.protocol.recovery.ownership import Owner
from tidegate.testing.deliveries import AfterTheCommit
from tidegate.testing.trials import Rows, Trial

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string()})


def on_trial(broker: Broker, directory: Path, pipeline: str = "shop", database: str = "here", **options: Any) -> Trial:
    """A sink of a pipeline, whose topic is its own, with two partitions unless it is given."""
    directory.mkdir(exist_ok=True)
    topic = options.pop("topic", None) or broker.topic(2)
    sink = KafkaSink(topic, **{"key": "k", **options}).placed(pipeline, topic)
    sink.mark(Owner(pipeline, topic, database))

    def read(sink: KafkaSink) -> Rows:
        return broker.rows(sink.topic)

    return Trial(
        sink, directory / topic, SCHEMA, lambda number: {"k": number, "v": f"row {number}"}, read, AfterTheCommit()
    )


@dataclass
class Watched:
    """An attempt of which `then[n]` is called when it is confirmed for the nth time, before that counts. The first time
    is after its producer has fenced others, the second before its transaction is committed."""

    attempt: CommitAttempt
    then: dict[int, Callable[[], object]] = field(default_factory=dict)
    confirmed: int = 0

    @property
    def number(self) -> int:
        return self.attempt.number

    def confirm(self) -> None:
        self.confirmed += 1
        self.then.get(self.confirmed, lambda: None)()
        self.attempt.confirm()

    def keep(self) -> None:
        self.attempt.keep()


class Request(IntEnum):
    """Of Kafka's protocol, by number."""

    PRODUCE = 0
    FIND_COORDINATOR = 10
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS = 24
    END_TRANSACTION = 26


class CuttingProxy:
    """A network between clients and a broker. When the next request of kind `cut` is sent, all connections end, and
    none can be made for `away` seconds: before the broker has it, or with `answered`, when it has done it, and before
    its answer arrives. `cuts` counts that. The broker's own address in its answers is replaced by this one."""

    def __init__(self, broker: Broker) -> None:
        self.cut: Request | None = None
        self.answered, self.away, self.cuts = False, 0.3, 0
        host, port = broker.servers.split(":")
        self._server = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._there = host.encode() + struct.pack(">i", int(port))
        self._here = host.encode() + struct.pack(">i", self.port)
        self._open: set[socket.socket] = set()
        self._until = 0.0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        self._end_all()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if time.monotonic() < self._until:
                client.close()
                continue
            server = socket.create_connection(self._server)
            self._open |= {client, server}
            cutting: set[int] = set()
            for work in (self._ask, self._answer):
                threading.Thread(target=work, args=(client, server, cutting), daemon=True).start()

    def _ask(self, client: socket.socket, server: socket.socket, cutting: set[int]) -> None:
        with suppress(OSError):
            while frame := _frame(client):
                kind, _, correlation = struct.unpack(">hhi", frame[4:12])
                if kind == self.cut:
                    if not self.answered:
                        return self._cut()
                    cutting.add(correlation)
                server.sendall(frame)
        return _end(client, server)

    def _answer(self, client: socket.socket, server: socket.socket, cutting: set[int]) -> None:
        with suppress(OSError):
            while frame := _frame(server):
                if struct.unpack(">i", frame[4:8])[0] in cutting:
                    return self._cut()
                client.sendall(frame.replace(self._there, self._here))
        return _end(client, server)

    def _cut(self) -> None:
        self.cut = None
        self.cuts += 1
        self._until = time.monotonic() + self.away
        self._end_all()

    def _end_all(self) -> None:
        ended, self._open = self._open, set()
        _end(*ended)


def _end(*sockets: socket.socket) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()


def _frame(source: socket.socket) -> bytes:
    """A whole request or answer; nothing at the end."""
    head = _read(source, 4)
    return head and head + _read(source, struct.unpack(">i", head)[0])


def _read(source: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size and (more := source.recv(size - len(found))):
        found += more
    return found if len(found) == size else b""
