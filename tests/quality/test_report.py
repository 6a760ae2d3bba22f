"""Verdicts as text. Pure: no Great Expectations, no Spark."""

from typing import Any

from tidegate.protocol.names import Target
from tidegate.protocol.records import Verdict
from tidegate.quality.verdict_text import report


def result(**changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "minutes", "min_value": 0},
        "success": False,
        "observed": None,
        "element_count": 40,
        "unexpected_count": 1,
        "unexpected_percent": 2.5,
        "unexpected_samples": [-3],
        "unexpected_rows": [{"carrier": "AA", "minutes": -3}],
        "details": None,
        "error": None,
    }
    return fields | changes


def failed(*results: dict[str, Any]) -> str:
    verdict = Verdict(Target.parse("sink:carriers"), "rules", False, len(results), len(results), results)
    return report([verdict]).split("\n", 1)[1]


def test_a_passed_target_takes_one_line() -> None:
    assert report([Verdict(Target.parse("sink:a"), "rules", True, 3, 0)]) == "sink:a (rules): passed, 3 expectations"


def test_a_target_with_nothing_staged_says_so() -> None:
    assert (
        report([Verdict(Target.parse("sink:a"), "rules", True, 0, 0)]) == "sink:a (rules): passed, nothing was staged"
    )


def test_a_failed_expectation_says_what_was_expected_and_found_and_where() -> None:
    assert failed(result()) == (
        "  minutes: expect_column_values_to_be_between (min_value=0)\n"
        "    1 of 40 rows (2.5 %) not as expected\n"
        "    carrier='AA', minutes=-3"
    )


def test_without_rows_the_values_are_shown() -> None:
    found = failed(result(unexpected_rows=[], unexpected_samples=[-1, -2], unexpected_count=2))
    assert found.endswith("\n    -1, -2")


def test_only_the_first_rows_are_shown_and_the_rest_counted() -> None:
    rows = [{"carrier": str(n)} for n in range(20)]
    lines = failed(result(unexpected_rows=rows, unexpected_count=1_000)).splitlines()
    assert lines[-2:] == ["    carrier='4'", "    and 995 more"]


def test_an_expectation_about_the_whole_table_shows_what_was_observed() -> None:
    whole = result(type="expect_table_row_count_to_be_between", kwargs={"min_value": 5}, unexpected_count=None,
                   unexpected_rows=[], unexpected_samples=[], observed=2)  # fmt: skip
    assert failed(whole) == "  expect_table_row_count_to_be_between (min_value=5)\n    observed 2"


def test_distinct_values_are_counted_without_a_percentage() -> None:
    distinct = result(element_count=None, unexpected_percent=None, unexpected_rows=[], unexpected_samples=["x"])
    assert "\n    1 value not as expected\n    'x'" in failed(distinct)


def test_a_target_that_was_not_judged_says_why() -> None:
    verdict = Verdict(
        Target.parse("state:a"), "rules", None, 0, 0, error="state:a could not be judged: the session is gone."
    )
    assert report([verdict]) == "state:a (rules): not judged\n  state:a could not be judged: the session is gone."


def test_an_expectation_that_was_not_judged_says_why_among_the_others() -> None:
    verdict = Verdict(
        Target.parse("sink:a"), "rules", None, 2, 2, (result(), result(success=None, error="It raised.")), "It raised."
    )
    lines = report([verdict]).splitlines()
    assert lines[0] == "sink:a (rules): not judged, 2 of 2 expectations not met"
    assert lines[-1] == "    It raised."


def test_no_target_at_all_is_said() -> None:
    assert report([]) == "No target has expectations."
