"""Continuous regions, how often pipelines were restored, and files that only a failed checkpoint has given up.

Never edited again: what ran on somebody's database must stay what it was.
"""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

STATEMENTS = (
    """
ALTER TABLE tidegate.pipelines
    ADD COLUMN region_attempt INTEGER DEFAULT 0 NOT NULL,
    ADD COLUMN region_started_at TIMESTAMP WITH TIME ZONE,
    ADD COLUMN region_seen_at TIMESTAMP WITH TIME ZONE,
    ADD COLUMN region_ended_at TIMESTAMP WITH TIME ZONE,
    ADD COLUMN region_swept INTEGER DEFAULT 0 NOT NULL,
    ADD COLUMN restores INTEGER DEFAULT 0 NOT NULL,
    ADD COLUMN restored_checkpoint BIGINT,
    ADD COLUMN restored_at TIMESTAMP WITH TIME ZONE,
    ADD CONSTRAINT pipelines_region CHECK (region_attempt >= 0
        AND (region_attempt > 0) = (region_started_at IS NOT NULL)
        AND num_nonnulls(region_seen_at, region_ended_at) = least(region_attempt, 1)),
    ADD CONSTRAINT pipelines_region_swept CHECK (region_swept >= 0 AND region_swept <= region_attempt),
    ADD CONSTRAINT pipelines_restored CHECK (restores >= 0
        AND num_nonnulls(restored_checkpoint, restored_at) = 2 * least(restores, 1)
        AND (restored_checkpoint IS NULL OR restored_checkpoint BETWEEN 1 AND last_checkpoint_id))
""",
    """
ALTER TABLE tidegate.handles
    DROP CONSTRAINT handles_kind,
    ADD CONSTRAINT handles_kind CHECK (kind IN ('RUN', 'POSITION', 'EXCHANGE', 'CHANNEL', 'STAGED'))
""",
    """
ALTER TABLE tidegate.compactions
    DROP CONSTRAINT compactions_kind,
    ADD CONSTRAINT compactions_kind CHECK (kind IN ('RUN', 'POSITION', 'EXCHANGE', 'CHANNEL', 'STAGED'))
""",
    """
ALTER TABLE tidegate.deletion_queue
    ADD COLUMN given_up_by BIGINT,
    ADD CONSTRAINT deletion_queue_given_up_by CHECK (given_up_by >= 1)
""",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
