"""Others are told of what happens to pipelines.

Never edited again: what ran on somebody's database must stay what it was.
"""

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

STATEMENTS = (
    "ALTER TABLE tidegate.pipelines ADD COLUMN stale_since timestamptz",
    """
CREATE TABLE tidegate.events (
    pipeline_id text NOT NULL CONSTRAINT events_pipeline_fkey REFERENCES tidegate.pipelines (pipeline_id),
    number bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    kind text NOT NULL,
    at timestamptz NOT NULL,
    message text NOT NULL,
    checkpoint_id bigint,
    reason text,
    CONSTRAINT events_pkey PRIMARY KEY (pipeline_id, number),
    CONSTRAINT events_kind CHECK (kind IN ('CHECKPOINT_COMPLETED', 'CHECKPOINT_FAILED', 'VERDICT_HELD',
        'PIPELINE_FAILED', 'PIPELINE_STALE', 'PIPELINE_FRESH')),
    CONSTRAINT events_reason CHECK (reason IN ('PERIODIC_SCHEDULER_SHUTDOWN', 'MINIMUM_TIME_BETWEEN_CHECKPOINTS',
        'TOO_MANY_CHECKPOINT_REQUESTS', 'NOT_ALL_REQUIRED_TASKS_RUNNING', 'CHECKPOINT_DECLINED',
        'CHECKPOINT_ASYNC_EXCEPTION', 'CHECKPOINT_EXPIRED', 'DECLINED_SUBSUMED',
        'DECLINED_ON_CANCELLATION_BARRIER', 'DECLINED_INPUT_END_OF_STREAM', 'ALIGNMENT_LIMIT_EXCEEDED',
        'TASK_FAILURE', 'VALIDATION_FAILED', 'VALIDATION_REJECTED', 'HOLD_EXPIRED', 'FINALIZE_CHECKPOINT_FAILURE',
        'COORDINATOR_SUSPEND', 'COORDINATOR_SHUTDOWN', 'JOB_FAILOVER_REGION')),
    CONSTRAINT events_checkpoint_fkey FOREIGN KEY (pipeline_id, checkpoint_id)
        REFERENCES tidegate.checkpoints (pipeline_id, checkpoint_id)
)
""",
    """
CREATE TABLE tidegate.event_deliveries (
    pipeline_id text NOT NULL,
    number bigint NOT NULL,
    notifier text NOT NULL,
    attempts integer NOT NULL,
    again_at timestamptz NOT NULL,
    refused boolean DEFAULT false NOT NULL,
    delivered_at timestamptz,
    CONSTRAINT event_deliveries_pkey PRIMARY KEY (pipeline_id, number, notifier),
    CONSTRAINT event_deliveries_event_fkey FOREIGN KEY (pipeline_id, number)
        REFERENCES tidegate.events (pipeline_id, number) ON DELETE CASCADE,
    CONSTRAINT event_deliveries_notifier CHECK (notifier <> ''),
    CONSTRAINT event_deliveries_attempts CHECK (attempts >= 1)
)
""",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
