"""A checkpoint's fixed cost: eight subtasks, state of some size, and nothing to process; without Airflow.

From the trigger until the checkpoint is completed, through the real coordinator, Postgres and a Spark region.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import conditions
import pyarrow as pa
import pyarrow.parquet as pq
from workload import SCHEMA

from tidegate import Pipeline, assembly, count
from tidegate.protocol.steps.trigger import Triggered
from tidegate.settings import Settings
from tidegate.sources.files import FileSource

SPLITS, PARALLELISM = 4, 4
_REPETITIONS = 5, 30


def main() -> None:
    """The argument is the directory to work in; prints the seconds of each checkpoint as its last line."""
    root = Path(sys.argv[1])
    settings = Settings(root, str(root / "checkpoints"), str(root / "cache"), root / "docs")
    (root / "landing").mkdir()
    pq.write_table(pa.table({"key": range(10_000), "value": range(10_000)}), root / "landing" / "first.parquet")
    pipeline = Pipeline("fixed_cost", parallelism=PARALLELISM)
    events = pipeline.source("events", FileSource("landing", format="parquet", schema=SCHEMA, splits=SPLITS))
    events.key_by("key").aggregate("totals", events=count())
    coordinator = assembly.open_coordinator(pipeline, settings)
    region = assembly.open_region(pipeline, conditions.spark(), settings)
    warm_ups, counted = conditions.repetitions(*_REPETITIONS)
    seconds = [take(coordinator, region, number) for number in range(1 + warm_ups + counted)]
    region.session.stop()
    print(json.dumps(seconds[1 + warm_ups :]))


def take(coordinator: Any, region: Any, number: int) -> float:
    """The first one has a file to read, all others have nothing."""
    begin = time.perf_counter()
    decision = coordinator.trigger(f"request {number}")
    assert isinstance(decision, Triggered)
    coordinator.snapshot(decision.checkpoint_id, region)
    coordinator.validate(decision.checkpoint_id, region)
    coordinator.finalize(decision.checkpoint_id, notifies=True)
    seconds = time.perf_counter() - begin
    coordinator.notify(decision.checkpoint_id)
    return seconds


if __name__ == "__main__":
    main()
