"""Which windows rows belong to, as Spark SQL.

All times are microseconds since 1970 in UTC, the session's time zone: a timestamp without zone counts as one in UTC, a
date as its midnight.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StructType, TimestampNTZType, TimestampType

from tidegate.pipeline.windows import BOUNDS, WINDOW_END, WINDOW_START, Window
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.spark.driver.hashing import quoted

_START = "_window_start"


def with_windows(where: str, window: Window, frame: DataFrame, columns: Sequence[str], closed: int | None) -> DataFrame:
    """Each row, with `columns` and the bounds of a window, once for every window of its own that is still open; once,
    without bounds, if there is none: it is late, or has no event time. `closed` is the watermark before these rows.

    Raises `PipelineDefinitionError`, which says `where`, if the window's column says no time.
    """
    require_time(where, window, frame.schema)
    inputs = [F.col(quoted(name)) for name in columns if name not in BOUNDS]
    if window.overlapping == 1:
        start = _last_start(window)
        placed = frame.select(*inputs, F.when(_is_open(window, start, closed), start).alias(_START))
    else:
        placed = frame.select(*inputs, F.explode_outer(_open_starts(window, closed)).alias(_START))
    start = F.col(_START)
    bounds = F.timestamp_micros(start).alias(WINDOW_START), F.timestamp_micros(start + window.size_micros)
    return placed.select(*inputs, bounds[0], bounds[1].alias(WINDOW_END))


def late_rows(where: str, window: Window, frame: DataFrame, closed: int | None) -> DataFrame:
    """The rows that have no open window, as they are."""
    require_time(where, window, frame.schema)
    if window.overlapping == 1:
        is_open = _is_open(window, _last_start(window), closed)
        return frame.where(~F.coalesce(is_open, F.lit(False)))
    return frame.where(F.coalesce(F.size(_open_starts(window, closed)), F.lit(0)) <= 0)


def require_time(where: str, window: Window, columns: StructType) -> None:
    """Raise `PipelineDefinitionError` if a window's column is not there, or says no time."""
    types = {field.name: field.dataType for field in columns.fields}
    if window.column not in types:
        raise PipelineDefinitionError(
            f"The {where} has windows of {window.column!r}, and its input has only {', '.join(types)}. Correct the "
            "name, or add the column in a transform in front of it."
        )
    if not isinstance(types[window.column], TimestampType | TimestampNTZType | DateType):
        raise PipelineDefinitionError(
            f"The {where} has windows of {window.column!r}, which is {types[window.column].simpleString()}. It must be "
            "a timestamp or a date: convert it in a transform in front of it."
        )


def micros(column: str) -> Column:
    return F.unix_micros(F.col(quoted(column)).cast("timestamp"))


def _last_start(window: Window) -> Column:
    """Of the windows that a row belongs to, the start of the last one."""
    at = micros(window.column)
    return at - F.pmod(at, F.lit(window.slide_micros))


def _is_open(window: Window, start: Column, closed: int | None) -> Column:
    ends = start + F.lit(window.size_micros)
    is_real = ends > micros(window.column)
    return is_real if closed is None else is_real & (ends > F.lit(closed))


def _open_starts(window: Window, closed: int | None) -> Column:
    last = _last_start(window)
    earlier = F.sequence(F.lit(0).cast("bigint"), F.lit(window.overlapping - 1).cast("bigint"))
    starts = F.transform(earlier, lambda back: last - back * F.lit(window.slide_micros))
    return F.filter(starts, lambda start: _is_open(window, start, closed))
