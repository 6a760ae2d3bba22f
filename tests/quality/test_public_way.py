"""Judging in Great Expectations' public way finds what our own way finds, and is taken where a name is missing."""

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidegate.pipeline.expectations import expect, suite
from tidegate.quality import arrow_pass, one_pass
from tidegate.quality.suite_validation import Finding, build, prepare_suite, validate_frame

pytestmark = pytest.mark.spark

RULES = suite(
    "rules",
    expect("column_values_to_not_be_null", column="carrier"),
    expect("column_values_to_be_between", column="minutes", min_value=0, mostly=0.5),
    expect("column_values_to_be_between", column="minutes", min_value=0),
    expect("column_mean_to_be_between", column="flights", max_value=99),
    expect("column_values_to_not_be_null", column="nothing"),
    expect("table_row_count_to_be_between", min_value=1),
)


def found(findings: list[Finding]) -> list[Any]:
    judged = [None if one.success is None else dict(one.found) for one in findings]
    return [(one.success, one.message is None, values) for one, values in zip(findings, judged, strict=True)]


@pytest.mark.parametrize("reported", [None, 100, 7])
def test_the_public_way_finds_the_same(spark: SparkSession, monkeypatch, reported: int | None) -> None:
    rows = spark.range(100, numPartitions=1).selectExpr(
        "format_string('C%02d', id) as carrier", "id as flights", "if(id < 3, -1, id) as minutes"
    )
    ours, counted = validate_frame(rows, RULES, build(RULES), ["carrier"], reported, 100)
    monkeypatch.setenv("TIDEGATE_SHORTCUTS", "none")
    public, recounted = validate_frame(rows, RULES, build(RULES), ["carrier"], reported, 100)
    assert found(public) == found(ours)
    assert [one.success for one in public] == [True, True, False, True, None, True]
    assert (counted, recounted) == (100, 100)


def test_a_release_without_a_name_is_judged_in_the_public_way(spark: SparkSession, monkeypatch, caplog) -> None:
    for each in (one_pass, arrow_pass):
        gone = replace(each.SHORTCUT, names=(*each.SHORTCUT.names, f"great_expectations:_gone_of_{each.__name__}"))
        monkeypatch.setattr(each, "SHORTCUT", gone)
    monkeypatch.setattr(one_pass, "validate_at_once", pytest.fail)
    rule = suite("one", expect("column_values_to_be_between", column="id", max_value=1))
    for _ in range(2):
        (finding,), rows = validate_frame(spark.range(3), rule, build(rule), ["id"], 3)
        assert (finding.success, rows, finding.found["partial_unexpected_list"]) == (False, 3, [2])
    assert prepare_suite(rule, ["id"]) is None
    assert sum("has no great_expectations:_gone_of_" in message for message in caplog.messages) == 2
