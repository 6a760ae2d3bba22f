"""Declared aggregates: what a keyed operator keeps per key without a line of user code.

These are declarations only; `tidegate.state` merges them, vectorised, inside each subtask.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.schema.state_schema import StateAggregate

#: The most values that one key may hold in a list of its state: a row of state is rewritten as a whole.
MOST_VALUES = 1_000_000

#: The function of what counts how often a window has been emitted. Nobody declares it.
VERSION = "version"

#: Options that say what is shown of a state, or when it is refused: they may change, and the state stays as it is.
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


def approx_count_distinct(column: str, *, rsd: float = 0.05) -> Aggregate:
    """Count the distinct non-null values approximately, in a HyperLogLog sketch. The count does not depend on the order
    of rows, and is exact or nearly so for few values. The type is bigint. Needs the extra `sketches`.

    Args:
        column: The column.
        rsd: The relative standard deviation. A key keeps some (1 / rsd)² bytes at most.

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
    """Keep percentiles of the non-null numbers approximately, in a KLL sketch, as double, or as an array of doubles if
    several are named. NaN does not count. Needs the extra `sketches`.

    Args:
        column: The column.
        percentage: From 0 to 1, such as 0.99, or several.
        k: How exact it is: the rank of the value is right within 1.33 % for 200, and about half of that for twice as
            much. A key keeps some 24 · k bytes at most.

    Returns:
        An aggregate for `KeyedStream.aggregate`.

    Raises:
        PipelineDefinitionError: If a percentage is not between 0 and 1, or `k` not between 8 and 65,535.
    """
    several = isinstance(percentage, Sequence) and not isinstance(percentage, str)
    wanted: Any = percentage if several else [percentage]
    if not wanted or not all(isinstance(each, int | float) and 0 <= each <= 1 for each in wanted):
        raise PipelineDefinitionError(
            f"approx_percentile({column!r}, …) has percentage={percentage!r}. Give a number from 0 to 1, such as 0.99, "
            "or several in a list."
        )
    _whole(f"approx_percentile({column!r}, …)", "k", k, 8, 65_535)
    asked = tuple(map(float, wanted)) if several else float(wanted[0])
    name = "approx_percentiles" if several else "approx_percentile"
    return Aggregate(name, column, options=(("percentage", asked), ("k", k)))


def approx_top_k(column: str, k: int = 5, *, max_items_tracked: int = 1_000) -> Aggregate:
    """Keep the most frequent non-null values with their counts, in a frequent-items sketch: an array of
    `struct<item string, count bigint>`, the most frequent first, and equal counts by item. Values other than strings
    are shown as text. Needs the extra `sketches`.

    Args:
        column: The column.
        k: How many are shown.
        max_items_tracked: How many values a key counts at least. Up to so many distinct ones, all is exact. Beyond
            that a count may be too large by the number of the key's rows divided by a third of it.

    Returns:
        An aggregate for `KeyedStream.aggregate`.

    Raises:
        PipelineDefinitionError: If `max_items_tracked` is not between 1 and 1,000,000, or `k` larger.
    """
    where = f"approx_top_k({column!r}, …)"
    _whole(where, "max_items_tracked", max_items_tracked, 1, MOST_VALUES)
    _whole(where, "k", k, 1, max_items_tracked)
    return Aggregate("approx_top_k", column, options=(("k", k), ("max_items_tracked", max_items_tracked)))


def _whole(where: str, what: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise PipelineDefinitionError(f"{where} has {what}={value!r}. It is a whole number from {least} to {most:,}.")


def _limit(function: str, column: str, limit: int) -> int:
    _whole(f"{function}({column!r}, …)", "limit", limit, 1, MOST_VALUES)
    return limit
