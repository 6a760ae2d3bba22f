"""The stored form of findings: one JSON object for each expectation, with a sentence if it could not be validated.

Keys of the object: `type`, `kwargs`, `success` (None: not validated), `observed` (of expectations about a whole column
or table), `element_count` (rows examined; None if unknown), `unexpected_count`, `unexpected_percent`,
`unexpected_samples` (values), `unexpected_rows` (key columns and values of failing rows), `details`, `error`.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tidegate.protocol.facts.names import Target
from tidegate.protocol.steps.verdicts import FAILING
from tidegate.quality.json_values import json_object, json_value
from tidegate.quality.suite_validation import Finding

#: The observed value of a column without a largest value, sum or mean.
NO_VALUE = "no value: the column is null in every row"

_COLUMN_ARGUMENTS = ("column", "column_A", "column_B", "column_list")


def result_object(
    finding: Finding, target: Target, columns: Collection[str], moments: Collection[str]
) -> dict[str, Any]:
    """Return the JSON object of a finding. `moments` are the columns that Spark collects as local time; they are shown
    in UTC."""
    found, kwargs = finding.found, dict(finding.expectation.kwargs)
    local = bool(moments) and any(column in moments for column in named_columns(kwargs))
    shown = {
        "type": finding.expectation.type,
        "kwargs": json_object(kwargs),
        "success": finding.success,
        "observed": NO_VALUE if _has_no_value(finding) else json_value(found.get("observed_value"), local),
        "element_count": found.get("element_count"),
        "unexpected_count": found.get("unexpected_count"),
        "unexpected_percent": json_value(found.get("unexpected_percent")),
        "unexpected_samples": json_value(found.get("partial_unexpected_list") or [], local),
        "unexpected_rows": [json_object(row, moments) for row in found.get("partial_unexpected_index_list") or []],
        "details": json_value(found.get("details")),
        "error": None if finding.success is not None else why_not_validated(finding, target, columns),
    }
    return shown | ({FAILING: list(finding.failing)} if finding.failing else {})


def _has_no_value(finding: Finding) -> bool:
    """Return whether an expectation about a whole column failed because the column has no value to observe."""
    counted = finding.found.get("unexpected_count") is not None or finding.found.get("details") is not None
    is_of_column = any(named_columns(dict(finding.expectation.kwargs)))
    return finding.success is False and is_of_column and not counted and finding.found.get("observed_value") is None


def why_not_validated(finding: Finding, target: Target, columns: Collection[str]) -> str:
    """Return a sentence that names target, expectation and column. If the column is missing, list the existing ones."""
    kwargs = dict(finding.expectation.kwargs)
    named = list(named_columns(kwargs))
    missing = [column for column in named if column not in columns and column.split(".")[0] not in columns]
    if missing:
        existing = ", ".join(columns) or "none"
        return (
            f"{finding.expectation.type} on {target} names {_quoted(missing)}, which {target} does not have. "
            f"Its columns are: {existing}."
        )
    on = f" of {_quoted(named)}" if named else ""
    return f"{finding.expectation.type}{on} on {target} could not be validated: {finding.message}."


def named_columns(kwargs: Mapping[str, Any]) -> Iterator[str]:
    for argument in _COLUMN_ARGUMENTS:
        match kwargs.get(argument):
            case str() as column:
                yield column
            case list() | tuple() as several:
                yield from several


def _quoted(columns: list[str]) -> str:
    noun = "column" if len(columns) == 1 else "columns"
    return f"{noun} {', '.join(repr(column) for column in columns)}"
