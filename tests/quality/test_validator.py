"""Great Expectations on a real Spark session, behind the `Validator` port."""

import json
import time
from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate.pipeline.expectations import Expectation, expect, suite
from tidegate.protocol.facts.records import Verdict
from tidegate.protocol.steps.approvals import MOST_ROWS
from tidegate.protocol.steps.verdicts import failed_expectations

pytestmark = pytest.mark.spark

Judge = Callable[..., Verdict]


@pytest.fixture(scope="module")
def carriers(spark: SparkSession) -> DataFrame:
    """100 carriers C00 … C99; minutes are -1 for C03, C13 … (10 of them), null for C00."""
    return spark.sql(
        "select format_string('C%02d', id) as carrier, id as flights, "
        "if(id = 0, null, if(id % 10 = 3, -1, id)) as minutes from range(100)"
    )


@pytest.fixture(scope="module")
def typed(spark: SparkSession) -> DataFrame:
    return spark.sql(
        "select 'AA' as carrier, double('nan') as ratio, double('infinity') as worst, "
        "cast('12345678901234567890.1234' as decimal(30,4)) as amount, timestamp'2013-01-01 05:00:00Z' as hour, "
        "timestamp_ntz'2013-01-01 05:00:00' as local_hour, date'2013-01-02' as day, X'00ff' as raw, "
        "array(1, 2) as several, struct(1 as a, 'x' as b) as pair, repeat('z', 2000) as long_text"
    )


def test_a_suite_that_holds_passes_with_every_result_in_the_suites_order(carriers: DataFrame, judge: Judge) -> None:
    verdict = judge(
        carriers,
        suite(
            "good",
            expect("column_values_to_be_unique", column="carrier"),
            expect("table_row_count_to_be_between", min_value=100, max_value=100),
            expect("column_values_to_not_be_null", column="carrier"),
            expect("column_max_to_be_between", column="flights", max_value=99),
            expect("column_values_to_be_between", column="minutes", min_value=0, mostly=0.85),
            expect("column_values_to_be_between", column="flights", min_value=0),
        ),
    )
    assert (verdict.success, verdict.evaluated, verdict.failed, verdict.error) == (True, 6, 0, None)
    assert [result["type"] for result in verdict.results] == [
        "expect_column_values_to_be_unique",
        "expect_table_row_count_to_be_between",
        "expect_column_values_to_not_be_null",
        "expect_column_max_to_be_between",
        "expect_column_values_to_be_between",
        "expect_column_values_to_be_between",
    ]
    assert [result["observed"] for result in verdict.results] == [None, 100, None, 99, None, None]
    assert [result["unexpected_count"] for result in verdict.results] == [0, None, 0, None, 10, 0]
    assert verdict.results[0]["element_count"] == 100


def test_a_failed_expectation_shows_counts_samples_and_the_keys_of_the_rows(carriers: DataFrame, judge: Judge) -> None:
    verdict = judge(
        carriers,
        suite(
            "carriers",
            expect("column_values_to_be_between", column="minutes", min_value=0),
            expect("column_values_to_not_be_null", column="carrier"),
            expect("column_mean_to_be_between", column="flights", max_value=10),
        ),
    )
    assert (verdict.success, verdict.evaluated, verdict.failed, verdict.error) == (False, 3, 2, None)
    between, _, mean = verdict.results
    assert between["success"] is False
    assert (between["element_count"], between["unexpected_count"]) == (100, 10)
    assert between["unexpected_percent"] == pytest.approx(10 / 99 * 100)
    assert between["unexpected_samples"] == [-1] * 10
    assert between["unexpected_rows"] == [{"carrier": f"C{ten}3", "minutes": -1} for ten in range(10)]
    assert mean["observed"] == 49.5


def test_the_samples_of_a_large_failure_are_bounded(spark: SparkSession, judge: Judge) -> None:
    verdict = judge(
        spark.sql("select string(id) as carrier, -id as minutes from range(1, 50001)"),
        suite("carriers", expect("column_values_to_be_between", column="minutes", min_value=0)),
    )
    (result,) = verdict.results
    assert result["unexpected_count"] == 50_000
    assert len(result["unexpected_samples"]) == len(result["unexpected_rows"]) == 20
    assert len(json.dumps(result)) < 5_000


