"""`make bench-airflow`: a DAG run of one day's files of the demonstration, from its trigger until it is notified.

    python benchmarks/dag_runs.py [--runs 5] [--spark task,server] [-o json] [--directory DIR]

What is measured and how is in the README beside this file. Figures go to stdout, progress to stderr.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from contextlib import closing
from datetime import datetime
from pathlib import Path

import machine
import psutil
from process_tree import processor_seconds
from rich.console import Console
from rich.table import Table
from run import progress

from flights.data import Deliveries
from flights.deployment import deploy
from flights.layout import Layout
from flights.pipeline import pipeline
from local_stack.airflow_api import AirflowApi
from local_stack.stack import SUPERVISOR, LocalStack

PROJECT = Path(__file__).parents[1]
#: Days that are there before: the state and the tables of a pipeline that has run for a while.
DAYS_BEFORE = 120
STEPS = ("trigger", "snapshot", "acknowledge", "validate", "finalize", "notify")
SPARKS = {"task": "a Spark per task", "server": "a Spark Connect server that stays up"}


def measure(directory: Path, on_server: bool, runs: int) -> list[dict[str, float]]:
    """Each DAG run's seconds by the clock and of processors, and those of its tasks."""
    layout = Layout(PROJECT, directory / ("server" if on_server else "task"))
    deploy(PROJECT, layout.dags)
    deliveries = Deliveries(layout.landing)
    days = {source: deliveries.days(source) for source in ("flights", "weather")}
    stack = layout.stack(layout.dags, {"AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": "False"}, spark_server=on_server)
    with stack, closing(stack.api()) as api:
        api.wait_for_dag(pipeline.name)
        for source, known in days.items():
            deliveries.deliver(source, known[:DAYS_BEFORE])
        _taken(stack, api, "before")
        found = []
        for number in range(runs):
            for source, known in days.items():
                deliveries.deliver(source, [known[DAYS_BEFORE + number]])
            found.append(_taken(stack, api, f"day-{number}"))
            progress(f"  {found[-1]['trigger to notified']:.1f} s")
    return found


def _taken(stack: LocalStack, api: AirflowApi, run_id: str) -> dict[str, float]:
    used = _processors(stack)
    api.trigger(pipeline.name, run_id)
    state = api.wait(pipeline.name, run_id)
    if state != "success":
        raise RuntimeError(f"The DAG run {run_id} has ended as {state}; see {stack.logs}")
    processors = _processors(stack) - used
    tasks = api.tasks(pipeline.name, run_id)
    queued = _moment(api.call("GET", f"/dags/{pipeline.name}/dagRuns/{run_id}")["queued_at"])
    whole = (_moment(tasks["notify"]["end_date"]) - queued).total_seconds()
    parts = {step: float(tasks[step]["duration"]) for step in STEPS}
    between = whole - sum(parts.values())
    return {"trigger to notified": whole, "processors": processors, **parts, "between the tasks": between}


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _processors(stack: LocalStack) -> float:
    """Of all that the stack's supervisor has started, and of Postgres."""
    roots = [session.pid for session in stack.sessions() if session.name == SUPERVISOR]
    server = stack.postgres.pid()
    roots += [server] if server is not None and psutil.Process(server).ppid() not in roots else []
    return processor_seconds(*roots)


def main() -> None:
    options = parse(sys.argv[1:])
    described = machine.describe()
    directory = Path(tempfile.mkdtemp(prefix="tidegate-bench-", dir=options.directory))
    found = {}
    for name in options.spark.split(","):
        progress(SPARKS[name])
        found[SPARKS[name]] = measure(directory, name == "server", options.runs)
    shutil.rmtree(directory)
    if options.output == "json":
        print(json.dumps({"machine": described, "runs": found}, indent=1))
        return
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(", ".join(f"{name}: {value}" for name, value in described.items()))
    console.print(table_of(found))


def table_of(found: dict[str, list[dict[str, float]]]) -> Table:
    table = Table("seconds", *found, title="A DAG run of one day's files: median (smallest-largest)")
    for part in next(iter(found.values()))[0]:
        cells = []
        for runs in found.values():
            seconds = [run[part] for run in runs]
            cells.append(f"{statistics.median(seconds):.1f} ({min(seconds):.1f}-{max(seconds):.1f})")
        table.add_row(part, *cells)
    return table


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="DAG runs that are measured on each (default: 5)")
    parser.add_argument("--spark", default="task,server", help="which Sparks to measure (default: task,server)")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--directory", type=Path, help="where to work: on the disk to be measured (default: temporary)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
