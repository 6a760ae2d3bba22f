"""`make bench-flink`: Tidegate beside Flink 2.3 on the same events, in the same run, on this machine. It needs a JDK.

    python benchmarks/beside_flink.py [--sizes 100k,1m,10m] [--quick] [--keep] [--collector serial] [-o json]
                                      [--directory DIR]

What is measured and how is in the README beside this file. Figures go to stdout, progress to stderr.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import conditions
import flink_engine
import flink_jars
import kept_figures
import machine
import measuring
from bench_series import Found, merge, of_engine, where
from machine_load import Load
from report import EPOCH_TARGETS, Figure, of_memory, pair
from rich.console import Console
from run import FULL, QUICK, add_common, database, numbers, progress, table_of_figures
from workload import Workload

BACKENDS = {"rocksdb": "Flink, RocksDB", "hashmap": "Flink, heap"}
REPETITIONS = 5, 10  # an engine that runs on and on is warm later
#: Of the epoch on RocksDB, by the clock. The smallest is nearly all fixed cost, of which Flink has less.
TARGETS = dict.fromkeys((where(*size) for size in EPOCH_TARGETS), 1.0) | {where(100_000, 10_000): 3.0}


def main() -> None:
    options = parse(sys.argv[1:])
    conditions.ask(options.collector, options.quick)
    described = machine.describe()
    try:
        jdk = flink_jars.find_jdk(os.environ)
    except RuntimeError as error:
        sys.exit(f"{error}.")
    directory = Path(tempfile.mkdtemp(prefix="tidegate-bench-", dir=options.directory))
    found: Found = {}
    try:
        progress(f"Flink {flink_jars.VERSION}: jars, and compiling our program")
        flink = flink_engine.Flink(jdk / "java", flink_jars.classpath(jdk, directory / "classes"))
        with Load() as load, database(directory) as postgres:
            load.also(postgres.process)
            for keys in options.sizes:
                progress(f"{keys:,} keys")
                for side, epochs in measure(keys, directory / str(keys), flink, postgres):
                    merge(found, of_engine(keys, side, epochs))
    except RuntimeError as error:
        sys.exit(f"{error}. What was measured so far stays in {directory}.")
    shutil.rmtree(directory)
    show(options, described | {"flink": flink_jars.VERSION}, load.figures(), found)


def measure(
    keys: int, directory: Path, flink: flink_engine.Flink, database: measuring.Database
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The epochs of each side, one after the other."""
    workload = Workload(keys, *conditions.repetitions(*REPETITIONS))
    workload.write(directory / "data")
    flink_engine.write_flat(workload, directory / "flat")
    expected = workload.totals()
    root = directory / "tidegate"
    root.mkdir()
    epochs = measuring.measure_engine("tidegate", workload, (directory / "data", root), expected, database)
    yield "tidegate", [epoch for epoch in epochs if epoch["phase"] != "restart"]
    for backend in BACKENDS:
        places = directory / "flat", directory / backend
        yield backend, flink_engine.measure(flink, backend, workload, places, expected)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=numbers, help=f"numbers of keys (default: {FULL})")
    parser.add_argument("--quick", action="store_true", help=f"fewer epochs, over {QUICK} keys: some two minutes")
    add_common(parser)
    options = parser.parse_args(arguments)
    if options.keep and options.sizes:
        parser.error("--keep keeps the figures of a whole run, which has all sizes")
    options.sizes = options.sizes or numbers(QUICK if options.quick else FULL)
    return options


def figures(found: kept_figures.Series) -> Iterator[Figure]:
    """Ratios to each backend: of medians, and of peaks of memory."""
    for what, sides in found.items():
        ours = sides["tidegate"]
        for backend, called in BACKENDS.items():
            theirs, target = sides[backend], TARGETS.get(what) if backend == "rocksdb" else None
            if "bytes" in ours:
                yield of_memory(f"{what} : {called}", ours["bytes"][0], theirs["bytes"][0], None)
                continue
            yield pair(f"{what}: epoch : {called}", ours["seconds"], theirs["seconds"], target)
            yield pair(f"{what}: processor time : {called}", ours["processors"], theirs["processors"], None)


def show(options: argparse.Namespace, described: dict[str, str], load: dict[str, float], found: Found) -> None:
    warm_ups, measured = conditions.repetitions(*REPETITIONS)
    policy = (
        f"medians (smallest-largest) of {measured} epochs after {warm_ups} for warming up, half as many of 1 M events; "
        f"parallelism {conditions.PARALLELISM}, heap {conditions.DRIVER_MEMORY} (Flink on its heap with "
        f"10 M keys {flink_engine.heap('hashmap', 10_000_000)}, RocksDB and {flink_engine.MANAGED_MEMORY} of its own) "
        f"and the {options.collector} collector on both sides"
    )
    now = kept_figures.document(described, load, policy, found)
    said = kept_figures.compare_and_keep("flink-quick" if options.quick else "flink", now, options.keep)
    rows = list(figures(found))
    if options.output == "json":
        print(json.dumps({**now, "figures": [row.to_json() for row in rows], "said": said}, indent=1))
        return
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    console.print(", ".join(f"{name}: {value}" for name, value in described.items()))
    console.print(policy)
    console.print(table_of_figures(rows, "Tidegate : Flink"))
    console.print(*said, sep="\n", markup=False)


if __name__ == "__main__":
    main()
