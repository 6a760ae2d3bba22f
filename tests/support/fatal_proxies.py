"""A network between a client and a server that the server does not outlive: at a chosen moment of the transaction in
which a table changes, all its processes are killed with -9."""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum

import psutil
from embedded_servers import process_of

from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.protocol.facts.errors import CheckpointError


class Moment(StrEnum):
    """Attributes:
    LOADED: Rows are loaded, and the transaction has changed nothing.
    WORKING: The server works on the statement that changes the table.
    ENDING: The COMMIT was sent, and has not arrived.
    UNANSWERED: The COMMIT has taken effect, and its answer has not arrived.
    ENDED: The answer has just arrived.
    """

    LOADED = "loaded"
    WORKING = "working"
    ENDING = "ending"
    UNANSWERED = "unanswered"
    ENDED = "ended"


#: The statements by which a sink's table gets its rows.
CHANGES = (b"INSERT INTO public.", b"ALTER TABLE")


def kill(server: EmbeddedPostgres) -> None:
    """As the kernel does when memory runs out, and then what waits for it."""
    postmaster = psutil.Process(process_of(server))
    processes = [postmaster, *postmaster.children(recursive=True)]
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            os.kill(process.pid, signal.SIGKILL)
    psutil.wait_procs(processes, timeout=10)


class FatalProxy:
    """`moment` is when the next transaction of a sink kills the server; None for never."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        self._server = server
        self.moment: Moment | None = None
        self.deaths = 0
        self._lock, self._dying = threading.Lock(), threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, url: str) -> str:
        """The same database, by this way."""
        before, _, name = url.rpartition("/")
        return f"{before.rpartition(':')[0]}:{self._listener.getsockname()[1]}/{name}"

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._port()))
            except (OSError, CheckpointError):  # it is down
                client.close()
                continue
            _Session(self, client, server).begin()

    def _port(self) -> int:
        return int(self._server.url().rpartition(":")[2].partition("/")[0])

    def is_time(self, moment: Moment) -> bool:
        """Whether it is to happen now. Only one session is told so."""
        with self._lock:
            now = self.moment is moment
            if now:
                self.moment = None
            return now

    def end(self) -> None:
        with self._dying:
            kill(self._server)
            self.deaths += 1

    def revive(self) -> None:
        """Start the server if it was killed."""
        with self._dying:
            self._server.start()


class _Session:
    def __init__(self, proxy: FatalProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._is_changing = False  # it has locked a sink's row in `positions`
        self._answered: Callable[[bytes], None] = self._client.sendall

    def begin(self) -> None:
        for work in (self._ask, self._answer):
            threading.Thread(target=work, daemon=True).start()

    def _ask(self) -> None:
        with suppress(OSError):
            while data := self._client.recv(65536):
                self._pass_on(data)
        self._close()

    def _pass_on(self, data: bytes) -> None:
        is_time = self._proxy.is_time
        if b"tidegate_sinks.positions" in data and b"FOR UPDATE" in data:
            self._is_changing = True
            if is_time(Moment.LOADED):
                return self._end()
        if self._is_changing and any(each in data for each in CHANGES) and is_time(Moment.WORKING):
            self._server.sendall(data)
            time.sleep(0.05)
            return self._end()
        if self._is_changing and b"COMMIT" in data:
            self._is_changing = False
            if is_time(Moment.ENDING):
                return self._end()
            if is_time(Moment.UNANSWERED):
                self._answered = lambda answer: self._end()
            elif is_time(Moment.ENDED):
                self._answered = self._deliver_and_end
        self._server.sendall(data)
        return None

    def _deliver_and_end(self, answer: bytes) -> None:
        self._client.sendall(answer)
        self._end()

    def _end(self) -> None:
        self._proxy.end()
        self._close()

    def _answer(self) -> None:
        with suppress(OSError):
            while data := self._server.recv(65536):
                self._answered(data)
        self._close()

    def _close(self) -> None:
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
