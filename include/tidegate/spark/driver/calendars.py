"""Which windows of local time rows belong to, as Spark SQL. All times are microseconds.

What a time zone's clock shows is looked up in arrays that the driver makes, by a search that costs the same for every
row: time is divided into parts of equal length, in each of which the clock is moved a few times at most.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidegate.pipeline.calendar_windows import CalendarWindow, Span
from tidegate.pipeline.time_zones import TimeZone

#: A row's time, and the bounds of its window.
AT, START, END = "_at", "_window_start", "_window_end"
_OFFSET, _SINCE, _UNTIL, _LOCAL, _NEXT = "_offset", "_since", "_until", "_local", "_next"

_PART = 50 * 24 * 3600 * 1_000_000
_NEVER = 2**62


def with_calendar_bounds(window: CalendarWindow, frame: DataFrame) -> DataFrame:
    """Each row with the bounds of its only window."""
    zone, at = window.zone, F.col(AT)
    local = frame.withColumn(_OFFSET, _since(at, zone.since, zone.offsets))
    if window.by_the_hour:
        until = (*zone.since[1:], _NEVER)
        moved = local.withColumn(_SINCE, _since(at, zone.since, zone.since))
        moved = moved.withColumn(_UNTIL, _since(at, zone.since, until))
        into = F.pmod(at + F.col(_OFFSET), F.lit(window.size.micros))
        placed = moved.withColumn(START, F.greatest(at - into, F.col(_SINCE)))
        return placed.withColumn(END, F.least(at - into + F.lit(window.size.micros), F.col(_UNTIL)))
    placed = local.withColumn(_LOCAL, _floor(window.size, at + F.col(_OFFSET)))
    placed = placed.withColumn(_NEXT, _instant(zone, _after(window.size, F.col(_LOCAL), F.lit(1))))
    # Where the clock was put back from a day to the one before, the later day has begun.
    has_begun = F.col(_NEXT) <= at
    later = _after(window.size, F.col(_LOCAL), F.lit(1))
    begins = placed.withColumn(_LOCAL, F.when(has_begun, later).otherwise(F.col(_LOCAL)))
    begins = begins.withColumn(START, _instant(zone, F.col(_LOCAL)))
    ends = F.when(has_begun, _instant(zone, _after(window.size, F.col(_LOCAL), F.lit(1))))
    return begins.withColumn(END, ends.otherwise(F.col(_NEXT)))


def calendar_windows(window: CalendarWindow, at: Column) -> Column:
    """All windows that a row may belong to: an array of their bounds."""
    zone = window.zone
    local = at + _since(at, zone.since, zone.offsets)
    numbers = F.sequence(F.lit(-window.beginning_early), F.lit(window.overlapping - 1))
    last = _floor(window.slide, local)
    starts = F.transform(numbers, lambda back: _after(window.slide, last, -back))

    def bounds(start: Column) -> Column:
        end = _instant(zone, _after(window.size, start, F.lit(1)))
        return F.struct(_instant(zone, start).alias(START), end.alias(END))

    return F.transform(starts, bounds)


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
    offset = _since(local, zone.local_since, zone.offsets)
    return F.greatest(local - offset, _since(local, zone.local_since, zone.since))


def _since(at: Column, since: Sequence[int], values: Sequence[int]) -> Column:
    """`values[i]` from `since[i]` on, and the first one before that."""
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
    part = F.least(F.greatest(part, F.lit(0)), F.lit(parts - 1)).cast("int")
    found = _array(before)[part]
    for number in range(max(map(len, changes))):
        whens = [within[number][0] if number < len(within) else _NEVER for within in changes]
        then = [within[number][1] if number < len(within) else 0 for within in changes]
        found = F.when(at >= _array(whens)[part], _array(then)[part]).otherwise(found)
    return found


def _array(numbers: Sequence[int]) -> Column:
    """One literal, once Spark has folded it: thousands of them would be slow to plan."""
    return F.split(F.lit(",".join(map(str, numbers))), ",").cast("array<bigint>")
