"""Any number of subscribers on one connection that comes back by itself."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import pytest
from sqlalchemy import create_engine, make_url, text
from store_steps import PIPELINE, triggered

from tidegate.postgres.engine import connect
from tidegate.reading.changes import Change, Changes, What, merged

PATIENCE = 20.0
OTHER = "another"


@pytest.fixture
def changes(running_url):
    engine = connect(make_url(running_url))
    changes = Changes(engine)
    yield changes
    changes.close()
    engine.dispose()


@pytest.fixture
def sessions(postgres_url) -> Callable[..., int]:
    """How many sessions listen in this database; with `end`, ends them."""
    engine = create_engine(make_url(postgres_url).set(drivername="postgresql+psycopg2"))
    database = make_url(postgres_url).database

    def count(end: bool = False) -> int:
        shown = "pg_terminate_backend(pid)" if end else "pid"
        question = f"SELECT {shown} FROM pg_stat_activity WHERE datname = :d AND query LIKE 'LISTEN%'"  # noqa: S608
        with engine.connect() as connection:
            return len(connection.execute(text(question), {"d": database}).all())

    yield count
    engine.dispose()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.02)


async def hear(heard: "asyncio.Queue[Change]", wanted: Change) -> None:
    async with asyncio.timeout(PATIENCE):
        while await heard.get() != wanted:
            pass


class Listener:
    """A subscriber, with all it has heard."""

    def __init__(self, changes: Changes) -> None:
        self.heard: asyncio.Queue[Change] = asyncio.Queue()
        self.task = asyncio.create_task(self._listen(changes))

    async def _listen(self, changes: Changes) -> None:
        async with aclosing(changes.subscribe()) as stream:
            async for change in stream:
                assert change is not None
                self.heard.put_nowait(change)

    async def leave(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def run(work: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), 3 * PATIENCE))


def listening() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "tidegate-changes"]


BACK, LOST, CHANGED = Change(What.BACK), Change(What.LOST), Change(What.CHANGED, frozenset({PIPELINE}))


def test_fifty_subscribers_hear_over_one_connection(changes, store, sessions):
    async def work():
        listeners = [Listener(changes) for _ in range(50)]
        for listener in listeners:
            await hear(listener.heard, BACK)
        assert sessions() == len(listening()) == 1
        started = time.monotonic()
        await asyncio.to_thread(triggered, store)
        for listener in listeners:
            await hear(listener.heard, CHANGED)
        assert time.monotonic() - started < PATIENCE
        for listener in listeners[1:]:
            await listener.leave()
        assert changes.subscribers == len(listening()) == 1
        await listeners[0].leave()
        await until(lambda: not listening() and sessions() == 0)

    run(work)


def test_it_begins_again_after_the_last_has_left(changes, store):
    async def work():
        for _ in range(3):
            listener = Listener(changes)
            await hear(listener.heard, BACK)
            await asyncio.to_thread(triggered, store)
            await hear(listener.heard, CHANGED)
            await listener.leave()

    run(work)


def test_a_cut_connection_comes_back_and_says_so(changes, store, sessions):
    async def work():
        first, second = Listener(changes), Listener(changes)
        for listener in (first, second):
            await hear(listener.heard, BACK)
        assert await asyncio.to_thread(sessions, end=True) == 1
        for listener in (first, second):
            await hear(listener.heard, BACK)
        await asyncio.to_thread(triggered, store)
        for listener in (first, second):
            await hear(listener.heard, CHANGED)
            await listener.leave()

    run(work)


def test_whoever_comes_while_it_is_lost_hears_when_it_is_back(changes, monkeypatch):
    from tidegate.postgres.listening import ChangeListener
    from tidegate.protocol.facts.errors import StoreUnavailableError

    away = threading.Event()
    away.set()
    opened = ChangeListener.open

    def refused(self):
        if away.is_set():
            raise StoreUnavailableError("The database is away.")
        opened(self)

    monkeypatch.setattr(ChangeListener, "open", refused)

    async def work():
        first = Listener(changes)
        await hear(first.heard, LOST)
        second = Listener(changes)
        await asyncio.sleep(0.5)
        assert second.heard.empty() or second.heard.get_nowait() == LOST
        away.clear()
        for listener in (first, second):
            await hear(listener.heard, BACK)
            await listener.leave()

    run(work)


def test_all_end_when_the_server_stops(changes):
    async def work():
        listeners = [Listener(changes) for _ in range(5)]
        for listener in listeners:
            await hear(listener.heard, BACK)
        changes.stopping = lambda: True
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(listener.task for listener in listeners))
        await until(lambda: not listening())

    run(work)


def test_a_fault_in_the_thread_ends_those_who_wait_and_the_next_ones_hear(changes, store, monkeypatch):
    from tidegate.postgres.listening import ChangeListener

    def broken(self, timeout):
        raise ZeroDivisionError

    async def work():
        with monkeypatch.context() as planted:
            planted.setattr(threading, "excepthook", lambda arguments: None)
            planted.setattr(ChangeListener, "wait_for_any", broken)
            first = Listener(changes)
            async with asyncio.timeout(PATIENCE):
                await first.task
            await until(lambda: not listening())
        second = Listener(changes)
        await hear(second.heard, BACK)
        await asyncio.to_thread(triggered, store)
        await hear(second.heard, CHANGED)
        await second.leave()

    run(work)


def test_closing_ends_the_thread_and_those_who_wait(changes):
    async def work():
        listener = Listener(changes)
        await hear(listener.heard, BACK)
        await asyncio.to_thread(changes.close)
        assert not listening()
        async with asyncio.timeout(PATIENCE):
            await listener.task

    run(work)


def test_a_loop_that_ended_without_leaving_harms_nobody(changes, store):
    """As when a server's process is torn down around its subscribers."""
    loop = asyncio.new_event_loop()
    stream = changes.subscribe()
    assert loop.run_until_complete(anext(stream)) == BACK
    loop.close()

    async def work():
        listener = Listener(changes)
        await hear(listener.heard, BACK)
        await asyncio.to_thread(triggered, store)
        await hear(listener.heard, CHANGED)
        await listener.leave()

    run(work)


def test_a_slow_subscriber_holds_one_change_and_misses_none():
    both = merged(Change(What.CHANGED, frozenset({"a"})), Change(What.CHANGED, frozenset({"b"})))
    assert both == Change(What.CHANGED, frozenset({"a", "b"}))
    assert merged(BACK, CHANGED) == BACK  # which says to ask for everything
    assert merged(CHANGED, LOST) == LOST
    assert merged(LOST, BACK) == BACK
    assert merged(None, CHANGED) == CHANGED


def test_silence_is_a_heartbeat(changes):
    async def work():
        async with aclosing(changes.subscribe(heartbeat=0.05)) as stream:
            heard = [await anext(stream) for _ in range(4)]
        assert BACK in heard
        assert None in heard

    run(work)
