"""`make bench-polling`: what a poll costs after a year, with 10,000, 100,000 and a million files read before.

    python benchmarks/polling.py [--files 10k,100k,1m] [--splits 1,4] [--times N] [-o json] [--directory DIR]

What is measured and how is in the README beside this file. Figures go to stdout, progress to stderr.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import machine
from polled_directory import FIGURES, SCENES, Figures, measure
from rich.console import Console
from rich.table import Table

#: Seconds of a poll beside its listing, by the files that were read before.
TARGETS = {100_000: 0.1, 1_000_000: 0.3}


def main() -> None:
    options = parse(sys.argv[1:])
    described = machine.describe()
    directory = Path(tempfile.mkdtemp(prefix="tidegate-bench-", dir=options.directory))
    try:
        found = []
        for files in options.files:
            for splits in options.splits:
                progress(f"{files:,} files, {splits} splits")
                found.append(measure(directory / f"{files}-{splits}", files, splits, options.times))
                shutil.rmtree(directory / f"{files}-{splits}")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if options.output == "json":
        print(json.dumps({"machine": described, "polls": [asdict(figures) for figures in found]}, indent=1))
        return
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(", ".join(f"{name}: {value}" for name, value in described.items()))
    console.print(f"medians (largest) of {options.times}, in seconds; load at the end {os.getloadavg()[0]:.1f}")
    console.print(table_of(found))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", default="10k,100k,1m", help="numbers of files read before")
    parser.add_argument("--splits", default="1,4", help="numbers of splits")
    parser.add_argument("--times", type=int, default=5, help="polls of each kind")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--directory", type=Path, help="where to work: on the disk to be measured (default: temporary)")
    options = parser.parse_args(arguments)
    options.files = [number(text) for text in options.files.split(",")]
    options.splits = [int(text) for text in options.splits.split(",")]
    return options


def number(text: str) -> int:
    factor = {"k": 1000, "m": 1_000_000}.get(text[-1:], 1)
    return int(text.rstrip("km")) * factor


def table_of(found: list[Figures]) -> Table:
    table = Table("files", "splits", "poll", title="All splits of one poll")
    for name in ("seconds", "processor s", "of it listing s", "processor s", "beside s", "processor s"):
        table.add_column(name, justify="right")
    table.add_column("target")
    for figures in found:
        row = (f"{figures.files:,}", str(figures.splits))
        target = TARGETS.get(figures.files)
        for scene in SCENES:
            taken = figures.scenes[scene]
            verdict = "" if target is None else f"{target} s: {'met' if taken['beside'][0] <= target else 'missed'}"
            table.add_row(*row, scene, *(cell(taken[name]) for name in FIGURES), verdict)
        table.add_row(*row, "pyarrow's listing alone", *map(cell, figures.plain.values()))
    return table


def cell(taken: tuple[float, float]) -> str:
    return f"{taken[0]:.3f} ({taken[1]:.3f})"


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
