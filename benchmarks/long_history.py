"""`make bench-store`, second part: what a long history costs Postgres and those who look, before and after rollup.

    python benchmarks/long_history.py [--checkpoints N] [--detailed N] [--times N] [-o json] [--directory DIR]

What is measured and how is in the README beside this file. Figures go to stdout, progress to stderr.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
from many_checkpoints import LARGE, fill, vacuum
from measuring import Database
from process_tree import processor_seconds
from rich.console import Console
from rich.table import Table
from run import database, progress
from sqlalchemy import Engine, text

from tidegate.clock import SystemClock
from tidegate.coordination.cleaning.rollup import HistoryRollup
from tidegate.coordination.context import PipelineContext
from tidegate.postgres.engine import connect
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.cleaning.rollup import HistoryRule
from tidegate.reading.history_answers import HistoryFilter
from tidegate.reading.readings import Readings
from tidegate.state.storage import ArrowCheckpointStorage
from tidegate.state.stored import StoredState

SAVED = 50_000  # one of so many is a savepoint
KEPT = 1000  # what is not rolled up in the first part
_TABLES = ("subtasks", "handles", "folded_operators", "checkpoints", "figures", "verdicts")
# As `roll_up` leaves them: marked, summed up, and each operator with a row. The newest 10,000 stay.
_AS_ROLLED_UP = (
    """
INSERT INTO tidegate.folded_operators
SELECT pipeline_id, checkpoint_id, operator_id, 16, 16, 0, 1, acknowledged_at, 1000, 1000, 48, false, false, 1, 1, 1, 1,
    array_fill(7.5::double precision, ARRAY[33])
FROM tidegate.checkpoints, unnest(ARRAY['arrivals', 'enriched', 'totals', 'out-sink']) AS operator_id
WHERE status IN ('FAILED', 'DISCARDED') AND kind = 'CHECKPOINT' AND checkpoint_id <= :last - 10000
""",
    """
UPDATE tidegate.checkpoints SET folded = true
WHERE status IN ('FAILED', 'DISCARDED') AND kind = 'CHECKPOINT' AND checkpoint_id <= :last - 10000
""",
    """
INSERT INTO tidegate.folded_totals
SELECT c.pipeline_id, count(*) FILTER (WHERE status = 'FAILED'), count(*) FILTER (WHERE status = 'DISCARDED'),
    count(f.checkpoint_id),
    ARRAY[min(f.end_to_end_duration), min(f.checkpointed_size), min(f.state_size), min(f.processed_data),
        min(f.persisted_data)],
    ARRAY[max(f.end_to_end_duration), max(f.checkpointed_size), max(f.state_size), max(f.processed_data),
        max(f.persisted_data)],
    ARRAY[sum(f.end_to_end_duration), sum(f.checkpointed_size), sum(f.state_size), sum(f.processed_data),
        sum(f.persisted_data)]
