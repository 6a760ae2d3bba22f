"""How many Spark tasks take what little arrives, and what a transform in front of an operator changes of that."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from spark_checkpoints import Checkpoints, Landing, in_order

from tidegate import FileSource, Pipeline, count, sum_
from tidegate.spark.driver.operator_jobs import OperatorJobs

pytestmark = pytest.mark.spark

Open = Callable[[Pipeline], Checkpoints]
Land = Callable[[str], Landing]


def doubled_above_one(rows: DataFrame) -> DataFrame:
    return rows.where("v > 1").withColumn("v", F.col("v") * 2)


def twice(rows: DataFrame) -> DataFrame:
    return rows.select("k", F.explode(F.array("v", F.col("v") * 2)).alias("v"))


def test_a_small_batch_behind_a_transform_stays_in_one_task_unless_it_may_become_more(
    spark: SparkSession, landing: Land, open_checkpoints: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    together: list[bool] = []
    planned = OperatorJobs._keyed_plan

    def note_plan(self: OperatorJobs, *given: Any) -> Any:
        plan = planned(self, *given)
        together.append(plan.together)
        return plan

    monkeypatch.setattr(OperatorJobs, "_keyed_plan", note_plan)
    rows = landing("rows")
    rows.put(k=[1, 2, 2, None], v=[1, 2, 3, 4])
    for number, transform in enumerate((doubled_above_one, twice)):
        pipeline = Pipeline(f"behind_{number}", parallelism=3)
        source = pipeline.source("rows", FileSource(str(rows.path), format="parquet", schema="k bigint, v bigint"))
        source.transform(transform).key_by("k").aggregate("totals", n=count(), v=sum_("v"))
        checkpoints = open_checkpoints(pipeline)
        checkpoints.take()
        expected = transform(rows.all(spark)).groupBy("k").agg(F.count("*"), F.sum("v")).collect()
        assert checkpoints.rows("state:totals") == in_order(expected)
    assert together == [True, False]
