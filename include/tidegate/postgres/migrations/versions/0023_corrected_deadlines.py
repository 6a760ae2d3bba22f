"""The deadline of a checkpoint that was triggered by a clock that was ahead can be corrected: it then lies before the
trigger. A new checkpoint still has a deadline after it.

Never edited again: what ran on somebody's database must stay what it was.
"""

from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

STATEMENTS = (
    "ALTER TABLE tidegate.checkpoints DROP CONSTRAINT checkpoints_deadline",
    """
CREATE TRIGGER checkpoints_deadline AFTER INSERT ON tidegate.checkpoints FOR EACH ROW
WHEN (NEW.deadline < NEW.triggered_at)
EXECUTE FUNCTION tidegate.refuse('checkpoints_deadline', 'only a deadline that is corrected may lie before the trigger')
""",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
