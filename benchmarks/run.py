"""`make bench`: Tidegate beside Spark Structured Streaming on the same events, in the same run, on this machine.

    python benchmarks/run.py [--sizes 100k,1m,10m] [--tables 100k,1m] [--only SCENE] [--quick] [--keep]
                             [--collector serial] [-o json] [--directory DIR]

What is measured and how is in the README beside this file. Figures go to stdout, progress to stderr.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import conditions
import kept_figures
import machine
import measuring
import report
import way_back
from bench_series import series, shapes
from machine_load import Load
from rich.console import Console
from rich.table import Table
from workload import BEHIND, Workload
from written_shapes import SHAPES

from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.postgres.migrate import upgrade

#: Numbers of keys: of epochs, and of epochs with tables, one of which Structured Streaming rewrites as a whole.
FULL, TABLES, QUICK = "100k,1m,10m", "100k,1m", "100k"
REPETITIONS = 2, 10


def main() -> None:
    options = parse(sys.argv[1:])
    conditions.ask(options.collector, options.quick)
    described = machine.describe()
    directory = Path(tempfile.mkdtemp(prefix="tidegate-bench-", dir=options.directory))
    progress(f"Working below {directory}")
    found: dict[str, Any] = {}
    try:
        with Load() as load, database(directory) as postgres:
            load.also(postgres.process)
            for name, measure in scenes(options).items():
                if options.only in (None, name):
                    progress(name)
                    begin = time.monotonic()
                    found[name] = measure(directory, postgres)
                    progress(f"  {time.monotonic() - begin:.0f} s")
    except RuntimeError as error:
        sys.exit(f"{error}. What was measured so far stays in {directory}.")
    shutil.rmtree(directory)
    show(options, described, load.figures(), found)


def scenes(options: argparse.Namespace) -> dict[str, Callable[[Path, measuring.Database], Any]]:
    """What is measured, in this order."""

    def epochs(directory: Path, found: measuring.Database) -> list[dict[str, Any]]:
        repetitions = conditions.repetitions(*REPETITIONS)
        return [measuring.measure(Workload(keys, *repetitions), directory, found) for keys in options.sizes]

    def behind(directory: Path, found: measuring.Database) -> list[dict[str, Any]]:
        sizes = [keys for keys in options.sizes if keys in options.tables]
        loads = [Workload(keys, *conditions.repetitions(*REPETITIONS), shape) for shape in BEHIND for keys in sizes]
        return [measuring.measure(load, directory, found) for load in loads]

    return {
        "epochs": epochs,
        "behind transforms": behind,
        "shapes": lambda directory, found: [measuring.written(shape, directory, found) for shape in SHAPES],
        "fixed cost": measuring.fixed_cost,
        "emitted rows": measuring.emitting,
        "state that ends": measuring.expiring,
        "windowed counts": measuring.windowed,
        "tables": lambda directory, found: [measuring.judged(keys, directory, found) for keys in options.tables],
        "empty checkpoints": measuring.empty,
        "the way back": lambda directory, found: way_back.measure(max(options.sizes), directory, found),
    }


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=numbers, help=f"numbers of keys (default: {FULL})")
    parser.add_argument("--tables", type=numbers, help=f"numbers of keys with tables (default: {TABLES})")
    parser.add_argument("--only", metavar="SCENE", help="measure nothing but epochs, tables, or another scene")
    parser.add_argument("--quick", action="store_true", help=f"fewer epochs, over {QUICK} keys: some minutes")
    add_common(parser)
    options = parser.parse_args(arguments)
    if options.only is not None and options.only not in scenes(options):
        parser.error(f"--only {options.only}: choose from {', '.join(scenes(options))}")
    if options.keep and (options.sizes or options.tables or options.only):
        parser.error("--keep keeps the figures of a whole run, which has all sizes and scenes")
    options.sizes = options.sizes or numbers(QUICK if options.quick else FULL)
    options.tables = options.tables or numbers(QUICK if options.quick else TABLES)
    return options


def add_common(parser: argparse.ArgumentParser) -> None:
    """The options of all benches that compare engines."""
    collectors = list(conditions.COLLECTORS)
    parser.add_argument("--collector", choices=collectors, default=collectors[0], help="of every engine's JVM")
    parser.add_argument("--keep", action="store_true", help="keep the figures in benchmarks/figures, to compare with")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--directory", type=Path, help="where to work: on the disk to be measured (default: temporary)")


def numbers(sizes: str) -> list[int]:
    return [number(size) for size in sizes.split(",")]


def number(size: str) -> int:
    text = size.strip().lower()
    factor = {"k": 1000, "m": 1_000_000}.get(text[-1:], 1)
    digits = text.removesuffix("k").removesuffix("m")
    if not digits.isdecimal() or int(digits) * factor < 10_000:
        raise argparse.ArgumentTypeError(f"{size}: write numbers of keys of at least 10k as in 100k,1m,10m")
    return int(digits) * factor


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


def show(options: argparse.Namespace, described: dict[str, str], load: dict[str, float], found: dict[str, Any]) -> None:
    warm_ups, measured = conditions.repetitions(*REPETITIONS)
    policy = (
        f"medians (smallest-largest) of {measured} epochs after {warm_ups} for warming up, half as many of 1 M events; "
        f"local[2], driver memory {conditions.DRIVER_MEMORY} and the {options.collector} collector on both sides"
    )
    now = kept_figures.document(described, load, policy, {**series(found), **shapes(found)})
    said = []
    for name, measured_now in (("bench", series(found)), ("shapes", shapes(found))):
        if measured_now:
            kept = kept_figures.document(described, load, policy, measured_now)
            said += kept_figures.compare_and_keep(f"{name}-quick" if options.quick else name, kept, options.keep)
    figures = report.figures(found)
    if "the way back" in found:
        figures += way_back.figures(found["the way back"])
    divided = report.splits(found.get("epochs", []))
    if options.output == "json":
        shown = [figure.to_json() for figure in figures]
        print(json.dumps({**now, "figures": shown, "splits": divided, "said": said, "measured": found}, indent=1))
        return
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    console.print(", ".join(f"{name}: {value}" for name, value in described.items()))
    console.print(policy)
    console.print(table_of_figures(figures))
    if divided:
        console.print(table_of_splits(divided))
    console.print(*said, sep="\n", markup=False)


def table_of_figures(figures: list[report.Figure], sides: str = "Tidegate : Structured Streaming") -> Table:
    table = Table("figure", sides, title="Less is better")
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
