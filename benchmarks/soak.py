"""`make soak`: a continuous run for half an hour, which is killed again and again: what grows, and is anything lost?

    python benchmarks/soak.py [--minutes 30] [--kill-every 120] [-o json] [--directory DIR]

What is measured and how is in the README beside this file. Ends with code 1 if a table is wrong or something grows.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import machine
import measuring
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from machine_load import Load, sentence
from process_tree import is_java, memory, memory_of, tree
from rich.console import Console
from rich.table import Table as Shown
from run import database, progress
from sqlalchemy import MetaData, Table, func, select

from tidegate.postgres.engine import connect

KEYS = 100_000
SLICES = 12
#: The last third of the time may need so many times what the middle third needed, and the end what the second part
#: needed. The first part warms up.
GROWTH = 1.25
#: So many of all pairs of parts have to agree that a figure rises. Of figures that only vary, one in twenty does so.
AGREEING = 0.7
RANDOM = np.random.default_rng(1)


@dataclass
class Slice:
    """What was seen in a twelfth of the time. A file that waited while a run was started again counts apart."""

    waits: list[float] = field(default_factory=list)
    after_kills: list[float] = field(default_factory=list)
    sizes: dict[str, float] = field(default_factory=dict)

    def figures(self) -> dict[str, float]:
        ordered = sorted(self.waits)
        found = {"landed to visible p50, s": statistics.median(ordered)} if ordered else {}
        if ordered:
            found["landed to visible p99, s"] = ordered[min(len(ordered) - 1, round(len(ordered) * 0.99))]
        if self.after_kills:
            found["visible again after a kill, s"] = max(self.after_kills)
        return {**found, **self.sizes}


class Waits:
    """Files from landing to being visible. Those that met a run that was killed count apart."""

    def __init__(self) -> None:
        self._landed: dict[int, float] = {}
        self._killed_at = 0.0
        self._recovered = False

    def land(self, number: int, at: float) -> None:
        self._landed[number] = at

    def kill(self, at: float) -> None:
        self._killed_at, self._recovered = at, False

    def show(self, largest: int, at: float, into: Slice) -> None:
        """All files up to the largest number are visible."""
        shown = [self._landed.pop(number) for number in list(self._landed) if number <= largest]
        for landed in shown:
            (into.waits if self._recovered and landed > self._killed_at else into.after_kills).append(at - landed)
        # What the killed run had shown at the last moment may be seen only after its end.
        if self.is_all_shown and any(landed > self._killed_at for landed in shown):
            self._recovered = True

    @property
    def is_all_shown(self) -> bool:
        return not self._landed


class Soak:
    """One pipeline, its files, and the process that runs it now."""

    def __init__(self, root: Path, found: measuring.Database) -> None:
        self.root = root
        (root / "landing").mkdir()
        self._database = found
        self._process: subprocess.Popen[bytes] | None = None
        self._engine = connect(found.url)
        self._seen: set[str] = set()
        self.waits = Waits()
        self.expected = np.zeros(KEYS, dtype=np.int64)
        self.newest = np.zeros(KEYS, dtype=np.int64)
        self.number = 0

    def start(self) -> None:
        self._process = measuring.start("soak_engine.py", str(self.root), self.root, self._database)

    def kill(self) -> None:
        """Without a word, Java and Python's workers as well."""
        assert self._process is not None
        for process in tree(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait()
        self.waits.kill(time.monotonic())

    def end(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        if self._process.wait() != 0:
            raise RuntimeError(f"The continuous run failed; see {self.root / 'log'}")

    def land(self, keys: Any) -> None:
        self.number += 1
        path = self.root / f"{self.number:06}.parquet"
        pq.write_table(pa.table({"key": keys, "file": np.full(len(keys), self.number)}), path)
        np.add.at(self.expected, keys, 1)
        self.newest[keys] = self.number
        self.waits.land(self.number, time.monotonic())
        os.rename(path, self.root / "landing" / path.name)

    def look(self, into: Slice) -> None:
        """Note the files whose rows have become visible."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"The continuous run has ended by itself; see {self.root / 'log'}")
        table, largest, now = self.root / "changes", 0, time.monotonic()
        for path in table.glob("checkpoint=*") if table.exists() else ():
            if path.name not in self._seen:
                self._seen.add(path.name)
                for file in path.glob("*.parquet"):
                    largest = max(largest, *pq.read_table(file)["largest"].to_pylist())
        self.waits.show(largest, now, into)

    def sizes(self) -> dict[str, float]:
        """MiB of each kind of process, files that Tidegate keeps, and rows in Postgres that history rolls up."""
        assert self._process is not None
        driver, mine = self._process.pid, tree(self._process.pid)
        java = [process for process in mine if is_java(process)]
        workers = [process for process in mine if process != driver and process not in java]
        kept = [self.root / name for name in ("checkpoints", "cache", "current", "docs")]
        with self._engine.connect() as connection:
            tables = [Table(name, MetaData(), schema="tidegate") for name in ("subtasks", "handles")]
            rows = sum(connection.execute(select(func.count()).select_from(table)).scalar_one() for table in tables)
        return {
            "driver, MiB": memory_of(driver) / 2**20,
            "Java, MiB": sum(map(memory_of, java)) / 2**20,
            "Python workers, MiB": sum(map(memory_of, workers)) / 2**20,
            "Postgres, MiB": memory(self._database.process) / 2**20,
            "files kept": sum(len(files) for top in kept for _, _, files in os.walk(top)),
            "rows of subtasks and files": rows,
        }

    def problems(self) -> list[str]:
        """Where the tables differ from what has landed: of each key the rows, and the newest file."""
        expected = {int(key): (int(self.expected[key]), int(self.newest[key])) for key in self.expected.nonzero()[0]}
        current = _rows(self.root / "current" / "current", "key", "events", "largest")
        changes = _rows(self.root / "changes", "checkpoint", "key", "events", "largest")
        last = {key: (events, largest) for _, key, events, largest in sorted(changes)}
        places = [(checkpoint, key) for checkpoint, key, *_ in changes]
        found = {
            "keys of the table of current rows": len(set(current) ^ {(key, *facts) for key, facts in expected.items()}),
            "last changes": len(last.items() ^ expected.items()),
            "rows that are there twice": len(current) - len(set(current)) + len(places) - len(set(places)),
        }
        return [f"{number:,} {what} are wrong" for what, number in found.items() if number]


def _rows(table: Path, *columns: str) -> list[tuple[int, ...]]:
    """As any reader sees them."""
    found = ds.dataset(str(table), format="parquet", partitioning="hive").to_table(columns=list(columns))
    return list(zip(*(found[name].to_pylist() for name in columns), strict=True))


def soak(root: Path, found: measuring.Database, minutes: float, kill_every: float) -> tuple[list[Slice], list[str]]:
    one, slices = Soak(root, found), [Slice() for _ in range(SLICES)]
    one.land(RANDOM.permutation(KEYS))
    one.start()
    while not one.waits.is_all_shown:
        one.look(Slice())
        time.sleep(0.05)
    begin = next_at = next_kill = time.monotonic()
    next_kill += kill_every
    for number, each in enumerate(slices):
        progress(f"{number + 1} of {SLICES}")
        until = begin + (number + 1) * 60 * minutes / SLICES
        while (now := time.monotonic()) < until:
            if now >= next_at:
                one.land(RANDOM.integers(0, KEYS, 1000))
                next_at = now + RANDOM.uniform(0.3, 0.7)
            if now >= next_kill and now < until - 30:  # so that what is weighed at the end is a run under way
                one.kill()
                one.start()
                next_kill = now + kill_every
            one.look(each)
            time.sleep(0.02)
        each.sizes = one.sizes()
    while not one.waits.is_all_shown:
        one.look(Slice())
        time.sleep(0.05)
    one.end()
    return slices, one.problems()


def growing(slices: list[Slice]) -> list[str]:
    """Figures that end well above what they were, by a step in the last third or steadily since the second part."""
    figures, third = [each.figures() for each in slices], len(slices) // 3
    grown = []
    for name in dict.fromkeys(name for each in figures for name in each):
        middle = [each[name] for each in figures[third : 2 * third] if name in each]
        last = [each[name] for each in figures[2 * third :] if name in each]
        if middle and last and statistics.median(last) > GROWTH * statistics.median(middle):
            grown.append(f"{name} grows: {statistics.median(middle):,.2f}, then {statistics.median(last):,.2f}")
            continue
        first, final = trend([(number, each[name]) for number, each in enumerate(figures) if number and name in each])
        if final > GROWTH * first:
            grown.append(f"{name} grows steadily: {first:,.2f}, in the end {final:,.2f}")
    return grown


def trend(points: list[tuple[int, float]]) -> tuple[float, float]:
    """Where a line through the points begins and ends, or 0 twice where too few pairs agree that it rises.

    The line has the median of the slopes between two points (Theil and Sen), so that a few odd parts do not bend it.
    """
    pairs = [(b - a) / (j - i) for (i, a), (j, b) in combinations(points, 2)]
    if sum(slope > 0 for slope in pairs) < AGREEING * len(pairs) or not pairs:
        return 0.0, 0.0
    rise = statistics.median(pairs) * (points[-1][0] - points[0][0])
    centre = statistics.median(value for _, value in points)
    return centre - rise / 2, centre + rise / 2


def main() -> int:
    options = parse(sys.argv[1:])
    described = machine.describe()
    directory = Path(tempfile.mkdtemp(prefix="tidegate-soak-", dir=options.directory))
    with Load() as load, database(directory) as found:
        load.also(found.process)
        (directory / "soak").mkdir()
        slices, problems = soak(directory / "soak", found, options.minutes, options.kill_every)
    grown = growing(slices)
    if options.output == "json":
        figures = [each.figures() for each in slices]
        print(
            json.dumps(
                {"machine": described, "load": load.figures(), "slices": figures, "wrong": problems, "grown": grown},
                indent=1,
            )
        )
    else:
        console = Console(width=None if sys.stdout.isatty() else 200)
        console.print(", ".join(f"{name}: {value}" for name, value in described.items()))
        console.print(sentence(load.figures()), highlight=False)
        console.print(table_of(slices))
        console.print(*(problems or ["Every key is right in both tables, and each row is there once."]), sep="\n")
        console.print(*(grown or ["Nothing grows."]), sep="\n")
    if not problems:
        shutil.rmtree(directory)
    return 1 if problems or grown else 0


def table_of(slices: list[Slice]) -> Shown:
    figures = [each.figures() for each in slices]
    table = Shown("figure", *(str(number + 1) for number in range(len(slices))), title="Parts of the time")
    for name in dict.fromkeys(name for each in figures for name in each):
        values = (each.get(name) for each in figures)
        table.add_row(name, *("–" if n is None else f"{n:,.0f}" if n >= 100 else f"{n:.2f}" for n in values))
    return table


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30, help="how long it runs after a start (default: 30)")
    parser.add_argument("--kill-every", type=float, default=120, help="seconds between two kills (default: 120)")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--directory", type=Path, help="where to work: on the disk to be measured (default: temporary)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
