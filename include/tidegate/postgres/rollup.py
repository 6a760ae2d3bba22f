"""The totals of a checkpoint's subtasks, by operator, and the rollup that replaces the subtasks with these totals.

Pages show an operator by these totals from the beginning, so that they show the same after the rollup.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, text

from tidegate.postgres.rows import checkpoint_record
from tidegate.postgres.tables import checkpoints
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord

# For each of 11 figures the smallest, average and largest of the subtasks that reported it, -1 if none has, in the
# order of `reading.checkpoint_answers.SUBTASK_FIGURES`. Sizes are those of the handles. A subtask counts all files that
# it refers to, an operator counts each file once.
_SUMS = """
WITH files AS (
    SELECT checkpoint_id, operator_id, subtask_index, count(*) AS files, sum(bytes) AS state_size,
        coalesce(sum(bytes) FILTER (WHERE created_by = checkpoint_id), 0) AS checkpointed_size
    FROM tidegate.handles
    WHERE pipeline_id = :pipeline_id AND checkpoint_id = ANY (CAST(:checkpoint_ids AS bigint[]))
    GROUP BY checkpoint_id, operator_id, subtask_index
), operators AS (
    -- A run that several subtasks share counts once.
    SELECT checkpoint_id, operator_id, count(*) AS all_files, sum(bytes) AS all_size,
        sum(bytes) FILTER (WHERE created_by = checkpoint_id) AS all_written
    FROM (
        SELECT DISTINCT ON (checkpoint_id, operator_id, path) checkpoint_id, operator_id, bytes, created_by
        FROM tidegate.handles
        WHERE pipeline_id = :pipeline_id AND checkpoint_id = ANY (CAST(:checkpoint_ids AS bigint[]))
    ) AS each_once
    GROUP BY checkpoint_id, operator_id
), parts AS (
    SELECT s.*, coalesce(f.files, 0) AS files, coalesce(f.state_size, 0) AS state_size,
        coalesce(f.checkpointed_size, 0) AS checkpointed_size,
        CASE WHEN s.acknowledged_at IS NULL THEN -1
            ELSE greatest(0, round(extract(epoch FROM s.acknowledged_at - c.triggered_at) * 1000)) END AS duration
    FROM tidegate.subtasks s
        JOIN tidegate.checkpoints c USING (pipeline_id, checkpoint_id)
        LEFT JOIN files f USING (checkpoint_id, operator_id, subtask_index)
    WHERE s.pipeline_id = :pipeline_id AND s.checkpoint_id = ANY (CAST(:checkpoint_ids AS bigint[]))
)
SELECT pipeline_id, checkpoint_id, operator_id, count(*) AS number, count(acknowledged_at) AS acknowledged,
    count(*) FILTER (WHERE finished) AS finished, max(attempt) AS attempt, max(acknowledged_at) AS latest,
    coalesce(max(all_written), 0)::bigint AS checkpointed_size, coalesce(max(all_size), 0)::bigint AS state_size,
    coalesce(max(all_files), 0)::bigint AS files, bool_or(persisted_bytes > 0) AS unaligned,
    bool_or(position IS NOT NULL) AS positioned,
    sum(greatest(processed_bytes, 0))::bigint AS processed_data,
    sum(greatest(persisted_bytes, 0))::bigint AS persisted_data,
    sum(greatest(rows_in, 0))::bigint AS rows_in, sum(greatest(rows_out, 0))::bigint AS rows_out,
    ARRAY[
        coalesce(min(nullif(duration, -1)), -1), coalesce(avg(nullif(duration, -1)), -1), max(duration),
        coalesce(min(checkpointed_size) FILTER (WHERE acknowledged_at IS NOT NULL), -1),
        coalesce(avg(checkpointed_size) FILTER (WHERE acknowledged_at IS NOT NULL), -1), max(checkpointed_size),
        coalesce(min(state_size) FILTER (WHERE acknowledged_at IS NOT NULL), -1),
        coalesce(avg(state_size) FILTER (WHERE acknowledged_at IS NOT NULL), -1), max(state_size),
        coalesce(min(nullif(processed_bytes, -1)), -1), coalesce(avg(nullif(processed_bytes, -1)), -1),
        max(processed_bytes),
        coalesce(min(nullif(persisted_bytes, -1)), -1), coalesce(avg(nullif(persisted_bytes, -1)), -1),
        max(persisted_bytes),
        coalesce(min(nullif(sync_duration, -1)), -1), coalesce(avg(nullif(sync_duration, -1)), -1),
        max(sync_duration),
        coalesce(min(nullif(async_duration, -1)), -1), coalesce(avg(nullif(async_duration, -1)), -1),
        max(async_duration),
        coalesce(min(nullif(alignment_duration, -1)), -1), coalesce(avg(nullif(alignment_duration, -1)), -1),
        max(alignment_duration),
        coalesce(min(nullif(start_delay, -1)), -1), coalesce(avg(nullif(start_delay, -1)), -1), max(start_delay),
        coalesce(min(nullif(rows_in, -1)), -1), coalesce(avg(nullif(rows_in, -1)), -1), max(rows_in),
        coalesce(min(nullif(rows_out, -1)), -1), coalesce(avg(nullif(rows_out, -1)), -1), max(rows_out)
    ]::double precision[] AS spreads
FROM parts LEFT JOIN operators USING (checkpoint_id, operator_id) GROUP BY pipeline_id, checkpoint_id, operator_id
"""
#: The totals by operator, of checkpoints that are not rolled up.
SUMS = text(_SUMS)
#: The totals by operator, of checkpoints that are rolled up.
ROLLED_UP = text("""
SELECT operator_id, number, acknowledged, finished, attempt, latest, checkpointed_size, state_size, files, unaligned,
    positioned, processed_data, persisted_data, rows_in, rows_out, spreads
