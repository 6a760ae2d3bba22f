"""Savepoints have a name and a note, which their owner may change.

Never edited again: what ran on somebody's database must stay what it was.
"""

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

STATEMENTS = (
    """
ALTER TABLE tidegate.requests
    ADD COLUMN name text,
    ADD COLUMN note text,
    ADD CONSTRAINT requests_label CHECK (kind <> 'CHECKPOINT' OR num_nonnulls(name, note) = 0)
""",
    """
ALTER TABLE tidegate.checkpoints
    ADD COLUMN name text,
    ADD COLUMN note text,
    ADD CONSTRAINT checkpoints_label CHECK (kind <> 'CHECKPOINT' OR num_nonnulls(name, note) = 0)
""",
    """
CREATE UNIQUE INDEX checkpoints_named_once ON tidegate.checkpoints (pipeline_id, name)
WHERE status IN ('IN_PROGRESS', 'COMPLETED')
""",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
