"""A pipeline's lag behind its sources, as rows: see `protocol.observing.lag`."""

import json
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
INSERT INTO tidegate.source_lag (pipeline_id, source, pending, unit, bytes, polled_at, parts)
SELECT :pipeline_id, n.source, n.pending, n.unit, n.bytes, n.polled_at, n.parts
FROM unnest(CAST(:sources AS text[]), CAST(:pending AS bigint[]), CAST(:units AS text[]), CAST(:bytes AS bigint[]),
    CAST(:polled_at AS timestamptz[]), CAST(CAST(:parts AS text[]) AS jsonb[]))
    AS n (source, pending, unit, bytes, polled_at, parts)
ON CONFLICT (pipeline_id, source) DO UPDATE SET
    pending = excluded.pending, unit = excluded.unit, bytes = excluded.bytes, polled_at = excluded.polled_at,
    parts = excluded.parts
""")


def lag_of(connection: Connection, pipeline_id: str) -> list[SourceLag]:
    """Return the lag by source."""
    lag = source_lag.c
    columns = (lag.source, lag.pending, lag.unit, lag.bytes, lag.polled_at, lag.parts)
    of_pipeline = select(*columns).where(lag.pipeline_id == pipeline_id).order_by(lag.source)
    return [SourceLag(*row[:4], _utc(row.polled_at), row.parts) for row in connection.execute(of_pipeline)]


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
            "parts": [json.dumps(dict(lag.parts)) for lag in lags],
        },
    )


def _utc(at: datetime) -> datetime:
    return at.astimezone(UTC)
