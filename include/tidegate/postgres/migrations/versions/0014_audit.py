"""What people ask for, and what they are answered, is on record for good.

Never edited again: what ran on somebody's database must stay what it was.
"""

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

STATEMENTS = (
    """
CREATE TABLE tidegate.audit (
    number bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT audit_pkey PRIMARY KEY,
    pipeline_id text CONSTRAINT audit_pipeline_fkey REFERENCES tidegate.pipelines (pipeline_id),
    request_id text NOT NULL,
    at timestamptz NOT NULL,
    kind text NOT NULL,
    actor_kind text NOT NULL,
    actor text NOT NULL,
    origin text NOT NULL,
    details jsonb NOT NULL,
    status text NOT NULL,
    sentence text NOT NULL,
    checkpoint_id bigint,
    CONSTRAINT audit_asked_once UNIQUE (pipeline_id, request_id),
    CONSTRAINT audit_named CHECK (request_id <> ''),
    CONSTRAINT audit_kind CHECK (kind IN ('CHECKPOINT', 'SAVEPOINT', 'STOP', 'DRAIN', 'ABORT', 'APPROVE', 'REJECT',
        'SUSPEND', 'RESUME', 'CANCEL', 'RESTORE', 'UNDO', 'FORK', 'RENAME', 'DISPOSE', 'RELOCATE', 'EXPORT', 'REWRITE',
        'CLEAN', 'RECOVER', 'UPGRADE')),
    CONSTRAINT audit_actor CHECK (actor_kind IN ('AIRFLOW_USER', 'CLI_USER', 'DAG_RUN')),
    CONSTRAINT audit_status CHECK (status IN ('DONE', 'REFUSED'))
)
""",
    "CREATE INDEX audit_of_pipeline ON tidegate.audit (pipeline_id, number)",
    """
CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON tidegate.audit FOR EACH STATEMENT
EXECUTE FUNCTION tidegate.refuse('audit_append_only', 'what was asked and answered stays on record')
""",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
