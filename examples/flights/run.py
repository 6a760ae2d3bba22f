"""The chapters of `make demo`: DAG runs on flight data, a reader that loops, one bad file, one wrong deployment, one
killed Spark, one comparison.

Airflow and the pipeline decide the outcome. This module delivers the data, does the damage, and observes; `report`
prints the observations.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from flights import report
from flights.data import Deliveries
from flights.deployment import deploy, deploy_mistake
from flights.layout import Layout
from flights.observation import Observation, observe
from flights.pipeline import pipeline
from flights.sabotage import kill_spark_in_snapshot
from flights.together import LoopingReader, transactions
from local_stack.airflow_api import AirflowApi
from local_stack.stack import LocalStack
from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.protocol.facts.errors import CheckpointError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.names import requests_of_run
from tidegate.protocol.facts.records import CheckpointRecord
from tidegate.spark.session.java import find_java

if TYPE_CHECKING:
    from flights.batch import Comparison
    from tidegate.postgres.store import PostgresCheckpointStore


class DemonstrationError(CheckpointError):
    """A chapter of the demonstration did not go as expected."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The data that arrives before a DAG run: positions in the sorted days of each source, the last one excluded.

    Weather is first ten days behind the flights, then ten days ahead, so that hours meet across checkpoints both ways.
    """

    flights: tuple[int, int]
    weather: tuple[int, int]


#: The DAG that restores pipelines.
RESTORE = "tidegate_restore"
#: Seconds. A checkpoint's own deadline ends it after ten minutes, and a DAG run takes longer than its checkpoint.
RUN_TIMEOUT = 1800.0

BATCHES = (
    Batch((0, 120), (0, 110)),
    Batch((120, 210), (110, 220)),
    Batch((210, 300), (220, 290)),
    Batch((300, 330), (290, 320)),
    Batch((330, 365), (320, 364)),
)


class Demonstration:
    """DAG runs on a running stack. Each method is a chapter and raises if it does not go as expected."""

    def __init__(self, layout: Layout, stack: LocalStack, api: AirflowApi, console: Console) -> None:
        from tidegate.assembly import open_store

        self.layout = layout
        self.stack = stack
        self.api = api
        self.console = console
        self.store: PostgresCheckpointStore = open_store(stack.database_url)
        self.deliveries = Deliveries(layout.landing)

    def run(self) -> Sequence["Comparison"]:
        """Run all chapters, in order."""
        for dag_id in (pipeline.name, RESTORE):
            self.api.wait_for_dag(dag_id)
        self.good("first", BATCHES[0])
        self.looked_at("second", BATCHES[1])
        mistaken = self.bad("mistaken", BATCHES[2])
        self.corrected("corrected", mistaken)
        right = self.wrong("wrong", BATCHES[3])
        self.restored("restored", right)
        self.killed("killed", BATCHES[4])
        return self.compared()

    def good(self, run_id: str, batch: Batch) -> None:
        report.chapter(self.console, run_id, self._deliver(batch))
        self._finish(run_id, "success")
        self._completed(run_id)

    def looked_at(self, run_id: str, batch: Batch) -> None:
        """Run a DAG run while a reader loops over tables in Iceberg and in Postgres."""
        report.chapter(self.console, run_id, f"{self._deliver(batch)}, while a reader loops over three tables")
        with LoopingReader(self.stack.database_url) as reader:
            self._finish(run_id, "success")
        self._completed(run_id)
        report.looked_at(self.console, reader.reads, reader.of_two)
        _must(reader.of_two == 0, "A reader saw tables of two checkpoints.")
        _must(len(reader.reads) == 2, f"A reader saw {len(reader.reads)} checkpoints, not the one before and this one.")

    def _completed(self, run_id: str) -> None:
        record = self._record(run_id)
        report.completed(self.console, record, self._observe())
        wrote = transactions(self.stack.database_url, pipeline.name, record.checkpoint_id)
        _must(len(set(wrote.values())) == 1, f"The tables and the checkpoint are of several transactions: {wrote}.")
        report.at_once(self.console, record, wrote)

    def bad(self, run_id: str, batch: Batch) -> date:
        """Run a DAG run in which one file has delays in seconds. Return its day."""
        day = self.deliveries.days("flights")[batch.flights[0] + 7]
        delivered = self._deliver(batch)
        file = self.deliveries.deliver_in_seconds(day)
        report.chapter(self.console, run_id, f"{delivered}, but in {file.name} the delays are in seconds")
        before = self._observe()
        self._finish(run_id, "failed")
        record = self._record(run_id)
        _must(record.status is Status.FAILED, f"Checkpoint {record.checkpoint_id} is {record.status}, not FAILED.")
        verdicts = self.store.verdicts(pipeline.name, record.checkpoint_id)
        report.stopped(self.console, record, verdicts, self.layout.reports)
        after = self._observe()
        report.compared_with(self.console, before, after, "The changes of the failed checkpoint")
        _must(before == after, "The failed checkpoint changed something.")
        return day

    def corrected(self, run_id: str, mistaken: date) -> None:
        self.deliveries.deliver("flights", [mistaken])
        report.chapter(self.console, run_id, f"the same files, with flights-{mistaken}.csv corrected")
        self._finish(run_id, "success")
        report.completed(self.console, self._record(run_id), self._observe())

    def wrong(self, run_id: str, batch: Batch) -> Observation:
        """Run a DAG run of a wrong version of the pipeline, which no expectation detects. Return the observation from
        before.
        """
        before = self._observe()
        changed = deploy_mistake(self.layout.dags)
        report.chapter(self.console, run_id, f"{self._deliver(batch)}, and a wrong change is deployed: {changed}")
        self._finish(run_id, "success")
        report.completed(self.console, self._record(run_id), self._observe())
        return before

    def restored(self, run_id: str, right: Observation) -> None:
        """Restore the checkpoint before the wrong one, and continue with the right code."""
        latest = [record for record in self.store.history(pipeline.name, 10) if record.status is Status.COMPLETED]
        back, wrong = latest[1].checkpoint_id, latest[0].checkpoint_id
        report.chapter(
            self.console, run_id, f"the right code is deployed again, and the pipeline restored to checkpoint {back}"
        )
        deploy(self.layout.project, self.layout.dags)
        restoring = self.api.restore(pipeline.name, back, RESTORE)
        with self.console.status("Restoring"):
            state = self.api.wait(RESTORE, restoring)
        _must(state == "success", f"DAG run {restoring!r} of {RESTORE} ended as {state}.")
        after = self._observe()
        report.compared_with(
            self.console, right, after, f"The changes of checkpoint {wrong}, which the restore took back"
        )
        _must(right == after, f"The pipeline is not as it was with checkpoint {back}.")
        self._finish("redone", "success")
        report.completed(self.console, self._record("redone"), self._observe())

    def killed(self, run_id: str, batch: Batch) -> None:
        delivered = self._deliver(batch)
        report.chapter(self.console, run_id, f"{delivered}, and Spark is killed in the middle of the snapshot")
        self.api.trigger(pipeline.name, run_id)
        with self.console.status("Waiting for the snapshot to be under way"):
            pid, seen = kill_spark_in_snapshot(
                self.store, pipeline.name, requests_of_run(pipeline.name, run_id), self.stack.sessions()
            )
        report.killed(self.console, pid, seen)
        self._finish(run_id, "success", triggered=True)
        attempts = int(self.api.tasks(pipeline.name, run_id)["snapshot"]["try_number"])
        _must(attempts == 2, f"The snapshot took {attempts} attempts, not 2.")
        record = self._record(run_id)
        _must(record.checkpoint_id == seen.checkpoint_id, "The retry did not resume the checkpoint.")
        report.completed(self.console, record, self._observe(), attempts)

    def compared(self) -> Sequence["Comparison"]:
        """Compare every table with the batch computation."""
        from flights.batch import compare, compute
        from tidegate.spark.session.sessions import SparkSettings, open_session

        report.chapter(self.console, "comparison", "the same tables computed at once, by plain Spark over all files")
        with self.console.status("Comparing row by row"):
            with _errors_into(self.stack.logs / "comparison.log"):
                spark = open_session(SparkSettings.local())
            try:
                expected = compute(spark, self.layout.landing)
                comparisons = compare(spark, self.layout.tables, self.stack.database_url, expected)
            finally:
                spark.stop()
        report.compared(self.console, comparisons)
        return comparisons

    def _deliver(self, batch: Batch) -> str:
        words = []
        for source, (first, end) in (("flights", batch.flights), ("weather", batch.weather)):
            days = self.deliveries.days(source)[first:end]
            self.deliveries.deliver(source, days)
            words.append(f"{len(days)} days of {source} ({self.deliveries.rows(source, days):,} rows)")
        return " and ".join(words)

    def _finish(self, run_id: str, expected: str, triggered: bool = False) -> None:
        if not triggered:
            self.api.trigger(pipeline.name, run_id)
        with self.console.status("") as status:
            state = self.api.wait(
                pipeline.name, run_id, timeout=RUN_TIMEOUT, watch=lambda tasks: status.update(report.steps(tasks))
            )
        self.console.print(report.steps(self.api.tasks(pipeline.name, run_id)))
        _must(state == expected, f"DAG run {run_id!r} ended as {state}, not {expected}. Logs: {self.stack.logs.parent}")

    def _record(self, run_id: str) -> CheckpointRecord:
        request = requests_of_run(pipeline.name, run_id)
        return next(record for record in self.store.history(pipeline.name, 10) if record.request_id.startswith(request))

    def _observe(self) -> Observation:
        return observe(self.store, pipeline.name, self.layout.home, self.stack.database_url)


@contextmanager
def _errors_into(log: Path) -> Iterator[None]:
    """Send standard error of this process and its children to a file: Spark prints six warnings when it starts."""
    kept = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _must(holds: bool, otherwise: str) -> None:
    if not holds:
        raise DemonstrationError(otherwise)


def demonstrate(layout: Layout, console: Console) -> bool:
    """Run the demonstration from scratch on its own stack, and stop it. Return whether all tables were identical."""
    began = time.monotonic()
    # Run only the DAG runs that are triggered here.
    stack = layout.stack(layout.dags, {"AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": "False"})
    stack.remove()
    shutil.rmtree(layout.home, ignore_errors=True)
    deploy(layout.project, layout.dags)
    try:
        start(stack, console)
        with closing(stack.api()) as api:
            comparisons = Demonstration(layout, stack, api, console).run()
    finally:
        with console.status("Stopping the stack"):
            stack.stop()
    identical = all(comparison.identical for comparison in comparisons)
    report.verdict(console, identical, time.monotonic() - began)
    return identical


def start(stack: LocalStack, console: Console) -> None:
    """Start the stack, and show its progress.

    Raises:
        ConfigurationError: If Spark would find no Java.
    """
    find_java()
    began = time.monotonic()
    with console.status("") as status:
        show: Callable[[str], None] = status.update
        stack.start(show)
    console.print(f"Airflow, Postgres and Spark run on this machine ({time.monotonic() - began:.0f} s): {stack.url}")


def up(layout: Layout, console: Console) -> None:
    """Start the whole stack and leave it running, with the demonstration's history if there is one, else with a year of
    data to read.
    """
    stack = layout.stack(layout.project / "dags")
    start(stack, console)
    if not layout.landing.exists():
        deliver(layout, console)
    report.running(console, stack, layout)


def deliver(layout: Layout, console: Console) -> None:
    """Deliver the whole year."""
    deliveries = Deliveries(layout.landing)
    for source in ("flights", "weather"):
        days = deliveries.deliver(source, deliveries.days(source))
        console.print(f"{days} files of {source} are in {layout.landing / source}")


def down(layout: Layout, console: Console) -> None:
    """Stop the stack, also if another process started it. Data and history stay."""
    layout.stack(layout.project / "dags").stop()
    console.print("Airflow, Postgres and Spark are stopped. `make up` starts them again where they were.")


def remove(layout: Layout, console: Console) -> None:
    """Stop everything and remove all that was ever written here, including embedded databases."""
    layout.stack(layout.project / "dags").remove()
    kept = layout.project / ".tidegate"
    for lock in kept.rglob("postgres/lock"):
        EmbeddedPostgres(lock.parent).remove()
    shutil.rmtree(kept, ignore_errors=True)
    console.print("Airflow, Postgres and Spark are stopped, and their data is removed.")


def project() -> Path:
    """Return the directory with the DAGs, where `make` runs.

    Raises:
        DemonstrationError: If this directory has none.
    """
    here = Path.cwd()
    if not (here / "dags" / "flight_delays.py").exists():
        raise DemonstrationError(
            f"{here} is not Tidegate's directory: it has no dags/flight_delays.py. Nothing was started. "
            "Change to the right one."
        )
    return here
