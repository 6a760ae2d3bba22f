"""An upsert of a million rows by `PostgresSink`, and the same by hand: COPY into a table, one `ON CONFLICT`.

Processor time of client and server, of each in turn, on one embedded server: new rows, then the same keys again. Then
what each further sink in the commit adds to a commit of few rows.
"""

import io
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
from sqlalchemy import create_engine

from tidegate import PostgresSink
from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.ports import StageContext, StateHandle
from tidegate.postgres.engine import connect
from tidegate.postgres.migrate import upgrade
from tidegate.postgres.participants import run
from tidegate.protocol.recovery.ownership import Owner

TICKS = os.sysconf("SC_CLK_TCK")


class Watch:
    """Processor seconds of this process and of a server with all its backends, those that have ended too."""

    def __init__(self, postmaster: int) -> None:
        self._postmaster = postmaster

    def measure(self, what: Callable[[], None]) -> float:
        server, own = self._of_server(), time.process_time()
        what()
        own = time.process_time() - own  # without what it takes to look at the server's
        return own + self._of_server() - server

    def _of_server(self) -> float:
        server = [self._postmaster, *self._children()]
        return sum(_seconds(pid, pid == self._postmaster) for pid in server)

    def _children(self) -> Iterator[int]:
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and _parent(int(entry.name)) == self._postmaster:
                yield int(entry.name)


def _fields(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _parent(pid: int) -> int:
    fields = _fields(pid)
    return int(fields[1]) if fields else 0


def _seconds(pid: int, with_ended: bool) -> float:
    fields = _fields(pid)
    if not fields:
        return 0.0
    return sum(map(int, fields[11 : 15 if with_ended else 13])) / TICKS


def rows_of(count: int, keys: int, seed: int) -> pa.Table:
    drawn = np.random.default_rng(seed)
    return pa.table(
        {
            "id": drawn.permutation(keys)[:count].astype(np.int64),
            "amount": drawn.integers(0, 1000, count),
            "share": drawn.random(count),
            "name": [f"customer {number % 1000}" for number in range(count)],
            "at": pa.array(drawn.integers(0, 2**40, count), pa.timestamp("us")),
        }
    )


class ByTidegate:
    def __init__(self, url: str, table: str) -> None:
        self.engine = connect(url)
        sink = PostgresSink(table, mode="upsert", key="id").placed("bench", table)
        self.sink, self.checkpoint_id = sink, 0
        sink.mark(Owner("bench", table, "bench"))

    def stage(self, rows: pa.Table) -> list[StateHandle]:
        self.checkpoint_id += 1
        return self.sink.writer().stage(rows, StageContext(self.checkpoint_id, 0, 1, "bench"))

    def commit(self, staged: list[StateHandle]) -> None:
        participant = self.sink.prepare(self.checkpoint_id, staged)
        with self.engine.begin() as connection:
            run(connection, [participant])


_MAKE = "CREATE TABLE by_hand (id bigint PRIMARY KEY, amount bigint, share float8, name text, at timestamp)"
_UPSERT = """
INSERT INTO by_hand SELECT * FROM by_hand_loaded ON CONFLICT (id) DO UPDATE SET amount = excluded.amount,
    share = excluded.share, name = excluded.name, at = excluded.at
"""


class ByHand:
    def __init__(self, url: str) -> None:
        self.engine = create_engine(url)
        self._execute(_MAKE)

    def commit(self, rows: pa.Table) -> None:
        """From a table in memory: what was staged does not have to be read again."""
        content = io.BytesIO()
        csv.write_csv(rows, content, csv.WriteOptions(include_header=False))
        content.seek(0)
        with self._cursor() as cursor:
            cursor.execute("CREATE UNLOGGED TABLE by_hand_loaded (LIKE by_hand)")
            cursor.copy_expert("COPY by_hand_loaded FROM STDIN (FORMAT csv)", content)
            cursor.execute(_UPSERT)
            cursor.execute("DROP TABLE by_hand_loaded")

    def _execute(self, statement: str) -> None:
        with self._cursor() as cursor:
            cursor.execute(statement)

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        connection = self.engine.raw_connection()
        try:
            yield connection.cursor()
            connection.commit()
        finally:
            connection.close()


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as home:
        os.environ["TIDEGATE_HOME"] = home
        server = EmbeddedPostgres(Path(home) / "postgres")
        server.start()
        try:
            server.create_database()
            upgrade(server.url())
            url = os.environ["TIDEGATE_DATABASE_URL"] = server.running_url()
            pid = server.pid()
            assert pid is not None
            upserts(url, Watch(pid), count)
            many(url, Watch(pid))
        finally:
            server.stop()


def upserts(url: str, watch: Watch, count: int) -> None:
    own, hand = ByTidegate(url, "by_tidegate"), ByHand(url)
    for what, seed in (("new rows", 1), ("the same keys", 2), ("the same keys again", 3)):
        rows = rows_of(count, count, seed)
        staged = own.stage(rows)
        by_hand = watch.measure(partial(hand.commit, rows))
        by_tidegate = watch.measure(partial(own.commit, staged))
        print(f"{count:,} {what}: {by_tidegate:.1f} s, by hand {by_hand:.1f} s, {by_tidegate / by_hand:.2f} times")


def many(url: str, watch: Watch) -> None:
    """What ten sinks cost, and one."""
    sinks = [ByTidegate(url, f"mart_{number}") for number in range(10)]
    costs: dict[int, list[float]] = {1: [], 10: []}
    for _ in range(6):
        for number, taken in costs.items():
            staged = [(sink, sink.stage(rows_of(100, 1000, number))) for sink in sinks[:number]]

            def commit(staged: list[tuple[ByTidegate, list[StateHandle]]] = staged) -> None:
                participants = [sink.sink.prepare(sink.checkpoint_id, each) for sink, each in staged]
                with staged[0][0].engine.begin() as connection:
                    run(connection, participants)

            taken.append(watch.measure(commit))
    one, ten = (sorted(taken[1:])[2] for taken in costs.values())
    print(f"100 rows: one sink {one * 1000:.0f} ms, ten {ten * 1000:.0f} ms: each adds {(ten - one) / 9 * 1000:.0f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
