"""`crash_test` on a pipeline that keeps what it promises, and on one with a sink that does not."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from own_connectors.sqlite_sink import SqliteSink
from tidegate import FileSource, ParquetSink, Pipeline, StagedParquet, count
from tidegate.ports import CommitAttempt, StateHandle
from tidegate.protocol.facts.errors import ConfigurationError
from tidegate.settings import absolute
from tidegate.testing import crash_test

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
FILES = [{"landing/a.csv": "customer\nann\nbob\n"}, {"landing/b.csv": "customer\nbob\n"}]


class ForgetfulSink(SqliteSink):
    """It does not know what it has committed."""

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        with closing(sqlite3.connect(absolute(self.path))) as db, db:
            db.execute("CREATE TABLE IF NOT EXISTS customers (customer, n)")
            for batch in self.batches(staged):
                db.executemany(
                    "INSERT INTO customers VALUES (?, ?)", [tuple(row.values()) for row in batch.to_pylist()]
                )


def rows_of(sink: Any) -> list[dict[str, Any]]:
    if not Path(absolute(sink.path)).exists():
        return []
    with closing(sqlite3.connect(absolute(sink.path))) as db:
        return [{"customer": customer, "n": n} for customer, n in db.execute("SELECT customer, n FROM customers")]


def pipeline_with(sink: Any) -> Pipeline:
    pipeline = Pipeline("shop", parallelism=2)
    orders = pipeline.source("orders", FileSource("landing", schema="customer STRING"))
    orders.sink("seen", ParquetSink("tables/seen"))
    orders.key_by("customer").aggregate("customers", n=count()).sink("customers", sink)
    return pipeline


def test_a_pipeline_that_costs_nothing_to_kill(spark: SparkSession) -> None:
    report = crash_test(pipeline_with(ParquetSink("tables/customers", mode="latest")), FILES, spark=spark, every=16)
    assert report.crashes >= 2
    assert report.checkpoints >= report.crashes + 3  # the first, and those that came to their end


def test_a_sink_that_shows_rows_twice_is_noticed(spark: SparkSession) -> None:
    sink = ForgetfulSink("customers.db", "customers")
    with pytest.raises(AssertionError, match=r"Killed after effect \d+, ForgetfulSink\.commit, .* not to be there"):
        crash_test(lambda: pipeline_with(sink), FILES, spark=spark, shown={"customers": rows_of}, only="ForgetfulSink")


def test_a_sink_that_nobody_can_read_is_refused(spark: SparkSession) -> None:
    class MuteSink(StagedParquet):
        def describe(self) -> dict[str, Any]:
            return {"type": "MuteSink"}

    with pytest.raises(ConfigurationError, match="The rows of sink customers cannot be read"):
        crash_test(pipeline_with(MuteSink()), FILES, spark=spark)
