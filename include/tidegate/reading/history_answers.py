"""What is answered about many checkpoints of a pipeline: history, summary, series, and quality. No logic.

Sizes are bytes, durations milliseconds, moments timezone-aware UTC; -1 means that nothing was reported.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import Field

from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.observing.statistics import Counts
from tidegate.reading.answer import Document, Moment, MomentOrNone, Number
from tidegate.reading.checkpoint_answers import Checkpoint, HistoryLine, Hold, Kind


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


class History(Document):
    """A page, newest first. `next_before` is what to give as `before` for the page after it, None after the last."""

    history: tuple[HistoryLine, ...]
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


class Summary(Document):
    """Of one figure of all completed checkpoints. Percentiles are of the newest `PERCENTILE_WINDOW`."""

    min: Number
    max: Number
    avg: Number
    p50: Number
    p90: Number
    p95: Number
    p99: Number
    p999: Number


class PipelineStatus(Document):
    status: str
    since: MomentOrNone
    message: str | None


class Restored(Document):
    """The checkpoint that the pipeline last went on from."""

    id: int
    checkpoint_type: Kind
    is_savepoint: bool
    restored_at: Moment = Field(serialization_alias="restore_timestamp")
    external_path: str | None
    checkpoint: Checkpoint = Field(exclude=True)


class Latest(Document):
    completed: Checkpoint | None
    failed: Checkpoint | None
    savepoint: Checkpoint | None
    restored: Restored | None


class CheckpointStatistics(Document):
    """Flink's overview of the checkpoints, without the history: counts of all, the summary of each figure of the
    completed ones by name, and the latest of each kind. `held` is the one that waits for a person now."""

    pipeline: PipelineStatus
    counts: Counts
    summary: Mapping[str, Summary]
    held: Checkpoint | None
    latest: Latest


class CheckpointsOverview(CheckpointStatistics):
    """Flink's overview of a job's checkpoints."""

    history: tuple[HistoryLine, ...]
    next_before: int | None


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


class HoldAt(Hold):
    """The same, and whether the checkpoint still `waits`."""

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
