"""The database has an identity: what pipelines own elsewhere is marked with it.

Never edited again: what ran on somebody's database must stay what it was.
"""

from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

STATEMENTS = (
    """
CREATE TABLE tidegate.database_identity (
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    is_only boolean NOT NULL DEFAULT true,
    CONSTRAINT database_identity_pkey PRIMARY KEY (is_only),
    CONSTRAINT database_identity_once CHECK (is_only)
)
""",
    "INSERT INTO tidegate.database_identity DEFAULT VALUES",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
