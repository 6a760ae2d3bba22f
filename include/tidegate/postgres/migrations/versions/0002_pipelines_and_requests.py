"""The status of pipelines, the requests that wait, kinds of checkpoints, and all failure reasons of the protocol.

Never edited again: what ran on somebody's database must stay what it was.
"""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

REASONS = """
        'IO_EXCEPTION', 'PERIODIC_SCHEDULER_SHUTDOWN', 'MINIMUM_TIME_BETWEEN_CHECKPOINTS',
        'TOO_MANY_CHECKPOINT_REQUESTS', 'NOT_ALL_REQUIRED_TASKS_RUNNING', 'CHECKPOINT_DECLINED',
        'CHECKPOINT_ASYNC_EXCEPTION', 'CHECKPOINT_EXPIRED', 'DECLINED_TASK_NOT_READY', 'DECLINED_TASK_CLOSING',
        'DECLINED_SUBSUMED', 'DECLINED_ON_CANCELLATION_BARRIER', 'DECLINED_INPUT_END_OF_STREAM',
        'ALIGNMENT_LIMIT_EXCEEDED', 'TASK_FAILURE', 'TASK_CHECKPOINT_FAILURE', 'TRIGGER_CHECKPOINT_FAILURE',
        'VALIDATION_FAILED', 'FINALIZE_CHECKPOINT_FAILURE', 'CHECKPOINT_SUBSUMED', 'COORDINATOR_SUSPEND',
        'COORDINATOR_SHUTDOWN', 'JOB_FAILOVER_REGION'
"""

STATEMENTS = (
    """
ALTER TABLE tidegate.pipelines
    ADD COLUMN status TEXT DEFAULT 'CREATED' NOT NULL,
    ADD COLUMN since TIMESTAMP WITH TIME ZONE,
    ADD COLUMN message TEXT,
    ADD COLUMN forgiven_until BIGINT DEFAULT 0 NOT NULL,
    ADD CONSTRAINT pipelines_status CHECK (status IN ('CREATED', 'RUNNING', 'SUSPENDED', 'FAILED',
        'CANCELLED')),
    ADD CONSTRAINT pipelines_forgiven CHECK (forgiven_until >= 0 AND forgiven_until <= last_checkpoint_id)
""",
    f"""
ALTER TABLE tidegate.checkpoints
    ADD COLUMN kind TEXT DEFAULT 'CHECKPOINT' NOT NULL,
    ADD CONSTRAINT checkpoints_kind CHECK (kind IN ('CHECKPOINT', 'SAVEPOINT')),
    DROP CONSTRAINT checkpoints_failure_reason,
    ADD CONSTRAINT checkpoints_failure_reason CHECK (failure_reason IN ({REASONS}))
""",
    f"""
CREATE TABLE tidegate.requests (
    pipeline_id TEXT NOT NULL,
    request_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    periodic BOOLEAN NOT NULL,
    forced BOOLEAN NOT NULL,
    asked_at TIMESTAMP WITH TIME ZONE NOT NULL,
    seen_at TIMESTAMP WITH TIME ZONE NOT NULL,
    dropped TEXT,
    dropped_message TEXT,
    CONSTRAINT requests_pkey PRIMARY KEY (pipeline_id, request_id),
    CONSTRAINT requests_pipeline_fkey FOREIGN KEY(pipeline_id) REFERENCES tidegate.pipelines (pipeline_id),
    CONSTRAINT requests_named CHECK (request_id <> ''),
    CONSTRAINT requests_kind CHECK (kind IN ('CHECKPOINT', 'SAVEPOINT')),
    CONSTRAINT requests_seen CHECK (seen_at >= asked_at),
    CONSTRAINT requests_dropped CHECK (dropped IN ({REASONS})),
    CONSTRAINT requests_dropped_message CHECK ((dropped IS NULL) = (dropped_message IS NULL))
)
""",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
