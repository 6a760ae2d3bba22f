"""State TTL: the expiry of rows of keyed state, and the effect of a changed TTL on existing rows.

A row has expired once its time is at or before the *horizon*, which lies the time to live before the operator's clock.
By processing time a row's time is its last change, and the clock is the checkpoint's trigger or the micro-batch's
beginning. By event time both come from a column of the state: the clock is the largest value that earlier checkpoints
have written. The horizon is computed from recorded facts, never from the time of a retry, and does not go back while
the state goes forward.

Times are microseconds since 1970.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from tidegate.protocol.facts.handles import layout_version
from tidegate.protocol.facts.keygroups import key_group_of
from tidegate.protocol.facts.records import CheckpointRecord, StateHandle
from tidegate.protocol.text.durations import written

#: The column of state with the time of a row's last change, by processing time.
UPDATED = "_updated"

#: The detail of a run with the times of its rows.
TTL = "ttl"

#: The detail of a staged file with the horizon up to which expired rows were left out of it.
HORIZON = "horizon"

#: A time at which only rows have expired that have expired by the times of runs.
BY_RUNS_ALONE = 0

_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class TimeToLive:
    """The time to live of rows of state, in microseconds from the time in `column`."""

    column: str
    after: int
    processing_time: bool

    def __str__(self) -> str:
        since = "their last change" if self.processing_time else f"their {self.column!r}"
        return f"{written(self.after * _MICROSECOND)} after {since}"


@dataclass(frozen=True, slots=True)
class Expired:
    """Rows that had expired when the TTL was changed, and that stay expired: rows of runs older than the layout's
    `version`, by the id of the column of the old TTL. `default` is the time of rows older than that column."""

    column: str
    horizon: int
    version: int
    default: Any = None

    def to_json(self) -> list[Any]:
        return [self.column, self.horizon, self.version, self.default]


@dataclass(frozen=True, slots=True)
class RecordedTtl:
    """A run's record of its rows: the TTL with which it was written, its column by id, and the oldest and newest time,
    None if no row has a time. `clock` is the operator's time when it was written. `default` is the time of rows that
    are older than the column. `removed` counts the expired rows that merges have left out so far."""

    column: str
    after: int
    processing_time: bool
    oldest: int | None = None
    newest: int | None = None
    clock: int | None = None
    default: int | None = None
    removed: int = 0
    removed_to: int | None = None

    @classmethod
    def of(cls, run: StateHandle) -> "RecordedTtl | None":
        return cls(**run.details[TTL]) if TTL in run.details else None

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def microseconds(at: datetime) -> int:
    """Convert a time to its form in state. Performs no I/O."""
    return (at - _EPOCH) // _MICROSECOND


@dataclass(frozen=True, slots=True)
class Moment:
    """The moment at which expiry is decided: the checkpoint, and the time of its trigger or of a micro-batch."""

    checkpoint_id: int
    at: int

    @classmethod
    def of(cls, record: CheckpointRecord) -> "Moment":
        return cls(record.checkpoint_id, microseconds(record.triggered_at))


def find_horizon(
    column: str, after: int, processing_time: bool, runs: Iterable[StateHandle], moment: Moment
) -> int | None:
    """Find the horizon up to which rows have expired. `runs` are those of all subtasks of the operator, and `column` is
    an id. None if no event time is known yet, so that no row has expired. Performs no I/O."""
    clock = find_clock(column, runs, moment.checkpoint_id)
    if processing_time:
        clock = moment.at if clock is None else max(clock, moment.at)
    return None if clock is None else clock - after


def find_clock(column: str, runs: Iterable[StateHandle], checkpoint_id: int) -> int | None:
    """Find the operator's clock: the largest time that the writers of the runs knew or wrote. The checkpoint's own rows
    do not count, because its subtasks do not know those of each other. None if no time is known. Performs no I/O."""
    seen = []
    for run in runs:
        recorded = RecordedTtl.of(run)
        if recorded is not None and recorded.column == column:
            seen += [recorded.clock, recorded.newest if run.created_by < checkpoint_id else None]
    return max((time for time in seen if time is not None), default=None)


def newest_recorded(runs: Sequence[StateHandle]) -> RecordedTtl | None:
    """Return the TTL of an operator's rows from its newest run; None if they do not expire. Performs no I/O."""
    return RecordedTtl.of(max(runs, key=lambda run: (layout_version(run), run.created_by))) if runs else None


