"""What staged data must satisfy, declared without importing Great Expectations (DAG files are parsed often).

An `Expectation` is Great Expectations' own JSON form, so any of its expectations can be named, also custom ones.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.text.durations import duration

#: Characters of a suite's name: it is part of an index, whose entries are bounded.
LONGEST_NAME = 200
LONGEST_HOLD = timedelta(days=365)
_NAMING = ("column", "column_A", "column_B", "column_list")


@dataclass(frozen=True, slots=True)
class Expectation:
    """`type` is Great Expectations' snake_case name, such as `expect_column_values_to_not_be_null`.

    `hold_for`: how long a failure waits for a person; None if it aborts the checkpoint.
    """

    type: str
    kwargs: tuple[tuple[str, Any], ...] = ()
    hold_for: timedelta | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it names, as Great Expectations' own expectations do."""
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
    """Declare an expectation of Great Expectations, one of your own included.

    Args:
        type_: Its name in snake_case. The prefix `expect_` may be left out.
        on_failure: `"abort"`, or `"hold"`: the checkpoint then waits for manual approval.
        hold_for: How long it waits, such as `"2 h"`. After that it is aborted. Needed to hold, and only then.
        **kwargs: The arguments of the expectation.

    Returns:
        An expectation for `suite`.

    Raises:
        PipelineDefinitionError: If `on_failure` and `hold_for` do not fit each other, or one of them is none.

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
            f"{name} has on_failure={on_failure!r} and hold_for={given!r}. A rule that holds says how long it waits "
            "for a person, such as on_failure='hold', hold_for='2 h'; one that aborts does not wait."
        )
    if given is None:
        return None
    hold_for = duration(given)
    if not timedelta(0) < hold_for <= LONGEST_HOLD:
        raise PipelineDefinitionError(
            f"{name} has hold_for={given!r}, but a hold lasts longer than nothing and at most {LONGEST_HOLD.days} days."
        )
    return hold_for


def suite(name: str, *expectations: Expectation) -> ExpectationSuite:
    """Name a list of expectations, to be given to a sink, an operator or a check.

    Args:
        name: The name of the suite in reports.
        *expectations: Made by `expect`.

    Returns:
        The suite.

    Raises:
        PipelineDefinitionError: If it is empty, because it would pass anything, if something else is in it, or if the
            name cannot be recorded.
    """
    if not expectations:
        raise PipelineDefinitionError(f"Expectation suite {name!r} is empty and would pass anything. Add an expect(…).")
    if others := [each for each in expectations if not isinstance(each, Expectation)]:
        raise PipelineDefinitionError(
            f"Expectation suite {name!r} has something of type {type(others[0]).__name__}, but takes what expect(…) "
            "returns."
        )
    if not name.isprintable() or not 1 <= len(name) <= LONGEST_NAME:
        raise PipelineDefinitionError(
            f"{name[:100]!a} cannot name an expectation suite: a name has 1 to {LONGEST_NAME} printable characters."
        )
    return ExpectationSuite(name, expectations)


def require_suite(given: object, what: str) -> None:
    """Raises `PipelineDefinitionError` if something else than a suite is given as `expect`."""
    if given is not None and not isinstance(given, ExpectationSuite):
        raise PipelineDefinitionError(
            f"expect= of {what} is of type {type(given).__name__}, but takes a suite: "
            'expect=suite("plausible", expect(…), …).'
        )
