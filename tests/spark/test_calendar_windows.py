"""Which windows of local time Spark finds for a row, against a search through what the clock shows around it."""

from itertools import product
from random import Random
from typing import Any

import pytest
from pyspark.sql import Column
from pyspark.sql import functions as F
from sizes import sizes

from tidegate import window
from tidegate.pipeline.calendar_windows import CalendarWindow
from tidegate.pipeline.time_zones import TimeZone
from tidegate.spark.driver import calendars
from tidegate.spark.driver.windows import late_rows, with_windows

pytestmark = pytest.mark.spark

#: In some the clock is moved by half an hour or by two, at midnight, or over a day.
ZONES = ["Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns", "Pacific/Apia", "Antarctica/Troll", "UTC"]
WINDOWS = [
    ("15 min", None),
    ("1 hour", None),
    ("2 h", None),
    ("1 day", None),
    ("1 week", None),
    ("3 months", None),
    ("7 d", "1 d"),
    ("2 h", "1 h"),
    ("3 months", "1 month"),
]
HOUR = 3600 * 1_000_000


def found_by_search(one: CalendarWindow, at: int) -> list[tuple[int, int]]:
    zone = one.zone
    if one.by_the_hour:
        begins = at - (zone.local(at) - one.size.floor(zone.local(at)))
        bounds = [begins, begins + one.size.micros]
        moved = [when for when in zone.since if begins < when < bounds[1]]
        return [(max([begins, *(m for m in moved if m <= at)]), min([bounds[1], *(m for m in moved if m > at)]))]
    found, first = set(), one.slide.floor(zone.local(at))
    for number in range(-30, one.overlapping + 5):
        local = one.slide.after(first, -number)
        begins, ends = zone.instant(local), zone.instant(one.size.after(local))
        found |= {(begins, ends)} if begins <= at < ends else set()
    return sorted(found)


def times(one: CalendarWindow, random: Random) -> list[int]:
    """Around the moments at which the clock is moved, and others."""
    moved = [when + random.randrange(-30 * HOUR, 30 * HOUR) for when in one.zone.since[1:]]
    return moved + [random.randrange(-(10**14), 2 * 10**15) for _ in range(50)]


@pytest.mark.timeout(600)
@sizes("every", sample=3, whole=1)
def test_a_row_is_in_the_windows_that_the_clock_says(every: int, spark: Any) -> None:
    for number, ((size, slide), zone) in enumerate(product(WINDOWS, ZONES)):
        if (number + number // len(ZONES)) % every:  # another zone of each window
            continue
        check_bounds(spark, size, slide, zone)


def check_bounds(spark: Any, size: str, slide: str | None, zone: str) -> None:
    one = window("at", size, slide, time_zone=zone)
    assert isinstance(one, CalendarWindow)
    ats = times(one, Random(f"{zone} {size}"))
    frame = spark.createDataFrame(list(enumerate(ats)), "i int, m bigint").withColumn("at", F.timestamp_micros("m"))
    rows = with_windows("it", one, frame, ["i"], None)
    bounds: dict[int, list[tuple[int, int]]] = {number: [] for number in range(len(ats))}
    for number, start, end in rows.select("i", *map(F.unix_micros, ("window_start", "window_end"))).collect():
        bounds[number].append((start, end))
    for number, at in enumerate(ats):
        assert sorted(bounds[number]) == found_by_search(one, at), (zone, at)


def bounds_of_so_many_hours(window: CalendarWindow, at: Column) -> Column:
    start = calendars._floor(window.size, at + calendars._since(at, window.zone.since, window.zone.offsets))
    begins = calendars._instant(window.zone, start)
    return F.struct(begins.alias(calendars.START), (begins + F.lit(window.size.micros)).alias(calendars.END))


def instant_as_if_it_was_utc(zone: TimeZone, local: Column) -> Column:
    return local - calendars._since(local, zone.since, zone.offsets)


def bounds_of_standard_time(window: CalendarWindow, at: Column) -> Column:
    offset = F.lit(window.zone.offsets[-1])
    start = calendars._floor(window.size, at + offset) - offset
    return F.struct(start.alias(calendars.START), (start + F.lit(window.size.micros)).alias(calendars.END))


MISTAKES = {
    "a window ends by the offset with which it began": ("_bounds_by_the_clock", bounds_of_so_many_hours),
    "the rules are those of the instant that is the local time in UTC": ("_instant", instant_as_if_it_was_utc),
    "a zone has one offset": ("_bounds_by_the_clock", bounds_of_standard_time),
}


def test_a_planted_mistake_is_noticed(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, instead in MISTAKES.values():
        with monkeypatch.context() as planted:
            planted.setattr(calendars, name, instead)
            with pytest.raises(AssertionError, match="Lord_Howe"):
                check_bounds(spark, "1 day", None, "Australia/Lord_Howe")


def test_a_row_is_late_when_its_local_day_is_over(spark: Any) -> None:
    days = window("at", "1 day", time_zone="Europe/Berlin")
    frame = spark.createDataFrame([("2026-03-28 22:59:00",), ("2026-03-28 23:00:00",), (None,)], "at string")
    frame = frame.selectExpr("cast(at AS timestamp) AS at", "1 AS n")
    closed = 1774738800 * 1_000_000  # 2026-03-28 23:00, midnight in Berlin
    assert late_rows("it", days, frame, closed).selectExpr("date_format(at, 'HH:mm')", "n").collect() == [
        ("22:59", 1),
        (None, 1),
    ]
    [kept] = with_windows("it", days, frame, ["n"], closed).where("window_start IS NOT NULL").collect()
    assert (kept["window_end"] - kept["window_start"]).total_seconds() == 23 * 3600
