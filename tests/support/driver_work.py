"""A driver on a cluster that takes checkpoints of ever more rows, and says what each cost its own processes: Python and
its JVM, not the executors.

The arguments are the directory to work in, the database, and the numbers of rows. Each prints a line: rows, seconds of
processor time.
"""

import os
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from worlds import Judge

from tidegate import FileSource, ParquetSink, Pipeline, Update, assembly, count, max_, sum_
from tidegate.settings import Settings

STATE = "key bigint, total bigint"


def pipeline_of(root: Path) -> Pipeline:
    """What people write: behind a filter an aggregate with a table, a function over state that emits, and a join."""
    pipeline = Pipeline("driver_work", parallelism=8)
    schema = "key bigint, value bigint"
    rows = pipeline.source("rows", FileSource(str(root / "landing"), format="parquet", schema=schema))
    kept = rows.transform(lambda frame: frame.where("value IS NOT NULL"))
    totals = kept.key_by("key").aggregate("totals", n=count(), total=sum_("value"), most=max_("value"))
    totals.sink("totals", ParquetSink(str(root / "totals"), mode="latest"))

    def summed(batch: Any, state: Any) -> Update:
        from pyspark.sql import functions as F

        new = batch.groupBy("key").agg(F.sum("value").alias("total"))
        both = state.unionByName(new).groupBy("key").agg(F.sum("total").alias("total"))
        return Update(state=both, rows=both)

    sums = pipeline.keyed("sums", inputs=[kept], key=["key"], state=STATE, output=STATE)(summed)
    sums.sink("sums", ParquetSink(str(root / "sums")))
    others = kept.transform(lambda frame: frame.where("value < 10").withColumnRenamed("value", "other"))
    kept.join(others, name="joined", key=["key"], keep="other").sink("joined", ParquetSink(str(root / "joined")))
    return pipeline


def deliver(root: Path, number: int, rows: int) -> None:
    """Four files, over as many keys as rows."""
    random = np.random.default_rng(number)
    for part in range(4):
        table = {"key": random.integers(0, rows, rows // 4), "value": random.integers(0, 1000, rows // 4)}
        pq.write_table(pa.table(table), root / f".{number}-{part}")
        os.rename(root / f".{number}-{part}", root / f"{number}-{part}.parquet")


def own_seconds(jvm: int) -> float:
    """Of this process and of its JVM."""
    ticks = Path(f"/proc/{jvm}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(os.times()[:2]) + sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def main(home: str, database_url: str, *rows: str) -> None:
    root = Path(home)
    (root / "landing").mkdir()
    settings = Settings(root, str(root / "checkpoints"), str(root / "cache"), root / "docs")
    pipeline = pipeline_of(root)
    coordinator = assembly.open_coordinator(pipeline, settings, database_url)
    region: Any = assembly.open_region(pipeline, settings=settings)
    jvm = int(region.session._jvm.java.lang.ProcessHandle.current().pid())
    for number, each in enumerate(map(int, rows)):
        deliver(root / "landing", number, each)
        before = own_seconds(jvm)
        checkpoint_id = cast(Any, coordinator.trigger(str(number))).checkpoint_id
        coordinator.snapshot(checkpoint_id, region)
        coordinator.validate(checkpoint_id, Judge(True))
        coordinator.finalize(checkpoint_id)
        coordinator.notify(checkpoint_id)
        print(each, own_seconds(jvm) - before, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
