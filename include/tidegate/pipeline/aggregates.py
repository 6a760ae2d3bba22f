"""Declared aggregates, which a keyed operator maintains per key without user code.

These are declarations only. `tidegate.state` merges them, vectorised, inside each subtask.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.schema.state_schema import StateAggregate

#: The maximum number of values in one list of state. A row of state is rewritten as a whole.
MOST_VALUES = 1_000_000

#: The function that counts the emissions of a window. The library adds it; users do not declare it.
VERSION = "version"

#: Options that affect only how state is shown, or when a checkpoint is declined. Changing them leaves the state as it
#: is.
_CHANGEABLE = {
    "count_distinct": ("limit",),
    "approx_percentile": ("percentage",),
    "approx_percentiles": ("percentage",),
    "approx_top_k": ("k",),
}
#: The functions whose state is a sketch.
SKETCHES = ("approx_count_distinct", "approx_percentile", "approx_percentiles", "approx_top_k")


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`function` over `column`; for `min_by` and `max_by`, the value of `column` where `ordering` is extreme.

    `options` holds further arguments of the declaration. They are left out of the text form, so that aggregates without
    options are recorded as in earlier releases.
    """

    function: str
    column: str | None = None
    ordering: str | None = None
    options: tuple[tuple[str, Any], ...] = field(default=(), repr=False)

    def option(self, name: str) -> Any:
        return dict(self.options)[name]

    def in_state(self, name: str) -> StateAggregate:
        """Return the record of the aggregate called `name`."""
        parts = self.accumulators(name)
        changeable = _CHANGEABLE.get(self.function, ())
        return StateAggregate(name, self.function, self.column, self.ordering, parts, self.options, changeable)

    def columns(self) -> tuple[str, ...]:
        """Return the input columns that the aggregate reads."""
        return tuple(name for name in (self.column, self.ordering) if name is not None)

    def accumulators(self, name: str) -> tuple[str, ...]:
        """Return the columns of state that the aggregate called `name` uses."""
        if self.function == "avg":
            return f"_sum_{name}", f"_count_{name}"
        if self.function == "count_distinct":
            return (f"_values_{name}",)
        if self.function in SKETCHES:
            return (f"_sketch_{name}",)
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
    """Sum the non-null values. The sum is null while there are none.

    Integers sum to bigint, floats to double, decimals to decimal with ten more digits (at most 38), as in Spark.

    Args:
        column: The column.

    Returns:
        An aggregate for `KeyedStream.aggregate`.
    """
    return Aggregate("sum", column)


def min_(column: str) -> Aggregate:
    """Keep the smallest non-null value, in the type of the column. NaN counts as larger than every number, as in Spark.

    Args:
        column: The column.

    Returns:
        An aggregate for `KeyedStream.aggregate`.
    """
    return Aggregate("min", column)


def max_(column: str) -> Aggregate:
    """Keep the largest non-null value, in the type of the column. NaN counts as larger than every number, as in Spark.

    Args:
        column: The column.

    Returns:
        An aggregate for `KeyedStream.aggregate`.
    """
    return Aggregate("max", column)


def avg(column: str) -> Aggregate:
    """Keep the mean of the non-null values as double. It is null while there are none. The state holds sum and count.

    Args:
        column: The column.

    Returns:
        An aggregate for `KeyedStream.aggregate`.
    """
    return Aggregate("avg", column)


def min_by(column: str, ordering: str) -> Aggregate:
    """Keep the value of one column from the row with the smallest non-null value of another. The value may be null.

    Args:
        column: The column whose value is kept.
        ordering: The column by which the row is chosen.

    Returns:
        An aggregate for `KeyedStream.aggregate`.
    """
    return Aggregate("min_by", column, ordering)


def max_by(column: str, ordering: str) -> Aggregate:
    """Keep the value of one column from the row with the largest non-null value of another. The value may be null.

    Args:
        column: The column whose value is kept.
        ordering: The column by which the row is chosen.

    Returns:
        An aggregate for `KeyedStream.aggregate`.
    """
    return Aggregate("max_by", column, ordering)


def first(column: str, by: str) -> Aggregate:
    """Keep the value of a column from the earliest row. An alias of `min_by(column, by)` for events.

    Among rows with the same `by`, the smallest value is kept, null first, regardless of the order of arrival.

    Args:
        column: The column whose value is kept. It may be null.
        by: The column with the event time. Rows without it do not count.

    Returns:
        An aggregate for `KeyedStream.aggregate`.
    """
    return min_by(column, by)


def last(column: str, by: str) -> Aggregate:
    """Keep the value of a column from the latest row. An alias of `max_by(column, by)` for events.

    Among rows with the same `by`, the smallest value is kept, null first, regardless of the order of arrival.

    Args:
        column: The column whose value is kept. It may be null.
        by: The column with the event time. Rows without it do not count.

    Returns:
        An aggregate for `KeyedStream.aggregate`.
    """
    return max_by(column, by)


