"""`make bench`: Tidegate beside Spark Structured Streaming on the same events, in the same run, on this machine.

    python benchmarks/run.py [--sizes 100k,1m,10m] [--quick] [-o json] [--directory DIR]

What is measured and how is in the README beside this file. Figures go to stdout, progress to stderr.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import machine
import measuring
import report
import way_back
from rich.console import Console
from rich.table import Table
from workload import Workload

from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.postgres.migrate import upgrade

DRIVER_MEMORY = "2g"
FULL = ("100k", "1m", "10m")
QUICK = ("100k",)


def main() -> None:
    options = parse(sys.argv[1:])
    described = machine.describe()
    directory = Path(tempfile.mkdtemp(prefix="tidegate-bench-", dir=options.directory))
    workloads = [Workload(keys, options.warm_ups, options.measured) for keys in options.keys]
    progress(f"Working below {directory}")
    try:
        with database(directory) as found:
            results = []
            for workload in workloads:
                progress(f"{workload.keys:,} keys")
                results.append(measuring.measure(workload, directory, DRIVER_MEMORY, found))
            progress("fixed cost")
            fixed_cost = measuring.fixed_cost(directory, found)
            progress("emitted rows")
            emitting = measuring.emitting(directory, found)
            progress("state that ends")
            expiring = measuring.expiring(directory, found)
            progress("windowed counts")
            windowed = measuring.windowed(directory, found)
            progress("tables and their expectations")
            tables = {**measuring.judged(directory, found), "empty": measuring.empty(directory, found)}
            progress("the way back")
            back = way_back.measure(max(options.keys), directory, DRIVER_MEMORY, found)
    except RuntimeError as error:
        sys.exit(f"{error}. What was measured so far stays in {directory}.")
    shutil.rmtree(directory)
    show(options, described, results, fixed_cost, emitting, expiring, windowed, tables, back)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", help="numbers of keys, such as 100k,1m,10m")
    parser.add_argument("--quick", action="store_true", help="a few epochs over 100k keys: a few minutes")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--directory", type=Path, help="where to work: on the disk to be measured (default: temporary)")
    options = parser.parse_args(arguments)
    sizes = options.sizes.split(",") if options.sizes else QUICK if options.quick else FULL
    try:
        options.keys = [number(size) for size in sizes]
    except ValueError:
        parser.error(f"--sizes {options.sizes}: write numbers of keys of at least 10k as in 100k,1m,10m")
    options.warm_ups, options.measured = (1, 3) if options.quick else (2, 10)
    return options


def number(size: str) -> int:
    """Raises `ValueError` for what is not a number of keys, or too few of them to divide."""
    text = size.strip().lower()
    factor = {"k": 1000, "m": 1_000_000}.get(text[-1:], 1)
    keys = int(text.rstrip("km")) * factor
    if keys < 10_000:
        raise ValueError(size)
    return keys


@contextmanager
def database(directory: Path) -> Iterator[measuring.Database]:
    """An embedded Postgres of our own, with fsync on."""
    server = EmbeddedPostgres(directory / "postgres")
    server.start()
    try:
        server.create_database()
        upgrade(server.url())
        yield measuring.Database(server.url(), measuring.server_process(server.url()))
    finally:
        server.remove()


def show(
    options: argparse.Namespace,
    described: dict[str, str],
    results: list[dict[str, Any]],
    fixed_cost: list[float],
    emitting: list[list[float]],
    expiring: list[list[float]],
    windowed: dict[str, list[float]],
    tables: dict[str, list[measuring.Cost]],
    back: dict[str, Any],
) -> None:
    figures = [
        *report.figures(results, fixed_cost, emitting, expiring, windowed),
        *report.of_tables(tables),
        *way_back.figures(back),
    ]
    divided = report.splits(results)
    policy = (
        f"medians (smallest-largest) of {options.measured} epochs after {options.warm_ups} for warming up; "
        f"local[2], driver memory {DRIVER_MEMORY}, both engines"
    )
    if options.output == "json":
        whole = {
            "machine": described,
            "policy": policy,
            "figures": [figure.to_json() for figure in figures],
            "splits": divided,
            "fixed_cost": fixed_cost,
            "emitting": emitting,
            "expiring": expiring,
            "windowed": windowed,
            "tables": tables,
            "way_back": back,
            "epochs": results,
        }
        print(json.dumps(whole, indent=1))
        return
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(", ".join(f"{name}: {value}" for name, value in described.items()))
    console.print(policy)
    console.print(table_of_figures(figures))
    console.print(table_of_splits(divided))


def table_of_figures(figures: list[report.Figure]) -> Table:
    table = Table("figure", "Tidegate : Structured Streaming", title="Less is better")
    for name in ("ratio", "target", "verdict"):
        table.add_column(name, justify="right")
    for figure in figures:
        target = "" if figure.target is None else f"{figure.target:.2f}"
        table.add_row(figure.what, figure.measured, f"{figure.value:.2f}", target, figure.verdict)
    return table


def table_of_splits(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="Where Tidegate's seconds go (medians)")
    for name in rows[0]:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, int) else f"{value:.3f}" for value in row.values()))
    return table


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