FROM tidegate.checkpoints c LEFT JOIN tidegate.figures f USING (pipeline_id, checkpoint_id)
WHERE c.folded GROUP BY c.pipeline_id
""",
)


def main() -> None:
    options = parse(sys.argv[1:])
    described = machine.describe()
    directory = Path(tempfile.mkdtemp(prefix="tidegate-bench-", dir=options.directory))
    try:
        with database(directory / "detailed") as found:
            rollup = measure_rollup(found, options.detailed)
        with database(directory / "long") as found:
            asked = measure_asking(found, options.checkpoints, options.times)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if options.output == "json":
        print(json.dumps({"machine": described, "rollup": rollup, "asked": asked}, indent=1))
        return
    show(described, rollup, asked, options)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoints", type=int, default=1_000_000, help="of one pipeline that somebody looks at")
    parser.add_argument("--detailed", type=int, default=6000, help="with all subtasks and files, to be rolled up")
    parser.add_argument("--times", type=int, default=5, help="how often each question is asked")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--directory", type=Path, help="where to work: on the disk to be measured (default: temporary)")
    return parser.parse_args(arguments)


def measure_rollup(found: Database, checkpoints: int) -> dict[str, Any]:
    """All but the newest, in portions, as cleanings do it."""
    engine = connect(found.url)
    fill(engine, 1, checkpoints, progress, files=checkpoints, saved=SAVED)
    before, portions = sizes(engine), []
    store, rule = PostgresCheckpointStore(engine), HistoryRule(KEPT, None)
    storage = ArrowCheckpointStorage(tempfile.gettempdir())  # nothing is read from it, or written
    processor = processor_seconds(found.process)
    while True:
        rollup = HistoryRollup(PipelineContext(LARGE, store, storage, SystemClock()), rule)
        with store.transaction(LARGE) as tx:
            rollup.check(tx)
        started = time.perf_counter()
        rollup.roll_up()
        portions.append(time.perf_counter() - started)
        if portions[-1] < 0.0005:  # nothing was due any more
            break
    processor = processor_seconds(found.process) - processor
    vacuum(engine)
    with engine.connect() as connection:
        left = {
            table: connection.execute(text(statement)).scalar_one()
            for table, statement in (
                ("subtasks", "SELECT count(*) FROM tidegate.subtasks"),
                ("handles", "SELECT count(*) FROM tidegate.handles"),
                ("folded_operators", "SELECT count(*) FROM tidegate.folded_operators"),
            )
        }
    after = sizes(engine)
    engine.dispose()
    return {"before": before, "after": after, "rows": left, "portions": portions[:-1], "processor": processor}


def measure_asking(found: Database, checkpoints: int, times: int) -> dict[str, dict[str, float]]:
    engine = connect(found.url)
    last = fill(engine, 1, checkpoints, progress, after=checkpoints - 10_000, saved=SAVED)
    progress("asked before rollup")
    asked = {"not rolled up": ask(engine, last, times)}
    with engine.begin() as connection:
        connection.execute(text("SET LOCAL session_replication_role = replica"))
        for statement in _AS_ROLLED_UP:
            connection.execute(text(statement), {"last": last})
    vacuum(engine)
    progress("asked after rollup")
    asked["rolled up"] = ask(engine, last, times)
    engine.dispose()
    return asked


def ask(engine: Engine, last: int, times: int) -> dict[str, float]:
    """Milliseconds, the median of so many answers."""
    with tempfile.TemporaryDirectory() as storage:
        stored = StoredState(storage, None)
        readings = Readings(engine, SystemClock().now, stored.open, stored)
        store = PostgresCheckpointStore(engine)
        old = last // 2 + 1  # neither failed nor a savepoint
        questions: dict[str, Callable[[], object]] = {
            "stats": lambda: readings.summary(LARGE),
            "series of a chart": lambda: readings.series(LARGE),
            "newest page of the history": lambda: readings.history(LARGE),
            "a page in the middle": lambda: readings.history(LARGE, HistoryFilter(), before=last // 2),
            "an old checkpoint": lambda: readings.whole_checkpoint(LARGE, old).model_dump_json(),
            "metrics after a checkpoint": lambda: store.figures(LARGE),
            "what a cleaning asks": lambda: facts(store),
        }
        return {name: median(question, times) for name, question in questions.items()}


def facts(store: PostgresCheckpointStore) -> None:
    with store.transaction(LARGE) as tx:
        tx.retained(), tx.abandoned(), tx.restores(), tx.imports(), tx.unswept(), tx.not_rolled_up(1)
        tx.latest_subsumed(), tx.latest_completed(), tx.in_progress(), tx.failed_after(tx.last_checkpoint_id() - 10)


def median(question: Callable[[], object], times: int) -> float:
    question()
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        question()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken) * 1000


def sizes(engine: Engine) -> dict[str, int]:
    """Of tables with their indexes."""
    asked = text("SELECT pg_total_relation_size(CAST(:name AS regclass))")
    with engine.connect() as connection:
        return {name: connection.execute(asked, {"name": f"tidegate.{name}"}).scalar_one() for name in _TABLES}


def show(
    described: dict[str, str], rollup: dict[str, Any], asked: dict[str, dict[str, float]], options: argparse.Namespace
) -> None:
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(", ".join(f"{name}: {value}" for name, value in described.items()))
    portions, count = rollup["portions"], options.detailed - KEPT
    console.print(
        f"{count:,} checkpoints of 64 subtasks rolled up in {len(portions)} portions: {sum(portions):.1f} s, "
        f"{1000 * statistics.median(portions):.0f} ms each ({1000 * max(portions):.0f} the longest), "
        f"{rollup['processor']:.1f} s of processor for Postgres; rows left: {rollup['rows']}"
    )
    table = Table("table", title=f"KiB a checkpoint, of {options.detailed:,}, and of {KEPT:,} with their subtasks")
    for name in ("before", "after"):
        table.add_column(name, justify="right")
    for name in _TABLES:
        table.add_row(name, *(f"{rollup[when][name] / options.detailed / 1024:.2f}" for when in ("before", "after")))
    console.print(table)
    table = Table("question", title=f"Milliseconds, with {options.checkpoints:,} checkpoints")
    for name in asked:
        table.add_column(name, justify="right")
    for question in asked["rolled up"]:
        table.add_row(question, *(f"{answers[question]:.1f}" for answers in asked.values()))
    console.print(table)


if __name__ == "__main__":
    main()
