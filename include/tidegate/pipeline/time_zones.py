"""Time zones: which instant a local time is, and the other way round. All times are microseconds.

Rules are those of Python's tz database, so that driver and executors agree on them whatever their own is.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from tidegate.protocol.facts.errors import PipelineDefinitionError

EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
#: Of time: before every timestamp of Spark.
_BEGINNING = -(1 << 62)
#: No zone's offset has become another one and the old one again within so many days.
_STEP = timedelta(days=5)
#: Clocks are moved as the database says between these years. Before and after them they are not.
_YEARS = range(1970, 2101)


@dataclass(frozen=True, slots=True)
class TimeZone:
    """`offsets[i]` is how far local time is ahead of UTC from `since[i]` on; `since[0]` is before all times."""

    name: str
    since: tuple[int, ...]
    offsets: tuple[int, ...]

    @property
    def local_since(self) -> tuple[int, ...]:
        """The local times at which the offsets begin, as the clock showed them before it was moved."""
        before = (self.offsets[0], *self.offsets)
        return tuple(at + offset for at, offset in zip(self.since, before, strict=False))

    def period(self, at: int) -> int:
        """Which offset an instant has."""
        return max(bisect_right(self.since, at) - 1, 0)

    def local(self, at: int) -> int:
        return at + self.offsets[self.period(at)]

    def instant(self, local: int) -> int:
        """The first instant at which the clock shows this time, or a later one if it skips it."""
        period = max(bisect_right(self.local_since, local) - 1, 0)
        return max(local - self.offsets[period], self.since[period])


def require_zone(name: str) -> ZoneInfo:
    """Raises `PipelineDefinitionError` if there is none of that name."""
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError, TypeError) as error:  # OSError: the name of a directory
        raise PipelineDefinitionError(
            f"There is no time zone {name!r}. Write one of the tz database, such as 'Europe/Berlin'."
        ) from error


@lru_cache(maxsize=8)
def time_zone(name: str) -> TimeZone:
    """Its rules, by thousands of questions to the tz database. Raises as `require_zone` does."""
    zone = require_zone(name)
    since, offsets = [_BEGINNING], [_offset(zone, datetime(_YEARS[0], 1, 1))]
    for at in _transitions(zone):
        since.append(micros(at))
        offsets.append(_offset(zone, at))
    return TimeZone(name, tuple(since), tuple(offsets))


def micros(at: datetime) -> int:
    """Of a time without zone."""
    return (at - EPOCH) // _MICROSECOND


def _offset(zone: ZoneInfo, at: datetime) -> int:
    found = at.replace(tzinfo=UTC).astimezone(zone).utcoffset()
    assert found is not None
    return found // _MICROSECOND


def _transitions(zone: ZoneInfo) -> Iterator[datetime]:
    """The instants at which the offset becomes another one."""
    at, end = datetime(_YEARS[0], 1, 1), datetime(_YEARS[-1], 1, 1)
    before = _offset(zone, at)
    while at < end:
        after = _offset(zone, at + _STEP)
        if after != before:
            low, high = at, at + _STEP
            while high - low > timedelta(seconds=1):
                middle = (low + (high - low) / 2).replace(microsecond=0)
                low, high = (middle, high) if _offset(zone, middle) == before else (low, middle)
            yield high
        at, before = at + _STEP, after
