"""Epochs that keep tables and judge them: a table of current rows and one that is appended to, three expectations each.

On Tidegate beside epochs of the same operator without tables, which take turns; on Structured Streaming by
`foreachBatch`, as users write it: the table of current rows is rewritten as a whole, the batch is appended, and the
same suites judge both before anything is shown.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import conditions
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from conditions import PARALLELISM
from costs import Cost, measured
from streaming_engine import SETTINGS
from tidegate_engine import checkpoint
from workload import SCHEMA, Epoch, Workload

from tidegate import FileSource, ParquetSink, Pipeline, assembly, count, expect, max_, suite, sum_
from tidegate.clock import SystemClock
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.pipeline.streams import Stream
from tidegate.protocol.steps.trigger import Triggered
from tidegate.settings import Settings
from tidegate.state.storage import ArrowCheckpointStorage

SUITE = suite(
    "totals",
    expect("column_values_to_not_be_null", column="key"),
    expect("column_values_to_be_between", column="events", min_value=1),
    expect("column_max_to_be_between", column="largest", max_value=1_000_000),
)

PLAIN_WRITES = 5


class Tidegate:
    """One pipeline and its region; a checkpoint counts from the trigger until it is notified."""

    def __init__(self, root: Path, name: str, tables: bool, more: Callable[[Stream, Path], None] | None = None) -> None:
        pipeline = Pipeline(name, PARALLELISM)
        events = pipeline.source("events", FileSource(str(root / "landing"), format="parquet", schema=SCHEMA))
        totals = events.key_by("key").aggregate("totals", events=count(), total=sum_("value"), largest=max_("value"))
        if tables:
            totals.sink("current", ParquetSink(str(root / "current"), mode="latest"), expect=SUITE)
            totals.sink("changes", ParquetSink(str(root / "changes")), expect=SUITE)
        if more is not None:
            more(totals, root)
        settings = Settings(root, str(root / "checkpoints"), str(root / "cache"), root / "docs")
        self.region: Any = assembly.open_region(pipeline, conditions.spark(), settings)
        self._validator = assembly.open_validator(self.region.graph, lambda: self.region, settings)
        self._coordinator = CheckpointCoordinator(
            pipeline, assembly.open_store(), ArrowCheckpointStorage(settings.storage), SystemClock()
        )

    def take(self, number: int) -> None:
        decision = self._coordinator.trigger(f"epoch {number}")
        if not isinstance(decision, Triggered):
            raise RuntimeError(f"The checkpoint of epoch {number} was not triggered: {decision}")
        checkpoint(self._coordinator, decision.checkpoint_id, self.region, self._validator)


class Streaming:
    """A micro-batch counts as it is reported, `triggerExecution`."""

    def __init__(self, root: Path) -> None:
        from pyspark.sql import functions as F

        self._root = root
        self._shown: Path | None = None
        self.spark: Any = conditions.plain_session(SETTINGS)
        events = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(root / "landing"))
        aggregates = F.count("*").alias("events"), F.sum("value").alias("total"), F.max("value").alias("largest")
        writer = events.groupBy("key").agg(*aggregates).writeStream.outputMode("update").foreachBatch(self._write)
        self.query: Any = writer.option("checkpointLocation", str(root / "checkpoints")).start()

    def take(self) -> float:
        before = len(self.query.recentProgress)
        self.query.processAllAvailable()
        batches = self.query.recentProgress[before:]
        return sum(int(batch.durationMs["triggerExecution"]) for batch in batches) / 1000

    def stop(self) -> None:
        self.query.stop()
        self.spark.stop()

    def _write(self, batch: Any, number: int) -> None:
        batch.persist()
        self._judge(batch)
        whole, version = batch, self._root / "versions" / str(number)
        if self._shown is not None:
            others = self.spark.read.parquet(str(self._shown)).join(batch, "key", "left_anti")
            whole = others.unionByName(batch)
        whole.write.parquet(str(version))
        self._judge(self.spark.read.parquet(str(version)))
        batch.write.mode("overwrite").parquet(str(self._root / "changes" / f"batch={number}"))
        link = self._root / "link"
        os.symlink(version, link)
        os.replace(link, self._root / "current")
        if self._shown is not None:
            shutil.rmtree(self._shown)
        self._shown = version
        batch.unpersist()

    def _judge(self, rows: Any) -> None:
        import great_expectations as gx
        from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

        context: Any = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = {"globally": False}
        asset = context.data_sources.add_spark("spark", persist=False).add_dataframe_asset("rows")
        batch = asset.add_batch_definition_whole_dataframe("batch").get_batch({"dataframe": rows})
        judged = gx.ExpectationSuite(SUITE.name)
        for each in SUITE.expectations:
            judged.add_expectation(ExpectationConfiguration(type=each.type, kwargs=dict(each.kwargs)).to_domain_obj())
        if not batch.validate(judged).success:
            raise RuntimeError("A batch does not meet its expectations.")


def shown(table: Path) -> list[int]:
    """Of the table of current rows: how many there are, and the sums of two columns."""
    rows = ds.dataset([str(path) for path in table.rglob("*.parquet")]).to_table()
    return [rows.num_rows, *(int(rows[name].to_numpy().sum()) for name in ("events", "total"))]


def written_plainly(files: list[Path], into: Path) -> list[Cost]:
    """What it costs to write the rows of some files once more by `pyarrow.parquet.write_table`, with its own options:
    as many files, at once, each synced."""
    parts = [pq.read_table(path) for path in files]

    def write(number: int) -> None:
        with open(into / f"{number}.parquet", "wb") as file:
            pq.write_table(parts[number], file)
            file.flush()
            os.fsync(file.fileno())

    def write_all() -> None:
        with ThreadPoolExecutor(len(parts)) as pool:
            list(pool.map(write, range(len(parts))))

    into.mkdir(exist_ok=True)
    return [measured(write_all) for _ in range(PLAIN_WRITES)]


def of_tidegate(root: Path, process: int, epochs: list[Epoch], appear: Callable[[Epoch], None]) -> dict[str, Any]:
    sides = {
        name: Tidegate(root, f"{name}_{epochs[0].events}", tables)
        for name, tables in (("without_tables", False), ("with_tables", True))
    }
    costs: dict[str, list[Cost]] = {name: [] for name in sides}
    for epoch in epochs:
        appear(epoch)
        for name, side in sides.items():
            costs[name].append(measured(partial(side.take, epoch.number), process))
    sides["with_tables"].region.session.stop()
    table, plain = (root / "current" / "current").resolve(), {}
    for epoch in epochs:  # the last of each series counts, and each epoch is one checkpoint
        changed = [table, root / "changes" / f"checkpoint={epoch.number + 1}"]
        plain[epoch.events] = [path for directory in changed for path in directory.rglob("*.parquet")]
    written = {events: written_plainly(files, root / "plain") for events, files in plain.items()}
    return costs | {"plain": written, "shown": shown(table)}


def of_streaming(root: Path, epochs: list[Epoch], appear: Callable[[Epoch], None]) -> dict[str, Any]:
    side, costs = Streaming(root), []
    for epoch in epochs:
        appear(epoch)
        costs.append(measured(side.take))
    side.stop()
    return {"with_tables": costs, "shown": shown((root / "current").resolve())}


def main() -> None:
    """The arguments are the directory to work in, the engine, the process of Postgres, and the workload as JSON. The
    last line that is printed is JSON: by number of events what each measured epoch costs, and what the table shows."""
    root, engine, process, workload = (
        Path(sys.argv[1]),
        sys.argv[2],
        int(sys.argv[3]),
        Workload(*json.loads(sys.argv[4])),
    )
    epochs = [epoch for epoch in workload.epochs() if epoch.phase != "restart"]
    workload.write(root / "data")
    (root / "landing").mkdir()

    def appear(epoch: Epoch) -> None:
        os.link(root / "data" / epoch.file, root / "landing" / epoch.file)

    found = of_tidegate(root, process, epochs, appear) if engine == "tidegate" else of_streaming(root, epochs, appear)
    costs: dict[int, dict[str, list[Cost]]] = {events: {} for events in workload.series()}
    for events in costs if "plain" in found else ():
        costs[events]["plain"] = found["plain"][events]
    for name in ("without_tables", "with_tables"):
        for epoch, cost in zip(epochs, found.get(name, ()), strict=False):
            if not epoch.warm_up:
                costs[epoch.events].setdefault(name, []).append(cost)
    print(json.dumps({"costs": costs, "shown": found["shown"]}))


if __name__ == "__main__":
    main()
