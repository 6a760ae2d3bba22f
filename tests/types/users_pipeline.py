"""A user's pipeline, DAGs and scripts with every type written down. Checked, and never run."""

from typing import assert_type

import pyarrow as pa
from airflow.sdk import DAG
from pydantic import BaseModel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

import tidegate
from tidegate import (
    CheckpointConfig,
    CheckpointListener,
    FileSource,
    IcebergSink,
    IcebergSource,
    KafkaSource,
    KeyedStream,
    ParquetSink,
    Pipeline,
    PostgresSource,
    Previous,
    Stream,
    Update,
    approx_count_distinct,
    approx_percentile,
    approx_top_k,
    collect_list,
    count,
    count_distinct,
    expect,
    first,
    last,
    max_,
    savepoint,
    session_window,
    suite,
    sum_,
    window,
)
from tidegate.airflow import SnapshotOperator, checkpoint_dag, maintenance_dag, restore_dag, watch_dag
from tidegate.ports import Segment


class Visit(BaseModel):
    page: str
    seconds: float


class Log(CheckpointListener):
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        print(checkpoint_id)


def only_long(rows: DataFrame) -> DataFrame:
    return rows.where("seconds > 10")


config = CheckpointConfig(interval="10 min", mode="EXACTLY_ONCE", retained=3)
pipeline = assert_type(Pipeline("shop", parallelism=3, checkpoints=config), Pipeline)
bad = ParquetSink("tables/bad")
source = FileSource("landing", "json", schema=Visit, malformed="quarantine", quarantine=bad)
visits = assert_type(pipeline.source("visits", source, event_time="at", delay="5 min"), Stream)
orders = pipeline.source("orders", FileSource("orders", "parquet", schema=StructType([StructField("id", LongType())])))
by_page = assert_type(visits.transform(only_long).key_by("page"), KeyedStream)
pages = assert_type(by_page.aggregate("pages", n=count(), seconds=sum_("seconds")), Stream)
hours = by_page.aggregate("hours", window("at", "1 hour"), longest=max_("seconds"), previous=Previous("hourly"))
breaks = session_window("at", gap="30 min")
rushes = by_page.aggregate("rushes", breaks, longest=max_("seconds"), allowed_lateness="2 d", emit="updates")
days = by_page.aggregate("days", window("at", "1 day", time_zone="Europe/Berlin"), longest=max_("seconds"))
figures = by_page.aggregate(
    "figures",
    earliest=first("seconds", by="at"),
    latest=last("seconds", by="at"),
    different=count_distinct("seconds", limit=5_000),
    some=collect_list("seconds", limit=9, by="at"),
    about=approx_count_distinct("seconds", rsd=0.02),
    middle=approx_percentile("seconds", 0.5),
    ends=approx_percentile("seconds", [0.01, 0.99], k=400),
    frequent=approx_top_k("page", 3, max_items_tracked=50),
)
assert_type(hours.late, Stream)
seen = expect("column_values_to_not_be_null", column="page")
assert_type(pages.sink("pages", ParquetSink("tables/pages", mode="latest", readable_for="1 h"), suite("p", seen)), None)
lake = assert_type(
    IcebergSink("shop.pages", mode="latest", partition_by=["bucket(8, page)"], catalog="lake"), IcebergSink
)
pages.sink("lake", lake)
table = IcebergSource("shop.visits", start="chk-7", on_overwrite="skip", schema=Visit, max_rows=10**6)
assert_type(pipeline.source("table", table), Stream)
outbox = PostgresSource("shop.outbox", "shop", key=["id"], on_change="ignore", schema=Visit, max_rows=10**6)
assert_type(pipeline.source("outbox", outbox), Stream)
topic = KafkaSource("visits", splits=2, schema=Visit, metadata={"at": "timestamp"}, start={0: 12}, max_rows=10**6)
assert_type(pipeline.source("topic", topic), Stream)
pipeline.listen(Log())


@pipeline.keyed("totals", inputs=[visits, orders], key=["page"], state="page STRING, n BIGINT", output=Visit)
def totals(visits: DataFrame, orders: DataFrame, state: DataFrame) -> Update:
    return Update(state=state.unionAll(visits), rows=orders)


assert_type(totals, Stream)


@pipeline.check("equal", sinks=["pages"], expect=suite("equal"))
def equal(pages: DataFrame) -> DataFrame:
    return pages.selectExpr("sum(n) AS n")


dag = assert_type(checkpoint_dag(pipeline, schedule="@hourly", tags=["shop"]), DAG)
assert_type(restore_dag(pipeline), DAG)
assert_type(watch_dag(), DAG)
assert_type(maintenance_dag(), DAG)


def script(rows: DataFrame) -> str:
    reader = assert_type(tidegate.state.read("shop", "pages", key="home"), pa.RecordBatchReader)
    edit = assert_type(savepoint.edit(pipeline, savepoint="friday"), savepoint.SavepointEdit)
    print(reader.schema, tidegate.state.options("shop", "pages")["files"], Segment(0, {}, 12).bytes)
    return assert_type(edit.upsert("pages", rows).write("repaired"), savepoint.Written).url


def report(spark: SparkSession) -> int:
    tables = tidegate.read("shop", "pages", "totals", wait="30 s")
    assert_type(tables.spark(spark)["pages"], DataFrame)
    assert_type(tidegate.read(pipeline, checkpoint=3).arrow()["pages"], pa.Table)
    return assert_type(tables.checkpoint, int)


def mark(step: SnapshotOperator) -> str:
    return step.task_id
