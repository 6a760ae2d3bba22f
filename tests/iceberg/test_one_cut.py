"""Three Iceberg tables and one in Postgres change in one transaction, while the pipeline dies, is restored and restores
are undone. Readers in a loop never see two checkpoints, and never miss a file."""

import threading
import time
from contextlib import contextmanager

import pytest
from dying_tables import Deaths, Life
from iceberg_tables import duck
from marts import Mart
from pyiceberg.table import StaticTable
from sizes import sizes
from worlds import MortalStore

import tidegate
from tidegate import IcebergSink, PostgresSink
from tidegate.iceberg import catalog, files, swapping
from tidegate.postgres_sink import positions

APPENDED, LATEST, ROWS = ("one", "two"), "latest", "rows"
#: How long a reader may take.
READABLE_FOR = 4
#: Where the process may die, beside effects on the file system.
EFFECTS = (
    (files.Stored, "open"),
    (files.Written, "create"),
    (catalog, "swap"),
    (positions, "lock"),
    (positions, "show"),
    (positions, "record"),
    (swapping, "record"),
)


@pytest.fixture
def shop(lake, store, home):
    tables = {name: IcebergSink(f"db.{name}", readable_for=f"{READABLE_FOR} s") for name in APPENDED}
    latest = IcebergSink(f"db.{LATEST}", "latest", readable_for=f"{READABLE_FOR} s")
    return Mart(MortalStore(store), home, "shop", 3, **tables, latest=latest, rows=PostgresSink(ROWS))


def by_pyiceberg(location):
    return sorted(StaticTable.from_metadata(location).scan().to_arrow()["v"].to_pylist())


def by_duckdb(location):
    with duck().cursor() as cursor:
        return [v for (v,) in cursor.execute("SELECT v FROM iceberg_scan(?) ORDER BY v", [location]).fetchall()]


class Reader(threading.Thread):
    """Reads all tables again and again. `seen` has, by the program, what was read as of one moment; `alone` has what a
    table showed by itself. `late`: readers that took longer than they may."""

    def __init__(self, server, lake):
        super().__init__(daemon=True)
        self._server, self._lake, self.over, self.error = server, lake, threading.Event(), None
        self.seen, self.alone, self.late = set(), set(), 0

    def run(self):
        pause = 0.02
        while not self.over.wait(pause):
            began = time.monotonic()
            for read in (self._read_cut, self._read_each, self._read_by_tidegate):
                with self._in_time():
                    read()
            if self.error is not None:
                return
            pause = time.monotonic() - began  # the tables grow, and the other thread is to come to its turn

    @contextmanager
    def _in_time(self):
        began = time.monotonic()
        try:
            yield
        except Exception as error:
            if time.monotonic() - began < READABLE_FOR:
                self.error = error
            self.late += 1

    def _read_cut(self):
        """As a stranger does: where all tables are, in one transaction, and then their rows."""
        with self._server.session() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            cursor.execute("SELECT table_name, metadata_location FROM tidegate_iceberg.iceberg_tables")
            locations = dict(cursor.fetchall())
            cursor.execute("SELECT v FROM rows ORDER BY v")
            rows = tuple(v for (v,) in cursor.fetchall())
        for read in (by_pyiceberg, by_duckdb):
            with self._in_time():
                found = {name: tuple(read(location)) for name, location in locations.items()}
                self.seen.add((read.__name__, *found[LATEST], (rows, *(found[name] for name in APPENDED))))

    def _read_each(self):
        for name in (*APPENDED, LATEST):
            with self._in_time():
                self.alone.add((name, tuple(self._lake.values(f"db.{name}"))))

    def _read_by_tidegate(self):
        found = tidegate.read("shop")
        rows = {name: tuple(sorted(table["v"].to_pylist())) for name, table in found.arrow().items()}
        assert rows[LATEST] == (found.checkpoint,)
        self.seen.add(("tidegate", found.checkpoint, tuple(rows[name] for name in (ROWS, *APPENDED))))


@sizes("checkpoints", 12, 1000)
@pytest.mark.timeout(4 * 3600)
def test_readers_see_one_checkpoint_in_all_tables_and_miss_no_file(shop, here_and_lake, lake, checkpoints, monkeypatch):
    life, reader = Life(shop, Deaths(monkeypatch, *EFFECTS), checkpoints, effects=120), Reader(here_and_lake, lake)
    life.begin()
    reader.start()
    try:
        while len(life.past.branches) < checkpoints and reader.error is None:
            life.go_on()
    finally:
        reader.over.set()
        reader.join()
    if reader.error is not None:
        raise reader.error
    assert life.died > checkpoints / 10
    assert life.restored
    branches = {id_: tuple(branch) for id_, branch in life.past.branches.items()}
    for program, id_, tables in reader.seen:
        assert set(tables) == {branches[id_]}, program
    for name, rows in reader.alone:
        assert rows in (branches.values() if name in APPENDED else {(id_,) for id_ in branches}), name
    assert {program for program, *_ in reader.seen} == {"by_pyiceberg", "by_duckdb", "tidegate"}
    assert len({id_ for _, id_, _ in reader.seen}) > 3
    assert reader.late < len(reader.seen)
