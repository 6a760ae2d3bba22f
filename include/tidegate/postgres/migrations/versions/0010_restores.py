"""The way back: which restores a user asked for, and which checkpoints they left behind.

Never edited again: what ran on somebody's database must stay what it was.
"""

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

STATEMENTS = (
    "ALTER TABLE tidegate.pipelines ADD COLUMN last_restore integer NOT NULL DEFAULT 0",
    """
CREATE TABLE tidegate.restores (
    pipeline_id text NOT NULL CONSTRAINT restores_pipeline_fkey REFERENCES tidegate.pipelines (pipeline_id),
    number integer NOT NULL,
    checkpoint_id bigint NOT NULL,
    last_checkpoint_id bigint NOT NULL,
    previous_checkpoint_id bigint,
    restored_at timestamptz NOT NULL,
    undoes integer,
    rewound_at timestamptz,
    allows_non_restored_state boolean NOT NULL,
    CONSTRAINT restores_pkey PRIMARY KEY (pipeline_id, number),
    CONSTRAINT restores_number CHECK (number >= 1),
    CONSTRAINT restores_of_the_past CHECK (
        checkpoint_id BETWEEN 1 AND last_checkpoint_id
        AND (previous_checkpoint_id IS NULL OR previous_checkpoint_id BETWEEN 1 AND last_checkpoint_id)),
    CONSTRAINT restores_undoes CHECK (undoes >= 1 AND undoes < number)
)
""",
    "CREATE UNIQUE INDEX restores_undone_once ON tidegate.restores (pipeline_id, undoes)",
    """
CREATE TRIGGER restores_fixed AFTER UPDATE ON tidegate.restores FOR EACH ROW
WHEN ((OLD.pipeline_id, OLD.number, OLD.checkpoint_id, OLD.last_checkpoint_id, OLD.previous_checkpoint_id)
    IS DISTINCT FROM (NEW.pipeline_id, NEW.number, NEW.checkpoint_id, NEW.last_checkpoint_id,
    NEW.previous_checkpoint_id) OR (OLD.restored_at, OLD.undoes) IS DISTINCT FROM (NEW.restored_at, NEW.undoes)
    OR OLD.rewound_at IS NOT NULL AND OLD.rewound_at IS DISTINCT FROM NEW.rewound_at)
EXECUTE FUNCTION tidegate.refuse('restores_fixed', 'what was restored stays so')
""",
    """
CREATE TRIGGER restores_kept BEFORE DELETE OR TRUNCATE ON tidegate.restores FOR EACH STATEMENT
EXECUTE FUNCTION tidegate.refuse('restores_kept', 'restores are not deleted')
""",
    """
ALTER TABLE tidegate.checkpoints
    ADD COLUMN abandoned_by integer,
    ADD CONSTRAINT checkpoints_abandoned_fkey FOREIGN KEY (pipeline_id, abandoned_by)
        REFERENCES tidegate.restores (pipeline_id, number),
    ADD CONSTRAINT checkpoints_abandoned CHECK (
        abandoned_by IS NULL OR status IN ('COMPLETED', 'DISCARDED', 'SUBSUMED'))
""",
    "DROP INDEX tidegate.checkpoints_request_once",
    """
CREATE UNIQUE INDEX checkpoints_request_once ON tidegate.checkpoints (pipeline_id, request_id)
WHERE status <> 'FAILED' AND abandoned_by IS NULL
""",
    "DROP TRIGGER pipelines_legal_transition ON tidegate.pipelines",
    """
CREATE TRIGGER pipelines_legal_transition AFTER UPDATE ON tidegate.pipelines FOR EACH ROW
WHEN (OLD.status <> NEW.status AND (OLD.status, NEW.status) NOT IN (('CREATED', 'CANCELLED'), ('CREATED',
    'RUNNING'), ('CREATED', 'STOPPING'), ('CREATED', 'SUSPENDED'), ('RUNNING', 'CANCELLED'), ('RUNNING',
    'FAILED'), ('RUNNING', 'FINISHED'), ('RUNNING', 'STOPPING'), ('RUNNING', 'SUSPENDED'), ('STOPPING',
    'CANCELLED'), ('STOPPING', 'FAILED'), ('STOPPING', 'FINISHED'), ('STOPPING', 'RUNNING'), ('STOPPING',
    'SUSPENDED'), ('SUSPENDED', 'CANCELLED'), ('SUSPENDED', 'FINISHED'), ('SUSPENDED', 'RUNNING'), ('FAILED',
    'CANCELLED'), ('FAILED', 'RUNNING'), ('FINISHED', 'CANCELLED'), ('FINISHED', 'RUNNING'))
    AND NOT (NEW.status = 'RUNNING' AND NEW.last_restore > OLD.last_restore))
EXECUTE FUNCTION tidegate.refuse('pipelines_legal_transition', \
'the pipeline cannot come from where it is to where it is put')
""",
    "DROP TRIGGER pipelines_only_forward ON tidegate.pipelines",
    """
CREATE TRIGGER pipelines_only_forward AFTER UPDATE ON tidegate.pipelines FOR EACH ROW
WHEN ((OLD.pipeline_id) IS DISTINCT FROM (NEW.pipeline_id) OR \
NEW.last_checkpoint_id < OLD.last_checkpoint_id OR NEW.forgiven_until < OLD.forgiven_until OR \
NEW.region_attempt < OLD.region_attempt OR NEW.region_swept < OLD.region_swept OR NEW.restores < OLD.restores OR \
NEW.last_restore < OLD.last_restore)
EXECUTE FUNCTION tidegate.refuse('pipelines_only_forward', \
'ids and attempts only grow, or what is overtaken could count again')
""",
    """
CREATE OR REPLACE VIEW tidegate.live_references AS
    SELECT h.pipeline_id, h.owner, h.path, h.created_by, h.checkpoint_id
    FROM tidegate.handles h JOIN tidegate.checkpoints c USING (pipeline_id, checkpoint_id)
    WHERE c.status = 'IN_PROGRESS'
        OR c.status = 'COMPLETED' AND h.kind <> 'EXCHANGE'
        OR c.status = 'SUBSUMED' AND c.notified_at IS NULL AND c.abandoned_by IS NULL AND h.kind = 'STAGED'
  UNION ALL
    SELECT c.pipeline_id, 'storage', c.metadata_path, c.checkpoint_id, c.checkpoint_id
    FROM tidegate.checkpoints c
    WHERE c.status = 'COMPLETED'
  UNION ALL
    SELECT k.pipeline_id, 'storage', k.path, k.created_by, 0
    FROM tidegate.compactions k
""",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
