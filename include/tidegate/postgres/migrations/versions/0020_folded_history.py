"""Subtasks of checkpoints that ended long ago are replaced by what they come to.

Never edited again: what ran on somebody's database must stay what it was.
"""

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

STATEMENTS = (
    """
CREATE FUNCTION tidegate.refuse_unfolded() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM (SELECT DISTINCT pipeline_id, checkpoint_id, operator_id FROM written) w
        WHERE NOT EXISTS (
            SELECT FROM tidegate.folded_operators f
            WHERE f.pipeline_id = w.pipeline_id AND f.checkpoint_id = w.checkpoint_id
              AND f.operator_id = w.operator_id)
    ) THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_kept',
            MESSAGE = 'what belongs to a checkpoint is deleted only once it is folded';
    END IF;
    RETURN NULL;
END $$
""",
    """
CREATE FUNCTION tidegate.refuse_operators_of_unfolded() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM tidegate.checkpoints c
        WHERE NOT c.folded AND (c.pipeline_id, c.checkpoint_id) IN (
            SELECT DISTINCT w.pipeline_id, w.checkpoint_id FROM written w)
    ) THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = 'folded_operators_of_folded',
            MESSAGE = 'the checkpoint is not folded';
    END IF;
    RETURN NULL;
END $$
""",
    """
ALTER TABLE tidegate.checkpoints ADD COLUMN folded boolean NOT NULL DEFAULT false
""",
    """
ALTER TABLE tidegate.checkpoints ADD CONSTRAINT checkpoints_folded CHECK (
    NOT folded OR kind = 'CHECKPOINT' AND (status = 'FAILED' OR status = 'DISCARDED' AND notified_at IS NOT \
NULL))
""",
    """
CREATE INDEX checkpoints_unfolded ON tidegate.checkpoints (pipeline_id, checkpoint_id) INCLUDE (status) WHERE NOT \
folded
""",
    """
CREATE TABLE tidegate.folded_operators (
    pipeline_id text NOT NULL,
    checkpoint_id bigint NOT NULL,
    operator_id text NOT NULL,
    number integer NOT NULL,
    acknowledged integer NOT NULL,
    finished integer NOT NULL,
    attempt integer NOT NULL,
    latest timestamptz,
    checkpointed_size bigint NOT NULL,
    state_size bigint NOT NULL,
    files bigint NOT NULL,
    unaligned boolean NOT NULL,
    positioned boolean NOT NULL,
    processed_data bigint NOT NULL,
    persisted_data bigint NOT NULL,
    rows_in bigint NOT NULL,
    rows_out bigint NOT NULL,
    spreads double precision[] NOT NULL,
    CONSTRAINT folded_operators_pkey PRIMARY KEY (pipeline_id, checkpoint_id, operator_id),
    CONSTRAINT folded_operators_checkpoint_fkey FOREIGN KEY (pipeline_id, checkpoint_id)
        REFERENCES tidegate.checkpoints (pipeline_id, checkpoint_id),
    CONSTRAINT folded_operators_counts CHECK (
        number >= 1 AND acknowledged BETWEEN 0 AND number AND finished BETWEEN 0 AND acknowledged
        AND cardinality(spreads) = 33)
)
""",
    """
CREATE TABLE tidegate.folded_totals (
    pipeline_id text NOT NULL CONSTRAINT folded_totals_pipeline_fkey REFERENCES tidegate.pipelines \
(pipeline_id),
    failed bigint NOT NULL,
    discarded bigint NOT NULL,
    measured bigint NOT NULL,
    smallest bigint[] NOT NULL,
    largest bigint[] NOT NULL,
    total numeric[] NOT NULL,
    CONSTRAINT folded_totals_pkey PRIMARY KEY (pipeline_id),
    CONSTRAINT folded_totals_counts CHECK (
        failed >= 0 AND discarded >= 0 AND measured >= 0 AND cardinality(smallest) = 5
        AND cardinality(largest) = 5 AND cardinality(total) = 5)
)
""",
    """
CREATE TRIGGER folded_unchanged AFTER UPDATE ON tidegate.folded_operators FOR EACH ROW
WHEN (OLD IS DISTINCT FROM NEW)
EXECUTE FUNCTION tidegate.refuse('folded_unchanged', 'what was folded stays so')
""",
    """
CREATE TRIGGER folded_kept BEFORE DELETE OR TRUNCATE ON tidegate.folded_operators FOR EACH STATEMENT
EXECUTE FUNCTION tidegate.refuse('folded_kept', 'what was folded is not deleted')
""",
    """
CREATE TRIGGER folded_operators_of_folded AFTER INSERT ON tidegate.folded_operators
REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION tidegate.refuse_operators_of_unfolded()
""",
    """
CREATE TRIGGER folded_totals_grow AFTER UPDATE ON tidegate.folded_totals FOR EACH ROW
WHEN ((OLD.pipeline_id) IS DISTINCT FROM (NEW.pipeline_id) OR NEW.failed < OLD.failed OR NEW.discarded < \
OLD.discarded OR NEW.measured < OLD.measured)
EXECUTE FUNCTION tidegate.refuse('folded_totals_grow', 'what was counted stays counted')
""",
    """
CREATE TRIGGER folded_totals_kept BEFORE DELETE OR TRUNCATE ON tidegate.folded_totals FOR EACH STATEMENT
EXECUTE FUNCTION tidegate.refuse('folded_totals_kept', 'what was counted is not deleted')
""",
    """
DROP TRIGGER checkpoints_only_forward ON tidegate.checkpoints
""",
    """
CREATE TRIGGER checkpoints_only_forward AFTER UPDATE ON tidegate.checkpoints FOR EACH ROW
WHEN (NEW.num_acknowledged < OLD.num_acknowledged OR NEW.num_finished < OLD.num_finished OR OLD.swept AND NOT \
NEW.swept OR OLD.folded AND NOT NEW.folded OR OLD.notified_at IS NOT NULL AND OLD.notified_at IS DISTINCT FROM \
NEW.notified_at)
EXECUTE FUNCTION tidegate.refuse('checkpoints_only_forward', 'what was acknowledged, notified, swept and folded \
stays so')
""",
    """
DROP TRIGGER subtasks_kept ON tidegate.subtasks
""",
    """
CREATE TRIGGER subtasks_kept BEFORE TRUNCATE ON tidegate.subtasks FOR EACH STATEMENT
EXECUTE FUNCTION tidegate.refuse('subtasks_kept', 'subtasks of checkpoints are not deleted')
""",
    """
CREATE TRIGGER subtasks_folded AFTER DELETE ON tidegate.subtasks
REFERENCING OLD TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION tidegate.refuse_unfolded()
""",
    """
DROP TRIGGER handles_kept ON tidegate.handles
""",
    """
CREATE TRIGGER handles_kept BEFORE TRUNCATE ON tidegate.handles FOR EACH STATEMENT
EXECUTE FUNCTION tidegate.refuse('handles_kept', 'handles of checkpoints are not deleted')
""",
    """
CREATE TRIGGER handles_folded AFTER DELETE ON tidegate.handles
REFERENCING OLD TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION tidegate.refuse_unfolded()
""",
    """
ALTER TABLE tidegate.subtasks SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor \
= 0.05,
    autovacuum_analyze_scale_factor = 0.05)
""",
    """
ALTER TABLE tidegate.handles SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor \
= 0.05,
    autovacuum_analyze_scale_factor = 0.05)
""",
    """
ALTER TABLE tidegate.deletion_queue SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000)
""",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
