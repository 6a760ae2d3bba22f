"""A subtask that was asked before it ran is no failure reason any more: no row ever had it.

Never edited again: what ran on somebody's database must stay what it was.
"""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

REASONS = """
        'PERIODIC_SCHEDULER_SHUTDOWN', 'MINIMUM_TIME_BETWEEN_CHECKPOINTS', 'TOO_MANY_CHECKPOINT_REQUESTS',
        'NOT_ALL_REQUIRED_TASKS_RUNNING', 'CHECKPOINT_DECLINED', 'CHECKPOINT_ASYNC_EXCEPTION', 'CHECKPOINT_EXPIRED',
        'DECLINED_SUBSUMED', 'DECLINED_ON_CANCELLATION_BARRIER', 'DECLINED_INPUT_END_OF_STREAM',
        'ALIGNMENT_LIMIT_EXCEEDED', 'TASK_FAILURE', 'VALIDATION_FAILED', 'FINALIZE_CHECKPOINT_FAILURE',
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
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
