"""A reader in a loop beside a pipeline that takes checkpoints, dies, and is restored: never two checkpoints in one
read."""

import threading
import time
from contextlib import closing

import psycopg2
import pytest
from dying_tables import Deaths, Life
from several_tables import SeveralTables, values
from sizes import sizes
from worlds import MortalStore

import tidegate
from tidegate import PostgresSink

IN_THE_COMMIT = ("mart", "keyed")


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


@sizes("checkpoints", 20, 1000)
@pytest.mark.timeout(4 * 3600)
def test_no_read_sees_two_checkpoints(shop, checkpoints, running_url, monkeypatch):
    life, reader = Life(shop, Deaths(monkeypatch), checkpoints), Reader(running_url)
    life.begin()
    past = life.past
    reader.start()
    try:
        while len(past.branches) < checkpoints and reader.error is None:
            life.go_on()
    finally:
        reader.over.set()
        reader.join()
    assert reader.error is None
    assert life.died > checkpoints / 10
    assert len({id_ for id_, _ in reader.seen}) > 3
    for id_, rows in reader.seen:
        assert rows == {name: [id_] if name == "now" else past.branches[id_] for name in rows}
    assert all(mart == keyed and mart in past.branches.values() for mart, keyed in reader.by_sql)
