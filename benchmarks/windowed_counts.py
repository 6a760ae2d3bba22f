"""A count a key and hour of event time, on Tidegate or on Structured Streaming: the same files, watermark and windows.

Tidegate's seconds are all of a checkpoint, through coordinator and Postgres; Structured Streaming's are what it reports
as `triggerExecution`. Both append the windows that have ended to Parquet files, and must have the same rows in the end.
"""

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import conditions
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from costs import measured
from streaming_shapes import Streaming
from written_shapes import Tidegate

from tidegate import FileSource, ParquetSink, Pipeline, count, window

KEYS, ROWS = 200_000, 500_000
REPETITIONS = 3, 9
SCHEMA = "key bigint, at timestamp"
_HOUR = 3_600_000_000
_BEGINNING = 1_767_225_600_000_000  # 2026-01-01
_DELAY = "45 minutes"


def write_file(landing: Path, number: int, random: np.random.Generator) -> None:
    """Each file is an hour later than the one before, and its rows are up to half an hour late."""
    at = _BEGINNING + number * _HOUR + random.integers(-_HOUR // 2, _HOUR, ROWS)
    table = pa.table({"key": random.integers(0, KEYS, ROWS), "at": pa.array(at, pa.timestamp("us", tz="UTC"))})
    pq.write_table(table, landing / f".{number:03}.tmp")
    os.rename(landing / f".{number:03}.tmp", landing / f"{number:03}.parquet")


def define(pipeline: Pipeline, root: Path) -> None:
    source = FileSource(str(root / "landing"), format="parquet", schema=SCHEMA)
    rows = pipeline.source("rows", source, event_time="at", delay=_DELAY)
    counts = rows.key_by("key").aggregate("counts", window("at", "1 hour"), n=count())
    counts.sink("counts", ParquetSink(str(root / "counts")))


def start(spark: Any, root: Path) -> Any:
    from pyspark.sql import functions as F

    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(root / "landing"))
    hours = rows.withWatermark("at", _DELAY).groupBy("key", F.window("at", "1 hour")).agg(F.count("*").alias("n"))
    shown = hours.selectExpr("key", "window.start as window_start", "window.end as window_end", "n")
    writer = shown.writeStream.format("parquet").outputMode("append").option("path", str(root / "counts"))
    return writer.option("checkpointLocation", str(root / "checkpoints")).start()


def shown_until(root: Path, epoch: int) -> list[int]:
    """How many windows and rows are shown of those that ended some epochs ago, when both engines have emitted them."""
    table = ds.dataset([str(p) for p in (root / "counts").rglob("*.parquet")]).to_table()
    ends = table["window_end"].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_numpy()
    counts = table["n"].to_numpy()[ends <= _BEGINNING + epoch * _HOUR]
    return [len(counts), int(counts.sum())]


def main() -> None:
    """The arguments are the directory to work in, the engine, and the process of Postgres. The last line that is
    printed is JSON."""
    root, engine, process = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    also = (process,) if engine == "tidegate" else ()
    (root / "landing").mkdir(parents=True)
    random = np.random.default_rng(1)
    side: Any = Tidegate(root, "windowed", define) if engine == "tidegate" else Streaming(root, start)
    warm_ups, counted = conditions.repetitions(*REPETITIONS)
    costs = []
    for number in range(warm_ups + counted):
        write_file(root / "landing", number, random)
        costs.append(measured(partial(side.take, number), *also))
    side.stop()
    print(json.dumps({"costs": costs[warm_ups:], "shown": shown_until(root, warm_ups + counted - 3)}))


if __name__ == "__main__":
    main()
