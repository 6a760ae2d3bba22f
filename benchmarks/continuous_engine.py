"""A continuous run that says what it did: its micro-batches, what checkpoints took from them, and when they ended.

A process of `continuous.py`. Its arguments are the directory to work in and the checkpoint interval. It runs until it
is asked to end, and prints what it saw as its last line, JSON with times of the monotonic clock.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tidegate import CheckpointConfig, FileSource, ParquetSink, Pipeline, assembly, max_, sum_
from tidegate.cli.continuous import stopping_on_signals
from tidegate.coordination.continuous.continuous_run import ContinuousRun
from tidegate.dataflow.continuous_driver import ContinuousDriver
from tidegate.dataflow.reports import Report
from tidegate.dataflow.running import RunningChain
from tidegate.dataflow.snapshot_steps import SnapshotSteps
from tidegate.ports import Round
from tidegate.settings import Settings
from tidegate.spark.session.sessions import SparkSettings

PARALLELISM = 2


def pipeline_of(root: Path, interval: str) -> Pipeline:
    """Rows are (key, file): of each key the largest number of a file, and of each changed key a row in the table."""
    pipeline = Pipeline("continuous", PARALLELISM, checkpoints=CheckpointConfig(interval=interval))
    rows = pipeline.source(
        "rows", FileSource(str(root / "landing"), format="parquet", schema="key bigint, file bigint")
    )
    totals = rows.key_by("key").aggregate("totals", file=max_("file"), total=sum_("file"))
    totals.sink("changes", ParquetSink(str(root / "changes")))
    return pipeline


class Seen:
    """(begin, end, rows) of rounds in which something was processed; when a checkpoint was completed, and the seconds
    that the run's loop was at it, from the look that triggered it on: it looked at the store, handed over what to
    record, or took the steps of a snapshot. `looks` are those in between, which find nothing to do."""

    def __init__(self) -> None:
        self.rows = 0
        self.batches: list[tuple[float, float, int]] = []
        self.completed: list[tuple[float, float]] = []
        self.looks: list[float] = []
        self._at_checkpoints = 0.0
        self._within = False

    def watch(self) -> None:
        """Everything that the process's region does from now on."""
        ran, advance, completed = RunningChain.ran, ContinuousDriver.advance, ContinuousDriver.completed

        def count(chain: RunningChain, reports: Sequence[Report]) -> None:
            self.rows += sum(report.metrics.get("rows_in", 0) for report in reports)
            ran(chain, reports)

        def time_round(driver: ContinuousDriver, polls: bool = True) -> Round:
            begin, before = time.monotonic(), self.rows
            done = advance(driver, polls)
            if self.rows > before:
                self.batches.append((begin, time.monotonic(), self.rows - before))
            return done

        def note(driver: ContinuousDriver, checkpoint_id: int) -> None:
            completed(driver, checkpoint_id)
            self.completed.append((time.monotonic(), self._at_checkpoints))
            self._at_checkpoints = 0.0

        def timed(call: Callable[..., Any], is_poll: bool = False) -> Callable[..., Any]:
            def take_time(*arguments: Any) -> Any:
                if self._within:
                    return call(*arguments)
                begin, self._within = time.monotonic(), True
                was_idle = is_poll and not arguments[0]._pending
                try:
                    return call(*arguments)
                finally:
                    self._within = False
                    took = time.monotonic() - begin
                    if was_idle and not arguments[0]._pending:
                        self.looks.append(took)
                    else:
                        self._at_checkpoints += took

            return take_time

        for owner, name, watched in (
            (RunningChain, "ran", count),
            (ContinuousDriver, "advance", time_round),
            (ContinuousDriver, "completed", note),
        ):
            setattr(owner, name, watched)
        for name in ("_poll", "_report"):
            setattr(ContinuousRun, name, timed(getattr(ContinuousRun, name), is_poll=name == "_poll"))
        for name in ("step", "take_written"):
            setattr(SnapshotSteps, name, timed(getattr(SnapshotSteps, name)))


def main() -> None:
    root, interval = Path(sys.argv[1]), sys.argv[2]
    settings = Settings(root, str(root / "checkpoints"), str(root / "cache"), root / "docs")
    seen = Seen()
    seen.watch()
    run = assembly.open_continuous(pipeline_of(root, interval), SparkSettings.local(PARALLELISM), settings)
    with stopping_on_signals() as stopping:
        run.run(stopping.is_set)
    print(json.dumps({"batches": seen.batches, "completed": seen.completed, "looks": seen.looks}))


if __name__ == "__main__":
    main()
