"""What is answered about many checkpoints of a pipeline: history, summary, series, and quality. No logic.

Sizes are bytes, durations milliseconds, moments timezone-aware UTC; -1 means that nothing was reported.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord
from tidegate.protocol.observing.statistics import Counts, LatestRestore, Summary
from tidegate.reading.answer import Document, Moment, MomentOrNone, Number
from tidegate.reading.standing import Standing


@dataclass(frozen=True, slots=True)
class Figures:
    """What a checkpoint's subtasks reported, together: sums, and of delays and durations the longest."""

    processed_data: int = 0
    persisted_data: int = 0
    rows_in: int = 0
    rows_out: int = 0
    start_delay: int = -1
    alignment_duration: int = -1
    sync_duration: int = -1
    async_duration: int = -1


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """Which checkpoints to show; empty means all. `statuses` are `IN_PROGRESS`, `HELD`, `COMPLETED` (also those that
    were subsumed or discarded later), `SUBSUMED`, `DISCARDED`, `FAILED`, `ABANDONED`. `text` is part of a savepoint's
    name or of the request's id, in any case. `since` and `until` are about the trigger."""

    statuses: frozenset[str] = frozenset()
    kinds: frozenset[CheckpointKind] = frozenset()
    text: str = ""
    since: datetime | None = None
    until: datetime | None = None


class DagRun(Document):
    dag_id: str
    run_id: str


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """`verdict` is None if nothing was judged. `dag_run` is the DAG run that asked, if one did."""

    record: CheckpointRecord
    figures: Figures
    verdict: bool | None
    dag_run: DagRun | None
    standing: Standing


@dataclass(frozen=True, slots=True)
class History:
    """A page, newest first. `next_before` is what to give as `before` for the page after it, None after the last."""

    rows: tuple[HistoryRow, ...]
    next_before: int | None


class Spread(Document):
    min: Number
    avg: Number
    max: Number


class Point(Document):
    """Several completed checkpoints in a row, `first_id` to `last_id`; `values` by figure."""

    first_id: int
    last_id: int
    at: Moment
    count: int
    values: Mapping[str, Spread]


@dataclass(frozen=True, slots=True)
class PipelineSummary:
    """Counts of all checkpoints; the summary of each figure of the completed ones by name; the latest of each kind.

    Percentiles are of the newest `PERCENTILE_WINDOW` checkpoints.
    """

    counts: Counts
    figures: Mapping[str, Summary]
    by_status: Mapping[str, int]
    latest_completed: CheckpointRecord | None
    latest_failed: CheckpointRecord | None
    latest_savepoint: CheckpointRecord | None
    latest_restore: LatestRestore | None
    figures_of: Mapping[int, Figures] = field(default_factory=dict)


#: What a summary is of.
SUMMARIZED = ("end_to_end_duration", "checkpointed_size", "state_size", "processed_data", "persisted_data")

#: What `series` can draw.
SERIES = (
    "end_to_end_duration",
    "checkpointed_size",
    "state_size",
    "processed_data",
    "persisted_data",
    "rows_in",
    "rows_out",
    "alignment_duration",
    "start_delay",
    "sync_duration",
    "async_duration",
)


class Observation(Document):
    """What one expectation found at one checkpoint. `observed` is a number if it can be drawn, else None;
    `observed_text` is what was seen, for people. `success` None: it could not be judged, `error` says why."""

    checkpoint_id: int
    at: Moment
    success: bool | None
    observed: Number | None
    observed_text: str | None
    unexpected_count: int | None
    unexpected_percent: Number | None
    element_count: int | None
    error: str | None


class ExpectationSeries(Document):
    """One expectation over time, oldest first. `key` tells it from the others of its target and suite."""

    key: str
    type: str
    kwargs: Mapping[str, Any]
    observations: tuple[Observation, ...]


class HoldAt(Document):
    """How a checkpoint waited for a person, or still `waits`, and what was decided; None if nobody did."""

    held_at: Moment
    until_at: Moment
    message: str
    decision: str | None
    decision_at: MomentOrNone
    decided_by: str | None
    comment: str | None
    waits: bool


class VerdictLine(Document):
    """One verdict, without its findings. `hold` is that of its checkpoint."""

    checkpoint_id: int
    at: Moment
    target: str
    suite: str
    success: bool | None
    evaluated: int
    failed: int
    error: str | None
    docs_path: str | None
    hold: HoldAt | None = None


class JudgedTarget(Document):
    """A target that was ever judged, with its newest verdict."""

    target: str
    suite: str
    latest: VerdictLine


class QualityHistory(Document):
    """The newest verdicts on one target by one suite, newest first, and each expectation's series."""

    target: str
    suite: str
    verdicts: tuple[VerdictLine, ...]
    expectations: tuple[ExpectationSeries, ...]
