"""`make bench-store`: checkpoints of 100,000 subtasks on the real store, and 1,000 acknowledgements at once.

    python benchmarks/acknowledgements.py [--subtasks N] [--batch N] [--at-once N] [--connections N] [--keep]
                                          [-o json] [--directory DIR]

What is measured and how is in the README beside this file. Figures go to stdout, progress to stderr.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import kept_figures
import machine
from machine_load import Load
from process_tree import memory
from rich.console import Console
from rich.table import Table
from run import database
from wide_checkpoint import OPERATORS, THREADS, Step, measure_at_once, measure_wide


def main() -> None:
    options = parse(sys.argv[1:])
    described = machine.describe()
    directory = Path(tempfile.mkdtemp(prefix="tidegate-bench-", dir=options.directory))
    try:
        with Load() as load, database(directory) as found:
            load.also(found.process)
            idle = {"client": memory(os.getpid()), "postgres": memory(found.process)}
            steps, batches, decisions = measure_wide(found, directory / "checkpoints", options.subtasks, options.batch)
            total, each = measure_at_once(found, directory / "at-once", options.at_once, options.connections)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    repeated = {"a batch of acknowledgements": batches, "one of those at once": each}
    series = {what: {"tidegate": {"seconds": values}} for what, values in repeated.items()}
    for step in steps:
        once = {"seconds": [step.seconds], "processors": [step.processors]}
        series[f"checkpoint {step.checkpoint}: {step.name}"] = {"tidegate": once}
    asked = ("subtasks", "batch", "at_once", "connections")
    policy = ", ".join(f"{name} {getattr(options, name):,}" for name in asked)
    now = kept_figures.document(described, load.figures(), policy, series)
    said = kept_figures.compare_and_keep("store", now, options.keep)
    if options.output == "json":
        at_once = {"seconds": total, "each": each}
        whole = {**now, "said": said, "idle": idle, "steps": [asdict(step) for step in steps]}
        print(json.dumps({**whole, "batches": batches, "decisions": decisions, "at_once": at_once}, indent=1))
        return
    show(options, described, idle, steps, batches, decisions)
    show_at_once(options, total, each)
    print(*said, sep="\n")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subtasks", type=int, default=100_000, help="of a checkpoint acknowledged in batches")
    parser.add_argument("--batch", type=int, default=1000, help="acknowledgements in a batch")
    parser.add_argument("--at-once", type=int, default=1000, help="subtasks acknowledged one by one, all at once")
    parser.add_argument("--connections", type=int, default=48, help=f"from so many connections, {THREADS} a process")
    parser.add_argument("--keep", action="store_true", help="keep the figures in benchmarks/figures, to compare with")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--directory", type=Path, help="where to work: on the disk to be measured (default: temporary)")
    options = parser.parse_args(arguments)
    if options.subtasks % OPERATORS or options.at_once % OPERATORS:
        parser.error(f"numbers of subtasks must be multiples of {OPERATORS}, the number of operators")
    return options


def show(
    options: argparse.Namespace,
    described: dict[str, str],
    idle: dict[str, int],
    steps: Sequence[Step],
    batches: Sequence[float],
    decisions: Sequence[float],
) -> None:
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(", ".join(f"{name}: {value}" for name, value in described.items()))
    table = Table(title=f"{options.subtasks:,} subtasks, batches of {options.batch:,}")
    for name in ("checkpoint", "step", "seconds", "processor s", "subtasks/s", "client MiB", "Postgres MiB"):
        table.add_column(name, justify="left" if name == "step" else "right")
    table.add_row("", "before", "", "", "", f"{idle['client'] / 2**20:,.0f}", f"{idle['postgres'] / 2**20:,.0f}")
    for step in steps:
        used = (f"{bytes_ / 2**20:,.0f}" for bytes_ in (step.client, step.postgres))
        seconds = (f"{step.seconds:.3f}", f"{step.processors:.2f}", f"{options.subtasks / step.seconds:,.0f}")
        table.add_row(str(step.checkpoint), step.name, *seconds, *used)
    console.print(table)
    first, last = batches[: len(batches) // 10 or 1], batches[-(len(batches) // 10 or 1) :]
    console.print(
        f"a batch: median {statistics.median(batches):.3f} s, longest {max(batches):.3f} s; "
        f"first tenth {statistics.mean(first):.3f} s, last tenth {statistics.mean(last):.3f} s on average; "
        f"from the last batch sent to the decision seen: {', '.join(f'{seconds:.3f} s' for seconds in decisions)}"
    )


def show_at_once(options: argparse.Namespace, total: float, each: Sequence[float]) -> None:
    percentiles = statistics.quantiles(each, n=100, method="inclusive")
    print(
        f"{options.at_once:,} at once over {options.connections} connections: {total:.2f} s, "
        f"{options.at_once / total:,.0f} a second; one takes {statistics.median(each):.3f} s (median), "
        f"{percentiles[98]:.3f} s (99th percentile), {max(each):.3f} s (longest); no error, none lost"
    )


if __name__ == "__main__":
    main()
