"""Sessions: the clicks of a visitor without a pause of more than half an hour become one row, emitted when the next
session begins.

The clicks of a visitor must arrive in order.
"""

from typing import Any

from tidegate import Pipeline, Update

PAUSE = 30 * 60  # seconds


def add_sessions(pipeline: Pipeline, clicks: Any) -> Any:
    return pipeline.keyed(
        "sessions",
        inputs=[clicks],
        key=["visitor"],
        state="visitor string, began timestamp, ended timestamp, clicks bigint",
        output="visitor string, began timestamp, ended timestamp, clicks bigint",
    )(closed_and_open)


def closed_and_open(clicks: Any, state: Any) -> Update:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    parts = state.unionByName(clicks.selectExpr("visitor", "at as began", "at as ended", "1L as clicks"))
    in_order = Window.partitionBy("visitor").orderBy("began", "ended")
    pause = F.unix_seconds("began") - F.unix_seconds(F.lag("ended").over(in_order))
    session = F.sum((F.col("pause") > PAUSE).cast("int")).over(in_order)
    numbered = parts.withColumn("pause", F.coalesce(pause, F.lit(0))).withColumn("session", session)
    sessions = numbered.groupBy("visitor", "session").agg(
        F.min("began").alias("began"), F.max("ended").alias("ended"), F.sum("clicks").alias("clicks")
    )
    last = F.max("session").over(Window.partitionBy("visitor"))
    known = sessions.withColumn("is_open", F.col("session") == last).drop("session")
    return Update(state=known.where("is_open").drop("is_open"), rows=known.where("not is_open").drop("is_open"))
