"""A process of its own for `test_connect.py`: runs a pipeline on the Spark it is told, then meets its loss.

Arguments: a Spark Connect address or `local[2]`, a directory. Prints one JSON object a line.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F
from spark_checkpoints import Checkpoints, Landing

from tidegate import FileSource, ParquetSink, Pipeline, count, expect, suite, sum_
from tidegate.protocol.errors import CheckpointError
from tidegate.spark.session import SparkSettings, open_session


def pipeline(rows: Landing, tables: Path) -> Pipeline:
    pipeline = Pipeline("remote")
    source = pipeline.source("rows", FileSource(str(rows.path), format="parquet", schema="k bigint, v bigint"))
    totals = source.key_by("k").aggregate("totals", seen=count(), total=sum_("v"))
    totals.sink("totals", ParquetSink(str(tables / "totals"), mode="latest"), expect=suite("s", expect("x")))

    @pipeline.keyed("running", inputs=[totals], key=["k"], state="k bigint, label string")
    def running(batch: Any, state: Any) -> Any:
        label = F.udf(lambda total: f"{total} so far", "string")
        return batch.select("k", label("total").alias("label"))

    running.transform(lambda df: df.where("k < 2")).sink("labels", ParquetSink(str(tables / "labels")))
    return pipeline


def tell(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def whence(batches: Any) -> Any:
    from importlib.util import find_spec

    list(batches)
    spec = find_spec("tidegate")
    yield pa.RecordBatch.from_pydict({"path": ["" if spec is None else str(spec.origin)]})


def main(address: str, root: Path) -> None:
    settings = SparkSettings(remote=address) if address.startswith("sc://") else SparkSettings(master=address)
    try:
        session = open_session(settings)
    except CheckpointError as error:
        tell(error=type(error).__name__, message=str(error))
        return
    if address.startswith("sc://"):
        bare = type(session).builder.remote(address).create()
        tell(installed=bare.range(1).mapInArrow(whence, "path string").collect()[0].path)
        bare.stop()
    tell(shipped=session.range(1).mapInArrow(whence, "path string").collect()[0].path)
    rows = Landing(root / "landing")
    checkpoints = Checkpoints(pipeline(rows, root), session, root)
    rows.put(k=[1, 2, 2], v=[10, 20, 30])
    checkpoints.take()
    rows.put(k=[2], v=[5])
    checkpoints.take()
    tell(
        state=checkpoints.rows("state:totals"),
        staged=checkpoints.rows("sink:totals"),
        labels=checkpoints.rows("state:running"),
        calls=[[str(subtask) for subtask in call] for call in checkpoints.calls],
    )
    rows.put(k=[3], v=[5])
    checkpoints.trigger()
    if address.startswith("sc://"):
        tell(waiting=True)
        sys.stdin.readline()
    else:
        os.kill(session.sparkContext._gateway.proc.pid, signal.SIGKILL)
    try:
        checkpoints.attempt_once()
    except CheckpointError as error:
        tell(error=type(error).__name__, message=str(error))
    os._exit(0)  # nothing is left to be stopped in order


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
