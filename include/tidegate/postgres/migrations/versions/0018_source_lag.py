"""How far a pipeline is behind its sources is written down.

Never edited again: what ran on somebody's database must stay what it was.
"""

from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

STATEMENTS = (
    """
CREATE TABLE tidegate.source_lag (
    pipeline_id text NOT NULL CONSTRAINT source_lag_pipeline_fkey REFERENCES tidegate.pipelines (pipeline_id),
    source text NOT NULL,
    pending bigint NOT NULL,
    unit text NOT NULL,
    bytes bigint NOT NULL,
    polled_at timestamptz NOT NULL,
    CONSTRAINT source_lag_pkey PRIMARY KEY (pipeline_id, source),
    CONSTRAINT source_lag_counted CHECK (pending >= 0 AND bytes >= -1 AND source <> '' AND unit <> '')
)
""",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
