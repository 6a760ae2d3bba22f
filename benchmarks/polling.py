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
from polled_directory import SCENES, Figures, measure
from rich.console import Console
from rich.table import Table


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
    table = Table("files", "splits", "poll", title="All splits of one poll, without the listing of the directory")
    for name in ("seconds", "processor s", "of it taking in", "listing s", "processor s"):
        table.add_column(name, justify="right")
    for figures in found:
        for scene in SCENES:
            taken = figures.scenes[scene]
            shown = (f"{taken[name][0]:.4f} ({taken[name][1]:.4f})" for name in taken)
            table.add_row(f"{figures.files:,}", str(figures.splits), scene, *shown)
    return table


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