def recorded_horizon(current: RecordedTtl | None, runs: Iterable[StateHandle], moment: Moment) -> int | None:
    """Find the horizon as `find_horizon` does; None also if rows do not expire. Performs no I/O."""
    if current is None:
        return None
    return find_horizon(current.column, current.after, current.processing_time, runs, moment)


def may_expire_between(
    current: RecordedTtl | None, runs: Iterable[StateHandle], before: int | None, now: int | None
) -> bool:
    """Whether a row of these runs may exist at one of two horizons and have expired at the other. A clock that is set
    back may take the horizon back, and then expired rows exist again. Performs no I/O."""
    if current is None or now is None:
        return False
    return any(_may_be_between(*_times(current, run), before, now) or was_merged_since(run, before) for run in runs)


def was_merged_since(run: StateHandle, before: int | None) -> bool:
    """Whether a merge has removed rows that existed at a horizon, and whose times the run no longer has."""
    recorded = RecordedTtl.of(run)
    return recorded is not None and recorded.removed_to is not None and (before is None or recorded.removed_to > before)


def _times(current: RecordedTtl, run: StateHandle) -> tuple[int | None, int | None, bool]:
    """Return the oldest and newest time of a run, and whether they are known. All rows of a run that is older than the
    column of the last change have that column's default."""
    recorded = RecordedTtl.of(run)
    if recorded is not None and recorded.column == current.column:
        return recorded.oldest, recorded.newest, True
    return current.default, current.default, current.processing_time


def _may_be_between(oldest: int | None, newest: int | None, known: bool, before: int | None, now: int) -> bool:
    if before == now:
        return False
    if not known:
        return True
    first, last = (before, now) if before is None or before < now else (now, before)
    return oldest is not None and newest is not None and oldest <= last and (first is None or newest > first)


def merged(current: RecordedTtl, runs: Sequence[StateHandle], checkpoint_id: int) -> RecordedTtl:
    """Return the record of a run that replaces others, apart from the times of its rows: it keeps their clock. Performs
    no I/O."""
    recorded = [each for run in runs if (each := RecordedTtl.of(run)) and each.column == current.column]
    return replace(
        current,
        newest=max((each.newest for each in recorded if each.newest is not None), default=None),
        clock=find_clock(current.column, runs, checkpoint_id),
        removed=count_removed(runs),
        removed_to=max((each.removed_to for each in recorded if each.removed_to is not None), default=None),
    )


def with_removed(recorded: RecordedTtl, rows: int, horizon: int | None) -> RecordedTtl:
    """Add to the record a number of removed rows that had expired up to a horizon. Performs no I/O."""
    if not rows or horizon is None:
        return recorded
    before = recorded.removed_to
    to = horizon if before is None else max(before, horizon)
    return replace(recorded, removed=recorded.removed + rows, removed_to=to)


def with_times(recorded: RecordedTtl, oldest: int, newest: int) -> RecordedTtl:
    """Add rows with these times to the record. Performs no I/O."""
    return replace(
        recorded,
        oldest=oldest if recorded.oldest is None else min(recorded.oldest, oldest),
        newest=newest if recorded.newest is None else max(recorded.newest, newest),
    )


def may_have_alive(run: StateHandle, horizon: int | None) -> bool:
    """Whether a row of the run may exist at a horizon. A row without a time never expires, and is not counted among the
    times. Performs no I/O."""
    recorded = RecordedTtl.of(run)
    if recorded is None or horizon is None or recorded.newest is None or not recorded.processing_time:
        return True
    return recorded.newest > horizon


def count_removed(runs: Iterable[StateHandle]) -> int:
    """Count the expired rows that merges have removed from these runs. After a rescale several subtasks may share a
    run, which counts only in the one that has its smallest hash. Performs no I/O."""
    return sum(each.removed for run in runs if (each := RecordedTtl.of(run)) and _has_smallest(run))


def _has_smallest(run: StateHandle) -> bool:
    if run.key_groups is None:
        return True
    group = key_group_of(int(run.details["min_hash"], 16), int(run.details["max_parallelism"]))
    return run.key_groups.first <= group <= run.key_groups.last
