"""A pipeline with three tables in the commit, one of each mode, and two sinks after it."""

from typing import Any

from tidegate import CheckpointConfig, FileSource, ParquetSink, Pipeline, PostgresSink

#: Orders that arrive for one checkpoint after the other. One of 0 cents closes a customer's account.
FILES = [
    {"landing/orders.csv": f"customer,cents\n{rows}\n"}
    for rows in ("ann,5\nbob,7\ncyd,1", "bob,2\ncyd,0\nann,1", "dan,4\ncyd,3", "ann,0\nbob,0", "eve,9")
]


def five_sinks(retained: int = 2) -> Pipeline:
    checkpoints = CheckpointConfig(retained=retained)
    pipeline = Pipeline("five", parallelism=2, max_parallelism=16, checkpoints=checkpoints)
    orders = pipeline.source("orders", FileSource("landing", schema="customer STRING, cents BIGINT"))

    @pipeline.keyed("accounts", inputs=[orders], key=["customer"], state="customer string, cents bigint")
    def accounts(orders: Any, state: Any) -> Any:
        from pyspark.sql import functions as F

        ordered = orders.groupBy("customer").agg(F.sum("cents").alias("added"), F.min("cents").alias("least"))
        total = F.col("added") + F.coalesce("cents", F.lit(0))
        closed = (F.col("least") == 0).alias("_delete")
        return ordered.join(state, "customer", "left").select("customer", total.alias("cents"), closed)

    orders.sink("seen", PostgresSink("seen"))
    accounts.sink("totals", PostgresSink("totals", mode="upsert", key="customer"))
    accounts.sink("now", PostgresSink("now", mode="replace"))
    accounts.sink("elsewhere", PostgresSink("totals", mode="upsert", key="customer", connection="marts"))
    accounts.sink("files", ParquetSink("tables/files", mode="latest"))
    return pipeline
