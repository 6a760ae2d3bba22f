"""The windows of local time that rows belong to, as Spark SQL. All times are microseconds.

Offsets of a time zone are looked up in arrays that the driver creates, by a search that costs the same for every row:
time is divided into parts of equal length, in each of which the clock is moved a few times at most.
"""

from collections.abc import Callable, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidegate.pipeline.calendar_windows import CalendarWindow, Span
from tidegate.pipeline.time_zones import TimeZone

#: The names of a window's bounds.
START, END = "_window_start", "_window_end"

_PART = 50 * 24 * 3600 * 1_000_000
_NEVER = 2**62


def calendar_bounds(window: CalendarWindow, at: Column) -> Column:
    """Return the bounds of a row's only window, as a struct."""
    return _let(at, lambda at: (_bounds_by_the_hour if window.by_the_hour else _bounds_by_the_clock)(window, at))


def _bounds_by_the_hour(window: CalendarWindow, at: Column) -> Column:
    zone, size = window.zone, F.lit(window.size.micros)
    into = F.pmod(at + _since(at, zone.since, zone.offsets), size)

    def bounds(begins: Column) -> Column:
        ends = F.least(begins + size, _since(at, zone.since, (*zone.since[1:], _NEVER)))
        return F.struct(F.greatest(begins, _since(at, zone.since, zone.since)).alias(START), ends.alias(END))

    return _let(at - into, bounds)


def _bounds_by_the_clock(window: CalendarWindow, at: Column) -> Column:
    zone, size = window.zone, window.size

    def bounds(local: Column) -> Column:
        later = _after(size, local, F.lit(1))

        def ending(end: Column) -> Column:
            this = F.struct(_instant(zone, local).alias(START), end.alias(END))
            following = F.struct(end.alias(START), _instant(zone, _after(size, later, F.lit(1))).alias(END))
            # Where the clock was put back from one day to the day before, the later day has begun.
            return F.when(end <= at, following).otherwise(this)

        return _let(_instant(zone, later), ending)

    return _let(_floor(size, at + _since(at, zone.since, zone.offsets)), bounds)


def calendar_windows(window: CalendarWindow, at: Column) -> Column:
    """Return all windows that a row may belong to, as an array of their bounds."""
    zone = window.zone
    numbers = F.sequence(F.lit(-window.beginning_early), F.lit(window.overlapping - 1))

    def bounds(start: Column) -> Column:
        end = _instant(zone, _after(window.size, start, F.lit(1)))
        return F.struct(_instant(zone, start).alias(START), end.alias(END))

    def windows(last: Column) -> Column:
        starts = F.transform(numbers, lambda back: _after(window.slide, last, -back))
        return F.transform(starts, bounds)

    def local(at: Column) -> Column:
        return _floor(window.slide, at + _since(at, zone.since, zone.offsets))

    return _let(_let(at, local), windows)


def _let(value: Column, body: Callable[[Column], Column]) -> Column:
    """Return the body with a value that is written once. Spark copies the expression of an inner select to every use of
    its column, so nested ones would become thousands of times as long."""
    return F.transform(F.array(value), body)[0]


def _floor(span: Span, local: Column) -> Column:
    if span.micros:
        return local - F.pmod(local - F.lit(span.counted_from), F.lit(span.micros))
    day = _date(local)
    month = F.year(day) * 12 + F.month(day) - F.lit(1 + 1970 * 12)
    return _midnight(F.add_months(F.lit("1970-01-01").cast("date"), month - F.pmod(month, F.lit(span.months))))


def _after(span: Span, local: Column, count: Column) -> Column:
    if span.micros:
        return local + count.cast("bigint") * F.lit(span.micros)
    return _midnight(F.add_months(_date(local), count.cast("int") * F.lit(span.months)))


def _date(local: Column) -> Column:
    return F.timestamp_micros(local).cast("date")


def _midnight(day: Column) -> Column:
    return F.unix_micros(day.cast("timestamp"))


def _instant(zone: TimeZone, local: Column) -> Column:
    """See `TimeZone.instant`."""

    def instant(local: Column) -> Column:
        offset = _since(local, zone.local_since, zone.offsets)
        return F.greatest(local - offset, _since(local, zone.local_since, zone.since))

    return _let(local, instant)


def _since(at: Column, since: Sequence[int], values: Sequence[int]) -> Column:
    """Return `values[i]` from `since[i]` on, and the first one before that."""
    if len(values) == 1:
        return F.lit(values[0]).cast("bigint")
    first, parts = since[1], (since[-1] - since[1]) // _PART + 2
    changes: list[list[tuple[int, int]]] = [[] for _ in range(parts)]
    for when, value in zip(since[1:], values[1:], strict=True):
        changes[(when - first) // _PART + 1].append((when, value))
    before = [values[0]]
    for within in changes[:-1]:
        before.append(within[-1][1] if within else before[-1])
    past = at - F.lit(first)
    part = (past - F.pmod(past, F.lit(_PART))) / _PART + 1

    def found_in(part: Column) -> Column:
        found = _array(before)[part]
        for number in range(max(map(len, changes))):
            whens = [within[number][0] if number < len(within) else _NEVER for within in changes]
            then = [within[number][1] if number < len(within) else 0 for within in changes]
            found = F.when(at >= _array(whens)[part], _array(then)[part]).otherwise(found)
        return found

    return _let(F.least(F.greatest(part, F.lit(0)), F.lit(parts - 1)).cast("int"), found_in)


def _array(numbers: Sequence[int]) -> Column:
    """Return numbers that Spark's optimiser turns into one literal. Thousands of literals would be slow to plan."""
    return F.split(F.lit(",".join(map(str, numbers))), ",").cast("array<bigint>")
