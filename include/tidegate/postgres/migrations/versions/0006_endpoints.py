"""Where the sources and sinks of a pipeline are, by which it is told from another one of the same name.

Never edited again: what ran on somebody's database must stay what it was.
"""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

STATEMENTS = (
    """
CREATE TABLE tidegate.endpoints (
    pipeline_id TEXT NOT NULL,
    role TEXT NOT NULL,
    name TEXT NOT NULL,
    type TEXT NOT NULL,
    place TEXT NOT NULL,
    recorded_at TIMESTAMP WITH TIME ZONE NOT NULL,
    place_before TEXT,
    CONSTRAINT endpoints_pkey PRIMARY KEY (pipeline_id, role, name),
    CONSTRAINT endpoints_pipeline_fkey FOREIGN KEY (pipeline_id) REFERENCES tidegate.pipelines (pipeline_id),
    CONSTRAINT endpoints_role CHECK (role IN ('SOURCE', 'SINK')),
    CONSTRAINT endpoints_named CHECK (name <> '' AND type <> '')
)
""",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
