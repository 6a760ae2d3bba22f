"""Write the verdicts on a checkpoint, and move it on with them."""

import json
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, RowMapping, text

from tidegate.postgres.rows import verdict_record, verdict_values
from tidegate.postgres.tables import verdicts
from tidegate.protocol.facts.records import Verdict

# The count makes the statement delete the old verdicts before it inserts the new ones. If the checkpoint is to be
# accepted and cannot be, the old ones stay.
_REPLACE = """
WITH accepted AS (
    UPDATE tidegate.checkpoints SET phase = 'VALIDATED', validated_at = :at
    WHERE pipeline_id = :pipeline_id AND checkpoint_id = :checkpoint_id AND CAST(:at AS timestamptz) IS NOT NULL
      AND status = 'IN_PROGRESS' AND phase = 'ACKNOWLEDGED'
    RETURNING *
), may AS (
    SELECT WHERE CAST(:at AS timestamptz) IS NULL OR EXISTS (SELECT FROM accepted)
), gone AS (
    DELETE FROM tidegate.verdicts
    WHERE pipeline_id = :pipeline_id AND checkpoint_id = :checkpoint_id AND EXISTS (SELECT FROM may)
    RETURNING 1
), given AS (
    INSERT INTO tidegate.verdicts (COLUMNS)
    SELECT COLUMNS FROM jsonb_populate_recordset(CAST(NULL AS tidegate.verdicts), CAST(:verdicts AS jsonb))
    WHERE EXISTS (SELECT FROM may) AND (SELECT count(*) FROM gone) >= 0
    RETURNING *
)
SELECT accepted.*, (SELECT jsonb_agg(to_jsonb(g) ORDER BY g.ordinal) FROM given g) AS verdicts
FROM (SELECT) AS always LEFT JOIN accepted ON true
"""
_REPLACE_ALL = text(_REPLACE.replace("COLUMNS", ", ".join(column.name for column in verdicts.c)))


def replace(
    connection: Connection, pipeline_id: str, checkpoint_id: int, given: Sequence[Verdict], accepted_at: datetime | None
) -> tuple[list[Verdict], RowMapping | None]:
    """Replace the verdicts. Return them as recorded, and the checkpoint's row if it was accepted with them."""
    of = {"pipeline_id": pipeline_id, "checkpoint_id": checkpoint_id}
    rows = json.dumps([of | values for values in verdict_values(given)])
    row = connection.execute(_REPLACE_ALL, of | {"verdicts": rows, "at": accepted_at}).mappings().one()
    recorded = [verdict_record(verdict) for verdict in row["verdicts"] or ()]
    return recorded, None if row["checkpoint_id"] is None else row
