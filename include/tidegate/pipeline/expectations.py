"""What staged data must satisfy, declared without importing Great Expectations (DAG files are parsed often).

An `Expectation` is Great Expectations' own JSON form, so any of its expectations can be named, also custom ones.
"""

from dataclasses import dataclass
from typing import Any

from tidegate.protocol.errors import PipelineDefinitionError

#: Characters of a suite's name: it is part of an index, whose entries are bounded.
LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Expectation:
    """`type` is Great Expectations' snake_case name, such as `expect_column_values_to_not_be_null`."""

    type: str
    kwargs: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class ExpectationSuite:
    """A named, non-empty list of expectations."""

    name: str
    expectations: tuple[Expectation, ...]


def expect(type_: str, **kwargs: Any) -> Expectation:
    """`expect("column_values_to_be_between", column="minutes", min_value=0)`; the `expect_` prefix may be left out."""
    return Expectation(type_ if type_.startswith("expect_") else f"expect_{type_}", tuple(kwargs.items()))


def suite(name: str, *expectations: Expectation) -> ExpectationSuite:
    """A suite. Raises `PipelineDefinitionError` if it is empty, because it would pass anything, or if the name cannot
    be recorded."""
    if not expectations:
        raise PipelineDefinitionError(f"Expectation suite {name!r} is empty and would pass anything. Add an expect(…).")
    if not name.isprintable() or not 1 <= len(name) <= LONGEST_NAME:
        raise PipelineDefinitionError(
            f"{name[:100]!a} cannot name an expectation suite: a name has 1 to {LONGEST_NAME} printable characters."
        )
    return ExpectationSuite(name, expectations)
