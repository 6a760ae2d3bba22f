"""Declared aggregates on Spark: the state after any number of checkpoints is what one batch over all input gives."""

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from spark_checkpoints import Checkpoints, Landing, in_order

from tidegate import (
    FileSource,
    ParquetSink,
    Pipeline,
    avg,
    collect_list,
    count,
    count_distinct,
    max_,
    max_by,
    min_,
    sum_,
)
from tidegate.spark.driver import direct_input, operator_jobs

pytestmark = pytest.mark.spark

Open = Callable[[Pipeline], Checkpoints]
Land = Callable[[str], Landing]


def carriers(source: Path, tables: Path, **options: object) -> Pipeline:
    pipeline = Pipeline("delays", **options)
    flights = pipeline.source(
        "flights", FileSource(str(source), format="parquet", schema="carrier string, delay bigint")
    )
    totals = flights.key_by("carrier").aggregate(
        "totals", flights=count(), minutes=sum_("delay"), worst=max_("delay"), best=min_("delay"), mean=avg("delay"),
        delays=count_distinct("delay"), least=collect_list("delay", limit=2),
    )  # fmt: skip
    totals.sink("changes", ParquetSink(str(tables / "changes")))
    totals.sink("current", ParquetSink(str(tables / "current"), mode="latest"))
    return pipeline


def expected(spark: SparkSession, landing: Landing) -> list[tuple[object, ...]]:
    grouped = landing.all(spark).groupBy("carrier")
    least = F.slice(F.sort_array(F.collect_list("delay")), 1, 2)
    figures = [F.count("*"), F.sum("delay"), F.max("delay"), F.min("delay"), F.avg("delay"), F.count_distinct("delay")]
    return in_order(grouped.agg(*figures, least).collect())


#: How what arrived reaches the subtasks: (bytes up to which it is small, bytes that may be read without Spark).
WAYS = {"exchanged": (0, 0), "in-one-task": (1 << 20, 0), "read-directly": (1 << 20, 1 << 28)}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    small, directly = WAYS[request.param]
    monkeypatch.setattr(operator_jobs, "SMALL", small)
    monkeypatch.setattr(direct_input, "_READ_AGAIN", directly)


@pytest.mark.usefixtures("way")
def test_state_after_two_checkpoints_equals_one_batch_over_all_input(
    spark: SparkSession, landing: Land, open_checkpoints: Open, tmp_path: Path
) -> None:
    flights = landing("flights")
    checkpoints = open_checkpoints(carriers(flights.path, tmp_path))
    flights.put(carrier=["UA", "AA", None, "UA"], delay=[5, None, 7, -3])
    checkpoints.take()
    assert checkpoints.rows("state:totals") == expected(spark, flights)
    flights.put(carrier=["UA", "B6", None], delay=[50, 1, 2])
    checkpoints.take()
    assert checkpoints.rows("state:totals") == expected(spark, flights)


def test_a_small_batch_as_it_came_from_its_source_needs_no_exchange(
    landing: Land, open_checkpoints: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flights = landing("flights")
    monkeypatch.setattr(direct_input, "_READ_AGAIN", 0)
    checkpoints = open_checkpoints(carriers(flights.path, tmp_path, parallelism=4))
    exchanged: list[object] = []
    by_subtask = operator_jobs.OperatorJobs._by_subtask
    monkeypatch.setattr(
        operator_jobs.OperatorJobs, "_by_subtask", lambda self, rows: exchanged.append(rows) or by_subtask(self, rows)
    )
    flights.put(carrier=[f"{n % 500}" for n in range(400_000)], delay=list(range(400_000)))
    checkpoints.take()
    assert len(exchanged) == 1
    flights.put(carrier=["UA"], delay=[9])
    checkpoints.take()
    assert len(exchanged) == 1


def test_a_function_over_a_small_batch_needs_no_exchange_for_state(
    landing: Land, open_checkpoints: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flights = landing("flights")
    pipeline = Pipeline("delays", 4)
    rows = pipeline.source("flights", FileSource(str(flights.path), format="parquet", schema="carrier string"))

    @pipeline.keyed("seen", inputs=[rows], key=["carrier"], state="carrier string, n bigint")
    def seen(batch: DataFrame, state: DataFrame) -> DataFrame:
        together = state.unionByName(batch.selectExpr("carrier", "1L as n"))
        return together.groupBy("carrier").agg(F.sum("n").alias("n"))

    checkpoints = open_checkpoints(pipeline)
    flights.put(carrier=["UA", "AA", "DL", "UA", None])
    checkpoints.take()

    def refused(*_: object) -> DataFrame:
        raise AssertionError("state was exchanged")

    monkeypatch.setattr(operator_jobs.OperatorJobs, "_by_subtask", refused)
    flights.put(carrier=["UA", "B6", None])
    checkpoints.take()
    assert checkpoints.rows("state:seen") == [("AA", 1), ("B6", 1), ("DL", 1), ("UA", 3), (None, 2)]


def test_changes_hold_changed_keys_only_and_current_holds_all(
    spark: SparkSession, landing: Land, open_checkpoints: Open, tmp_path: Path
) -> None:
    flights = landing("flights")
    checkpoints = open_checkpoints(carriers(flights.path, tmp_path, parallelism=4))
    flights.put(carrier=["UA", "AA", "DL"], delay=[1, 2, 3])
    checkpoints.take()
    flights.put(carrier=["UA"], delay=[9])
    checkpoints.take()
    assert checkpoints.rows("sink:changes") == [("UA", 2, 10, 9, 1, 5.0, 2, [1, 9])]
    assert checkpoints.rows("sink:current") == expected(spark, flights)


@pytest.mark.usefixtures("way")
def test_keys_of_several_columns_with_nulls_are_keys_like_any_other(
    spark: SparkSession, landing: Land, open_checkpoints: Open
) -> None:
    rows = landing("rows")
    pipeline = Pipeline("composite", parallelism=3)
    schema = "name string, day date, price decimal(12,2), flag boolean, v double"
    source = pipeline.source("rows", FileSource(str(rows.path), format="parquet", schema=schema))
    key = ("name", "day", "price", "flag")
    source.key_by(*key).aggregate("totals", n=count("v"), least=min_("v"), last=max_by("v", "day"))
    checkpoints = open_checkpoints(pipeline)
    names = [None, "", "a", "ä", "a\x00b", "x" * 300]
    days = [None, date(1969, 12, 31), date(2024, 2, 29)]
    prices = [None, Decimal("-0.01"), Decimal("12.50")]
    for repeat in (1, 2):
        keys = [(n, d, p, f) for n in names for d in days for p in prices for f in (None, True, False)] * repeat
        rows.put(
            name=pa.array([k[0] for k in keys], pa.string()),
            day=pa.array([k[1] for k in keys], pa.date32()),
            price=pa.array([k[2] for k in keys], pa.decimal128(12, 2)),
            flag=pa.array([k[3] for k in keys], pa.bool_()),
            v=[None if at % 7 == 0 else at / 8 for at in range(len(keys))],
        )
        checkpoints.take()
        grouped = rows.all(spark).groupBy(*key)
        batch = grouped.agg(F.count("v"), F.min("v"), F.max_by("v", "day"))
        found = checkpoints.rows("state:totals")
        assert [row[:6] for row in found] == [row[:6] for row in in_order(batch.collect())]
        assert len(found) == len(set(keys))