def test_an_expectation_on_a_missing_column_is_not_judged_and_names_the_columns_there_are(
    carriers: DataFrame, judge: Judge
) -> None:
    verdict = judge(
        carriers,
        suite(
            "carriers",
            expect("column_values_to_be_between", column="minutess", min_value=0),
            expect("column_values_to_not_be_null", column="carrier"),
            expect("column_max_to_be_between", column="delay", max_value=1),
        ),
    )
    assert (verdict.success, verdict.evaluated, verdict.failed) == (None, 3, 2)
    assert [result["success"] for result in verdict.results] == [None, True, None]
    assert verdict.error == (
        "expect_column_values_to_be_between on sink:carriers names column 'minutess', which sink:carriers does not "
        "have. Its columns are: carrier, flights, minutes. "
        "expect_column_max_to_be_between on sink:carriers names column 'delay', which sink:carriers does not have. "
        "Its columns are: carrier, flights, minutes."
    )


def test_column_to_exist_is_judged_on_a_missing_column(carriers: DataFrame, judge: Judge) -> None:
    verdict = judge(carriers, suite("columns", expect("column_to_exist", column="delay")))
    assert (verdict.success, verdict.error) == (False, None)


def test_an_expectation_that_raises_in_spark_is_not_judged_and_says_why(typed: DataFrame, judge: Judge) -> None:
    verdict = judge(
        typed,
        suite(
            "types",
            expect("column_values_to_be_between", column="several", min_value=0),
            expect("column_values_to_not_be_null", column="carrier"),
        ),
    )
    assert verdict.success is None
    assert [result["success"] for result in verdict.results] == [None, True]
    assert verdict.error is not None
    assert verdict.error.startswith("expect_column_values_to_be_between of column 'several' on sink:carriers could not")
    assert "data type mismatch" in verdict.error
    assert "\n" not in verdict.error


def test_expectations_that_break_a_shared_spark_job_keep_their_own_reasons_and_spoil_no_other(
    carriers: DataFrame, judge: Judge
) -> None:
    verdict = judge(
        carriers,
        suite(
            "types",
            expect("column_values_to_match_regex", column="carrier", regex="["),
            expect("column_values_to_match_regex", column="carrier", regex="("),
            expect("column_values_to_not_be_null", column="carrier"),
            expect("column_max_to_be_between", column="flights", max_value=99),
        ),
    )
    assert [result["success"] for result in verdict.results] == [None, None, True, True]
    assert [result["error"] for result in verdict.results][:2] == [
        "expect_column_values_to_match_regex of column 'carrier' on sink:carriers could not be validated: "
        f"PatternSyntaxException: {reason}."
        for reason in ("Unclosed character class near index 0", "Unclosed group near index 1")
    ]


@pytest.mark.parametrize(
    ("expectation", "message"),
    [
        (expect("nonsense", column="carrier"), "Great Expectations does not know expect_nonsense"),
        (Expectation("no_such_thing"), "Great Expectations does not know no_such_thing"),
        (
            expect("column_values_to_be_between", colum="minutes"),
            "expect_column_values_to_be_between has wrong arguments: column: field required",
        ),
        (
            expect("column_values_to_be_between", column="minutes"),
            "expect_column_values_to_be_between has wrong arguments",
        ),
    ],
)
def test_a_suite_great_expectations_does_not_take_is_an_error_in_the_verdict(
    carriers: DataFrame, judge: Judge, expectation: Expectation, message: str
) -> None:
    verdict = judge(carriers, suite("carriers", expect("column_values_to_not_be_null", column="carrier"), expectation))
    assert (verdict.success, verdict.evaluated, verdict.results) == (None, 0, ())
    assert verdict.error is not None
    assert verdict.error.startswith("sink:carriers was not validated, because suite 'carriers' is wrong: ")
    assert message in verdict.error


def test_a_dataframe_that_cannot_be_computed_is_an_error_in_the_verdict(spark: SparkSession, judge: Judge) -> None:
    broken = spark.sql("select 'AA' as carrier, raise_error('the run is truncated') as minutes")
    verdict = judge(broken, suite("carriers", expect("column_values_to_not_be_null", column="minutes")))
    assert verdict.success is None
    assert verdict.error is not None
    assert "the run is truncated" in verdict.error
    assert "\n" not in verdict.error


