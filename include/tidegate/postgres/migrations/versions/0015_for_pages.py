"""What pages ask for is found quickly: figures of completed checkpoints, the DAGs of a pipeline, indexes.

Never edited again: what ran on somebody's database must stay what it was.
"""

from alembic import op

revision = "0015"
down_revision = "0012"
branch_labels = None
depends_on = None

STATEMENTS = (
    """
CREATE TABLE tidegate.figures (
    pipeline_id text NOT NULL,
    checkpoint_id bigint NOT NULL,
    triggered_at timestamptz NOT NULL,
    end_to_end_duration bigint NOT NULL,
    checkpointed_size bigint NOT NULL,
    state_size bigint NOT NULL,
    processed_data bigint NOT NULL,
    persisted_data bigint NOT NULL,
    rows_in bigint NOT NULL,
    rows_out bigint NOT NULL,
    start_delay bigint NOT NULL,
    alignment_duration bigint NOT NULL,
    sync_duration bigint NOT NULL,
    async_duration bigint NOT NULL,
    CONSTRAINT figures_pkey PRIMARY KEY (pipeline_id, checkpoint_id),
    CONSTRAINT figures_checkpoint_fkey FOREIGN KEY (pipeline_id, checkpoint_id)
        REFERENCES tidegate.checkpoints (pipeline_id, checkpoint_id),
    CONSTRAINT figures_reported CHECK (
        least(end_to_end_duration, checkpointed_size, state_size, processed_data, persisted_data, rows_in, rows_out)
            >= 0
        AND least(start_delay, alignment_duration, sync_duration, async_duration) >= -1)
)
""",
    """
INSERT INTO tidegate.figures
SELECT c.pipeline_id, c.checkpoint_id, c.triggered_at,
    greatest(0, round(extract(epoch FROM c.acknowledged_at - c.triggered_at) * 1000)),
    c.checkpointed_size, c.state_size,
    coalesce(sum(greatest(s.processed_bytes, 0)), 0), coalesce(sum(greatest(s.persisted_bytes, 0)), 0),
    coalesce(sum(greatest(s.rows_in, 0)) FILTER (WHERE s.operator_id NOT LIKE '%-sink'), 0),
    coalesce(sum(greatest(s.rows_out, 0)) FILTER (WHERE s.operator_id LIKE '%-sink'), 0),
    coalesce(max(s.start_delay), -1), coalesce(max(s.alignment_duration), -1),
    coalesce(max(s.sync_duration), -1), coalesce(max(s.async_duration), -1)
FROM tidegate.checkpoints c LEFT JOIN tidegate.subtasks s USING (pipeline_id, checkpoint_id)
WHERE c.completed_at IS NOT NULL
GROUP BY c.pipeline_id, c.checkpoint_id
""",
    """
CREATE TRIGGER figures_unchanged AFTER UPDATE ON tidegate.figures FOR EACH ROW
WHEN (OLD IS DISTINCT FROM NEW)
EXECUTE FUNCTION tidegate.refuse('figures_unchanged', 'what a checkpoint has cost stays so')
""",
    """
CREATE TRIGGER figures_kept BEFORE DELETE OR TRUNCATE ON tidegate.figures FOR EACH STATEMENT
EXECUTE FUNCTION tidegate.refuse('figures_kept', 'figures of checkpoints are not deleted')
""",
    """
CREATE TABLE tidegate.pipeline_dags (
    pipeline_id text NOT NULL CONSTRAINT pipeline_dags_pipeline_fkey REFERENCES tidegate.pipelines (pipeline_id),
    dag_id text NOT NULL,
    last_seen_at timestamptz NOT NULL,
    CONSTRAINT pipeline_dags_pkey PRIMARY KEY (pipeline_id, dag_id),
    CONSTRAINT pipeline_dags_named CHECK (dag_id <> '')
)
""",
    # Requests of DAG runs are DAG/RUN/MOMENT. So a pipeline that had a DAG before this upgrade is not taken for one
    # that has none, which more people may read.
    """
INSERT INTO tidegate.pipeline_dags
SELECT pipeline_id, split_part(request_id, '/', 1), max(triggered_at)
FROM tidegate.checkpoints
WHERE request_id ~ '^[[:alnum:]_.-]+/.+/[0-9]{8}T[0-9]{6}\\.[0-9]{6}$'
GROUP BY 1, 2
""",
    "CREATE INDEX pipeline_dags_by_dag ON tidegate.pipeline_dags (dag_id, pipeline_id)",
    "CREATE INDEX checkpoints_by_run ON tidegate.checkpoints (request_id text_pattern_ops)",
    "CREATE INDEX checkpoints_by_time ON tidegate.checkpoints (pipeline_id, triggered_at)",
    "CREATE INDEX checkpoints_saved ON tidegate.checkpoints (pipeline_id, checkpoint_id) WHERE kind <> 'CHECKPOINT'",
    """
CREATE INDEX checkpoints_in_doubt ON tidegate.checkpoints (pipeline_id, checkpoint_id)
WHERE completed_at IS NOT NULL AND notified_at IS NULL AND abandoned_by IS NULL
""",
    """
CREATE INDEX checkpoints_left_behind ON tidegate.checkpoints (pipeline_id, checkpoint_id)
WHERE abandoned_by IS NOT NULL
""",
    "CREATE INDEX verdicts_by_target ON tidegate.verdicts (pipeline_id, target, suite, checkpoint_id)",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
