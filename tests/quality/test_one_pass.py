"""How many Spark jobs a suite takes, and that it counts right whatever was reported of the rows."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate.pipeline.expectations import ExpectationSuite, expect, suite
from tidegate.quality.suite_validation import Finding, build, validate_frame

pytestmark = pytest.mark.spark

Jobs = Callable[[], int]

RULES = suite(
    "rules",
    expect("column_values_to_not_be_null", column="carrier"),
    expect("column_values_to_be_between", column="minutes", min_value=0, mostly=0.5),
    expect("column_max_to_be_between", column="flights", max_value=99),
    expect("column_mean_to_be_between", column="flights", max_value=99),
    expect("table_row_count_to_be_between", min_value=1),
)


@pytest.fixture
def jobs(spark: SparkSession) -> Jobs:
    """The jobs that this thread has started since it was asked for."""
    group = uuid4().hex
    spark.sparkContext.setJobGroup(group, group)
    return lambda: len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))


def rows(spark: SparkSession, minutes: str) -> DataFrame:
    selected = "format_string('C%02d', id) as carrier", "id as flights", f"{minutes} as minutes"
    return spark.range(100, numPartitions=1).selectExpr(*selected)


def judged(frame: DataFrame, rules: ExpectationSuite, reported: int | None) -> tuple[list[Finding], int]:
    return validate_frame(frame, rules, build(rules), ["carrier"], reported)


def test_all_expectations_of_a_table_are_counted_in_one_spark_job(spark: SparkSession, jobs: Jobs) -> None:
    findings, counted = judged(rows(spark, "id"), RULES, 100)
    assert jobs() == 1
    assert counted == 100
    assert [finding.success for finding in findings] == [True] * 5
    assert [finding.found.get("observed_value") for finding in findings] == [None, None, 99, 49.5, 100]
    assert [finding.found.get("element_count") for finding in findings] == [100, 100, None, None, None]
    assert [finding.found.get("unexpected_count") for finding in findings] == [0, 0, None, None, None]


def test_where_nobody_reported_how_many_rows_there_are_that_takes_a_job_more(spark: SparkSession, jobs: Jobs) -> None:
    findings, counted = judged(rows(spark, "id"), RULES, None)
    assert jobs() == 2
    assert (counted, findings[4].found["observed_value"]) == (100, 100)


def test_only_what_failed_is_sampled_also_where_some_may(spark: SparkSession, jobs: Jobs) -> None:
    findings, _ = judged(rows(spark, "if(id < 3, -1, id)"), RULES, 100)
    assert jobs() == 3  # the counts, and of one expectation the values and the rows
    assert [finding.success for finding in findings] == [True] * 5
    assert findings[0].found["partial_unexpected_list"] == []
    assert findings[1].found["partial_unexpected_list"] == [-1, -1, -1]
    assert [row["carrier"] for row in findings[1].found["partial_unexpected_index_list"]] == ["C00", "C01", "C02"]


@pytest.mark.parametrize("reported", [0, 99, 101])
def test_rows_are_counted_and_a_wrong_report_of_them_is_not_believed(spark: SparkSession, reported: int) -> None:
    findings, counted = judged(rows(spark, "id"), RULES, reported)
    assert (counted, findings[0].found["element_count"], findings[4].found["observed_value"]) == (100, 100, 100)
    (finding,), counted = judged(rows(spark, "id"), suite("rows", RULES.expectations[4]), reported)
    assert (counted, finding.found["observed_value"]) == (100, 100)


def test_a_report_that_nothing_else_counts_is_compared_with_the_rows(spark: SparkSession, jobs: Jobs) -> None:
    unknown = expect("column_values_to_not_be_null", column="nothing")
    findings, counted = judged(rows(spark, "id"), suite("rows", unknown, RULES.expectations[4]), 7)
    assert counted == 100
    assert findings[0].success is None
    assert findings[1].found["observed_value"] == 100


@pytest.mark.filterwarnings("ignore:.*parameter is deprecated")
def test_rows_under_a_condition_are_counted_apart(spark: SparkSession) -> None:
    some: dict[str, Any] = {"row_condition": "flights < 10", "condition_parser": "spark"}
    rules = suite(
        "some",
        expect("table_row_count_to_be_between", max_value=10, **some),
        expect("column_values_to_be_between", column="minutes", min_value=1, **some),
        expect("table_row_count_to_be_between", min_value=100),
    )
    findings, counted = judged(rows(spark, "id"), rules, 100)
    assert counted == 100
    assert [finding.success for finding in findings] == [True, False, True]
    assert findings[1].found["unexpected_count"] == 1
    assert findings[1].found["element_count"] == 10
