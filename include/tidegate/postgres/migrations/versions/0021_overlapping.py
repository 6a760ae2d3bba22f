"""Checkpoints of a continuous run may overlap: one reason more why one ends, and staged files of versions that
turn out not to count are forgotten.

Never edited again: what ran on somebody's database must stay what it was.
"""

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

REASONS = """
        'PERIODIC_SCHEDULER_SHUTDOWN', 'MINIMUM_TIME_BETWEEN_CHECKPOINTS', 'TOO_MANY_CHECKPOINT_REQUESTS',
        'NOT_ALL_REQUIRED_TASKS_RUNNING', 'CHECKPOINT_DECLINED', 'CHECKPOINT_ASYNC_EXCEPTION',
        'CHECKPOINT_EXPIRED', 'DECLINED_SUBSUMED', 'DECLINED_ON_CANCELLATION_BARRIER',
        'DECLINED_INPUT_END_OF_STREAM', 'ALIGNMENT_LIMIT_EXCEEDED', 'TASK_FAILURE', 'VALIDATION_FAILED',
        'VALIDATION_REJECTED', 'HOLD_EXPIRED', 'FINALIZE_CHECKPOINT_FAILURE', 'CHECKPOINT_SUBSUMED',
        'COORDINATOR_SUSPEND', 'COORDINATOR_SHUTDOWN', 'JOB_FAILOVER_REGION'
"""

STATEMENTS = (
    f"""
ALTER TABLE tidegate.checkpoints
    DROP CONSTRAINT checkpoints_failure_reason,
    ADD CONSTRAINT checkpoints_failure_reason CHECK (failure_reason IN ({REASONS}))
""",
    f"""
ALTER TABLE tidegate.requests
    DROP CONSTRAINT requests_dropped,
    ADD CONSTRAINT requests_dropped CHECK (dropped IN ({REASONS}))
""",
    f"""
ALTER TABLE tidegate.events
    DROP CONSTRAINT events_reason,
    ADD CONSTRAINT events_reason CHECK (reason IN ({REASONS}))
""",
    """
CREATE FUNCTION tidegate.refuse_needed_handles() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM (SELECT DISTINCT pipeline_id, checkpoint_id, operator_id, details ? 'follows' AS version
                     FROM written) w
        WHERE NOT EXISTS (
            SELECT FROM tidegate.folded_operators f
            WHERE f.pipeline_id = w.pipeline_id AND f.checkpoint_id = w.checkpoint_id
              AND f.operator_id = w.operator_id)
          AND NOT (w.version AND EXISTS (
            SELECT FROM tidegate.checkpoints c
            WHERE c.pipeline_id = w.pipeline_id AND c.checkpoint_id = w.checkpoint_id
              AND c.status = 'IN_PROGRESS'))
    ) THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = 'handles_kept',
            MESSAGE = 'what a checkpoint refers to is deleted only once it is folded';
    END IF;
    RETURN NULL;
END $$
""",
    "DROP TRIGGER handles_folded ON tidegate.handles",
    """
CREATE TRIGGER handles_folded AFTER DELETE ON tidegate.handles
REFERENCING OLD TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION tidegate.refuse_needed_handles()
""",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
