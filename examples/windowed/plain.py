"""The expected content of the tables of `clicks`, computed step by step in plain Python without Tidegate.

A step is the data that one scheduled checkpoint, or one micro-batch, reads.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

HOUR, QUARTER, DAY = timedelta(hours=1), timedelta(minutes=15), timedelta(days=1)
BERLIN = ZoneInfo("Europe/Berlin")
BEGINNING = datetime(1970, 1, 1)
Row = tuple[Any, ...]


def windows_of(at: datetime, size: timedelta, slide: timedelta) -> Iterator[tuple[datetime, datetime]]:
    """Yield the windows that a time belongs to, the last one first."""
    start = BEGINNING + (at - BEGINNING) // slide * slide
    while start + size > at:
        yield start, start + size
        start -= slide


def day_in_berlin(at: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield the day that a time belongs to, from midnight to midnight."""
    day = at.replace(tzinfo=UTC).astimezone(BERLIN).replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    start, end = (midnight.astimezone(UTC).replace(tzinfo=None) for midnight in (day, day + DAY))
    yield start, end


@dataclass
class Windowed:
    """The values by key and window."""

    places: Callable[[datetime], Iterable[tuple[datetime, datetime]]]
    open: dict[Row, list[Any]] = field(default_factory=lambda: defaultdict(list))
    shown: Counter[Row] = field(default_factory=Counter)
    late: list[Row] = field(default_factory=list)

    def take_in(self, key: Row, at: datetime | None, value: Any, row: Row, closed: datetime | None) -> None:
        places = [] if at is None else list(self.places(at))
        still_open = [bounds for bounds in places if closed is None or bounds[1] > closed]
        for bounds in still_open:
            self.open[(*key, *bounds)].append(value)
        if not still_open:
            self.late.append(row)

    def emit(self, watermark: datetime | None) -> list[tuple[Row, list[Any]]]:
        """Return the windows that end at the watermark or before, once."""
        ended = [place for place in self.open if watermark is not None and place[-1] <= watermark]
        return [(place, self.open.pop(place)) for place in ended]


@dataclass
class Revised:
    """The times by key and hour, which are emitted again if more arrive within the lateness."""

    lateness: timedelta
    kept: dict[Row, list[datetime]] = field(default_factory=lambda: defaultdict(list))
    times_shown: Counter[Row] = field(default_factory=Counter)
    changed: set[Row] = field(default_factory=set)
    shown: Counter[Row] = field(default_factory=Counter)
    late: list[Row] = field(default_factory=list)

    def take_in(self, key: Row, at: datetime | None, row: Row, closed: datetime | None) -> None:
        for bounds in [] if at is None else windows_of(at, HOUR, HOUR):
            if closed is None or bounds[1] + self.lateness > closed:
                assert at is not None
                self.kept[(*key, *bounds)].append(at)
                self.changed.add((*key, *bounds))
                return
        self.late.append(row)

    def emit(self, watermark: datetime | None) -> None:
        if watermark is None:
            return
        for place in [place for place in self.changed if place[-1] <= watermark]:
            times = self.kept[place]
            self.times_shown[place] += 1
            self.shown[(*place, len(times), max(times), self.times_shown[place])] += 1
            self.changed.remove(place)
        for place in [place for place in self.kept if watermark - place[-1] >= self.lateness]:
            del self.kept[place], self.times_shown[place]


@dataclass
class Sessions:
    """The times by key, in sessions that end when none follows within the gap."""

    gap: timedelta
    open: dict[Row, list[tuple[datetime, datetime, list[datetime]]]] = field(default_factory=dict)
    shown: Counter[Row] = field(default_factory=Counter)
    late: list[Row] = field(default_factory=list)

    def take_in(self, rows: Sequence[tuple[Row, datetime | None, Row]], closed: datetime | None) -> None:
        """Add all rows of a step. Their order does not matter."""
        self.late += [row for _, at, row in rows if at is None]
        for key in {key for key, at, _ in rows if at is not None}:
            one: list[Any] = [(*session, True, []) for session in self.open.get(key, [])]
            one += [
                (at, at + self.gap, [at], closed is None or at + self.gap > closed, [row])
                for its, at, row in rows
                if its == key and at is not None
            ]
            self.open[key] = []
            for start, end, times, is_open, new in _touching(one):
                if is_open:
                    self.open[key].append((start, end, times))
                else:
                    self.late += new

    def emit(self, watermark: datetime | None) -> list[Row]:
        ended = []
        for key, sessions in self.open.items():
            for session in list(sessions):
                if watermark is not None and session[1] <= watermark:
                    sessions.remove(session)
                    ended.append((*key, *session))
        return ended


