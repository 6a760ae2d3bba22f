"""Attempts at committing sinks: who commits, and that no attempt is given out twice.

Never edited again: what ran on somebody's database must stay what it was.
"""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

STATEMENTS = (
    """
ALTER TABLE tidegate.pipelines
    ADD COLUMN commit_attempt INTEGER DEFAULT 0 NOT NULL,
    ADD COLUMN committer_seen_at TIMESTAMP WITH TIME ZONE,
    ADD CONSTRAINT pipelines_committer CHECK (commit_attempt >= 0
        AND (commit_attempt > 0 OR committer_seen_at IS NULL))
""",
    """\
CREATE FUNCTION tidegate.refuse_older_attempt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.commit_attempt < OLD.commit_attempt OR NEW.commit_attempt = OLD.commit_attempt
        AND OLD.committer_seen_at IS NULL AND NEW.committer_seen_at IS NOT NULL
    THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = 'pipelines_attempts_grow',
            MESSAGE = 'an attempt at committing is given out a second time';
    END IF;
    RETURN NEW;
END $$""",
    """\
CREATE TRIGGER pipelines_attempts_grow BEFORE UPDATE OF commit_attempt, committer_seen_at ON tidegate.pipelines
FOR EACH ROW EXECUTE FUNCTION tidegate.refuse_older_attempt()""",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
