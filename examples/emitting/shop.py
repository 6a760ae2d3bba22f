"""The four examples in one pipeline: orders are deduplicated, enriched and ranked; clicks become sessions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from emitting.deduplication import add_deduplication
from emitting.enrichment import add_enrichment
from emitting.ranking import add_ranking
from emitting.sessions import add_sessions
from tidegate import CheckpointConfig, ParquetSink, Pipeline, expect, suite

ORDERS = "order_id bigint, customer string, amount bigint"
CUSTOMERS = "customer string, name string, city string"
CLICKS = "visitor string, at timestamp"


def emitting_pipeline(
    orders: Any,
    customers: Any,
    clicks: Any,
    tables: Path,
    parallelism: int = 2,
    checkpoints: CheckpointConfig | None = None,
    wrap_sink: Callable[[Any], Any] = lambda sink: sink,
) -> Pipeline:
    pipeline = Pipeline("shop", parallelism=parallelism, max_parallelism=16, checkpoints=checkpoints)
    once = add_deduplication(pipeline, pipeline.source("orders", orders))
    with_customer = add_enrichment(pipeline, once, pipeline.source("customers", customers))
    ranking = add_ranking(pipeline, with_customer)
    sessions = add_sessions(pipeline, pipeline.source("clicks", clicks))
    named = suite("named", expect("column_values_to_not_be_null", column="name"))
    for name, stream, judged in (
        ("once", once, None),
        ("with_customer", with_customer, named),
        ("ranking", ranking, None),
        ("sessions", sessions, None),
    ):
        stream.sink(name, wrap_sink(ParquetSink(str(tables / name))), expect=judged)
    return pipeline
