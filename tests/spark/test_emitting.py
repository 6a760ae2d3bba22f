"""Operators that emit: what leaves them, once, whatever happens, and what a wrong function is told."""

from pathlib import Path

import pytest
from emitting_shop import Deliveries
from listed import Listed
from pyspark.sql import SparkSession
from spark_checkpoints import Checkpoints

from emitting.pipeline import CLICKS, CUSTOMERS, ORDERS, emitting_pipeline

pytestmark = pytest.mark.spark


class Shop:
    """The pipeline of the examples, on rows that a test delivers."""

    def __init__(self, root: Path, seed: int, step: int = 100) -> None:
        self.deliveries = Deliveries(seed)
        self.sources = [Listed(schema, step=step) for schema in (ORDERS, CUSTOMERS, CLICKS)]
        self.tables = root / "tables"

    def pipeline(self, parallelism=2, checkpoints=None):
        return emitting_pipeline(*self.sources, self.tables, parallelism, checkpoints)

    def deliver(self) -> None:
        orders, customers, clicks = self.sources
        orders.put(0, *self.deliveries.more_orders())
        customers.put(0, *self.deliveries.more_customers())
        clicks.put(0, *((visitor, str(at)) for visitor, at in self.deliveries.more_clicks()))

    def check(self, **how) -> None:
        self.deliveries.check(self.tables, **how)


def commit_all(checkpoints: Checkpoints) -> None:
    for sink in checkpoints.graph.sinks:
        checkpoints.commit(sink.name)


def test_the_examples_agree_with_the_plain_computation(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(tmp_path, seed=1)
    checkpoints = Checkpoints(shop.pipeline(), spark, tmp_path)
    for _ in range(4):
        shop.deliver()
        checkpoints.take()
        commit_all(checkpoints)
        shop.check()
