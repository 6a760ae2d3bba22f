"""The writes of a restore: its own row, and the completed checkpoints that it abandons."""

from datetime import datetime

from sqlalchemy import Connection, insert, text

from tidegate.postgres.rows import restore_values
from tidegate.postgres.tables import restores
from tidegate.protocol.facts.branches import Branch, Restore

_ABANDON = text("""
UPDATE tidegate.checkpoints SET abandoned_by = :number
WHERE pipeline_id = :pipeline_id AND status IN ('COMPLETED', 'SUBSUMED', 'DISCARDED') AND abandoned_by IS NULL
  AND NOT EXISTS (
    SELECT FROM unnest(CAST(:firsts AS bigint[]), CAST(:lasts AS bigint[])) AS present (first, last)
    WHERE checkpoint_id >= first AND (last IS NULL OR checkpoint_id <= last))
""")

_RETURN = text("""
UPDATE tidegate.checkpoints SET abandoned_by = NULL
WHERE pipeline_id = :pipeline_id AND abandoned_by IS NOT NULL
  AND EXISTS (
    SELECT FROM unnest(CAST(:firsts AS bigint[]), CAST(:lasts AS bigint[])) AS present (first, last)
    WHERE checkpoint_id >= first AND (last IS NULL OR checkpoint_id <= last))
""")

_MARK_REWOUND = text("""
UPDATE tidegate.restores SET rewound_at = :at
WHERE pipeline_id = :pipeline_id AND number = :number AND rewound_at IS NULL
""")


def record(connection: Connection, pipeline_id: str, restore: Restore, present: Branch) -> None:
    """Record a restore. Of all completed checkpoints, exactly those outside of `present` are abandoned from then on."""
    connection.execute(insert(restores).values(pipeline_id=pipeline_id, **restore_values(restore)))
    firsts, lasts = zip(*present.spans, strict=True)
    spans = {"pipeline_id": pipeline_id, "firsts": list(firsts), "lasts": list(lasts)}
    # Abandon first: a request may have a checkpoint on either branch, but only one that counts.
    connection.execute(_ABANDON, {**spans, "number": restore.number})
    connection.execute(_RETURN, spans)


def mark_rewound(connection: Connection, pipeline_id: str, number: int, at: datetime) -> None:
    """Record that a restore's sinks are rewound. The first record stays."""
    connection.execute(_MARK_REWOUND, {"pipeline_id": pipeline_id, "number": number, "at": at})
