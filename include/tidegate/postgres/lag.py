"""How far a pipeline is behind its sources, as rows: see `protocol.observing.lag`."""

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import Connection, select, text

from tidegate.postgres.tables import source_lag
from tidegate.protocol.observing.lag import SourceLag

_RECORD = text("""
WITH gone AS (
    DELETE FROM tidegate.source_lag
    WHERE pipeline_id = :pipeline_id AND source <> ALL (CAST(:sources AS text[]))
)
INSERT INTO tidegate.source_lag (pipeline_id, source, pending, unit, bytes, polled_at)
SELECT :pipeline_id, n.source, n.pending, n.unit, n.bytes, n.polled_at
FROM unnest(CAST(:sources AS text[]), CAST(:pending AS bigint[]), CAST(:units AS text[]), CAST(:bytes AS bigint[]),
    CAST(:polled_at AS timestamptz[])) AS n (source, pending, unit, bytes, polled_at)
ON CONFLICT (pipeline_id, source) DO UPDATE SET
    pending = excluded.pending, unit = excluded.unit, bytes = excluded.bytes, polled_at = excluded.polled_at
""")


def lag_of(connection: Connection, pipeline_id: str) -> list[SourceLag]:
    """By source."""
    columns = (source_lag.c.source, source_lag.c.pending, source_lag.c.unit, source_lag.c.bytes, source_lag.c.polled_at)
    found = select(*columns).where(source_lag.c.pipeline_id == pipeline_id).order_by(source_lag.c.source)
    return [SourceLag(*row[:4], _utc(row.polled_at)) for row in connection.execute(found)]


def record(connection: Connection, pipeline_id: str, lags: Sequence[SourceLag]) -> None:
    connection.execute(
        _RECORD,
        {
            "pipeline_id": pipeline_id,
            "sources": [lag.source for lag in lags],
            "pending": [lag.pending for lag in lags],
            "units": [lag.unit for lag in lags],
            "bytes": [lag.bytes for lag in lags],
            "polled_at": [lag.polled_at for lag in lags],
        },
    )


def _utc(at: datetime) -> datetime:
    return at.astimezone(UTC)