def _touching(sessions: list[Any]) -> list[Any]:
    """Merge sessions that overlap or touch."""
    merged: list[Any] = []
    for start, end, times, is_open, new in sorted(sessions, key=lambda session: session[:2]):
        if merged and start <= merged[-1][1]:
            first, latest, earlier, was_open, before = merged[-1]
            merged[-1] = (first, max(latest, end), earlier + times, was_open or is_open, before + new)
        else:
            merged.append((start, end, times, is_open, new))
    return merged


class Clicks:
    """The pipeline `clicks`."""

    def __init__(self, delay: timedelta) -> None:
        self.delay = delay
        self.watermark: datetime | None = None
        self.hourly = Windowed(partial(windows_of, size=HOUR, slide=HOUR))
        self.trend = Windowed(partial(windows_of, size=HOUR, slide=QUARTER))
        self.daily = Windowed(day_in_berlin)
        self.rushes = Sessions(HOUR / 2)
        self.revised = Revised(2 * HOUR)
        self.busy = Windowed(day_in_berlin)

    def step(self, clicks: Sequence[Row]) -> None:
        closed = self.watermark
        for page, visitor, at in clicks:
            self.hourly.take_in((page,), at, (at, -visitor), (page, visitor, at), closed)
            self.trend.take_in((), at, (at, visitor, page), (page, visitor, at), closed)
            self.revised.take_in((page,), at, (page, visitor, at), closed)
        self.rushes.take_in([((page,), at, (page, visitor, at)) for page, visitor, at in clicks], closed)
        largest = max((at for _, _, at in clicks if at is not None), default=None)
        if largest is not None:
            self.watermark = max(largest - self.delay, closed or datetime.min)
        self._emit(self.watermark, closed)

    def end(self) -> None:
        """Drain the pipeline: no more clicks follow."""
        closed, self.watermark = self.watermark, datetime.max
        self._emit(self.watermark, closed)

    def _emit(self, watermark: datetime | None, closed: datetime | None) -> None:
        for (page, start, end), visits in self.hourly.emit(watermark):
            latest, visitor = max(visits)
            self.hourly.shown[(page, start, end, len(visits), latest, -visitor)] += 1
            self.daily.take_in((page,), start, len(visits), (page, start, end), closed)
        for (start, end), clicks in self.trend.emit(watermark):
            pages = {page for _, _, page in clicks if page is not None}
            visitors = tuple(visitor for _, visitor, _ in sorted(clicks, key=lambda click: click[:2])[:3])
            self.trend.shown[(start, end, len(clicks), len(pages), visitors)] += 1
        for (page, start, end), counts in self.daily.emit(watermark):
            self.daily.shown[(page, start, end, sum(counts))] += 1
        self.revised.emit(watermark)
        for page, start, end, times in self.rushes.emit(watermark):
            moments, first_two = len(set(times)), tuple(sorted(times)[:2])
            self.rushes.shown[(page, start, end, len(times), max(times), moments, first_two)] += 1
            self.busy.take_in((), end, len(times), (page, start, end), closed)
        for (start, end), counts in self.busy.emit(watermark):
            self.busy.shown[(start, end, len(counts), sum(counts))] += 1

    def tables(self) -> dict[str, Counter[Row]]:
        return {
            "hourly": self.hourly.shown,
            "trend": self.trend.shown,
            "daily": self.daily.shown,
            "rushes": self.rushes.shown,
            "busy": self.busy.shown,
            "late": Counter(self.hourly.late),
            "late_rushes": Counter(self.rushes.late),
            "revised": self.revised.shown,
            "late_revised": Counter(self.revised.late),
        }


def after(steps: Iterable[Sequence[Row]], delay: timedelta = timedelta(minutes=10)) -> dict[str, Counter[Row]]:
    """The tables after these steps."""
    clicks = Clicks(delay)
    for step in steps:
        clicks.step(step)
    return clicks.tables()
