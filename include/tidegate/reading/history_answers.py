"""Answers about many checkpoints of a pipeline: history, summary, series and quality. No logic.

Sizes are bytes, durations are milliseconds, moments are timezone-aware UTC; -1 means that no value was reported.
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
    """The checkpoints to show; an empty field does not restrict them.

    `statuses` are `IN_PROGRESS`, `HELD`, `COMPLETED` (including those subsumed or discarded later), `SUBSUMED`,
    `DISCARDED`, `FAILED`, `ABANDONED`. `text` is part of a savepoint's name or of a request id, in any case. `since`
    and `until` apply to the trigger.
    """

    statuses: frozenset[str] = frozenset()
    kinds: frozenset[CheckpointKind] = frozenset()
    text: str = ""
    since: datetime | None = None
    until: datetime | None = None


class History(Document):
    """A page, newest first. Give `next_before` as `before` for the next page; it is None after the last."""

    history: tuple[HistoryLine, ...]
    next_before: int | None


class Spread(Document):
    min: Number
    avg: Number
    max: Number


class Point(Document):
    """Consecutive completed checkpoints, `first_id` to `last_id`; `values` is by figure."""

    first_id: int
    last_id: int
    at: Moment
    count: int
    values: Mapping[str, Spread]


class Summary(Document):
    """One figure over all completed checkpoints. Percentiles cover the newest `PERCENTILE_WINDOW`."""

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
    """The checkpoint that the pipeline last continued from."""

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
    """Flink's overview of the checkpoints, without the history.

    It has the number of checkpoints of each kind, a summary of each figure of the completed ones, and the latest
    checkpoint of each kind. `held` is the one that waits for approval now.
    """

    pipeline: PipelineStatus
    counts: Counts
    summary: Mapping[str, Summary]
    held: Checkpoint | None
    latest: Latest


class CheckpointsOverview(CheckpointStatistics):
    """Flink's overview of a job's checkpoints."""

    history: tuple[HistoryLine, ...]
    next_before: int | None


#: The figures that a summary covers.
SUMMARIZED = ("end_to_end_duration", "checkpointed_size", "state_size", "processed_data", "persisted_data")

#: The figures that `series` can draw.
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
    """The result of one expectation at one checkpoint.

    `observed` is a number if it can be drawn, else None; `observed_text` is the observed value as text. `success` is
    None if the expectation could not be evaluated; `error` has the reason.
    """

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
    """One expectation over time, oldest first. `key` distinguishes it from the others of its target and suite."""

    key: str
    type: str
    kwargs: Mapping[str, Any]
    observations: tuple[Observation, ...]


class HoldAt(Hold):
    """A hold, and whether its checkpoint still `waits`."""

    waits: bool


class VerdictLine(Document):
    """One verdict without its findings. `hold` is its checkpoint's."""

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


class ValidatedTarget(Document):
    """A target that has been validated, with its newest verdict."""

    target: str
    suite: str
    latest: VerdictLine


class QualityHistory(Document):
    """The newest verdicts on one target by one suite, newest first, and the series of each expectation."""

    target: str
    suite: str
    verdicts: tuple[VerdictLine, ...]
    expectations: tuple[ExpectationSeries, ...]
