"""The windows that rows belong to, as Spark SQL.

All times are microseconds since 1970 in UTC, the session's time zone: a timestamp without zone counts as one in UTC, a
date as its midnight.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StructType, TimestampNTZType, TimestampType

from tidegate.pipeline.calendar_windows import CalendarWindow
from tidegate.pipeline.session_windows import SessionWindow
from tidegate.pipeline.windows import FixedWindow, Window
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.schema.state_schema import BOUNDS
from tidegate.spark.driver.calendars import END as _END
from tidegate.spark.driver.calendars import START as _START
from tidegate.spark.driver.calendars import calendar_bounds, calendar_windows
from tidegate.spark.driver.hashing import quoted
from tidegate.state.sessions import OPEN, ROW

_AT, _WINDOW = "_at", "_window"


def with_windows(where: str, window: Window, frame: DataFrame, columns: Sequence[str], gone: int | None) -> DataFrame:
    """Return each row, with `columns` and the bounds of a window, once for every window of its own that is still open.
    A row without an open window, which is late or has no event time, is returned once without bounds. Windows up to
    `gone` are no longer open.

    Raise `PipelineDefinitionError`, in which `where` names the operator, if the window's column is not a time.
    """
    require_time(where, window, frame.schema)
    inputs = [name for name in columns if name not in BOUNDS]
    placed = _placed(window, frame, inputs, gone)
    bounds = (F.timestamp_micros(F.col(of)).alias(name) for of, name in zip((_START, _END), BOUNDS, strict=True))
    return placed.select(*map(_column, inputs), *bounds)


def _placed(window: Window, frame: DataFrame, inputs: Sequence[str], gone: int | None) -> DataFrame:
    """Return the rows with the bounds in microseconds."""
    if window.overlapping == 1:
        placed = _with_bounds(window, frame)
        is_open = _is_open(gone)
        return placed.select(*map(_column, inputs), *(F.when(is_open, F.col(of)).alias(of) for of in (_START, _END)))
    opened = F.explode_outer(_open_windows(window, gone)).alias(_WINDOW)
    placed = frame.select(*map(_column, inputs), opened)
    return placed.select(*map(_column, inputs), *(F.col(_WINDOW)[of].alias(of) for of in (_START, _END)))


def late_rows(where: str, window: Window, frame: DataFrame, gone: int | None) -> DataFrame:
    """Return the rows that have no open window, unchanged."""
    require_time(where, window, frame.schema)
    if window.overlapping == 1:
        late = _with_bounds(window, frame).where(~F.coalesce(_is_open(gone), F.lit(False)))
        return late.select(*map(_column, frame.columns))
    return frame.where(F.coalesce(F.size(_open_windows(window, gone)), F.lit(0)) <= 0)


def with_sessions(
    where: str, window: SessionWindow, frame: DataFrame, columns: Sequence[str], gone: int | None, late: bool
) -> DataFrame:
    """Return each row, with `columns`, the bounds of a session of its own, and whether that is open. Only together with
    other rows of its key is it known whether a row is late. If it may be, and `late` rows are read, the whole row is
    included as well.

    Raise as `with_windows` does.
    """
    require_time(where, window, frame.schema)
    at = frame.withColumn(_AT, micros(window.column))
    end = F.col(_AT) + F.lit(window.gap_micros)
    is_open = F.col(_AT).isNotNull() if gone is None else F.coalesce(end > F.lit(gone), F.lit(False))
    bounds = (F.timestamp_micros(of).alias(name) for of, name in zip((F.col(_AT), end), BOUNDS, strict=True))
    whole = [F.when(~is_open, F.struct(*map(_column, frame.columns))).alias(ROW)] if late else []
    inputs = [name for name in columns if name not in BOUNDS]
    return at.select(*map(_column, inputs), *bounds, is_open.alias(OPEN), *whole)


def require_time(where: str, window: Window, columns: StructType) -> None:
    """Raise `PipelineDefinitionError` if a window's column is missing, or is not a time."""
    types = {field.name: field.dataType for field in columns.fields}
    if window.column not in types:
        raise PipelineDefinitionError(
            f"The {where} has windows of {window.column!r}, but its input has only {', '.join(types)}. Correct the "
            "name, or add the column in a transform in front of it."
        )
    if not isinstance(types[window.column], TimestampType | TimestampNTZType | DateType):
        raise PipelineDefinitionError(
            f"The {where} has windows of {window.column!r}, which is {types[window.column].simpleString()}. It must be "
            "a timestamp or a date: convert it in a transform in front of it."
        )


def micros(column: str) -> Column:
    return F.unix_micros(F.col(quoted(column)).cast("timestamp"))


def _column(name: str) -> Column:
    return F.col(quoted(name))


def _with_bounds(window: Window, frame: DataFrame) -> DataFrame:
    """Return each row with its only window, in microseconds."""
    at = frame.withColumn(_AT, micros(window.column))
    if isinstance(window, CalendarWindow):
        placed = at.withColumn(_WINDOW, calendar_bounds(window, F.col(_AT)))
        return placed.withColumn(_START, F.col(_WINDOW)[_START]).withColumn(_END, F.col(_WINDOW)[_END])
    assert isinstance(window, FixedWindow)
    start = F.col(_AT) - F.pmod(F.col(_AT), F.lit(window.slide_micros))
    return at.withColumn(_START, start).withColumn(_END, F.col(_START) + F.lit(window.size_micros))


def _is_open(gone: int | None) -> Column:
    is_real = F.col(_END) > F.col(_AT)
    return is_real if gone is None else is_real & (F.col(_END) > F.lit(gone))


def _open_windows(window: Window, gone: int | None) -> Column:
    at = micros(window.column)
    if isinstance(window, CalendarWindow):
        windows = calendar_windows(window, at)
    else:
        assert isinstance(window, FixedWindow)
        windows = _windows(window, at)

    def is_open(one: Column) -> Column:
        is_real = (one[_START] <= at) & (one[_END] > at)
        return is_real if gone is None else is_real & (one[_END] > F.lit(gone))

    return F.filter(windows, is_open)


def _windows(window: FixedWindow, at: Column) -> Column:
    last = at - F.pmod(at, F.lit(window.slide_micros))
    earlier = F.sequence(F.lit(0).cast("bigint"), F.lit(window.overlapping - 1).cast("bigint"))
    starts = F.transform(earlier, lambda back: last - back * F.lit(window.slide_micros))
    return F.transform(starts, lambda at: F.struct(at.alias(_START), (at + F.lit(window.size_micros)).alias(_END)))
