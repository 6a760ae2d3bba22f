"""Time zones: conversion between instants and local times. All times are microseconds.

The rules come from Python's tz database, so that driver and executors agree on them whatever their own zone is.
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
#: The beginning of time, before every timestamp of Spark.
_BEGINNING = -(1 << 62)
#: No zone changes its offset and changes it back within so many days.
_STEP = timedelta(days=5)
#: The years in which clocks are moved as the database tells. Outside of them, offsets are constant.
_YEARS = range(1970, 2101)


@dataclass(frozen=True, slots=True)
class TimeZone:
    """The offsets of a zone. From `since[i]` on, local time is `offsets[i]` ahead of UTC. `since[0]` is before all
    times."""

    name: str
    since: tuple[int, ...]
    offsets: tuple[int, ...]

    @property
    def local_since(self) -> tuple[int, ...]:
        """The local times at which the offsets begin, as the clock showed them before it was moved."""
        before = (self.offsets[0], *self.offsets)
        return tuple(at + offset for at, offset in zip(self.since, before, strict=False))

    def period(self, at: int) -> int:
        """Return the index of the offset at an instant."""
        return max(bisect_right(self.since, at) - 1, 0)

    def local(self, at: int) -> int:
        return at + self.offsets[self.period(at)]

    def instant(self, local: int) -> int:
        """Return the first instant at which the clock shows this time, or a later one if the clock skips it."""
        period = max(bisect_right(self.local_since, local) - 1, 0)
        return max(local - self.offsets[period], self.since[period])


def require_zone(name: str) -> ZoneInfo:
    """Return the zone of that name. Raise `PipelineDefinitionError` if there is none."""
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError, TypeError) as error:  # OSError: the name of a directory
        raise PipelineDefinitionError(
            f"There is no time zone {name!r}. Write one of the tz database, such as 'Europe/Berlin'."
        ) from error


@lru_cache(maxsize=8)
def time_zone(name: str) -> TimeZone:
    """Return the rules of a zone, found by thousands of lookups in the tz database. Raise as `require_zone` does."""
    zone = require_zone(name)
    since, offsets = [_BEGINNING], [_offset(zone, datetime(_YEARS[0], 1, 1))]
    for at in _transitions(zone):
        since.append(micros(at))
        offsets.append(_offset(zone, at))
    return TimeZone(name, tuple(since), tuple(offsets))


def micros(at: datetime) -> int:
    """Return the microseconds since 1970 of a time without zone."""
    return (at - EPOCH) // _MICROSECOND


def _offset(zone: ZoneInfo, at: datetime) -> int:
    offset = at.replace(tzinfo=UTC).astimezone(zone).utcoffset()
    assert offset is not None
    return offset // _MICROSECOND


def _transitions(zone: ZoneInfo) -> Iterator[datetime]:
    """Yield the instants at which the offset changes."""
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
