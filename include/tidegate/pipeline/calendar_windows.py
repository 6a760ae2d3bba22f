"""Windows of local hours, days, weeks and months: their declarations, and the instants of their bounds. Without Spark.

A day begins at the first instant that has its date, so some days have 23 hours, and some 25. Times are microseconds.
Local times are those shown by the clock.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidegate.pipeline.time_zones import EPOCH, TimeZone, micros, require_zone, time_zone
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.text.durations import duration, written

_HOUR = 3600 * 1_000_000
_DAY = 24 * _HOUR
#: 1970-01-05, a Monday, from which weeks are counted.
_MONDAY = 4 * _DAY
#: The calendar repeats after 400 years. Python's calendar ends with year 9999, and times may be later.
_CYCLE, _CYCLE_MONTHS = 146_097 * _DAY, 400 * 12
_CALENDAR = re.compile(r"\s*(\d+)\s*(week|month|year)s?\s*")
_MONTHS = {"month": 1, "year": 12}


@dataclass(frozen=True, slots=True)
class Span:
    """A length of local time: months, or microseconds counted by the local clock."""

    months: int = 0
    micros: int = 0

    @property
    def counted_from(self) -> int:
        """The local time from which consecutive spans are counted."""
        return _MONDAY if self.micros and self.micros % (7 * _DAY) == 0 else 0

    def floor(self, local: int) -> int:
        """Return the beginning of the span that contains a local time."""
        if self.micros:
            return local - (local - self.counted_from) % self.micros
        return _first_of(_month_of(local) // self.months * self.months)

    def after(self, local: int, count: int = 1) -> int:
        """Return the local time `count` spans later. For months, it is the first day of a month."""
        if self.micros:
            return local + count * self.micros
        return _first_of(_month_of(local) + count * self.months)

    def __str__(self) -> str:
        return f"{self.months} months" if self.months else written(timedelta(microseconds=self.micros))


def _month_of(local: int) -> int:
    """Return the months since January 1970."""
    cycles, rest = divmod(local, _CYCLE)
    at = EPOCH + timedelta(microseconds=rest)
    return cycles * _CYCLE_MONTHS + (at.year - 1970) * 12 + at.month - 1


def _first_of(month: int) -> int:
    """Return the beginning of a month."""
    cycles, rest = divmod(month, _CYCLE_MONTHS)
    return cycles * _CYCLE + micros(datetime(1970 + rest // 12, rest % 12 + 1, 1))


@dataclass(frozen=True, slots=True)
class CalendarWindow:
    """Windows by the clock of a time zone. Created by `window`."""

    column: str
    size: Span
    slide: Span
    time_zone: str

    @property
    def zone(self) -> TimeZone:
        return time_zone(self.time_zone)

    @property
    def overlapping(self) -> int:
        """The maximum number of windows that a row belongs to, apart from those that begin while a clock is put
        back."""
        if self.slide.months:
            return -(-self.size.months // self.slide.months)
        return -(-self.size.micros // self.slide.micros)

    @property
    def beginning_early(self) -> int:
        """The number of windows that may have begun at a local time that a row's clock, after it was put back, has not
        reached."""
        if self.overlapping == 1:
            return 1
        back = max((a - b for a, b in zip(self.zone.offsets, self.zone.offsets[1:], strict=False)), default=0)
        return max(-(-back // (self.slide.micros or 28 * _DAY)), 0)

    @property
    def by_the_hour(self) -> bool:
        """Whether an hour that the clock shows twice is two windows."""
        return 0 < self.size.micros <= _HOUR

    def has_end_in(self, after: int | None, until: int | None) -> bool:
        """Return whether a window ends after the first watermark and not after the second."""
        if until is None or after is None:
            return until is not None
        return self._last_end(until) > self._last_end(after)

    def __str__(self) -> str:
        return f"{described(self.column, str(self.size), str(self.slide))}, in {self.time_zone}"

    def _last_end(self, until: int) -> int:
        local = self.zone.local(until)
        if self.by_the_hour:
            return max(until - (local - self.size.floor(local)), self.zone.since[self.zone.period(until)])
        return next(end for end in self._ends(self.slide.floor(local)) if end <= until)

    def _ends(self, start: int) -> Iterator[int]:
        """Yield the ends of the windows that begin at this local time or before, and of a few later ones, backwards."""
        back = -self.beginning_early
        while True:
            yield self.zone.instant(self.size.after(self.slide.after(start, -back)))
            back += 1


def span(text: str | timedelta) -> Span:
    """Parse a length of local time: a duration, or weeks, months or years. Raise `PipelineDefinitionError`."""
    match = None if isinstance(text, timedelta) else _CALENDAR.fullmatch(str(text))
    if match is None:
        return Span(micros=duration(text) // timedelta(microseconds=1))
    count, unit = int(match[1]), match[2]
    return Span(micros=count * 7 * _DAY) if unit == "week" else Span(months=count * _MONTHS[unit])


def is_of_months(text: object) -> bool:
    return _calendar_unit(text) in _MONTHS


def is_of_weeks(text: object) -> bool:
    return _calendar_unit(text) == "week"


def _calendar_unit(text: object) -> str | None:
    match = _CALENDAR.fullmatch(text) if isinstance(text, str) else None
    return None if match is None else match[2]


def described(column: str, size: str, slide: str) -> str:
    return f"{size} of {column!r}" + ("" if size == slide else f", every {slide}")


def calendar_window(column: str, size: Span, slide: Span, zone: str) -> CalendarWindow:
    """Return the windows. Raise `PipelineDefinitionError` if size and slide do not divide local time."""
    require_zone(zone)
    where = f"window({column!r}, …, time_zone={zone!r})"
    if bool(size.months) != bool(slide.months):
        raise PipelineDefinitionError(f"{where} mixes months with days or hours in size and slide. Use one of the two.")
    if not 0 < slide.months + slide.micros <= size.months + size.micros:
        raise PipelineDefinitionError(
            f"{where} has a size that is nothing, or a slide that is nothing or longer than the size. The next window "
            "must begin when one ends or earlier: rows between two windows would be lost."
        )
    if not (_divides_time(size.micros) and _divides_time(slide.micros)):
        raise PipelineDefinitionError(
            f"{where} has a size or a slide that does not divide a day. By local time it must be a part of an hour "
            "such as 15 min, one of 1, 2, 3, 4, 6, 8 or 12 hours, or whole days, weeks, months or years."
        )
    if size != slide and 0 < slide.micros < _HOUR:
        raise PipelineDefinitionError(
            f"{where} slides by less than an hour. Leave out time_zone: such windows are the same in every zone that "
            "is whole hours from UTC."
        )
    return CalendarWindow(column, size, slide, zone)


def _divides_time(micros_: int) -> bool:
    if 0 < micros_ < _HOUR:
        return _HOUR % micros_ == 0
    return micros_ % _DAY == 0 or (micros_ % _HOUR == 0 and _DAY % micros_ == 0)
