"""Statistics over all checkpoints of a pipeline (protocol.md section 19).

Sizes are bytes, durations milliseconds. -1 means that there is no figure yet.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegate.protocol.facts.lifecycle import COMMITTED, Status
from tidegate.protocol.facts.records import CheckpointRecord
from tidegate.protocol.observing.lag import SourceLag

#: Percentiles cover the newest checkpoints only. The smallest, the largest and the average value cover all.
PERCENTILE_WINDOW = 10_000


@dataclass(frozen=True, slots=True)
class Measurement:
    """The figures of one completed checkpoint. `end_to_end_duration` ends with the latest acknowledgement, before
    finalization."""

    checkpoint_id: int
    end_to_end_duration: int
    checkpointed_size: int
    state_size: int
    processed_data: int
    persisted_data: int


@dataclass(frozen=True, slots=True)
class LatestRestore:
    """The checkpoint that a pipeline went on from after a failure, or that its region began with, and the time."""

    checkpoint: CheckpointRecord
    at: datetime


@dataclass(frozen=True, slots=True)
class LatestFigures:
    """The figures behind a pipeline's metrics: the number of checkpoints in each status, the number of restores and the
    latest one, the latest completed checkpoint, the lag at the last polls, and the number of rows of state that had
    expired and were removed up to that checkpoint."""

    by_status: Mapping[Status, int]
    restores: int
    latest_restore: LatestRestore | None
    latest_completed: CheckpointRecord | None
    latest: Measurement | None
    lag: Sequence[SourceLag] = ()
    expired_rows: int = 0


@dataclass(frozen=True, slots=True)
class Counts:
    restored: int
    total: int
    in_progress: int
    completed: int
    failed: int


@dataclass(frozen=True, slots=True)
class Summary:
    min: float
    max: float
    avg: float
    p50: float
    p90: float
    p95: float
    p99: float
    p999: float


def count_checkpoints(by_status: Mapping[Status, int], restores: int = 0) -> Counts:
    """Count checkpoints by outcome. One that was subsumed or discarded later still counts as completed. Performs no
    I/O."""
    return Counts(
        restored=restores,
        total=sum(by_status.values()),
        in_progress=by_status.get(Status.IN_PROGRESS, 0),
        completed=sum(number for status, number in by_status.items() if status in COMMITTED),
        failed=by_status.get(Status.FAILED, 0),
    )


def summary_of(smallest: float, largest: float, average: float, newest: Sequence[int]) -> Summary:
    """Summarize one figure of all completed checkpoints. `newest` are its values, newest first, and at least one.
    Performs no I/O."""
    recent = sorted(newest[:PERCENTILE_WINDOW])
    percentiles = [percentile(recent, percent) for percent in (50, 90, 95, 99, 99.9)]
    return Summary(smallest, largest, average, *percentiles)


def percentile(ordered: Sequence[int], percent: float) -> float:
    """Return a percentile, interpolated between neighbours at `percent * (n + 1) / 100`, as in Flink. `ordered` is not
    empty."""
    position = percent * (len(ordered) + 1) / 100
    below = int(position)
    if below < 1:
        return ordered[0]
    if below >= len(ordered):
        return ordered[-1]
    return ordered[below - 1] + (position - below) * (ordered[below] - ordered[below - 1])
