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
from spark_checkpoints import Checkpoints, Landing, in_order

from tidegate import FileSource, ParquetSink, Pipeline, count, expect, suite, sum_
from tidegate.ports import SourceContext
from tidegate.protocol.facts.errors import CheckpointError
from tidegate.protocol.schema.operator_state import OperatorState
from tidegate.spark.session.sessions import SparkSettings, open_session
from tidegate.spark.state_source import register_state_source
from tidegate.state.reading import StateFiles
from tidegate.state.storage import ArrowCheckpointStorage


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
    drawn = source.transform(lambda df: df.withColumn("id", F.expr("uuid()")), deterministic=False, name="drawn")
    drawn.sink("ids", ParquetSink(str(tables / "ids")))
    drawn.transform(lambda df: df.select("id")).sink("again", ParquetSink(str(tables / "again")))
    return pipeline


def refusal(session: Any, root: Path) -> str:
    """What is said of a transform that draws without saying so."""
    pipeline, rows = Pipeline("luck"), Landing(root / "luck")
    source = pipeline.source("rows", FileSource(str(rows.path), format="parquet", schema="k bigint"))
    lucky = source.transform(lambda df: df.where("rand() < 0.5").withColumn("at", F.current_timestamp()))
    lucky.sink("lucky", ParquetSink(str(root / "lucky")))
    rows.put(k=[1])
    try:
        Checkpoints(pipeline, session, root).take()
    except CheckpointError as error:
        return str(error)
    return "nothing"


def tell(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def whence(batches: Any) -> Any:
    from importlib.util import find_spec

    list(batches)
    spec = find_spec("tidegate")
    yield pa.RecordBatch.from_pydict({"path": ["" if spec is None else str(spec.origin)]})


def texts(session: Any, root: Path) -> dict[str, Any]:
    """A text file read on executors that have nothing of ours, and one that is no text."""
    (root / "texts").mkdir()
    source = FileSource(str(root / "texts"), schema="k int, name string")
    storage = ArrowCheckpointStorage(str(root / "positions"))
    (root / "texts" / "ré.csv").write_text('k,name\n1,"a ""b""\nc"\n2,""\n')
    segment, taken = source.poll(0, None, SourceContext(storage, 1, "p/1"))
    rows = [list(row) for row in source.read(session, [segment]).collect()]
    (root / "texts" / "latin.csv").write_bytes(b"k,name\n1,r\xe9\n")
    broken, _ = source.poll(0, taken, SourceContext(storage, 2, "p/2"))
    errors = [explained(session, source, broken)]
    (root / "texts" / "latin.csv").rename(root / "texts" / "_latin.csv")
    (root / "texts" / "bad.csv").write_text("k,name\nx,y\n")
    errors.append(explained(session, source, source.poll(0, taken, SourceContext(storage, 3, "p/3"))[0]))
    return {"rows": rows, "errors": errors}


def explained(session: Any, source: FileSource, segment: Any) -> str:
    try:
        return str(source.read(session, [segment]).where("k > 5").count())
    except Exception as error:
        return str(source.explain(error, [segment]))


def read_state(session: Any, checkpoints: Checkpoints) -> list[tuple[Any, ...]]:
    """The same state by its format, which knows nothing of the pipeline's definition."""
    subtasks = sorted((id_, known) for id_, known in checkpoints.completed.items() if id_.operator_id == "totals")
    runs = tuple(known.handles for _, known in subtasks)
    state = OperatorState(
        "remote",
        "totals",
        checkpoints.checkpoint_id,
        checkpoints.pipeline.max_parallelism,
        runs,
        checkpoints.triggered_at,
    )
    register_state_source(session)
    files = StateFiles(checkpoints.storage.url, None, state).to_json()
    return in_order(session.read.format("tidegate_state").option("files", files).load().collect())


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
    tell(texts=texts(session, root))
    rows = Landing(root / "landing")
    checkpoints = Checkpoints(pipeline(rows, root), session, root)
    rows.put(k=[1, 2, 2], v=[10, 20, 30])
    checkpoints.take()
    rows.put(k=[2], v=[5])
    checkpoints.take()
    tell(
        state=checkpoints.rows("state:totals"),
        read=read_state(session, checkpoints),
        staged=checkpoints.rows("sink:totals"),
        labels=checkpoints.rows("state:running"),
        ids=[row[2] for row in checkpoints.rows("sink:ids")],
        again=[row[0] for row in checkpoints.rows("sink:again")],
        refusal=refusal(session, root),
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
