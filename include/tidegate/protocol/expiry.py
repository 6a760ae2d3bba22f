"""State that ends: when a row of keyed state has expired, and what a change of that means for rows that are there.

A row has expired once its time is at or before the *horizon*, which lies the time to live before the operator's clock.
By processing time a row's time is its last change, and the clock is the checkpoint's trigger or the micro-batch's
beginning. By event time both come from a column of the state: the clock is the largest value that was written so far.
The horizon is computed from facts that are on record, never from the time of a retry, and does not go back while the
state goes forward.

Times are microseconds since 1970.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tidegate.protocol.keygroups import key_group_of
from tidegate.protocol.records import StateHandle
from tidegate.protocol.restore import layout_version

#: The column of state that says when a row was last changed, by processing time.
UPDATED = "_updated"

#: The detail of a run that says which times its rows have.
TTL = "ttl"

#: The detail of a staged file that says up to where rows had expired, and were left out of it.
HORIZON = "horizon"

_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_MICROSECOND = timedelta(microseconds=1)
_UNITS = (("d", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000), ("ms", 1_000))


@dataclass(frozen=True, slots=True)
class TimeToLive:
    """How long rows of state live, in microseconds, counted from the time in `column`."""

    column: str
    after: int
    processing_time: bool

    def __str__(self) -> str:
        since = "their last change" if self.processing_time else f"their {self.column!r}"
        return f"{written_duration(self.after)} after {since}"


@dataclass(frozen=True, slots=True)
class Expired:
    """What had expired when the time to live was changed, and stays so: rows of runs older than the layout's `version`,
    by the id of the column that counted then. `default` is the time of rows older than that column."""

    column: str
    horizon: int
    version: int
    default: Any = None

    def to_json(self) -> list[Any]:
        return [self.column, self.horizon, self.version, self.default]


@dataclass(frozen=True, slots=True)
class RecordedTtl:
    """What a run says of its rows: the time to live with which it was written, its column by id, and the oldest and
    newest time; None if no row has any. `removed` rows that had expired are no longer there, or in older runs, because
    of this one."""

    column: str
    after: int
    processing_time: bool
    oldest: int | None = None
    newest: int | None = None
    removed: int = 0

    @classmethod
    def of(cls, run: StateHandle) -> "RecordedTtl | None":
        return cls(**run.details[TTL]) if TTL in run.details else None

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def microseconds(at: datetime) -> int:
    """A time as state holds it. Performs no I/O."""
    return (at - _EPOCH) // _MICROSECOND


def written_duration(microseconds_: int) -> str:
    """As people write it: `1 h 30 min`. Performs no I/O."""
    parts = []
    for unit, size in _UNITS:
        count, microseconds_ = divmod(microseconds_, size)
        parts += [f"{count} {unit}"] if count else []
    return " ".join(parts) or "0 s"


def find_horizon(column: str, after: int, processing_time: bool, runs: Iterable[StateHandle], at: int) -> int | None:
    """Up to where rows have expired at a time, `runs` being those of all subtasks of the operator, and `column` an id.
    None: none has, because no event time is known yet. Performs no I/O."""
    recorded = (RecordedTtl.of(run) for run in runs)
    seen = [each.newest for each in recorded if each and each.column == column and each.newest is not None]
    clock = max([*seen, at] if processing_time else seen, default=None)
    return None if clock is None else clock - after


def recorded_horizon(runs: Sequence[StateHandle], at: int) -> int | None:
    """The same by what the newest runs say themselves. None if their rows do not expire. Performs no I/O."""
    if not runs:
        return None
    newest = RecordedTtl.of(max(runs, key=lambda run: (layout_version(run), run.created_by)))
    return None if newest is None else find_horizon(newest.column, newest.after, newest.processing_time, runs, at)


def may_expire_between(runs: Iterable[StateHandle], before: int | None, now: int | None) -> bool:
    """Whether a row of these runs may have been there at one horizon, and have expired at a later one. Performs no
    I/O."""
    if now is None:
        return False
    times = ((each.oldest, each.newest) for run in runs if (each := RecordedTtl.of(run)))
    return any(
        oldest is not None and newest is not None and oldest <= now and (before is None or newest > before)
        for oldest, newest in times
    )


def may_have_alive(run: StateHandle, horizon: int | None) -> bool:
    """Whether a row of the run may be there at a horizon: one without a time never expires, and is not counted among
    the times. Performs no I/O."""
    recorded = RecordedTtl.of(run)
    if recorded is None or horizon is None or recorded.newest is None or not recorded.processing_time:
        return True
    return recorded.newest > horizon


def count_removed(runs: Iterable[StateHandle]) -> int:
    """The rows that had expired and were removed, as far as these runs stand for them. After a rescale several subtasks
    may share a run: it counts where its smallest hash is. Performs no I/O."""
    return sum(each.removed for run in runs if (each := RecordedTtl.of(run)) and _has_smallest(run))


def _has_smallest(run: StateHandle) -> bool:
    if run.key_groups is None:
        return True
    group = key_group_of(int(run.details["min_hash"], 16), int(run.details["max_parallelism"]))
    return run.key_groups.first <= group <= run.key_groups.last
