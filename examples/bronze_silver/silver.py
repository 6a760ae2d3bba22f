"""The total of each customer, from the table of the bronze pipeline."""

from tidegate import CheckpointConfig, IcebergSink, IcebergSource, Pipeline, count, sum_

pipeline = Pipeline("silver", parallelism=2, checkpoints=CheckpointConfig(retained=5))

orders = pipeline.source("orders", IcebergSource("bronze.orders", schema="customer STRING, cents BIGINT"))
totals = orders.key_by("customer").aggregate("totals", orders=count(), cents=sum_("cents"))
totals.sink("totals", IcebergSink("silver.totals", mode="latest"))
