"""Windows of local time: their bounds are held against a walk through the tz database, a quarter of an hour a step."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from cases import for_each

from tidegate import window
from tidegate.pipeline.calendar_windows import CalendarWindow
from tidegate.pipeline.time_zones import EPOCH, TimeZone, micros, time_zone
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.steps.watermarks import END_OF_TIME

ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]
STEP, HOURS, DAY = timedelta(minutes=15), timedelta(hours=1), timedelta(days=1)
HOUR = 3600 * 1_000_000


def clock(zone: str, first: datetime, last: datetime, step: timedelta = STEP) -> Iterator[tuple[int, datetime]]:
    """Instants, and what the clock shows then."""
    at, one = first.replace(tzinfo=UTC), ZoneInfo(zone)
    while at < last.replace(tzinfo=UTC):
        yield micros(at.replace(tzinfo=None)), at.astimezone(one).replace(tzinfo=None)
        at += step


def stretches(zone: str, first: int, last: int) -> Iterator[list[tuple[int, datetime]]]:
    """The days around which the clock is moved, and those around new year."""
    offsets = [(at, micros(shown) - at) for at, shown in clock(zone, datetime(first, 1, 1), datetime(last, 1, 1), DAY)]
    moved = [EPOCH + timedelta(microseconds=b) for (b, was), (_, now) in pairwise(offsets) if was != now]
    for day in [*moved, *(datetime(year, 12, 31) for year in range(first, last))]:
        yield list(clock(zone, day - 2 * DAY, day + 4 * DAY))


def calendar(size: str, slide: str | None = None, zone: str = "Europe/Berlin") -> CalendarWindow:
    made = window("at", size, slide, time_zone=zone)
    assert isinstance(made, CalendarWindow)
    return made


def at(zone: TimeZone, *when: int) -> str:
    return f"{EPOCH + timedelta(microseconds=zone.instant(micros(datetime(*when)))):%Y-%m-%d %H:%M}"


@for_each("name", ZONES)
def test_local_times_are_those_of_the_tz_database(name: str) -> None:
    check_local_times(name)


def check_local_times(name: str) -> None:
    zone, lengths = time_zone(name), set()
    for instant, shown in clock(name, datetime(2016, 1, 1), datetime(2026, 1, 1), 7 * HOURS):
        assert zone.local(instant) == micros(shown)
    for stretch in stretches(name, 2016, 2026):
        newest, days = stretch[0][1].date(), list[int]()
        for instant, shown in stretch:
            assert zone.local(instant) == micros(shown)
            if shown.date() > newest:
                newest = shown.date()
                days.append(instant)
                assert zone.instant(micros(datetime(newest.year, newest.month, newest.day))) == instant
        lengths |= {(b - a) / HOUR for a, b in pairwise(days)}
    assert lengths == ({24, 23.5, 24.5} if name == "Australia/Lord_Howe" else {24, 23, 25})


@for_each("name", ZONES)
@for_each("size", ["15 min", "1 hour", "2 h", "1 day", "1 week", "1 month", "3 months", "1 year"])
def test_windows_end_when_the_clock_shows_the_next(name: str, size: str) -> None:
    check_ends(name, size)


def check_ends(name: str, size: str) -> None:
    """A watermark goes on by a quarter of an hour each time."""
    one, ends = calendar(size, zone=name), 0
    for stretch in stretches(name, 2024, 2026):
        newest = begin_of(one, *stretch[0])
        for (before, _), (instant, shown) in pairwise(stretch):
            begun = max(begin_of(one, instant, shown), newest)
            ends += begun > newest
            assert one.has_end_in(before, instant) == (begun > newest), (instant, shown)
            assert not one.has_end_in(instant, instant)
            newest = begun
    assert ends


def ends_of_so_many_hours(self: CalendarWindow, start: int) -> Iterator[int]:
    while True:
        yield self.zone.instant(start) + self.size.micros
        start = self.slide.after(start, -1)


def instant_as_if_it_was_utc(self: TimeZone, local: int) -> int:
    return local - self.offsets[self.period(local)]


def the_last_one(self: TimeZone, at: int) -> int:
    return len(self.offsets) - 1


MISTAKES = {
    "a window ends by the offset with which it began": (CalendarWindow, "_ends", ends_of_so_many_hours),
    "the rules are those of the instant that is the local time in UTC": (
        TimeZone,
        "instant",
        instant_as_if_it_was_utc,
    ),
    "a zone has one offset": (TimeZone, "period", the_last_one),
}


@for_each("mistake", MISTAKES)
def test_a_planted_mistake_is_noticed(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, instead = MISTAKES[mistake]
    with monkeypatch.context() as planted:
        planted.setattr(owner, name, instead)
        with pytest.raises(AssertionError):
            check_zone("Australia/Lord_Howe")


def check_zone(name: str) -> None:
    check_local_times(name)
    check_ends(name, "1 day")


def begin_of(one: CalendarWindow, instant: int, shown: datetime) -> int:
    """What tells a window from others: the local time at which it begins. An hour that comes twice is two windows."""
    into = micros(shown) - one.size.floor(micros(shown))
    return instant - into if one.by_the_hour else micros(shown) - into


def test_a_day_begins_with_the_first_instant_of_its_date() -> None:
    assert at(time_zone("America/Havana"), 2025, 11, 2) == "2025-11-02 04:00"  # its first hour comes twice
    assert at(time_zone("America/Sao_Paulo"), 2018, 11, 4) == "2018-11-04 03:00"  # its first hour is left out
    assert at(time_zone("Pacific/Apia"), 2011, 12, 30) == "2011-12-30 10:00"  # so is the whole day:
    assert at(time_zone("Pacific/Apia"), 2011, 12, 31) == "2011-12-30 10:00"


def test_months_need_no_zone_and_weeks_begin_on_mondays() -> None:
    months = window("at", "1 month")
    assert isinstance(months, CalendarWindow)
    assert months.zone.name == "UTC"
    march = micros(datetime(2024, 3, 1))
    assert months.has_end_in(march - 1, march)
    assert not months.has_end_in(march, micros(datetime(2024, 4, 1)) - 1)
    weeks = calendar("1 week", zone="UTC")
    assert [
        weeks.has_end_in(micros(day) - 1, micros(day)) for day in (datetime(2026, 11, 23), datetime(2026, 11, 26))
    ] == [
        True,
        False,
    ]


def test_windows_end_at_the_end_of_time_and_however_far_away_it_is() -> None:
    for one in (calendar("1 month"), calendar("1 day"), calendar("1 year", "1 month")):
        for far in (micros(datetime(9999, 12, 31)) + 10**15, END_OF_TIME):
            assert one.has_end_in(micros(datetime(2026, 1, 1)), far)
            assert not one.has_end_in(far, far)
        assert one.has_end_in(-(10**17), 0)


def test_overlapping_windows_end_at_each_slide() -> None:
    weeks = calendar("7 d", "1 d")
    assert weeks.overlapping == 7
    midnight = time_zone("Europe/Berlin").instant(micros(datetime(2026, 3, 30)))
    assert weeks.has_end_in(midnight - 1, midnight)
    assert not weeks.has_end_in(midnight, midnight + 23 * HOUR)


@for_each(
    ("size", "slide", "zone", "message"),
    [
        ("1 day", None, "Europe/Berln", "no time zone 'Europe/Berln'"),
        ("1 day", None, "../etc", "no time zone"),
        ("7 h", None, "Europe/Berlin", "does not divide a day"),
        ("25 min", None, "Europe/Berlin", "does not divide a day"),
        ("36 h", None, "Europe/Berlin", "does not divide a day"),
        ("0 s", None, "Europe/Berlin", "a size that is nothing"),
        ("0 months", None, None, "a size that is nothing"),
        ("1 month", "1 d", None, "mixes months with days or hours"),
        ("1 month", "2 months", None, "must begin when one ends or earlier"),
        ("1 hour", "15 min", "Europe/Berlin", "slides by less than an hour"),
        ("2000 years", "1 month", None, "would belong to 24000 windows"),
    ],
)
def test_windows_that_cannot_be_are_refused(size: str, slide: str | None, zone: str | None, message: str) -> None:
    with pytest.raises(PipelineDefinitionError, match=message):
        window("at", size, slide, time_zone=zone)
