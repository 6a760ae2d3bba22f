"""`make bench-continuous`: how soon rows are visible, what micro-batches and checkpoints take, and rows a second.

    python benchmarks/continuous.py [--quick] [--keep] [-o json] [--directory DIR]

What is measured and how is in the README beside this file. Figures go to stdout, progress to stderr.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import kept_figures
import machine
import measuring
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from machine_load import Load
from process_tree import processor_seconds
from rich.console import Console
from rich.table import Table
from run import database, progress

#: What of a scene is repeated: seconds, by what they are.
Repeated = dict[str, list[float]]
#: Of a region that has just started, this is left out.
WARM_UP_SECONDS = 12
RANDOM = np.random.default_rng(1)


class Running:
    """A continuous run in a process of its own, and its directory of files."""

    def __init__(self, directory: Path, name: str, interval: str, found: measuring.Database) -> None:
        self.root = directory / name
        (self.root / "landing").mkdir(parents=True)
        self._interval, self._database = interval, found
        self.number = 0

    def __enter__(self) -> "Running":
        """The pipelines of all scenes have one name, so each has a database of its own."""
        self._process = measuring.start(
            "continuous_engine.py", str(self.root), self.root, self._database, self._interval
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def land(self, keys: Any) -> float:
        """A file appears as a whole, with the next `number` in its rows. Returns when."""
        self.number += 1
        path = self.root / f"{self.number:06}.parquet"
        pq.write_table(pa.table({"key": keys, "file": np.full(len(keys), self.number)}), path)
        at = time.monotonic()
        os.rename(path, self.root / "landing" / path.name)
        return at

    def shown(self, seen: set[str]) -> int:
        """The largest number of a file in what has become visible since the last look, 0 if there is nothing."""
        table = self.root / "changes"
        new = [path for path in table.glob("checkpoint=*") if path.name not in seen] if table.exists() else []
        largest = 0
        for path in new:
            seen.add(path.name)
            largest = max(largest, *(max(pq.read_table(file)["file"].to_pylist()) for file in path.glob("*.parquet")))
        return largest

    def wait_until_shown(self, number: int, seen: set[str]) -> None:
        while self.shown(seen) < number:
            if self._process.poll() is not None:
                raise RuntimeError(f"The continuous run has ended; see {self.root / 'log'}")
            time.sleep(0.02)

    def processor(self) -> float:
        return processor_seconds(self._process.pid, self._database.process)

    def end(self) -> dict[str, Any]:
        """What the region has seen."""
        self._process.send_signal(signal.SIGTERM)
        if self._process.wait() != 0:
            raise RuntimeError(f"The continuous run failed; see {self.root / 'log'}")
        seen: dict[str, Any] = json.loads((self.root / "log").read_text().splitlines()[-1])
        return seen


def landed_to_visible(
    directory: Path, interval: str, seconds: int, found: measuring.Database
) -> tuple[dict[str, float], Repeated]:
    """Files of 1,000 rows over 100,000 keys land twice a second, at times that do not follow the interval."""
    with Running(directory, f"landed-{interval.replace(' ', '')}", interval, found) as running:
        running.land(RANDOM.permutation(100_000))
        seen: set[str] = set()
        running.wait_until_shown(1, seen)
        landed: dict[int, float] = {}
        waits: list[float] = []
        begin, processors = time.monotonic(), running.processor()
        counted = begin + WARM_UP_SECONDS
        next_at = begin
        while (now := time.monotonic()) < counted + seconds or landed:
            if now >= next_at and now < counted + seconds:
                at = running.land(RANDOM.integers(0, 100_000, 1000))
                landed[running.number] = at
                next_at = now + RANDOM.uniform(0.3, 0.7)
            largest = running.shown(seen)
            for number in [number for number in landed if number <= largest]:
                at = landed.pop(number)
                if at >= counted:
                    waits.append(time.monotonic() - at)
            time.sleep(0.005)
        used = (running.processor() - processors) / (time.monotonic() - begin)
        running.end()
    return {**spread(waits), "processors": used}, {"landed to visible": waits}


def small_batches(
    directory: Path, batches: int, found: measuring.Database
) -> tuple[dict[str, dict[str, float]], Repeated]:
    """Files of 10,000 rows over a million keys, one after the other, with a checkpoint every five seconds."""
    with Running(directory, "batches", "5 s", found) as running:
        running.land(RANDOM.permutation(1_000_000))
        seen: set[str] = set()
        running.wait_until_shown(1, seen)
        begin = time.monotonic()
        for _ in range(batches):
            running.land(RANDOM.integers(0, 1_000_000, 10_000))
            time.sleep(0.4)
        running.wait_until_shown(running.number, seen)
        noted = running.end()
    counted = begin + WARM_UP_SECONDS
    rounds = [b - a for a, b, _ in noted["batches"] if a >= counted]
    pauses = [seconds for at, seconds in noted["completed"] if at >= counted]
    repeated = {"micro-batch": rounds, "pause by a checkpoint": pauses, "look between checkpoints": noted["looks"]}
    return {what: spread(values) for what, values in repeated.items()}, repeated


def throughput(directory: Path, rows: int, found: measuring.Database) -> tuple[dict[str, Any], Repeated]:
    """Files of 250,000 rows over 100,000 keys are all there when the run starts, with a checkpoint every second."""
    size = 250_000
    running = Running(directory, "throughput", "1 s", found)
    for _ in range(rows // size):
        running.land(RANDOM.integers(0, 100_000, size))
    with running:
        running.wait_until_shown(rows // size, set())
        noted = running.end()
    batches, completed = noted["batches"], [at for at, _ in noted["completed"]]
    begin, end = batches[0][0], batches[-1][1]
    ends = [b for _, b, _ in batches]
    within = [ends[0], *(at for at in completed if ends[0] <= at <= end), end]
    pauses = [seconds for _, seconds in noted["completed"]]
    each = [1e6 * (b - a) / count for a, b, count in batches[1:]]
    figures = {
        "rows a second": sum(count for *_, count in batches) / (end - begin),
        "rows a second after the first micro-batch": sum(count for *_, count in batches[1:]) / (end - ends[0]),
        "first micro-batch": ends[0] - begin,
        "longest time without a micro-batch's end after it": max(b - a for a, b in pairwise(ends)),
        "longest time without a completed checkpoint after it": max(b - a for a, b in pairwise(within)),
        "pause by a checkpoint": spread(pauses),
    }
    return figures, {"a million rows in a micro-batch": each, "pause by a checkpoint": pauses}


def spread(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "count": len(ordered),
        "p50": statistics.median(ordered),
        "p99": ordered[min(len(ordered) - 1, round(len(ordered) * 0.99))],
        "max": ordered[-1],
    }


def main() -> None:
    options = parse(sys.argv[1:])
    described = machine.describe()
    directory = Path(tempfile.mkdtemp(prefix="tidegate-bench-", dir=options.directory))
    seconds, batches, rows = (20, 45, 2_500_000) if options.quick else (60, 100, 10_000_000)
    scenes: dict[str, Callable[[measuring.Database], tuple[dict[str, Any], Repeated]]] = {
        "landed to visible, interval 1 s": partial(landed_to_visible, directory, "1 s", seconds),
        "landed to visible, interval 0.2 s": partial(landed_to_visible, directory, "200 ms", seconds),
        "10 k rows over 1 M keys": partial(small_batches, directory, batches),
        f"{rows:,} rows waiting": partial(throughput, directory, rows),
    }
    figures, series = {}, {}
    with Load() as load:
        for name, measure in scenes.items():
            progress(name)
            with database(directory) as found:
                load.also(found.process)
                figures[name], repeated = measure(found)
            for what, values in repeated.items():
                series[f"{name}: {what}"] = {"tidegate": {"seconds": values}}
    shutil.rmtree(directory)
    policy = f"{seconds} s, {batches} micro-batches, {rows:,} rows"
    now = kept_figures.document(described, load.figures(), policy, series)
    said = kept_figures.compare_and_keep("continuous-quick" if options.quick else "continuous", now, options.keep)
    if options.output == "json":
        print(json.dumps({**now, "figures": figures, "said": said}, indent=1))
        return
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    console.print(", ".join(f"{name}: {value}" for name, value in described.items()))
    console.print(table_of(figures))
    console.print(*said, sep="\n", markup=False)


def table_of(figures: dict[str, Any]) -> Table:
    table = Table("scene", "figure", "value", title="Continuous runs; seconds by the clock")
    for scene, found in figures.items():
        for name, value in found.items():
            parts = value.items() if isinstance(value, dict) else [("", value)]
            for part, one in parts:
                shown = f"{one:,.0f}" if one >= 100 else f"{one:.2f}"
                table.add_row(scene, f"{name} {part}".strip(), shown)
    return table


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter scenes: some two minutes")
    parser.add_argument("--keep", action="store_true", help="keep the figures in benchmarks/figures, to compare with")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--directory", type=Path, help="where to work: on the disk to be measured (default: temporary)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
