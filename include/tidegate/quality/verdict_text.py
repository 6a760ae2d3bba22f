"""A set of verdicts as text, for the log of the `validate` task, the command line and error messages.

Pure: uses only what a verdict keeps, without Great Expectations.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tidegate.protocol.records import Verdict

_SHOWN = 5
# Shown elsewhere on the line, or of interest to Great Expectations only.
_UNSAID = ("column", "column_A", "column_B", "column_list", "severity")


def report(verdicts: Iterable[Verdict]) -> str:
    """One line per target, and below it each expectation that was not met or not judged, with samples."""
    lines = [line for verdict in verdicts for line in _verdict(verdict)]
    return "\n".join(lines) if lines else "No target has expectations."


def _verdict(verdict: Verdict) -> list[str]:
    head = f"{verdict.target} ({verdict.suite})"
    if verdict.success is None and not verdict.results:
        return [f"{head}: not judged", f"  {verdict.error or 'no reason was recorded'}"]
    if not verdict.evaluated:
        return [f"{head}: passed, nothing was staged"]
    if verdict.success:
        return [f"{head}: passed, {_count(verdict.evaluated, 'expectation')}"]
    word = "not judged" if verdict.success is None else "failed"
    lines = [f"{head}: {word}, {verdict.failed} of {_count(verdict.evaluated, 'expectation')} not met"]
    return lines + [line for result in verdict.results if result["success"] is not True for line in _result(result)]


def _result(result: Mapping[str, Any]) -> list[str]:
    if result["success"] is None:
        return [f"  {_expected(result)}", f"    {result['error']}"]
    return [f"  {_expected(result)}", f"    {_found(result)}", *(f"    {row}" for row in _samples(result))]


def _expected(result: Mapping[str, Any]) -> str:
    """`minutes: expect_column_values_to_be_between (min_value=0)`."""
    kwargs = result["kwargs"]
    columns = [kwargs[name] for name in _UNSAID[:3] if name in kwargs] or list(kwargs.get("column_list", ()))
    on = f"{', '.join(columns)}: " if columns else ""
    said = ", ".join(f"{name}={value!r}" for name, value in kwargs.items() if name not in _UNSAID)
    return f"{on}{result['type']}{f' ({said})' if said else ''}"


def _found(result: Mapping[str, Any]) -> str:
    if result["unexpected_count"] is None:
        details = f", {result['details']}" if result["details"] else ""
        return f"observed {result['observed']!r}{details}"
    if result["element_count"] is None:
        return f"{_count(result['unexpected_count'], 'value')} not as expected"
    percent = result["unexpected_percent"]
    share = f" ({percent:.3g} %)" if isinstance(percent, int | float) else ""
    return f"{result['unexpected_count']} of {_count(result['element_count'], 'row')}{share} not as expected"


def _samples(result: Mapping[str, Any]) -> list[str]:
    rows = [", ".join(f"{name}={value!r}" for name, value in row.items()) for row in result["unexpected_rows"]]
    if not rows and result["unexpected_samples"]:
        rows = [", ".join(repr(value) for value in result["unexpected_samples"][:_SHOWN])]
    more = (result["unexpected_count"] or 0) - _SHOWN
    return rows[:_SHOWN] + ([f"and {more} more"] if len(rows) > _SHOWN and more > 0 else [])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
