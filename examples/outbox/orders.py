"""Orders of customers: each event of the outbox once, and each customer's total, without cancelled orders."""

from typing import TYPE_CHECKING

from tidegate import CheckpointConfig, Pipeline, PostgresSink, PostgresSource, count, sum_

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The table in the shop's database. Transactions on orders insert their events into it.
OUTBOX = (
    "CREATE TABLE outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
    "xid xid8 NOT NULL DEFAULT pg_current_xact_id(), op text NOT NULL, customer text NOT NULL, cents bigint NOT NULL)",
    "CREATE INDEX ON outbox (xid, id)",
)


def signed(events: "DataFrame") -> "DataFrame":
    return events.selectExpr("customer", "CASE op WHEN 'cancelled' THEN -cents ELSE cents END AS cents")


def orders_pipeline(
    connection: str | None = "shop", checkpoints: CheckpointConfig | None = None, max_rows: int | None = 5000
) -> Pipeline:
    outbox = PostgresSource(
        "outbox", connection, schema="id BIGINT, op STRING, customer STRING, cents BIGINT", max_rows=max_rows
    )
    pipeline = Pipeline("outbox", parallelism=2, max_parallelism=16, checkpoints=checkpoints)
    events = pipeline.source("events", outbox)
    events.sink("events", PostgresSink("events"))
    customers = events.transform(signed).key_by("customer")
    spent = customers.aggregate("spent", events=count(), cents=sum_("cents"))
    spent.sink("spent", PostgresSink("spent", mode="upsert", key="customer"))
    return pipeline
