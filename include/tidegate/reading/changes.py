"""Tells any number of subscribers that pipelines have changed, over one listening connection for all of them.

A thread listens; subscribers wait in event loops, each in its own queue. The thread begins with the first subscriber
and ends with the last, because an app inside another one is not told when the process starts or stops.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Engine

from tidegate.postgres.listening import ChangeListener
from tidegate.protocol.facts.errors import CheckpointError

log = logging.getLogger("tidegate")

#: How often, in seconds, the thread looks whether it is still wanted: so promptly does it end.
LOOK = 0.25
#: The pauses between two attempts to reach the database, in seconds: the first, and the longest.
PAUSES = (0.25, 5.0)


class What(StrEnum):
    CHANGED = "changed"  # something about the pipelines was committed
    LOST = "lost"  # the connection to the database is lost; it is being opened again
    BACK = "back"  # it is open (again): ask anew, what happened in between was not heard


@dataclass(frozen=True, slots=True)
class Change:
    """`pipelines` are those that changed; empty if `what` is about the connection."""

    what: What
    pipelines: frozenset[str] = frozenset()


def merged(waiting: Change | None, change: Change) -> Change:
    """What a subscriber needs to know that has not yet heard of the first. Performs no I/O."""
    if waiting is None or change.what is not What.CHANGED:
        return change
    if waiting.what is What.CHANGED:
        return Change(What.CHANGED, waiting.pipelines | change.pipelines)
    return waiting  # BACK says to ask for everything


class Subscriber:
    """Holds one change, whatever was missed: a slow one costs no memory. It lives in one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._heard = asyncio.Event()
        self._waiting: Change | None = None
        self._ended = False

    def tell(self, change: Change) -> None:
        self._soon(self._take, change)

    def end(self) -> None:
        self._soon(self._end)

    def _soon(self, call: Callable[..., None], *arguments: Change) -> None:
        """From the thread that listens."""
        with suppress(RuntimeError):  # the loop is closed: its server is gone
            self._loop.call_soon_threadsafe(call, *arguments)

    def _take(self, change: Change) -> None:
        self._waiting = merged(self._waiting, change)
        self._heard.set()

    def _end(self) -> None:
        self._ended = True
        self._heard.set()

    async def next(self, timeout: float) -> Change | None:
        """None if nothing was heard for so many seconds. Raises `StopAsyncIteration` at the end."""
        if not self._heard.is_set():
            try:
                async with asyncio.timeout(timeout):
                    await self._heard.wait()
            except TimeoutError:
                return None
        if self._ended:
            raise StopAsyncIteration
        self._heard.clear()
        change, self._waiting = self._waiting, None
        return change


class Changes:
    """Begins to listen with the first subscriber and ends with the last, or when told to. The connection is opened
    again by itself."""

    def __init__(self, engine: Engine, stopping: Callable[[], bool] = lambda: False) -> None:
        """`stopping` is asked now and then: once it says so, all subscriptions end."""
        self._engine = engine
        self.stopping = stopping
        self._lock = threading.Lock()
        self._subscribers: set[Subscriber] = set()
        self._thread: threading.Thread | None = None
        self._listening = False
        self._moments: dict[str, int] = {}
        self._last = self._since = 0  # the last of all, and when it began to listen

    async def subscribe(self, heartbeat: float = 15.0) -> AsyncGenerator[Change | None, None]:
        """Changes until the subscriber leaves or all is stopped; the first is `BACK`, as soon as it listens. None when
        there was nothing to hear for `heartbeat` seconds."""
        subscriber = Subscriber()
        self._add(subscriber)
        try:
            while True:
                try:
                    change = await subscriber.next(heartbeat)
                except StopAsyncIteration:
                    return
                yield change
        finally:
            self._remove(subscriber)

    def moment(self, pipeline_id: str | None = None) -> int | None:
        """A number that differs after each change that was heard of, of this pipeline or of any. It moves before
        subscribers are told. None while nobody listens."""
        with self._lock:
            if not self._listening:
                return None
            return self._last if pipeline_id is None else self._moments.get(pipeline_id, self._since)

    @property
    def subscribers(self) -> int:
        return len(self._subscribers)

    def close(self) -> None:
        """End all subscriptions, and wait until the thread that listens has ended."""
        with self._lock:
            thread, leaving = self._thread, self._subscribers
            self._subscribers = set()
        for subscriber in leaving:
            subscriber.end()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _add(self, subscriber: Subscriber) -> None:
        with self._lock:
            self._subscribers.add(subscriber)
            if self._listening:
                subscriber.tell(Change(What.BACK))
            if self._thread is None:
                self._thread = threading.Thread(target=self._listen, name="tidegate-changes", daemon=True)
                self._thread.start()

    def _remove(self, subscriber: Subscriber) -> None:
        with self._lock:
            self._subscribers.discard(subscriber)

    def _tell(self, change: Change) -> None:
        with self._lock:
            self._last += 1
            self._moments |= dict.fromkeys(change.pipelines, self._last)
            if change.what is not What.CHANGED:
                self._listening, self._moments, self._since = change.what is What.BACK, {}, self._last
            for subscriber in self._subscribers:
                subscriber.tell(change)

    def _listen(self) -> None:
        """The thread: one connection after the other, for as long as somebody is there."""
        listener, pause = ChangeListener(self._engine), PAUSES[0]
        stop = threading.Event()
        try:
            while self._wanted():
                try:
                    if not self._listening:
                        listener.open()
                        pause = PAUSES[0]
                        self._tell(Change(What.BACK))
                    if changed := listener.wait_for_any(LOOK):
                        self._tell(Change(What.CHANGED, changed))
                except CheckpointError as error:
                    log.warning("Pages hear of changes only when the database is back: %s", error)
                    self._tell(Change(What.LOST))
                    stop.wait(pause)
                    pause = min(2 * pause, PAUSES[1])
        finally:
            listener.close()
            self._give_up()

    def _give_up(self) -> None:
        """If the thread ends otherwise than by `_wanted`, nobody may wait for it: browsers come again by themselves."""
        with self._lock:
            if self._thread is not threading.current_thread():
                return
            self._thread, self._listening = None, False
            leaving, self._subscribers = self._subscribers, set()
        for subscriber in leaving:
            subscriber.end()

    def _wanted(self) -> bool:
        """If nobody is there any more, the thread is given up under the same lock: the next one starts another."""
        stopping = self.stopping()
        with self._lock:
            if stopping:
                for subscriber in self._subscribers:
                    subscriber.end()
                self._subscribers = set()
            if self._subscribers:
                return True
            self._thread, self._listening = None, False
            return False
