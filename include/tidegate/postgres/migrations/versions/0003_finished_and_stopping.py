"""Pipelines that stop and finish, the savepoint to stop with, and subtasks that have finished.

Never edited again: what ran on somebody's database must stay what it was.
"""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

STATEMENTS = (
    """
ALTER TABLE tidegate.pipelines
    DROP CONSTRAINT pipelines_status,
    ADD CONSTRAINT pipelines_status CHECK (status IN ('CREATED', 'RUNNING', 'STOPPING', 'SUSPENDED', 'FAILED',
        'FINISHED', 'CANCELLED'))
""",
    """
ALTER TABLE tidegate.checkpoints
    ADD COLUMN num_finished INTEGER DEFAULT 0 NOT NULL,
    ADD COLUMN drain BOOLEAN DEFAULT false NOT NULL,
    DROP CONSTRAINT checkpoints_kind,
    ADD CONSTRAINT checkpoints_kind CHECK (kind IN ('CHECKPOINT', 'SAVEPOINT', 'SYNC_SAVEPOINT')),
    ADD CONSTRAINT checkpoints_finished CHECK (num_finished >= 0 AND num_finished <= num_acknowledged),
    ADD CONSTRAINT checkpoints_drain CHECK (NOT drain OR kind = 'SYNC_SAVEPOINT')
""",
    """
ALTER TABLE tidegate.requests
    ADD COLUMN drain BOOLEAN DEFAULT false NOT NULL,
    DROP CONSTRAINT requests_kind,
    ADD CONSTRAINT requests_kind CHECK (kind IN ('CHECKPOINT', 'SAVEPOINT', 'SYNC_SAVEPOINT')),
    ADD CONSTRAINT requests_drain CHECK (NOT drain OR kind = 'SYNC_SAVEPOINT')
""",
    """
ALTER TABLE tidegate.subtasks
    ADD COLUMN finished BOOLEAN DEFAULT false NOT NULL,
    DROP CONSTRAINT subtasks_asked_before_acknowledged,
    ADD CONSTRAINT subtasks_asked_before_acknowledged CHECK (acknowledged_at IS NULL OR attempt >= 1 OR finished),
    ADD CONSTRAINT subtasks_finished CHECK (NOT finished OR acknowledged_at IS NOT NULL)
""",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
