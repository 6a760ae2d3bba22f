"""Workload W on Spark Structured Streaming: RocksDB state store, changelog checkpointing, one file a micro-batch.

Its seconds are what the query reports as `triggerExecution`: listing, planning, the job, state and log commits. The
wait for the next trigger is left out, in its favour.
"""

from collections.abc import Mapping
from typing import Any

import conditions
from conditions import PARALLELISM
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from session import Session, given_session, mark, run_epochs
from workload import SCHEMA, Epoch

#: Beyond what the comparison is about, what its documentation recommends for speed.
SETTINGS = {
    "spark.sql.shuffle.partitions": str(PARALLELISM),
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
}


def main() -> None:
    session = given_session()
    spark = conditions.plain_session({**SETTINGS, **session.spark_settings()})
    session.landing.mkdir(parents=True, exist_ok=True)
    query = start(session, spark)
    run_epochs(session, lambda epoch: take(query, epoch))
    query.stop()
    if session.restarted:
        write_totals(session, spark)
    mark(session, phase="done")
    spark.stop()


def start(session: Session, spark: Any) -> StreamingQuery:
    options = {"maxFilesPerTrigger": "1", "header": "true"}
    reader = spark.readStream.schema(SCHEMA).options(**options).format(session.workload.format)
    events = session.workload.transformed(reader.load(str(session.landing)))
    totals = events.groupBy("key").agg(F.count("*"), F.sum("value"), F.max("value"))
    writer = totals.writeStream.format("noop").outputMode("update")
    query: StreamingQuery = writer.option("checkpointLocation", str(session.checkpoints)).start()
    return query


def take(query: StreamingQuery, epoch: Epoch) -> tuple[float, Mapping[str, float]]:
    query.processAllAvailable()
    batch = next(progress for progress in reversed(query.recentProgress) if progress.numInputRows)
    if batch.numInputRows != epoch.events:
        raise RuntimeError(f"The batch had {batch.numInputRows} rows, and {epoch.file} has {epoch.events}.")
    seconds = {name: milliseconds / 1000 for name, milliseconds in batch.durationMs.items()}
    total = seconds.pop("triggerExecution")
    return total, seconds


def write_totals(session: Session, spark: Any) -> None:
    rows = spark.read.format("statestore").load(str(session.checkpoints)).select("key.*", "value.*")
    rows.toDF("key", "events", "total", "largest").write.parquet(str(session.totals))


if __name__ == "__main__":
    main()
