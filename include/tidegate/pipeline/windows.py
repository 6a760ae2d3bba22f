"""Windows in event time, and the event-time column of a source. Declarations, without Spark."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, runtime_checkable

from tidegate.pipeline.calendar_windows import calendar_window, described, is_of_months, is_of_weeks, span
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.schema.ddl import columns_of
from tidegate.protocol.schema.state_schema import BOUNDS
from tidegate.protocol.text.durations import duration, written

WINDOW_START, WINDOW_END = BOUNDS

_MICROSECOND = timedelta(microseconds=1)
_TIMES = ("timestamp", "timestamp_ltz", "timestamp_ntz", "date")
#: How far ahead of the clock an event time may be by default. Local time mistaken for UTC is up to 14 hours ahead.
MAX_AHEAD = timedelta(days=1)
#: The maximum number of windows of one row. Each is a row of state.
_MOST_WINDOWS = 1000


@dataclass(frozen=True, slots=True)
class EventTime:
    """The event-time column of a source. `delay` bounds how much later than others a row may arrive. `max_ahead` bounds
    how far ahead of the clock an event time may be; None allows any time."""

    column: str
    delay: timedelta
    max_ahead: timedelta | None = MAX_AHEAD

    @property
    def delay_micros(self) -> int:
        return self.delay // _MICROSECOND


@runtime_checkable
class Window(Protocol):
    """Windows over the time in a column. Created by `window` and `session_window`."""

    @property
    def column(self) -> str:
        """The column with the event time."""
        ...

    @property
    def overlapping(self) -> int:
        """The maximum number of windows that a row belongs to."""
        ...

    def has_end_in(self, after: int | None, until: int | None) -> bool:
        """Return whether a window ends after the first watermark and not after the second, in microseconds since
        1970."""
        ...

    def __str__(self) -> str:
        """Return the text for readers of `_metadata`. A window with another text has been changed."""
        ...


@dataclass(frozen=True, slots=True)
class FixedWindow:
    """Windows of one size, one beginning every `slide`, counted from 1970-01-01 00:00 UTC."""

    column: str
    size: timedelta
    slide: timedelta

    @property
    def size_micros(self) -> int:
        return self.size // _MICROSECOND

    @property
    def slide_micros(self) -> int:
        return self.slide // _MICROSECOND

    @property
    def overlapping(self) -> int:
        """The maximum number of windows that a row belongs to."""
        return -(-self.size // self.slide)

    def has_end_in(self, after: int | None, until: int | None) -> bool:
        """Return whether a window ends after the first watermark and not after the second."""
        if until is None or after is None:
            return until is not None
        return (until - self.size_micros) // self.slide_micros > (after - self.size_micros) // self.slide_micros

    def __str__(self) -> str:
        return described(self.column, written(self.size), written(self.slide))


def window(
    column: str, size: str | timedelta, slide: str | timedelta | None = None, *, time_zone: str | None = None
) -> Window:
    """Divide time into windows for `KeyedStream.aggregate`, consecutive or overlapping ones.

    Args:
        column: The column with the event time.
        size: How long a window lasts, such as `"1 hour"`, `"1 day"` or `"1 month"`.
        slide: The time from the beginning of one window to the next. By default `size`, so that windows do not overlap.
        time_zone: The zone whose clock sets the bounds, such as `"Europe/Berlin"`: days begin at midnight there, weeks
            on Mondays, months on their first day. By default windows are counted from 1970-01-01 00:00 UTC, and months
            are those of UTC.

    Returns:
        The windows.

    Raises:
        PipelineDefinitionError: If a duration cannot be read, if `slide` is longer than `size`, if a row would belong
            to more than 1,000 windows, if the zone is unknown, or if `size` and `slide` do not divide its days.

    Example:
        ```python
        from tidegate import window

        window("at", "1 hour")
        window("at", "1 hour", slide="15 min")
        window("at", "1 day", time_zone="Europe/Berlin")
        ```
    """
    every = size if slide is None else slide
    if time_zone is not None or is_of_months(size) or is_of_months(every):
        zone = "UTC" if time_zone is None else time_zone
        made: Window = calendar_window(column, span(size), span(every), zone)
    else:
        made = _fixed(column, size, slide)
    if made.overlapping > _MOST_WINDOWS:
        raise PipelineDefinitionError(
            f"window({column!r}, …) has size={size!r} and slide={slide!r}, so a row would belong to {made.overlapping} "
            f"windows, each of which keeps a row of state. At most {_MOST_WINDOWS} may overlap: let them slide further."
        )
    return made


def _fixed(column: str, size: str | timedelta, slide: str | timedelta | None) -> FixedWindow:
    if weeks := [length for length in (size, slide) if is_of_weeks(length)]:
        raise PipelineDefinitionError(
            f"window({column!r}, …) has {weeks[0]!r} and no time_zone. Weeks begin on Mondays by the clock of a zone: "
            "add time_zone='UTC', or another one. Or give days, such as '7 d': those are counted from 1970-01-01, a "
            "Thursday."
        )
    lasting, every = duration(size), duration(size if slide is None else slide)
    if not timedelta(0) < every <= lasting:
        raise PipelineDefinitionError(
            f"window({column!r}, …) has size={size!r} and slide={slide!r}. A window must be longer than 0 s, and "
            "the next one must begin when it ends or earlier: rows between two windows would be lost."
        )
    return FixedWindow(column, lasting, every)


def declared_time(
    source: str, column: str | None, delay: str | timedelta | None, max_ahead: str | timedelta | None
) -> EventTime | None:
    """Return the event time that a source is declared with, None without one. Raise `PipelineDefinitionError`, which
    names the source."""
    if column is None:
        if delay is not None:
            raise PipelineDefinitionError(
                f"The source {source!r} has delay={delay!r} and no event_time. Name the column with the time of the "
                'event, such as event_time="at".'
            )
        return None
    ahead = None if max_ahead is None else duration(max_ahead)
    if ahead is not None and ahead < timedelta(0):
        raise PipelineDefinitionError(f"The source {source!r} has max_ahead={max_ahead!r}, which must not be negative.")
    late = duration("0 s" if delay is None else delay)
    if late < timedelta(0):
        raise PipelineDefinitionError(f"The source {source!r} has delay={delay!r}, which must not be negative.")
    return EventTime(column, late, ahead)


def check_event_time(where: str, declared: EventTime, schema: str) -> None:
    """Raise `PipelineDefinitionError` if a source has no such column, or if the column has no type of time."""
    columns = {name.lower(): type_ for name, type_ in columns_of(schema)}
    if not columns:
        return  # not DDL that can be read here: Spark reports it
    type_ = columns.get(declared.column.lower())
    if type_ is None:
        raise PipelineDefinitionError(
            f"The event_time of {where} is {declared.column!r}, which it does not have. It has {', '.join(columns)}."
        )
    if type_.lower() not in _TIMES:
        raise PipelineDefinitionError(
            f"The event_time of {where} is {declared.column!r}, which is {type_}. It must be a timestamp or a date."
        )


def check_window(where: str, declared: object, key: Sequence[str], read: Sequence[str]) -> None:
    """Raise `PipelineDefinitionError` unless `declared` is a window. `read` are input columns and names of
    aggregates."""
    if not isinstance(declared, Window):
        raise PipelineDefinitionError(
            f"The window of {where} is {declared!r}, which is not a window. Write window('column', '1 hour') or "
            "session_window('column', gap='30 min')."
        )
    if clashes := sorted({*key, *read} & set(BOUNDS)):
        raise PipelineDefinitionError(
            f"The {where} has windows, and their bounds are the columns {' and '.join(BOUNDS)}. Its key or its "
            f"aggregates also name {', '.join(clashes)}. Rename that column in a transform in front of it."
        )
