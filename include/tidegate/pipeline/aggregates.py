"""Declared aggregates: what a keyed operator keeps per key without a line of user code.

These are declarations only; `tidegate.state` merges them, vectorised, inside each subtask.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`function` over `column`; for `min_by` and `max_by`, the value of `column` where `ordering` is extreme."""

    function: str
    column: str | None = None
    ordering: str | None = None

    def columns(self) -> tuple[str, ...]:
        """The input columns it reads."""
        return tuple(name for name in (self.column, self.ordering) if name is not None)

    def accumulators(self, name: str) -> tuple[str, ...]:
        """The columns of state that hold what the aggregate called `name` needs."""
        if self.function == "avg":
            return f"_sum_{name}", f"_count_{name}"
        return (name, f"_by_{name}") if self.ordering is not None else (name,)


def count(column: str | None = None) -> Aggregate:
    """Rows of the key, or with a column those where it is not null. Type: bigint, never null."""
    return Aggregate("count", column)


def sum_(column: str) -> Aggregate:
    """Sum of the non-null values; null while there are none. Integers sum to bigint, floats to double, decimals to
    decimal with ten more digits (at most 38), as in Spark."""
    return Aggregate("sum", column)


def min_(column: str) -> Aggregate:
    """Smallest non-null value; NaN counts as larger than every number, as in Spark."""
    return Aggregate("min", column)


def max_(column: str) -> Aggregate:
    """Largest non-null value; NaN counts as larger than every number, as in Spark."""
    return Aggregate("max", column)


def avg(column: str) -> Aggregate:
    """Mean of the non-null values as double; null while there are none. State holds sum and count."""
    return Aggregate("avg", column)


def min_by(column: str, ordering: str) -> Aggregate:
    """The value of `column` in the row with the smallest non-null `ordering`; the value may be null."""
    return Aggregate("min_by", column, ordering)


def max_by(column: str, ordering: str) -> Aggregate:
    """The value of `column` in the row with the largest non-null `ordering`; the value may be null."""
    return Aggregate("max_by", column, ordering)
