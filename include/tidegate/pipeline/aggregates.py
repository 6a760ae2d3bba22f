"""Declared aggregates: what a keyed operator keeps per key without a line of user code.

These are declarations only; `tidegate.state` merges them, vectorised, inside each subtask.
"""

from dataclasses import dataclass, field
from typing import Any

from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.schema.state_schema import StateAggregate

#: The most values that one key may hold in a list of its state: a row of state is rewritten as a whole.
MOST_VALUES = 1_000_000

#: Options that say what is shown of a state, or when it is refused: they may change, and the state stays as it is.
_CHANGEABLE = {"count_distinct": ("limit",)}


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`function` over `column`; for `min_by` and `max_by`, the value of `column` where `ordering` is extreme.

    `options` are what else it is declared with. They are no part of its text where there are none, so that aggregates
    without options are recorded as ever.
    """

    function: str
    column: str | None = None
    ordering: str | None = None
    options: tuple[tuple[str, Any], ...] = field(default=(), repr=False)

    def option(self, name: str) -> Any:
        return dict(self.options)[name]

    def in_state(self, name: str) -> StateAggregate:
        """What is recorded of the aggregate called `name`."""
        parts = self.accumulators(name)
        changeable = _CHANGEABLE.get(self.function, ())
        return StateAggregate(name, self.function, self.column, self.ordering, parts, self.options, changeable)

    def columns(self) -> tuple[str, ...]:
        """The input columns it reads."""
        return tuple(name for name in (self.column, self.ordering) if name is not None)

    def accumulators(self, name: str) -> tuple[str, ...]:
        """The columns of state that hold what the aggregate called `name` needs."""
        if self.function == "avg":
            return f"_sum_{name}", f"_count_{name}"
        if self.function == "count_distinct":
            return (f"_values_{name}",)
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


def first(column: str, by: str) -> Aggregate:
    """Keep the value of a column in the earliest row: `min_by(column, by)` under the name that it has for events.

    Of rows with the same `by`, the smallest value counts, null first, in whatever order they arrive.

    Args:
        column: The column whose value is kept. It may be null.
        by: The column with the event time. Rows without it do not count.

    Returns:
        An aggregate for `KeyedStream.aggregate`.
    """
    return min_by(column, by)


def last(column: str, by: str) -> Aggregate:
    """Keep the value of a column in the latest row: `max_by(column, by)` under the name that it has for events.

    Of rows with the same `by`, the smallest value counts, null first, in whatever order they arrive.

    Args:
        column: The column whose value is kept. It may be null.
        by: The column with the event time. Rows without it do not count.

    Returns:
        An aggregate for `KeyedStream.aggregate`.
    """
    return max_by(column, by)


def count_distinct(column: str, *, limit: int = 10_000) -> Aggregate:
    """Count the distinct non-null values exactly. NaN is one value, and -0.0 is 0.0, as in Spark.

    The state holds the values of each key, and a key that gets rows is written with all of them.

    Args:
        column: The column.
        limit: The most values that a key may have. A checkpoint that would exceed it is declined.

    Returns:
        An aggregate for `KeyedStream.aggregate`.

    Raises:
        PipelineDefinitionError: If `limit` is not between 1 and 1,000,000.
    """
    return Aggregate("count_distinct", column, options=(("limit", _limit("count_distinct", column, limit)),))


def collect_list(column: str, *, limit: int, by: str | None = None) -> Aggregate:
    """Keep the non-null values of a key as an array, in ascending order: at most `limit`, the smallest ones.

    Args:
        column: The column.
        limit: How many values a key keeps.
        by: A column with the event time. The values are in its order then, those with the same time in ascending order,
            and the earliest are kept. Rows without it do not count.

    Returns:
        An aggregate for `KeyedStream.aggregate`.

    Raises:
        PipelineDefinitionError: If `limit` is not between 1 and 1,000,000.
    """
    return Aggregate("collect_list", column, by, (("limit", _limit("collect_list", column, limit)),))


def _limit(function: str, column: str, limit: object) -> int:
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST_VALUES:
        raise PipelineDefinitionError(
            f"{function}({column!r}, …) has limit={limit!r}. It is the most values that a key may hold: a whole number "
            f"from 1 to {MOST_VALUES:,}."
        )
    return limit
