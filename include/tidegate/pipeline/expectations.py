"""Expectations of staged data, declared without importing Great Expectations because DAG files are parsed often.

An `Expectation` has Great Expectations' own JSON form, so it can name any expectation, also custom ones.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.text.durations import duration

#: The maximum number of characters of a suite's name. It is part of an index, whose entries are bounded.
LONGEST_NAME = 200
LONGEST_HOLD = timedelta(days=365)
_NAMING = ("column", "column_A", "column_B", "column_list")


@dataclass(frozen=True, slots=True)
class Expectation:
    """`type` is Great Expectations' snake_case name, such as `expect_column_values_to_not_be_null`.

    `hold_for` is how long a failure waits for manual approval; None if it aborts the checkpoint.
    """

    type: str
    kwargs: tuple[tuple[str, Any], ...] = ()
    hold_for: timedelta | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns in the arguments that Great Expectations' own expectations use for names of columns."""
        given = [value for name, value in self.kwargs if name in _NAMING]
        named = [name for value in given for name in (value if isinstance(value, list | tuple) else [value])]
        return tuple(name for name in named if isinstance(name, str))


@dataclass(frozen=True, slots=True)
class ExpectationSuite:
    """A named, non-empty list of expectations."""

    name: str
    expectations: tuple[Expectation, ...]

    @property
    def hold_rules(self) -> tuple[timedelta | None, ...]:
        return tuple(expectation.hold_for for expectation in self.expectations)


def expect(
    type_: str,
    *,
    on_failure: Literal["abort", "hold"] = "abort",
    hold_for: str | timedelta | None = None,
    **kwargs: Any,
) -> Expectation:
    """Declare an expectation of Great Expectations, built-in or your own.

    Args:
        type_: The name in snake_case. The prefix `expect_` may be left out.
        on_failure: `"abort"`, or `"hold"` to let the checkpoint wait for manual approval.
        hold_for: How long it waits, such as `"2 h"`, before it is aborted. Required with `"hold"`, otherwise not
            allowed.
        **kwargs: The arguments of the expectation.

    Returns:
        An expectation for `suite`.

    Raises:
        PipelineDefinitionError: If `on_failure` is unknown, if `hold_for` does not match it, or if `hold_for` is not a
            duration of at most 365 days.

    Example:
        ```python
        from tidegate import expect

        expect("column_values_to_be_between", column="minutes", min_value=0)
        expect("table_row_count_to_be_between", min_value=1, on_failure="hold", hold_for="2 h")
        ```
    """
    name = type_ if type_.startswith("expect_") else f"expect_{type_}"
    return Expectation(name, tuple(kwargs.items()), _hold_for(name, on_failure, hold_for))


def _hold_for(name: str, on_failure: str, given: str | timedelta | None) -> timedelta | None:
    if on_failure not in ("abort", "hold"):
        raise PipelineDefinitionError(f"on_failure of {name} is {on_failure!r}, but must be 'abort' or 'hold'.")
    if (on_failure == "hold") != (given is not None):
        raise PipelineDefinitionError(
            f"{name} has on_failure={on_failure!r} and hold_for={given!r}. A rule that holds needs the time that it "
            "waits for manual approval, such as on_failure='hold', hold_for='2 h'; a rule that aborts takes none."
        )
    if given is None:
        return None
    hold_for = duration(given)
    if not timedelta(0) < hold_for <= LONGEST_HOLD:
        raise PipelineDefinitionError(
            f"{name} has hold_for={given!r}, but must be longer than 0 s and at most {LONGEST_HOLD.days} days."
        )
    return hold_for


def suite(name: str, *expectations: Expectation) -> ExpectationSuite:
    """Name a list of expectations for a sink, an operator or a check.

    Args:
        name: The name of the suite in reports, 1 to 200 printable characters.
        *expectations: The expectations, from `expect`.

    Returns:
        The suite.

    Raises:
        PipelineDefinitionError: If there are no expectations, because that suite would pass anything, if an argument
            is not an expectation, or if the name cannot be recorded.
    """
    if not expectations:
        raise PipelineDefinitionError(f"Expectation suite {name!r} is empty and would pass anything. Add an expect(…).")
    if others := [item for item in expectations if not isinstance(item, Expectation)]:
        raise PipelineDefinitionError(
            f"Expectation suite {name!r} has something of type {type(others[0]).__name__}, but takes results of "
            "expect(…)."
        )
    if not name.isprintable() or not 1 <= len(name) <= LONGEST_NAME:
        raise PipelineDefinitionError(
            f"{name[:100]!a} cannot name an expectation suite: a name has 1 to {LONGEST_NAME} printable characters."
        )
    return ExpectationSuite(name, expectations)


def require_suite(given: object, what: str) -> None:
    """Raise `PipelineDefinitionError` if `expect` is given, but not a suite."""
    if given is not None and not isinstance(given, ExpectationSuite):
        raise PipelineDefinitionError(
            f"expect= of {what} is of type {type(given).__name__}, but takes a suite: "
            'expect=suite("plausible", expect(…), …).'
        )
