"""Totals over all checkpoints of a pipeline: counts, figures, and aggregated series for charts."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, text

from tidegate.postgres import reads
from tidegate.postgres.rollup import BY_STATUS
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineRecord
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord
from tidegate.protocol.observing.statistics import PERCENTILE_WINDOW, LatestRestore, count_checkpoints, summary_of
from tidegate.reading.checkpoint_answers import Checkpoint
from tidegate.reading.checkpoint_rows import Figures, checkpoint_fields, checkpoint_of
from tidegate.reading.history import figures_of
from tidegate.reading.history_answers import (
    SERIES,
    SUMMARIZED,
    CheckpointStatistics,
    Latest,
    PipelineStatus,
    Point,
    Restored,
    Spread,
    Summary,
)

_MOST_POINTS = 1000

# In the order of `SUMMARIZED`: first of checkpoints that are not rolled up, then of all that are.
_ENDS = text("""
SELECT count(*) AS measured,
    ARRAY[min(end_to_end_duration), min(f.checkpointed_size), min(f.state_size), min(processed_data),
        min(persisted_data)] AS smallest,
    ARRAY[max(end_to_end_duration), max(f.checkpointed_size), max(f.state_size), max(processed_data),
        max(persisted_data)] AS largest,
    ARRAY[sum(end_to_end_duration), sum(f.checkpointed_size), sum(f.state_size), sum(processed_data),
        sum(persisted_data)]::numeric[] AS total
FROM tidegate.figures f JOIN tidegate.checkpoints c USING (pipeline_id, checkpoint_id)
WHERE pipeline_id = :pipeline_id AND NOT c.folded
HAVING count(*) > 0
UNION ALL
SELECT measured, smallest, largest, total FROM tidegate.folded_totals
WHERE pipeline_id = :pipeline_id AND measured > 0
""")
_NEWEST = text("""
SELECT end_to_end_duration, checkpointed_size, state_size, processed_data, persisted_data
FROM tidegate.figures WHERE pipeline_id = :pipeline_id ORDER BY checkpoint_id DESC LIMIT :window
""")
# -1 means "not reported" and is left out.
_SERIES = text("""
WITH newest AS (
    SELECT *, row_number() OVER (ORDER BY checkpoint_id DESC) AS place
    FROM tidegate.figures
    WHERE pipeline_id = :pipeline_id
        AND (CAST(:since AS timestamptz) IS NULL OR triggered_at >= :since)
        AND (CAST(:until AS timestamptz) IS NULL OR triggered_at < :until)
    ORDER BY checkpoint_id DESC LIMIT :window
), total AS (SELECT greatest(count(*), :points) AS number FROM newest)
SELECT (place - 1) * :points / total.number AS bucket, min(checkpoint_id) AS first_id, max(checkpoint_id) AS last_id,
    max(triggered_at) AS at, count(*) AS number,
    min(end_to_end_duration), avg(end_to_end_duration)::float, max(end_to_end_duration),
    min(checkpointed_size), avg(checkpointed_size)::float, max(checkpointed_size),
    min(state_size), avg(state_size)::float, max(state_size),
    min(processed_data), avg(processed_data)::float, max(processed_data),
    min(persisted_data), avg(persisted_data)::float, max(persisted_data),
    min(rows_in), avg(rows_in)::float, max(rows_in),
    min(rows_out), avg(rows_out)::float, max(rows_out),
    min(nullif(alignment_duration, -1)), avg(nullif(alignment_duration, -1))::float,
    max(nullif(alignment_duration, -1)),
    min(nullif(start_delay, -1)), avg(nullif(start_delay, -1))::float, max(nullif(start_delay, -1)),
    min(nullif(sync_duration, -1)), avg(nullif(sync_duration, -1))::float, max(nullif(sync_duration, -1)),
    min(nullif(async_duration, -1)), avg(nullif(async_duration, -1))::float, max(nullif(async_duration, -1))
FROM newest, total GROUP BY bucket ORDER BY bucket DESC
""")


def summary(connection: Connection, pipeline: PipelineRecord) -> CheckpointStatistics:
    """See `Readings.summary`."""
    pipeline_id = pipeline.pipeline_id
    by_status = {Status(row.status): row.number for row in connection.execute(BY_STATUS, {"pipeline_id": pipeline_id})}
    restores, restored = reads.restore_count(connection, pipeline_id)
    latest = {
        "completed": reads.latest(connection, pipeline_id, Status.COMPLETED),
        "failed": reads.latest(connection, pipeline_id, Status.FAILED),
        "savepoint": reads.latest_savepoint(connection, pipeline_id),
    }
    ids = {record.checkpoint_id for record in latest.values() if record is not None}
    figures = figures_of(connection, pipeline_id, ids)

    def shown(record: CheckpointRecord | None) -> Checkpoint | None:
        if record is None:
            return None
        return Checkpoint(**checkpoint_fields(record, figures.get(record.checkpoint_id, Figures())))

    return CheckpointStatistics(
        pipeline=PipelineStatus.model_validate(pipeline),
        counts=count_checkpoints(by_status, restores),
        summary=_figures(connection, pipeline_id),
        held=None,
        latest=Latest(**{name: shown(record) for name, record in latest.items()}, restored=_restored(restored)),
    )


def _restored(latest: LatestRestore | None) -> Restored | None:
    if latest is None:
        return None
    return Restored(
        id=latest.checkpoint.checkpoint_id,
        checkpoint_type=latest.checkpoint.kind.value,
        is_savepoint=latest.checkpoint.kind is not CheckpointKind.CHECKPOINT,
        restored_at=latest.at,
        external_path=latest.checkpoint.metadata_path,
        checkpoint=checkpoint_of(latest.checkpoint),
    )


def _figures(connection: Connection, pipeline_id: str) -> Mapping[str, Summary]:
    """Return smallest, largest and average over all checkpoints, and percentiles over the newest."""
    parts = connection.execute(_ENDS, {"pipeline_id": pipeline_id}).all()
    if not parts:
        return dict.fromkeys(SUMMARIZED, Summary(**dict.fromkeys(Summary.model_fields, -1)))
    newest = connection.execute(_NEWEST, {"pipeline_id": pipeline_id, "window": PERCENTILE_WINDOW}).all()
    return {
        name: Summary.model_validate(
            summary_of(
                min(part.smallest[place] for part in parts),
                max(part.largest[place] for part in parts),
                float(sum(part.total[place] for part in parts) / sum(part.measured for part in parts)),
                values,
            )
        )
        for place, (name, values) in enumerate(zip(SUMMARIZED, zip(*newest, strict=True), strict=True))
    }


def series(
    connection: Connection, pipeline_id: str, points: int, since: datetime | None, until: datetime | None
) -> tuple[Point, ...]:
    """See `Readings.series`."""
    points = max(1, min(points, _MOST_POINTS))
    parameters: dict[str, Any] = {"pipeline_id": pipeline_id, "points": points, "since": since, "until": until}
    return tuple(_point(row) for row in connection.execute(_SERIES, parameters | {"window": PERCENTILE_WINDOW}))


def _point(row: Row[Any]) -> Point:
    values = tuple(row)[5:]
    spreads = {
        name: Spread(min=values[3 * place], avg=values[3 * place + 1], max=values[3 * place + 2])
        for place, name in enumerate(SERIES)
        if values[3 * place] is not None
    }
    return Point(
        first_id=row.first_id, last_id=row.last_id, at=row.at.astimezone(UTC), count=row.number, values=spreads
    )
