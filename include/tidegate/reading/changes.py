"""Notifications of changed pipelines for any number of subscribers, over one listening connection.

A thread listens; subscribers wait in event loops, each in its own queue. The thread starts with the first subscriber
and ends with the last, because an app inside another one is not notified when the process starts or stops.
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

#: The seconds between two checks of the thread whether it is still needed; it ends within that time.
LOOK = 0.25
#: The seconds between two attempts to reach the database: the first pause, and the longest.
PAUSES = (0.25, 5.0)


class What(StrEnum):
    CHANGED = "changed"  # something about the pipelines was committed
    LOST = "lost"  # the connection to the database is lost; it is being opened again
    BACK = "back"  # it is open (again): read anew, because changes in between were not received


@dataclass(frozen=True, slots=True)
class Change:
    """A notification. `pipelines` are those that changed; empty if `what` is about the connection."""

    what: What
    pipelines: frozenset[str] = frozenset()


def merged(waiting: Change | None, change: Change) -> Change:
    """Merge a change into the one that a subscriber has not received yet. Performs no I/O."""
    if waiting is None or change.what is not What.CHANGED:
        return change
    if waiting.what is What.CHANGED:
        return Change(What.CHANGED, waiting.pipelines | change.pipelines)
    return waiting  # BACK makes the subscriber read everything


class Subscriber:
    """A subscriber with room for one merged change, so a slow one costs no memory. It lives in one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ready = asyncio.Event()
        self._waiting: Change | None = None
        self._ended = False

    def tell(self, change: Change) -> None:
        self._soon(self._take, change)

    def end(self) -> None:
        self._soon(self._end)

    def _soon(self, call: Callable[..., None], *arguments: Change) -> None:
        """Schedule a call in the subscriber's event loop, from the listening thread."""
        with suppress(RuntimeError):  # the loop is closed: its server is gone
            self._loop.call_soon_threadsafe(call, *arguments)

    def _take(self, change: Change) -> None:
        self._waiting = merged(self._waiting, change)
        self._ready.set()

    def _end(self) -> None:
        self._ended = True
        self._ready.set()

    async def next(self, timeout: float) -> Change | None:
        """Return the next change; None if none arrived within `timeout` seconds.

        Raises:
            StopAsyncIteration: At the end of the subscription.
        """
        if not self._ready.is_set():
            try:
                async with asyncio.timeout(timeout):
                    await self._ready.wait()
            except TimeoutError:
                return None
        if self._ended:
            raise StopAsyncIteration
        self._ready.clear()
        change, self._waiting = self._waiting, None
        return change


class Changes:
    """The changes of all pipelines. Listening starts with the first subscriber and ends with the last, or when stopped.
    A lost connection is opened again.
    """

    def __init__(self, engine: Engine, stopping: Callable[[], bool] = lambda: False) -> None:
        """Listen on `engine`. `stopping` is polled; once it returns True, all subscriptions end."""
        self._engine = engine
        self.stopping = stopping
        self._lock = threading.Lock()
        self._subscribers: set[Subscriber] = set()
        self._thread: threading.Thread | None = None
        self._listening = False
        self._moments: dict[str, int] = {}
        self._last = self._since = 0  # the last of all, and when it began to listen

    async def subscribe(self, heartbeat: float = 15.0) -> AsyncGenerator[Change | None, None]:
        """Yield changes until the subscriber leaves or all subscriptions end.

        The first change is `BACK`, as soon as the connection listens. None means that no change arrived within
        `heartbeat` seconds.
        """
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
        """Return a number that changes with each notification, of this pipeline or of any; None while no thread
        listens. It changes before subscribers are notified.
        """
        with self._lock:
            if not self._listening:
                return None
            return self._last if pipeline_id is None else self._moments.get(pipeline_id, self._since)

    @property
    def subscribers(self) -> int:
        return len(self._subscribers)

    def close(self) -> None:
        """End all subscriptions, and wait until the listening thread has ended."""
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
        """Run the thread: open one connection after the other, for as long as there are subscribers."""
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
                    log.warning("Pages are not updated until the database is reachable again: %s", error)
                    self._tell(Change(What.LOST))
                    stop.wait(pause)
                    pause = min(2 * pause, PAUSES[1])
        finally:
            listener.close()
            self._give_up()

    def _give_up(self) -> None:
        """End all subscriptions if the thread ends for another reason than `_wanted`. Browsers connect again by
        themselves.
        """
        with self._lock:
            if self._thread is not threading.current_thread():
                return
            self._thread, self._listening = None, False
            leaving, self._subscribers = self._subscribers, set()
        for subscriber in leaving:
            subscriber.end()

    def _wanted(self) -> bool:
        """Whether subscribers remain. If not, the thread ends under the same lock; the next subscriber starts one."""
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
