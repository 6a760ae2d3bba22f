"""A verdict says what it depends on, and from which checkpoint it was carried over if it was not given anew.

Never edited again: what ran on somebody's database must stay what it was.
"""

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

STATEMENTS = (
    """
ALTER TABLE tidegate.verdicts
    ADD COLUMN carried_from bigint,
    ADD COLUMN basis text,
    ADD CONSTRAINT verdicts_carried_good CHECK (carried_from IS NULL OR (success AND carried_from < checkpoint_id)),
    ADD CONSTRAINT verdicts_basis_good CHECK (basis IS NULL OR success)
""",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
