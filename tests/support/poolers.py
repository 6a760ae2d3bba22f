"""A pooler in transaction mode, as pgbouncer is one: each transaction of a client gets the session that has been free
for longest, and what the client has left in another session is not there.

It refuses what such poolers refuse when a connection begins, and tells its clients a process id of its own.
"""

import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from select import select

import psycopg2
from sqlalchemy import URL, make_url

_ENCRYPTION = {80877103, 80877104}  # SSLRequest, GSSENCRequest
_IDLE = b"I"


@contextmanager
def pooled(url: str, sessions: int = 3) -> Iterator[str]:
    """The URL of the database behind a pooler that has so many sessions."""
    pooler = _Pooler(make_url(url), sessions)
    try:
        yield make_url(url).set(host="127.0.0.1", port=pooler.port).render_as_string(hide_password=False)
    finally:
        pooler.close()


class _Pooler:
    def __init__(self, url: URL, sessions: int) -> None:
        self._dsn = url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._free: SimpleQueue[socket.socket] = SimpleQueue()
        self._open: list[socket.socket] = []
        for _ in range(sessions):
            self._free.put(self._session())
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _session(self) -> socket.socket:
        """psycopg2 logs in; from then on its connection is a socket like any other."""
        login = psycopg2.connect(self._dsn)
        server = socket.socket(fileno=os.dup(login.fileno()))
        os.close(login.fileno())  # without a farewell, which would end the session
        server.setblocking(True)
        self._open.append(server)
        return server

    def close(self) -> None:
        for each in (self._listener, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._open.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError, EOFError), client:
            if self._greet(client):
                while True:
                    self._transaction(client, _message(client))

    def _greet(self, client: socket.socket) -> bool:
        """Without a password: who may connect is not what is shown here."""
        while (begun := _startup(client))[0] in _ENCRYPTION:
            client.sendall(b"N")
        if b"options\0" in begun[1]:
            said = b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0"
            client.sendall(_packed(b"E", said))
            return False
        known = {b"server_version": b"16.0", b"client_encoding": b"UTF8", b"DateStyle": b"ISO, MDY"}
        known |= {b"standard_conforming_strings": b"on", b"integer_datetimes": b"on", b"TimeZone": b"UTC"}
        client.sendall(
            _packed(b"R", struct.pack(">i", 0))
            + b"".join(_packed(b"S", name + b"\0" + value + b"\0") for name, value in known.items())
            + _packed(b"K", struct.pack(">ii", 1 << 30, 0))
            + _packed(b"Z", _IDLE)
        )
        return True

    def _transaction(self, client: socket.socket, first: tuple[bytes, bytes]) -> None:
        """All messages from the first one until the server says that no transaction is open, and owes no answer."""
        if first[0] == b"X":
            raise EOFError
        server = self._free.get()
        try:
            owed = _sent(server, first)
            while True:
                if client in select([client, server], [], [])[0]:
                    owed += _sent(server, _message(client))
                    continue
                said, body = _message(server)
                client.sendall(_packed(said, body))
                owed -= said == b"Z"
                if said == b"Z" and body == _IDLE and not owed:
                    break
        except (OSError, EOFError):  # a client that leaves a transaction open costs the session
            server.close()
            self._free.put(self._session())
            raise
        self._free.put(server)


def _sent(server: socket.socket, message: tuple[bytes, bytes]) -> int:
    """Sends it, and returns how many times the server will say that it is ready for the next."""
    if message[0] == b"X":
        raise EOFError
    server.sendall(_packed(*message))
    return message[0] in (b"Q", b"S", b"F")


def _startup(client: socket.socket) -> tuple[int, bytes]:
    length, code = struct.unpack(">ii", _exactly(client, 8))
    return code, _exactly(client, length - 8)


def _message(peer: socket.socket) -> tuple[bytes, bytes]:
    kind, length = struct.unpack(">ci", _exactly(peer, 5))
    return kind, _exactly(peer, length - 4)


def _packed(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">ci", kind, len(body) + 4) + body


def _exactly(peer: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        more = peer.recv(count - len(found))
        if not more:
            raise EOFError
        found += more
    return bytes(found)
