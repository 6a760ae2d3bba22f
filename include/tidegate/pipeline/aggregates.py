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
    """Count the rows of a key. The type is bigint, never null.

    Args:
        column: Count only rows where this column is not null.

    Returns:
        An aggregate for `KeyedStream.aggregate`.
    """
    return Aggregate("count", column)


def sum_(column: str) -> Aggregate:
    """Sum up the non-null values; null while there are none. Integers sum to bigint, floats to double, decimals to
    decimal with ten more digits (at most 38), as in Spark.

    Args:
        column: The column.

    Returns:
        An aggregate for `KeyedStream.aggregate`.
    """
    return Aggregate("sum", column)


def min_(column: str) -> Aggregate:
    """Keep the smallest non-null value. NaN counts as larger than every number, as in Spark.

    Args:
        column: The column.

    Returns:
        An aggregate for `KeyedStream.aggregate`.
    """
    return Aggregate("min", column)


def max_(column: str) -> Aggregate:
    """Keep the largest non-null value. NaN counts as larger than every number, as in Spark.

    Args:
        column: The column.

    Returns:
        An aggregate for `KeyedStream.aggregate`.
    """
    return Aggregate("max", column)


def avg(column: str) -> Aggregate:
    """Keep the mean of the non-null values as double; null while there are none. The state holds sum and count.

    Args:
        column: The column.

    Returns:
        An aggregate for `KeyedStream.aggregate`.
    """
    return Aggregate("avg", column)


def min_by(column: str, ordering: str) -> Aggregate:
    """Keep the value of one column in the row with the smallest non-null value of another. It may be null.

    Args:
        column: The column whose value is kept.
        ordering: The column by which the row is chosen.

    Returns:
        An aggregate for `KeyedStream.aggregate`.
    """
    return Aggregate("min_by", column, ordering)


def max_by(column: str, ordering: str) -> Aggregate:
    """Keep the value of one column in the row with the largest non-null value of another. It may be null.

    Args:
        column: The column whose value is kept.
        ordering: The column by which the row is chosen.

    Returns:
        An aggregate for `KeyedStream.aggregate`.
    """
    return Aggregate("max_by", column, ordering)
