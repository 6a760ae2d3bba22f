"""Enrichment: each order is emitted once, with its customer, regardless of which arrives first.

An order whose customer is still unknown waits in the customer's state.
"""

from typing import Any

from tidegate import Pipeline, Update

WAITING = "array<struct<order_id: bigint, amount: bigint>>"


def add_enrichment(pipeline: Pipeline, orders: Any, customers: Any) -> Any:
    return pipeline.keyed(
        "with_customer",
        inputs=[orders, customers],
        key=["customer"],
        state="customer string, name string, city string, waiting string",
        output="order_id bigint, amount bigint, customer string, name string, city string",
    )(with_customer)


def with_customer(orders: Any, customers: Any, state: Any) -> Update:
    from pyspark.sql import functions as F

    waited = state.withColumn("orders", F.from_json("waiting", WAITING)).drop("waiting")
    came = orders.select("customer", F.array(F.struct("order_id", "amount")).alias("orders"))
    together = waited.unionByName(came, allowMissingColumns=True).unionByName(customers, allowMissingColumns=True)
    by_customer = together.groupBy("customer").agg(
        F.max("name").alias("name"),
        F.max("city").alias("city"),
        F.sort_array(F.flatten(F.collect_list("orders"))).alias("orders"),
    )
    is_known = F.col("name").isNotNull()
    waiting = F.when(~is_known, F.to_json("orders")).alias("waiting")
    ready = by_customer.where(is_known).select("customer", "name", "city", F.inline("orders"))
    return Update(state=by_customer.select("customer", "name", "city", waiting), rows=ready)
