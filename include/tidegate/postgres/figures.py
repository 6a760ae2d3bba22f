"""Complete a checkpoint, and sum up the reports of its subtasks: see `tables.reading_tables`."""

from typing import Any

from sqlalchemy import Connection, RowMapping, text

_COMPLETE = text("""
WITH completed AS (
    UPDATE tidegate.checkpoints SET status = 'COMPLETED', completed_at = :completed_at, metadata_path = :metadata_path,
        state_size = :state_size, checkpointed_size = :checkpointed_size,
        committed_sinks = to_jsonb(CAST(:committed_sinks AS text[]))
    WHERE pipeline_id = :pipeline_id AND checkpoint_id = :checkpoint_id
      AND status = 'IN_PROGRESS' AND phase = 'VALIDATED'
    RETURNING *
), summed AS (
    INSERT INTO tidegate.figures (pipeline_id, checkpoint_id, triggered_at, end_to_end_duration, checkpointed_size,
        state_size, processed_data, persisted_data, rows_in, rows_out, start_delay, alignment_duration, sync_duration,
        async_duration)
    SELECT c.pipeline_id, c.checkpoint_id, c.triggered_at,
        greatest(0, round(extract(epoch FROM c.acknowledged_at - c.triggered_at) * 1000)),
        c.checkpointed_size, c.state_size,
        s.processed_data, s.persisted_data, s.rows_in, s.rows_out, s.start_delay, s.alignment_duration, s.sync_duration,
        s.async_duration
    FROM completed c, LATERAL (
        SELECT coalesce(sum(greatest(processed_bytes, 0)), 0) AS processed_data,
            coalesce(sum(greatest(persisted_bytes, 0)), 0) AS persisted_data,
            coalesce(sum(greatest(rows_in, 0)) FILTER (WHERE operator_id NOT LIKE '%-sink'), 0) AS rows_in,
            coalesce(sum(greatest(rows_out, 0)) FILTER (WHERE operator_id LIKE '%-sink'), 0) AS rows_out,
            coalesce(max(start_delay), -1) AS start_delay, coalesce(max(alignment_duration), -1) AS alignment_duration,
            coalesce(max(sync_duration), -1) AS sync_duration, coalesce(max(async_duration), -1) AS async_duration
        FROM tidegate.subtasks
        WHERE pipeline_id = c.pipeline_id AND checkpoint_id = c.checkpoint_id) s
)
SELECT * FROM completed
""")


def complete(connection: Connection, pipeline_id: str, checkpoint_id: int, **completed: Any) -> RowMapping | None:
    """Return the checkpoint's row after completing it; None if it was not validated and in progress."""
    parameters = {"pipeline_id": pipeline_id, "checkpoint_id": checkpoint_id, **completed}
    return connection.execute(_COMPLETE, parameters).mappings().one_or_none()
