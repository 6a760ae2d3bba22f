"""`make bench-iceberg`: `IcebergSink` beside pyiceberg's own `append` and `upsert`, and three tables in one commit.

    python benchmarks/beside_pyiceberg.py [--rows N] [--updates N] [--times N] [--checkpoints N] [--keep]
                                          [--directory DIR]

What is measured and how is in the README beside this file.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import median

import kept_figures
import machine
from kept_figures import Series
from machine_load import Load
from measuring import answered
from run import database

ASKED = ("rows", "updates", "times", "checkpoints")


def main() -> None:
    options, described = parse(sys.argv[1:]), machine.describe()
    asked = {name: getattr(options, name) for name in ASKED}
    directory = tempfile.TemporaryDirectory(prefix="tidegate-bench-", dir=options.directory)
    with directory as home, Load() as load, database(Path(home)) as found:
        load.also(found.process)
        root = Path(home) / "tables"
        root.mkdir()
        process, figures = str(found.process), json.dumps(list(asked.values()))
        measured = answered("iceberg_tables.py", str(root), root, found, process, figures)
    show(measured["series"])
    print(f"Peak memory of the process: {measured['peak'] / 2**20:,.0f} MiB")
    policy = ", ".join(f"{name} {value:,}" for name, value in asked.items())
    now = kept_figures.document(described, load.figures(), policy, measured["series"])
    print(*kept_figures.compare_and_keep("iceberg", now, options.keep), sep="\n")


def show(series: Series) -> None:
    for what, of in series.items():
        own = of["tidegate"]
        said = f"{what}: {median(own['processors']):.3f} s of processor time, {median(own['seconds']):.3f} s"
        if "pyiceberg" in of:
            other = {kind: median(values) for kind, values in of["pyiceberg"].items()}
            ratio = median(own["processors"]) / other["processors"]
            said += f"; pyiceberg {other['processors']:.3f} s, {other['seconds']:.3f} s: {ratio:.2f} times"
        print(said)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of an append, and of the table of current rows")
    parser.add_argument("--updates", type=int, default=10_000, help="rows of that which change at once")
    parser.add_argument("--times", type=int, default=10, help="appends that count; half as many upserts")
    parser.add_argument("--checkpoints", type=int, default=100, help="of three tables in one commit")
    parser.add_argument("--keep", action="store_true", help="keep the figures in benchmarks/figures, to compare with")
    parser.add_argument("--directory", type=Path, help="where to work: on the disk to be measured (default: temporary)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
