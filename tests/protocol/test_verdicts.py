"""What failed of a validation is said expectation by expectation, with what was found."""

from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.records import Verdict
from tidegate.protocol.steps.verdicts import failed_expectations

RANGE = {
    "type": "expect_column_values_to_be_between", "kwargs": {"column": "amount", "max_value": 9}, "success": False,
    "observed": None, "element_count": 1200, "unexpected_count": 7, "unexpected_samples": [10, 11, 12, 13, 14, 15, 16],
}  # fmt: skip
COUNT = {"type": "expect_table_row_count_to_equal", "kwargs": {"value": 1}, "success": False, "observed": 0}
PAIR = {"type": "custom", "kwargs": {"column_A": "a", "column_B": "b"}, "success": None, "error": "No column a."}
GOOD = {"type": "expect_column_to_exist", "kwargs": {"column": "a"}, "success": True}


def test_each_failed_expectation_has_a_line():
    verdicts = [
        Verdict(Target.parse("sink:out"), "s", False, 3, 2, (RANGE, GOOD, COUNT)),
        Verdict(Target.parse("state:op"), "t", None, 1, 1, (PAIR,), "No column a."),
        Verdict(Target.parse("check:sums"), "u", None, 0, 0, error="Spark was lost."),
        Verdict(Target.parse("check:fine"), "v", True, 1, 0, (GOOD,)),
    ]
    assert [str(each) for each in failed_expectations(verdicts)] == [
        "sink:out: column_values_to_be_between on amount: 7 of 1,200 rows, such as 10, 11, 12, 13, 14",
        "sink:out: table_row_count_to_equal: observed 0",
        "state:op: custom on a, b: observed No column a.",
        "check:sums: not validated: observed Spark was lost.",
    ]
