"""Restores are planned, shown and confirmed on a page.

Never edited again: what ran on somebody's database must stay what it was.
"""

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

STATEMENTS = (
    """
CREATE TABLE tidegate.restore_plans (
    pipeline_id text NOT NULL CONSTRAINT restore_plans_pipeline_fkey REFERENCES tidegate.pipelines (pipeline_id),
    request_id text NOT NULL,
    target text NOT NULL,
    asked_at timestamptz NOT NULL,
    asked_by text NOT NULL,
    asked_from text NOT NULL,
    dag_id text NOT NULL,
    run_id text NOT NULL,
    planned_at timestamptz,
    document jsonb,
    digest text,
    refusal text,
    confirmed_id text,
    confirmed_at timestamptz,
    confirmed_by text,
    confirmed_from text,
    confirmed_dag text,
    confirmed_run text,
    accepted jsonb,
    CONSTRAINT restore_plans_pkey PRIMARY KEY (pipeline_id, request_id),
    CONSTRAINT restore_plans_named CHECK (request_id <> '' AND target <> ''),
    CONSTRAINT restore_plans_planned CHECK (
        num_nonnulls(document, digest) IN (0, 2)
        AND (planned_at IS NOT NULL)::integer = num_nonnulls(document, refusal)),
    CONSTRAINT restore_plans_confirmed CHECK (
        num_nonnulls(confirmed_id, confirmed_at, confirmed_by, confirmed_from, confirmed_dag, confirmed_run, accepted)
            IN (0, 7)
        AND (confirmed_id IS NULL OR document IS NOT NULL))
)
""",
    """
CREATE TRIGGER restore_plans_fixed AFTER UPDATE ON tidegate.restore_plans FOR EACH ROW
WHEN (
    (OLD.pipeline_id, OLD.request_id, OLD.target, OLD.asked_at, OLD.asked_by, OLD.asked_from, OLD.dag_id, OLD.run_id)
        IS DISTINCT FROM
    (NEW.pipeline_id, NEW.request_id, NEW.target, NEW.asked_at, NEW.asked_by, NEW.asked_from, NEW.dag_id, NEW.run_id)
    OR OLD.planned_at IS NOT NULL
        AND (OLD.planned_at, OLD.document, OLD.digest, OLD.refusal)
            IS DISTINCT FROM (NEW.planned_at, NEW.document, NEW.digest, NEW.refusal)
    OR OLD.confirmed_id IS NOT NULL
        AND (OLD.confirmed_id, OLD.confirmed_at, OLD.confirmed_by, OLD.confirmed_from, OLD.confirmed_dag,
             OLD.confirmed_run, OLD.accepted)
            IS DISTINCT FROM
            (NEW.confirmed_id, NEW.confirmed_at, NEW.confirmed_by, NEW.confirmed_from, NEW.confirmed_dag,
             NEW.confirmed_run, NEW.accepted)
)
EXECUTE FUNCTION tidegate.refuse('restore_plans_fixed', 'a plan stays as it was shown and confirmed')
""",
    """
CREATE TRIGGER restore_plans_kept BEFORE DELETE OR TRUNCATE ON tidegate.restore_plans FOR EACH STATEMENT
EXECUTE FUNCTION tidegate.refuse('restore_plans_kept', 'plans that were shown are not deleted')
""",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
