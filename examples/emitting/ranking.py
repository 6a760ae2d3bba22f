"""A running top-n: the three largest orders of each city, with a row for each place that changes."""

from typing import Any

from tidegate import Pipeline, Update

PLACES = 3


def add_ranking(pipeline: Pipeline, orders: Any) -> Any:
    return pipeline.keyed(
        "ranking",
        inputs=[orders],
        key=["city"],
        state="city string, best string",
        output="city string, place int, amount bigint",
    )(ranked)


def ranked(orders: Any, state: Any) -> Update:
    from pyspark.sql import functions as F

    before = state.select("city", F.from_json("best", "array<bigint>").alias("before"))
    new = orders.select("city", F.array("amount").alias("new"))
    by_city = (
        before.unionByName(new, allowMissingColumns=True)
        .groupBy("city")
        .agg(*(F.flatten(F.collect_list(name)).alias(name) for name in ("before", "new")))
        .withColumn("best", F.slice(F.sort_array(F.concat("before", "new"), asc=False), 1, PLACES))
    )
    places = by_city.select("city", "before", F.posexplode("best").alias("above", "amount"))
    taken = places.where(~F.col("amount").eqNullSafe(F.get("before", "above")))
    return Update(
        state=by_city.select("city", F.to_json("best").alias("best")),
        rows=taken.select("city", (F.col("above") + 1).alias("place"), "amount"),
    )