def count_distinct(column: str, *, limit: int = 10_000) -> Aggregate:
    """Count the distinct non-null values exactly, as bigint. NaN is one value, and -0.0 equals 0.0, as in Spark.

    The state holds the values of each key. A key that receives rows is rewritten with all its values.

    Args:
        column: The column.
        limit: The maximum number of values of a key. A checkpoint that would exceed it is declined.

    Returns:
        An aggregate for `KeyedStream.aggregate`.

    Raises:
        PipelineDefinitionError: If `limit` is not between 1 and 1,000,000.
    """
    return Aggregate("count_distinct", column, options=(("limit", _limit("count_distinct", column, limit)),))


def collect_list(column: str, *, limit: int, by: str | None = None) -> Aggregate:
    """Keep the smallest non-null values of a key, at most `limit` of them, as an array in ascending order.

    Args:
        column: The column.
        limit: The maximum number of values that a key keeps.
        by: A column with the event time. If given, the earliest values are kept, in the order of their time and, at the
            same time, in ascending order. Rows without an event time do not count.

    Returns:
        An aggregate for `KeyedStream.aggregate`.

    Raises:
        PipelineDefinitionError: If `limit` is not between 1 and 1,000,000.
    """
    return Aggregate("collect_list", column, by, (("limit", _limit("collect_list", column, limit)),))


def approx_count_distinct(column: str, *, rsd: float = 0.05) -> Aggregate:
    """Count the distinct non-null values approximately, as bigint, in a HyperLogLog sketch.

    The count does not depend on the order of rows, and is exact or nearly exact for few values. Needs the extra
    `sketches`.

    Args:
        column: The column.
        rsd: The relative standard deviation. A key keeps at most about (1 / rsd)² bytes.

    Returns:
        An aggregate for `KeyedStream.aggregate`.

    Raises:
        PipelineDefinitionError: If `rsd` is not between 0.005 and 0.2.
    """
    if not isinstance(rsd, int | float) or not 0.005 <= rsd <= 0.2:
        raise PipelineDefinitionError(
            f"approx_count_distinct({column!r}, …) has rsd={rsd!r}. The relative standard deviation is a number from "
            "0.005 to 0.2. For exact counts there is count_distinct."
        )
    return Aggregate("approx_count_distinct", column, options=(("rsd", float(rsd)),))


def approx_percentile(column: str, percentage: float | Sequence[float], *, k: int = 200) -> Aggregate:
    """Keep percentiles of the non-null numbers approximately, in a KLL sketch. NaN does not count.

    The value is a double, or an array of doubles if `percentage` is a list. Needs the extra `sketches`.

    Args:
        column: The column.
        percentage: A number from 0 to 1, such as 0.99, or a list of them.
        k: The precision. With 200, the rank of the value is within 1.33 %; doubling `k` about halves the error. A key
            keeps at most about 24 · k bytes.

    Returns:
        An aggregate for `KeyedStream.aggregate`.

    Raises:
        PipelineDefinitionError: If a percentage is not between 0 and 1, or `k` not between 8 and 65,535.
    """
    several = isinstance(percentage, Sequence) and not isinstance(percentage, str)
    wanted: Any = percentage if several else [percentage]
    if not wanted or not all(isinstance(number, int | float) and 0 <= number <= 1 for number in wanted):
        raise PipelineDefinitionError(
            f"approx_percentile({column!r}, …) has percentage={percentage!r}. Give a number from 0 to 1, such as 0.99, "
            "or several in a list."
        )
    _whole(f"approx_percentile({column!r}, …)", "k", k, 8, 65_535)
    shown = tuple(map(float, wanted)) if several else float(wanted[0])
    name = "approx_percentiles" if several else "approx_percentile"
    return Aggregate(name, column, options=(("percentage", shown), ("k", k)))


def approx_top_k(column: str, k: int = 5, *, max_items_tracked: int = 1_000) -> Aggregate:
    """Keep the most frequent non-null values with their counts, in a frequent-items sketch.

    The value is an array of `struct<item string, count bigint>`, the most frequent first, equal counts ordered by item.
    Values of other types than string are shown as text. Needs the extra `sketches`.

    Args:
        column: The column.
        k: The number of values shown.
        max_items_tracked: The minimum number of distinct values that a key counts. Counts are exact up to that number.
            Beyond it, a count may be too large by at most the key's rows divided by a third of `max_items_tracked`.

    Returns:
        An aggregate for `KeyedStream.aggregate`.

    Raises:
        PipelineDefinitionError: If `max_items_tracked` is not between 1 and 1,000,000, or `k` exceeds it.
    """
    where = f"approx_top_k({column!r}, …)"
    _whole(where, "max_items_tracked", max_items_tracked, 1, MOST_VALUES)
    _whole(where, "k", k, 1, max_items_tracked)
    return Aggregate("approx_top_k", column, options=(("k", k), ("max_items_tracked", max_items_tracked)))


def _whole(where: str, what: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise PipelineDefinitionError(
            f"{where} has {what}={value!r}. It must be a whole number from {least} to {most:,}."
        )


def _limit(function: str, column: str, limit: int) -> int:
    _whole(f"{function}({column!r}, …)", "limit", limit, 1, MOST_VALUES)
    return limit
