"""Deduplication: an order that is delivered again, even a year later, is emitted once."""

from typing import Any

from tidegate import Pipeline, Update


def add_deduplication(pipeline: Pipeline, orders: Any) -> Any:
    return pipeline.keyed(
        "once",
        inputs=[orders],
        key=["order_id"],
        state="order_id bigint",
        output="order_id bigint, customer string, amount bigint",
    )(first_of_each)


def first_of_each(orders: Any, known: Any) -> Update:
    from pyspark.sql import functions as F

    # If deliveries of an order differ, take the smallest, because their order is not defined.
    one = orders.groupBy("order_id").agg(F.min(F.struct("customer", "amount")).alias("order"))
    seen = known.withColumnRenamed("order_id", "seen_id")
    new = one.join(seen, F.col("order_id").eqNullSafe(F.col("seen_id")), "left_anti")
    return Update(state=new.select("order_id"), rows=new.select("order_id", "order.customer", "order.amount"))
