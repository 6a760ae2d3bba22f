"""A shop's customers, delivered as a whole every day under one name, and its orders.

Tables: the current customers, their history, and the orders with their customers as of the checkpoint that read the
order, as of the order's time, and as of now.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidegate import CheckpointConfig, FileSource, ParquetSink, Pipeline

CUSTOMERS = "customer string, name string, city string"
ORDERS = "order_id bigint, customer string, amount bigint, at timestamp"


def customers_source(path: Path, **options: Any) -> FileSource:
    """Return a source in which each version of the file replaces the one before it."""
    return FileSource(str(path), schema=CUSTOMERS, mode="snapshot", key=["customer"], **options)


def dimensions_pipeline(
    customers: Any,
    orders: Any,
    tables: Path,
    parallelism: int = 2,
    checkpoints: CheckpointConfig | None = None,
    wrap_sink: Callable[[Any], Any] = lambda sink: sink,
) -> Pipeline:
    pipeline = Pipeline("dimensions", parallelism=parallelism, max_parallelism=16, checkpoints=checkpoints)
    known = pipeline.source("customers", customers)
    bought = pipeline.source("orders", orders)
    replaced = {
        "customers": known.current("current"),
        "history": known.history("history_of_customers"),
        "now": bought.join(known, name="joined_now", key=["customer"], how="left", row_key=["order_id"]),
    }
    appended = {
        "read": bought.join(known, name="joined_read", key=["customer"], how="left", as_of="checkpoint"),
        "then": bought.join(known, name="joined_then", key=["customer"], as_of="at"),
    }
    for name, stream in replaced.items():
        stream.sink(name, wrap_sink(ParquetSink(str(tables / name), mode="latest")))
    for name, stream in appended.items():
        stream.sink(name, wrap_sink(ParquetSink(str(tables / name))))
    return pipeline
