"""Two operators whose state expires: by processing time, and by a column of event time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidegate import (
    CheckpointConfig,
    ParquetSink,
    Pipeline,
    Update,
    approx_count_distinct,
    count,
    count_distinct,
    sum_,
)

EVENTS = "event_id bigint, customer string, amount bigint, at timestamp"
ACTIVE_FOR, KNOWN_FOR = "30 d", "7 d"


def activity_pipeline(
    events: Any,
    tables: Path,
    parallelism: int = 2,
    checkpoints: CheckpointConfig | None = None,
    wrap_sink: Callable[[Any], Any] = lambda sink: sink,
) -> Pipeline:
    pipeline = Pipeline("activity", parallelism=parallelism, max_parallelism=16, checkpoints=checkpoints)
    read = pipeline.source("events", events)
    once = pipeline.keyed(
        "once",
        inputs=[read],
        key=["event_id"],
        state="event_id bigint, at timestamp",
        output=EVENTS,
        ttl=KNOWN_FOR,
        ttl_by="at",
    )(first_of_each)
    different, about = count_distinct("amount"), approx_count_distinct("amount")
    active = read.key_by("customer").aggregate(
        "active", events=count(), amount=sum_("amount"), different=different, about=about, ttl=ACTIVE_FOR
    )
    once.sink("once", wrap_sink(ParquetSink(str(tables / "once"))))
    active.sink("active", wrap_sink(ParquetSink(str(tables / "active"), mode="latest")))
    return pipeline


def first_of_each(events: Any, known: Any) -> Update:
    from pyspark.sql import functions as F

    # If deliveries of an event differ, take the smallest, because their order is not defined.
    one = events.groupBy("event_id").agg(F.min(F.struct("at", "customer", "amount")).alias("event"))
    seen = known.selectExpr("event_id as seen_id")
    new = one.join(seen, F.col("event_id").eqNullSafe(F.col("seen_id")), "left_anti")
    return Update(
        state=new.select("event_id", "event.at"),
        rows=new.select("event_id", "event.customer", "event.amount", "event.at"),
    )
