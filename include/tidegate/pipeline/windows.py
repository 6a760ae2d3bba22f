"""Windows in event time, and the column of a source that says when an event was: declarations. Without Spark."""

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
#: How far ahead of the clock a row's event time may be, unless the source says otherwise: local time that is taken for
#: UTC is up to 14 hours ahead.
MAX_AHEAD = timedelta(days=1)
#: Windows that a row may belong to: each is a row of state.
_MOST_WINDOWS = 1000


@dataclass(frozen=True, slots=True)
class EventTime:
    """The column of a source that says when an event was, how much later than others a row may come, and how far ahead
    of the clock: None, any time."""

    column: str
    delay: timedelta
    max_ahead: timedelta | None = MAX_AHEAD

    @property
    def delay_micros(self) -> int:
        return self.delay // _MICROSECOND


@runtime_checkable
class Window(Protocol):
    """Which windows there are in the time that a column says. Made by `window` and `session_window`."""

    @property
    def column(self) -> str:
        """The column with the event time."""
        ...

    @property
    def overlapping(self) -> int:
        """How many windows a row belongs to, at most."""
        ...

    def has_end_in(self, after: int | None, until: int | None) -> bool:
        """Whether a window ends after the one watermark and not after the other, in microseconds since 1970."""
        ...

    def __str__(self) -> str:
        """For readers of `_metadata`, and to tell a changed window."""
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
        """How many windows a row belongs to, at most."""
        return -(-self.size // self.slide)

    def has_end_in(self, after: int | None, until: int | None) -> bool:
        """Whether a window ends after the one watermark and not after the other."""
        if until is None or after is None:
            return until is not None
        return (until - self.size_micros) // self.slide_micros > (after - self.size_micros) // self.slide_micros

    def __str__(self) -> str:
        return described(self.column, written(self.size), written(self.slide))


def window(
    column: str, size: str | timedelta, slide: str | timedelta | None = None, *, time_zone: str | None = None
) -> Window:
    """Divide time into windows for `KeyedStream.aggregate`, one after the other or overlapping.

    Args:
        column: The column with the event time.
        size: How long a window lasts, such as `"1 hour"`, `"1 day"` or `"1 month"`.
        slide: How long after one window the next begins. By default, when it ends.
        time_zone: The zone by whose clock windows begin, such as `"Europe/Berlin"`: days at midnight there, weeks on
            Mondays, months on their first day. By default windows are counted from 1970-01-01 00:00 UTC, and months are
            those of UTC.

    Returns:
        The windows.

    Raises:
        PipelineDefinitionError: If a duration cannot be read, if `slide` is longer than `size`, if a row would belong
            to more than 1,000 windows, if there is no such zone, or if windows by its clock would not divide its days.

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
    if weeks := [each for each in (size, slide) if is_of_weeks(each)]:
        raise PipelineDefinitionError(
            f"window({column!r}, …) has {weeks[0]!r} and no time_zone. Weeks begin on Mondays by the clock of a zone: "
            "add time_zone='UTC', or another one. Or give days, such as '7 d': those are counted from 1970-01-01, a "
            "Thursday."
        )
    lasting, every = duration(size), duration(size if slide is None else slide)
    if not timedelta(0) < every <= lasting:
        raise PipelineDefinitionError(
            f"window({column!r}, …) has size={size!r} and slide={slide!r}. A window lasts longer than nothing, and the "
            "next one begins at the latest when it ends, or rows between them would be lost."
        )
    return FixedWindow(column, lasting, every)


def declared_time(
    source: str, column: str | None, delay: str | timedelta | None, max_ahead: str | timedelta | None
) -> EventTime | None:
    """What a source is declared with. Raises `PipelineDefinitionError`, which names it."""
    if column is None:
        if delay is not None:
            raise PipelineDefinitionError(
                f"The source {source!r} has delay={delay!r} and no event_time. Name the column that says when an event "
                'was, such as event_time="at".'
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
    """Raise `PipelineDefinitionError` if a source has no such column, or one that says no time."""
    columns = {name.lower(): type_ for name, type_ in columns_of(schema)}
    if not columns:
        return  # not DDL that can be read here: Spark says it
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
    """`read` are the columns that aggregates read, or are called. Raises `PipelineDefinitionError`."""
    if not isinstance(declared, Window):
        raise PipelineDefinitionError(
            f"What {where} is windowed by is {declared!r}, which is no window. Write window('column', '1 hour') or "
            "session_window('column', gap='30 min')."
        )
    if clashes := sorted({*key, *read} & set(BOUNDS)):
        raise PipelineDefinitionError(
            f"The {where} has windows, and their bounds are the columns {' and '.join(BOUNDS)}. Its key or its "
            f"aggregates name {', '.join(clashes)}, too: rename that in a transform in front of it."
        )
