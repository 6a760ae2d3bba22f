"""Savepoints are written to directories of their own, and pipelines are restored from them.

Never edited again: what ran on somebody's database must stay what it was.
"""

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

STATEMENTS = (
    """
ALTER TABLE tidegate.checkpoints
    ADD COLUMN location text,
    ADD COLUMN exported_at timestamptz,
    ADD COLUMN exported_size bigint,
    ADD CONSTRAINT checkpoints_location CHECK (
        location IS NULL
        OR location <> '' AND kind <> 'CHECKPOINT' AND status IN ('COMPLETED', 'DISCARDED', 'SUBSUMED')),
    ADD CONSTRAINT checkpoints_exported CHECK (
        num_nulls(exported_at, exported_size) IN (0, 2) AND exported_size >= 0
        AND (exported_at IS NULL OR location IS NOT NULL))
""",
    """
CREATE TRIGGER checkpoints_exported_once AFTER UPDATE ON tidegate.checkpoints FOR EACH ROW
WHEN (OLD.location IS NOT NULL AND (OLD.location) IS DISTINCT FROM (NEW.location)
    OR OLD.exported_at IS NOT NULL
    AND (OLD.exported_at, OLD.exported_size) IS DISTINCT FROM (NEW.exported_at, NEW.exported_size))
EXECUTE FUNCTION tidegate.refuse('checkpoints_exported_once', 'where a savepoint was written stays so')
""",
    """
CREATE TABLE tidegate.imports (
    pipeline_id text NOT NULL CONSTRAINT imports_pipeline_fkey REFERENCES tidegate.pipelines (pipeline_id),
    checkpoint_id bigint NOT NULL,
    seen_at timestamptz NOT NULL,
    ended_at timestamptz,
    CONSTRAINT imports_pkey PRIMARY KEY (pipeline_id, checkpoint_id),
    CONSTRAINT imports_id CHECK (checkpoint_id >= 1)
)
""",
    """
CREATE TRIGGER imports_ended AFTER UPDATE ON tidegate.imports FOR EACH ROW
WHEN ((OLD.pipeline_id, OLD.checkpoint_id) IS DISTINCT FROM (NEW.pipeline_id, NEW.checkpoint_id)
    OR OLD.ended_at IS NOT NULL AND OLD IS DISTINCT FROM NEW)
EXECUTE FUNCTION tidegate.refuse('imports_ended', 'an import that has ended does not go on')
""",
    """
ALTER TABLE tidegate.restores
    ADD COLUMN imported bigint,
    ADD CONSTRAINT restores_imported CHECK (imported = last_checkpoint_id + 1)
""",
    "DROP TRIGGER restores_fixed ON tidegate.restores",
    """
CREATE TRIGGER restores_fixed AFTER UPDATE ON tidegate.restores FOR EACH ROW
WHEN ((OLD.pipeline_id, OLD.number, OLD.checkpoint_id, OLD.last_checkpoint_id, OLD.previous_checkpoint_id)
    IS DISTINCT FROM (NEW.pipeline_id, NEW.number, NEW.checkpoint_id, NEW.last_checkpoint_id,
    NEW.previous_checkpoint_id) OR (OLD.restored_at, OLD.undoes, OLD.imported)
    IS DISTINCT FROM (NEW.restored_at, NEW.undoes, NEW.imported)
    OR OLD.rewound_at IS NOT NULL AND OLD.rewound_at IS DISTINCT FROM NEW.rewound_at)
EXECUTE FUNCTION tidegate.refuse('restores_fixed', 'what was restored stays so')
""",
    """
ALTER TABLE tidegate.deletion_queue
    DROP CONSTRAINT deletion_queue_owner,
    ADD CONSTRAINT deletion_queue_owner CHECK (owner = 'storage' OR owner ~ '^sink:.' OR owner ~ '^savepoint:.')
""",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
