"""The lag of a pipeline behind its sources: input that their polls have found and not read yet.

No checkpoint depends on it. It is recorded for readers that have neither the pipeline's code nor its sources.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tidegate.protocol.facts.records import Pending, SubtaskId

#: The time between two writes while the lag changes, and while it does not. A continuous region polls many times a
#: second.
CHANGES_EVERY = timedelta(seconds=1)
SAME_EVERY = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class SourceLag:
    """The lag of all splits of a source together. `polled_at` is the oldest of their last polls. `parts` is the lag of
    each part that has a name."""

    source: str
    pending: int
    unit: str
    bytes: int
    polled_at: datetime
    parts: Mapping[str, int] = field(default_factory=dict)


def lag_of(polls: Mapping[SubtaskId, tuple[Pending, datetime]]) -> tuple[SourceLag, ...]:
    """Compute the lag of each source from the last poll of each of its splits. Performs no I/O."""
    by_source: dict[str, list[tuple[Pending, datetime]]] = {}
    for subtask, poll in polls.items():
        by_source.setdefault(subtask.operator_id, []).append(poll)
    return tuple(_sum(source, polled) for source, polled in sorted(by_source.items()))


def _sum(source: str, polled: Sequence[tuple[Pending, datetime]]) -> SourceLag:
    sizes = [pending.bytes for pending, _ in polled]
    return SourceLag(
        source,
        sum(pending.pieces for pending, _ in polled),
        polled[0][0].unit,
        -1 if min(sizes) < 0 else sum(sizes),
        min(at for _, at in polled),
        {part: pieces for pending, _ in polled for part, pieces in pending.parts.items()},
    )


def needs_recording(recorded: Iterable[SourceLag], found: Iterable[SourceLag]) -> bool:
    """Whether the lag found since must be written. Performs no I/O."""
    before, now = ({lag.source: lag for lag in lags} for lags in (recorded, found))
    if not now:
        return False
    if before.keys() != now.keys():
        return True
    same = all(_figures(before[source]) == _figures(now[source]) for source in now)
    age = max(lag.polled_at for lag in now.values()) - max(lag.polled_at for lag in before.values())
    return not timedelta(0) <= age < (SAME_EVERY if same else CHANGES_EVERY)  # a clock that was put back counts too


def _figures(lag: SourceLag) -> tuple[int, str, int, Mapping[str, int]]:
    return lag.pending, lag.unit, lag.bytes, lag.parts