def test_values_of_every_type_are_kept_as_strict_json(
    typed: DataFrame, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = typed.columns[1:]
    monkeypatch.setenv("TZ", "America/New_York")  # Spark collects TIMESTAMP as naive local time
    time.tzset()
    try:
        verdict = judge(
            typed,
            suite(
                "all",
                *(expect("column_values_to_be_null", column=column) for column in columns),
                expect("column_max_to_be_between", column="ratio", max_value=1),
            ),
        )
    finally:
        monkeypatch.undo()
        time.tzset()
    kept = json.loads(json.dumps(verdict.results, allow_nan=False))
    assert dict(zip(columns, (result["unexpected_samples"][0] for result in kept), strict=False)) == {
        "ratio": "NaN",
        "worst": "Infinity",
        "amount": "12345678901234567890.1234",
        "hour": "2013-01-01T05:00:00+00:00",
        "local_hour": "2013-01-01T05:00:00",
        "day": "2013-01-02",
        "raw": "00ff",
        "several": [1, 2],
        "pair": {"a": 1, "b": "x"},
        "long_text": f"{'z' * 500}… (2000 characters)",
    }
    assert kept[columns.index("hour")]["unexpected_rows"] == [{"carrier": "AA", "hour": "2013-01-01T05:00:00+00:00"}]


def test_the_same_rows_get_the_same_verdict(carriers: DataFrame, judge: Judge) -> None:
    strict = suite(
        "carriers",
        expect("column_values_to_be_between", column="minutes", min_value=0),
        expect("column_values_to_be_in_set", column="carrier", value_set=["C01"]),
        expect("column_distinct_values_to_be_in_set", column="minutes", value_set=[1]),
        expect("column_values_to_be_between", column="minutes", min_value=0),
    )
    first, second = judge(carriers, strict), judge(carriers, strict)
    assert len(first.results) == 4
    assert first == second


def test_a_dataframe_of_no_rows_is_judged(spark: SparkSession, judge: Judge) -> None:
    empty = spark.sql("select 'AA' as carrier where false")
    verdict = judge(
        empty,
        suite(
            "rows",
            expect("column_values_to_not_be_null", column="carrier"),
            expect("table_row_count_to_be_between", min_value=1),
        ),
    )
    assert [result["success"] for result in verdict.results] == [True, False]


def test_what_is_observed_of_a_column_without_a_value_is_said(spark: SparkSession, judge: Judge) -> None:
    rows = spark.sql("select 'AA' as carrier, cast(null as double) as minutes from range(3)")
    given = {"column": "minutes", "min_value": 0, "max_value": 10}
    whole = [expect(f"column_{what}_to_be_between", **given) for what in ("max", "min", "mean", "sum", "stdev")]
    verdict = judge(rows, suite("empty", *whole))
    said = [str(each).partition(": ")[2] for each in failed_expectations([verdict])]
    assert said == [
        f"column_{what}_to_be_between on minutes: observed no value: the column is null in every row"
        for what in ("max", "min", "mean", "sum", "stdev")
    ]


HELD = expect("column_values_to_be_between", column="flights", min_value=0, on_failure="hold", hold_for="1 h")


def test_rows_that_fail_a_rule_that_holds_are_known_by_key_and_value(spark: SparkSession, judge: Judge) -> None:
    def failing(rows: str, rule: Expectation = HELD, kind: str = "state") -> list[str]:
        (result,) = judge(spark.sql(rows), suite("held", rule), kind).results
        return result.get("failing", [])

    one = failing("select 'a' as carrier, -1 as flights")
    assert len(one) == 1
    both = failing("select * from values ('b', -1), ('a', -1), ('c', 5) as t(carrier, flights)")
    assert set(one) < set(both)
    assert len(both) == 2
    assert set(one).isdisjoint(failing("select 'a' as carrier, -2 as flights"))
    twice = failing("select * from values ('a', -1), ('a', -1) as t(carrier, flights)")
    assert set(one) < set(twice), "one more equal row is new"
    assert failing("select 'a' as carrier, 1 as flights") == []


def test_failing_rows_are_known_up_to_a_bound_and_only_where_all_rows_are_judged_each_time(
    spark: SparkSession, judge: Judge
) -> None:
    def rows(number: int) -> DataFrame:
        return spark.range(1, number + 1).selectExpr("string(id) as carrier", "-id as flights")

    (most,) = judge(rows(MOST_ROWS), suite("held", HELD), "state").results
    assert len(set(most["failing"])) == MOST_ROWS
    assert (len(most["unexpected_samples"]), len(most["unexpected_rows"])) == (20, 20)
    (more,) = judge(rows(MOST_ROWS + 1), suite("held", HELD), "state").results
    assert "failing" not in more
    (appended,) = judge(rows(1), suite("held", HELD)).results
    assert "failing" not in appended, "rows of a table that is appended to are new each time"
    aborts = expect("column_values_to_be_between", column="flights", min_value=0)
    (result,) = judge(rows(1), suite("aborts", aborts), "state").results
    assert "failing" not in result


def test_a_rule_about_a_whole_column_fails_by_what_was_observed(spark: SparkSession, judge: Judge) -> None:
    largest = expect("column_max_to_be_between", column="flights", max_value=5, on_failure="hold", hold_for="1 h")
    found = [
        judge(spark.sql(f"select 'a' as carrier, {value} as flights"), suite("held", largest), "state").results
        for value in (7, 7, 8)
    ]
    found = [result["failing"] for (result,) in found]
    assert found[0] == found[1] != found[2]
