"""Shapes that people write, on Tidegate or on Structured Streaming: the same files in, the same rows out.

Tidegate's seconds are all of a checkpoint, through coordinator and Postgres; Structured Streaming's are what it reports
as `triggerExecution`, of all micro-batches of an epoch. Both append what they emit to Parquet files, and must have the
same rows in the end, counted and summed.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import conditions
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import streaming_shapes
from conditions import PARALLELISM
from costs import measured
from tidegate_engine import checkpoint

from tidegate import FileSource, ParquetSink, Pipeline, Update, assembly, count, session_window, suite, sum_, window
from tidegate import expect as expected_of
from tidegate.clock import SystemClock
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.protocol.steps.trigger import Triggered
from tidegate.settings import Settings
from tidegate.state.storage import ArrowCheckpointStorage

KEYS, ROWS = 100_000, 10_000
REPETITIONS = 3, 9
_HOUR = 3_600_000_000
_BEGINNING = 1_767_225_600_000_000  # 2026-01-01

NAMES = "key bigint, name string"
TOTALS = streaming_shapes.OUTPUT
ORDERS = "customer string, amount double"
DELAY = "45 minutes"


@dataclass(frozen=True, slots=True)
class Shape:
    """`define`: a pipeline of Tidegate's below a directory. `start`: a query of Structured Streaming's. `table`: what
    both show below that directory. `summed`: the column whose sum must be equal."""

    name: str
    define: Callable[[Pipeline, Path], None]
    start: Callable[[Any, Path], Any]
    summed: str
    table: str = "out"


def _events(pipeline: Pipeline, root: Path, **options: Any) -> Any:
    return pipeline.source(
        "events", FileSource(str(root / "events"), format="parquet", schema=streaming_shapes.EVENTS), **options
    )


def running_totals(batch: Any, state: Any) -> Update:
    """Each key that has events, with its totals since the beginning."""
    from pyspark.sql import functions as F

    new = batch.groupBy("key").agg(F.count("*").alias("events"), F.sum("value").alias("total"))
    both = state.unionByName(new).groupBy("key").agg(F.sum("events").alias("events"), F.sum("total").alias("total"))
    return Update(state=both, rows=both)


def _define_function(pipeline: Pipeline, root: Path) -> None:
    declare = pipeline.keyed("totals", inputs=[_events(pipeline, root)], key=["key"], state=TOTALS, output=TOTALS)
    declare(running_totals).sink("out", ParquetSink(str(root / "out")))


def _define_join(pipeline: Pipeline, root: Path) -> None:
    names = pipeline.source("names", FileSource(str(root / "names"), format="parquet", schema=NAMES))
    joined = _events(pipeline, root).join(names, name="named", key=["key"])
    joined.sink("out", ParquetSink(str(root / "out")))


def _define_windows(windows: Any, pipeline: Pipeline, root: Path) -> None:
    events = _events(pipeline, root, event_time="at", delay=DELAY)
    counted = events.key_by("key").aggregate("counted", windows, value=sum_("value"))
    counted.sink("out", ParquetSink(str(root / "out")))


def _define_readme(pipeline: Pipeline, root: Path) -> None:
    orders = pipeline.source("orders", FileSource(str(root / "orders"), schema=ORDERS))
    totals = orders.key_by("customer").aggregate("totals", orders=count(), amount=sum_("amount"))
    plausible = suite("plausible", expected_of("column_values_to_be_between", column="amount", min_value=0))
    totals.sink("out", ParquetSink(str(root / "out"), mode="latest"), expect=plausible)


_SLIDING, _SESSIONS = window("at", "1 hour", slide="15 min"), session_window("at", "30 min")
SHAPES = {
    shape.name: shape
    for shape in (
        Shape("function over state that emits", _define_function, streaming_shapes.function, "total"),
        Shape("join", _define_join, streaming_shapes.join, "value"),
        Shape("sliding windows", partial(_define_windows, _SLIDING), streaming_shapes.sliding, "value"),
        Shape("session windows", partial(_define_windows, _SESSIONS), streaming_shapes.sessions, "value"),
        Shape("README's pipeline", _define_readme, streaming_shapes.readme, "orders", "out/current"),
    )
}


def write_files(root: Path, number: int, random: np.random.Generator) -> None:
    """An epoch's files: events, an hour later than those before and up to half an hour late; names, first of all keys,
    then of few; orders in CSV."""
    rows = KEYS if number == 0 else ROWS
    keys = random.permutation(KEYS) if number == 0 else random.integers(0, KEYS, ROWS)
    at = _BEGINNING + number * _HOUR + random.integers(-_HOUR // 2, _HOUR, rows)
    values = random.integers(0, 1_000_000, rows)
    events = {"key": keys, "value": values, "at": pa.array(at, pa.timestamp("us", tz="UTC"))}
    _appear(root / "events" / f"{number:03}.parquet", partial(pq.write_table, pa.table(events)))
    named = np.arange(KEYS) if number == 0 else random.integers(0, KEYS, ROWS // 100)
    names = pa.table({"key": named, "name": pa.array([f"name {key}" for key in named])})
    _appear(root / "names" / f"{number:03}.parquet", partial(pq.write_table, names))
    orders = pa.table({"customer": pa.array([f"customer {key}" for key in keys]), "amount": values / 4})
    _appear(root / "orders" / f"{number:03}.csv", partial(pa.csv.write_csv, orders))


def _appear(path: Path, write: Callable[[str], None]) -> None:
    hidden = path.with_name(f".{path.name}.tmp")
    write(str(hidden))
    hidden.rename(path)


class Tidegate:
    """One pipeline and its region; a checkpoint counts from the trigger until it is notified."""

    def __init__(self, root: Path, name: str, define: Callable[[Pipeline, Path], None]) -> None:
        pipeline = Pipeline(name, parallelism=PARALLELISM)
        define(pipeline, root)
        settings = Settings(root, str(root / "checkpoints"), str(root / "cache"), root / "docs")
        self.region: Any = assembly.open_region(pipeline, conditions.spark(), settings)
        self._validator = assembly.open_validator(self.region.graph, lambda: self.region, settings)
        storage = ArrowCheckpointStorage(settings.storage)
        self._coordinator = CheckpointCoordinator(pipeline, assembly.open_store(), storage, SystemClock())

    def take(self, number: int) -> None:
        decision = self._coordinator.trigger(f"epoch {number}")
        if not isinstance(decision, Triggered):
            raise RuntimeError(f"The checkpoint of epoch {number} was not triggered: {decision}")
        checkpoint(self._coordinator, decision.checkpoint_id, self.region, self._validator)

    def stop(self) -> None:
        self.region.session.stop()


def main() -> None:
    """The arguments are the directory to work in, the engine, the process of Postgres, and the shape. The last line
    that is printed is JSON."""
    root, engine, process, shape = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), SHAPES[sys.argv[4]]
    for name in ("events", "names", "orders"):
        (root / name).mkdir(parents=True)
    random = np.random.default_rng(1)
    tidegate = engine == "tidegate"
    name = f"shape_{list(SHAPES).index(shape.name)}"
    side: Any = Tidegate(root, name, shape.define) if tidegate else streaming_shapes.Streaming(root, shape.start)
    warm_ups, counted = conditions.repetitions(*REPETITIONS)
    costs = []
    for number in range(warm_ups + counted):
        write_files(root, number, random)
        costs.append(measured(partial(side.take, number), *((process,) if tidegate else ())))
    side.stop()
    print(json.dumps({"costs": costs[warm_ups:], "shown": shown_until(root, shape, warm_ups + counted - 2)}))


def shown_until(root: Path, shape: Shape, epoch: int) -> list[int]:
    """How many rows are shown and the sum of one column; of windows, those that ended some epochs ago, when both
    engines have emitted them."""
    files = [str(path) for path in (root / shape.table).resolve().rglob("*.parquet")]
    rows = ds.dataset(files).to_table()
    if "window_end" in rows.column_names:
        ends = rows["window_end"].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_numpy()
        rows = rows.filter(pa.array(ends <= _BEGINNING + epoch * _HOUR))
    return [rows.num_rows, int(rows[shape.summed].to_numpy().sum())]


if __name__ == "__main__":
    main()
