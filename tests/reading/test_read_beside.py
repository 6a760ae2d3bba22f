"""A reader in a loop beside a pipeline that takes checkpoints, dies, and is restored: never two checkpoints in one
read."""

import os
import threading
import time
from contextlib import closing
from random import Random

import psycopg2
import pytest
from several_tables import SeveralTables, values
from sizes import sizes
from stopped import EFFECTS
from worlds import Crash, MortalStore

import tidegate
from tidegate import PostgresSink
from tidegate.protocol.facts.reasons import FailureReason

IN_THE_COMMIT = ("mart", "keyed")
CRASHES = ("crash before commit", "crash after commit")


class Died(BaseException):
    """Not an `Exception`: nothing in the code under test may take it for an error and clean up."""


class Deaths:
    """Lets the thread that writes die at an effect on the file system, when `left` of them are over."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.left, self._writer = None, threading.current_thread()
        for name in EFFECTS:
            patch.setattr(os, name, self._mortal(getattr(os, name)))

    def _mortal(self, effect):
        def call(*args, **kwargs):
            if threading.current_thread() is self._writer and self.left is not None:
                self.left -= 1
                if self.left < 0:
                    raise Died
            return effect(*args, **kwargs)

        return call


class Reader(threading.Thread):
    """Reads all tables, or those in the commit, again and again. `seen` are the checkpoints, and what was read as of
    each; `by_sql` are the rows of the tables in the commit as a transaction of a stranger sees them, a statement for
    each table."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.seen, self.by_sql, self.error, self.over = [], [], None, threading.Event()
        self._url = url.replace("+psycopg2", "")

    def run(self) -> None:
        try:
            with closing(psycopg2.connect(self._url)) as stranger:
                stranger.set_session(isolation_level="REPEATABLE READ", readonly=True)
                pause = 0.02
                while not self.over.wait(pause):
                    began = time.monotonic()
                    for names in ((), IN_THE_COMMIT):
                        found = tidegate.read("shop", *names)
                        self.seen.append((found.checkpoint, values(found)))
                    with stranger, stranger.cursor() as cursor:
                        self.by_sql.append([_all_of(cursor, table) for table in IN_THE_COMMIT])
                    pause = time.monotonic() - began  # the tables grow, and the other thread is to come to its turn
        except BaseException as error:
            self.error = error


def _all_of(cursor, table):
    cursor.execute(f"SELECT array_agg(v ORDER BY v) FROM {table}")  # noqa: S608
    return cursor.fetchone()[0]


@pytest.fixture
def shop(store, running_url, tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_DATABASE_URL", running_url)
    monkeypatch.setenv("TIDEGATE_STORAGE", str(tmp_path / "checkpoints"))
    more = {"mart": PostgresSink("mart"), "keyed": PostgresSink("keyed", "upsert", key="v")}
    return SeveralTables(MortalStore(store), tmp_path, retained=4, readable_for="2 s", **more)


class Past:
    """What the pipeline has behind it: `branches` has the ids of each checkpoint's branch, `latest` is the present,
    `kept` are those to which a restore can go back."""

    def __init__(self, shop: SeveralTables) -> None:
        self._shop, self.branches, self.latest, self.kept = shop, dict[int, list[int]](), 0, list[int]()

    def look(self) -> None:
        """Whatever the last step has come to, by the database."""
        with self._shop.store.transaction("shop") as tx:
            pending = tx.in_progress()
        for record in pending:  # and clean, so that some are kept no longer
            self._shop.coordinator.abort(record.checkpoint_id, FailureReason.TASK_FAILURE, "It died.")
        with self._shop.store.transaction("shop") as tx:
            retained = tx.retained()
        self.kept = [record.checkpoint_id for record in retained]
        newest = self.kept[-1]
        if newest not in self.branches:
            self.branches[newest] = [*self.branches.get(self.latest, []), newest]
        self.latest = newest


@sizes("checkpoints", 20, 1000)
@pytest.mark.timeout(4 * 3600)
def test_no_read_sees_two_checkpoints(shop, checkpoints, running_url, monkeypatch):
    draw, deaths, reader, past = Random(checkpoints), Deaths(monkeypatch), Reader(running_url), Past(shop)
    shop.take()
    past.look()
    reader.start()
    died = 0
    try:
        while len(past.branches) < checkpoints and reader.error is None:
            deaths.left = draw.choice([None, None, draw.randrange(60)])
            shop.store.plan = (draw.randrange(9), draw.choice(CRASHES)) if draw.random() < 0.2 else None
            try:
                if draw.random() < 0.15:
                    shop.restore(draw.choice(past.kept))
                else:
                    shop.take()
            except (Died, Crash):
                died += 1
                shop.reopen()
            deaths.left, shop.store.plan = None, None
            past.look()
    finally:
        reader.over.set()
        reader.join()
    assert reader.error is None
    assert died > checkpoints / 10
    assert len({id_ for id_, _ in reader.seen}) > 3
    for id_, rows in reader.seen:
        assert rows == {name: [id_] if name == "now" else past.branches[id_] for name in rows}
    assert all(mart == keyed and mart in past.branches.values() for mart, keyed in reader.by_sql)