FROM tidegate.folded_operators
WHERE pipeline_id = :pipeline_id AND checkpoint_id = ANY (CAST(:checkpoint_ids AS bigint[]))
""")

_MARK = text("""
UPDATE tidegate.checkpoints SET folded = true
WHERE pipeline_id = :pipeline_id AND checkpoint_id = ANY (CAST(:checkpoint_ids AS bigint[])) AND NOT folded
RETURNING checkpoint_id
""")
_ROLL_UP_OPERATORS = text(
    """
INSERT INTO tidegate.folded_operators (pipeline_id, checkpoint_id, operator_id, number, acknowledged, finished, attempt,
    latest, checkpointed_size, state_size, files, unaligned, positioned, processed_data, persisted_data, rows_in,
    rows_out, spreads)
"""
    + _SUMS
)

# In the order of `reading.history_answers.SUMMARIZED`. `least` and `greatest` ignore nulls.
_ADD_UP = text("""
INSERT INTO tidegate.folded_totals AS t (pipeline_id, failed, discarded, measured, smallest, largest, total)
SELECT :pipeline_id, count(*) FILTER (WHERE status = 'FAILED'), count(*) FILTER (WHERE status = 'DISCARDED'),
    count(f.checkpoint_id),
    ARRAY[min(f.end_to_end_duration), min(f.checkpointed_size), min(f.state_size), min(f.processed_data),
        min(f.persisted_data)],
    ARRAY[max(f.end_to_end_duration), max(f.checkpointed_size), max(f.state_size), max(f.processed_data),
        max(f.persisted_data)],
    ARRAY[coalesce(sum(f.end_to_end_duration), 0), coalesce(sum(f.checkpointed_size), 0),
        coalesce(sum(f.state_size), 0), coalesce(sum(f.processed_data), 0), coalesce(sum(f.persisted_data), 0)]
FROM tidegate.checkpoints c LEFT JOIN tidegate.figures f USING (pipeline_id, checkpoint_id)
WHERE c.pipeline_id = :pipeline_id AND c.checkpoint_id = ANY (CAST(:checkpoint_ids AS bigint[]))
ON CONFLICT (pipeline_id) DO UPDATE SET
    failed = t.failed + excluded.failed, discarded = t.discarded + excluded.discarded,
    measured = t.measured + excluded.measured,
    smallest = ARRAY(SELECT least(a, b) FROM unnest(t.smallest, excluded.smallest) WITH ORDINALITY AS u (a, b, n)
        ORDER BY n),
    largest = ARRAY(SELECT greatest(a, b) FROM unnest(t.largest, excluded.largest) WITH ORDINALITY AS u (a, b, n)
        ORDER BY n),
    total = ARRAY(SELECT a + b FROM unnest(t.total, excluded.total) WITH ORDINALITY AS u (a, b, n) ORDER BY n)
""")
_DELETE_HANDLES = text("""
DELETE FROM tidegate.handles
WHERE pipeline_id = :pipeline_id AND checkpoint_id = ANY (CAST(:checkpoint_ids AS bigint[]))
""")
_DELETE_SUBTASKS = text("""
DELETE FROM tidegate.subtasks
WHERE pipeline_id = :pipeline_id AND checkpoint_id = ANY (CAST(:checkpoint_ids AS bigint[]))
""")

#: The number of checkpoints with each status, including those that are rolled up.
BY_STATUS = text("""
SELECT status, sum(number)::bigint AS number FROM (
    SELECT status, count(*) AS number FROM tidegate.checkpoints
    WHERE pipeline_id = :pipeline_id AND NOT folded GROUP BY status
  UNION ALL
    SELECT 'FAILED', failed FROM tidegate.folded_totals WHERE pipeline_id = :pipeline_id
  UNION ALL
    SELECT 'DISCARDED', discarded FROM tidegate.folded_totals WHERE pipeline_id = :pipeline_id) AS counted
GROUP BY status HAVING sum(number) > 0
""")


def not_rolled_up(connection: Connection, pipeline_id: str, limit: int) -> list[CheckpointRecord]:
    """See `ports.StoreTransaction`."""
    ended = checkpoints.select().where(
        checkpoints.c.pipeline_id == pipeline_id,
        checkpoints.c.status.in_([Status.FAILED.value, Status.DISCARDED.value]),
        checkpoints.c.notified_at.is_not(None) | (checkpoints.c.status == Status.FAILED.value),
        checkpoints.c.kind == CheckpointKind.CHECKPOINT.value,
        ~checkpoints.c.folded,
    )
    oldest = ended.order_by(checkpoints.c.checkpoint_id).limit(limit)
    return [checkpoint_record(row) for row in connection.execute(oldest).mappings()]


def roll_up(connection: Connection, pipeline_id: str, checkpoint_ids: Sequence[int]) -> None:
    """See `ports.StoreTransaction`. The checkpoints are marked first, because the database refuses to delete parts of
    unmarked ones."""
    parameters = {"pipeline_id": pipeline_id, "checkpoint_ids": list(checkpoint_ids)}
    marked = {**parameters, "checkpoint_ids": list(connection.execute(_MARK, parameters).scalars())}
    for statement in (_ADD_UP, _ROLL_UP_OPERATORS, _DELETE_HANDLES, _DELETE_SUBTASKS):
        connection.execute(statement, marked)
