"""What rows may legally become: transitions of pipelines, and what of a checkpoint stays once it is recorded
or has ended.

Never edited again: what ran on somebody's database must stay what it was.
"""

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

STATEMENTS = (
    """CREATE FUNCTION tidegate.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = TG_ARGV[0], MESSAGE = TG_ARGV[1];
END $$""",
    """CREATE FUNCTION tidegate.refuse_parts_of_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM tidegate.checkpoints c
        WHERE c.status <> 'IN_PROGRESS' AND (c.pipeline_id, c.checkpoint_id) IN (
            SELECT DISTINCT w.pipeline_id, w.checkpoint_id FROM written w)
    ) THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_of_ended',
            MESSAGE = 'the checkpoint has ended; what belongs to it stays as it is';
    END IF;
    RETURN NULL;
END $$""",
    """
CREATE TRIGGER pipelines_legal_transition AFTER UPDATE ON tidegate.pipelines FOR EACH ROW
WHEN (OLD.status <> NEW.status AND (OLD.status, NEW.status) NOT IN (('CREATED', 'CANCELLED'), ('CREATED',
    'RUNNING'), ('CREATED', 'STOPPING'), ('CREATED', 'SUSPENDED'), ('RUNNING', 'CANCELLED'), ('RUNNING',
    'FAILED'), ('RUNNING', 'FINISHED'), ('RUNNING', 'STOPPING'), ('RUNNING', 'SUSPENDED'), ('STOPPING',
    'CANCELLED'), ('STOPPING', 'FAILED'), ('STOPPING', 'FINISHED'), ('STOPPING', 'RUNNING'), ('STOPPING',
    'SUSPENDED'), ('SUSPENDED', 'CANCELLED'), ('SUSPENDED', 'FINISHED'), ('SUSPENDED', 'RUNNING'), ('FAILED',
    'CANCELLED'), ('FAILED', 'RUNNING'), ('FINISHED', 'CANCELLED'), ('FINISHED', 'RUNNING')))
EXECUTE FUNCTION tidegate.refuse('pipelines_legal_transition', \
'the pipeline cannot come from where it is to where it is put')
""",
    """
CREATE TRIGGER pipelines_begin AFTER INSERT ON tidegate.pipelines FOR EACH ROW
WHEN (NEW.status <> 'CREATED' OR NEW.last_checkpoint_id <> 0 OR NEW.region_attempt <> 0)
EXECUTE FUNCTION tidegate.refuse('pipelines_begin', 'a pipeline begins without a past')
""",
    """
CREATE TRIGGER pipelines_only_forward AFTER UPDATE ON tidegate.pipelines FOR EACH ROW
WHEN ((OLD.pipeline_id) IS DISTINCT FROM (NEW.pipeline_id) OR \
NEW.last_checkpoint_id < OLD.last_checkpoint_id OR NEW.forgiven_until < OLD.forgiven_until OR \
NEW.region_attempt < OLD.region_attempt OR NEW.region_swept < OLD.region_swept OR NEW.restores < OLD.restores)
EXECUTE FUNCTION tidegate.refuse('pipelines_only_forward', \
'ids and attempts only grow, or what is overtaken could count again')
""",
    """
CREATE TRIGGER pipelines_kept BEFORE DELETE OR TRUNCATE ON tidegate.pipelines FOR EACH STATEMENT
EXECUTE FUNCTION tidegate.refuse('pipelines_kept', 'pipelines are not deleted')
""",
    """
CREATE TRIGGER checkpoints_fixed AFTER UPDATE ON tidegate.checkpoints FOR EACH ROW
WHEN ((OLD.pipeline_id, OLD.checkpoint_id, OLD.request_id, OLD.periodic, OLD.kind, OLD.drain, OLD.triggered_at,
    OLD.num_subtasks, OLD.operators) IS DISTINCT FROM (NEW.pipeline_id, NEW.checkpoint_id, NEW.request_id,
    NEW.periodic, NEW.kind, NEW.drain, NEW.triggered_at, NEW.num_subtasks, NEW.operators))
EXECUTE FUNCTION tidegate.refuse('checkpoints_fixed', 'what a checkpoint was triggered as stays')
""",
    """
CREATE TRIGGER checkpoints_ended AFTER UPDATE ON tidegate.checkpoints FOR EACH ROW
WHEN (OLD.status <> 'IN_PROGRESS' AND (OLD.deadline, OLD.num_acknowledged, OLD.num_finished,
    OLD.acknowledged_at, OLD.validated_at, OLD.completed_at, OLD.metadata_path, OLD.state_size,
    OLD.checkpointed_size, OLD.failed_at, OLD.failure_reason,
    OLD.failure_message) IS DISTINCT FROM (NEW.deadline, NEW.num_acknowledged, NEW.num_finished,
    NEW.acknowledged_at, NEW.validated_at, NEW.completed_at, NEW.metadata_path, NEW.state_size,
    NEW.checkpointed_size, NEW.failed_at, NEW.failure_reason, NEW.failure_message))
EXECUTE FUNCTION tidegate.refuse('checkpoints_ended', 'the checkpoint has ended and stays as it is')
""",
    """
CREATE TRIGGER checkpoints_only_forward AFTER UPDATE ON tidegate.checkpoints FOR EACH ROW
WHEN (NEW.num_acknowledged < OLD.num_acknowledged OR NEW.num_finished < OLD.num_finished OR \
OLD.swept AND NOT NEW.swept OR OLD.notified_at IS NOT NULL AND OLD.notified_at IS DISTINCT FROM NEW.notified_at)
EXECUTE FUNCTION tidegate.refuse('checkpoints_only_forward', 'what was acknowledged, notified and swept stays so')
""",
    """
CREATE TRIGGER checkpoints_kept BEFORE DELETE OR TRUNCATE ON tidegate.checkpoints FOR EACH STATEMENT
EXECUTE FUNCTION tidegate.refuse('checkpoints_kept', 'checkpoints are not deleted')
""",
    """
CREATE TRIGGER subtasks_acknowledged AFTER UPDATE ON tidegate.subtasks FOR EACH ROW
WHEN (OLD.acknowledged_at IS NOT NULL)
EXECUTE FUNCTION tidegate.refuse('subtasks_acknowledged', 'the first acknowledgement stands')
""",
    """
CREATE TRIGGER subtasks_only_forward AFTER UPDATE ON tidegate.subtasks FOR EACH ROW
WHEN ((OLD.pipeline_id, OLD.checkpoint_id, OLD.operator_id,
    OLD.subtask_index) IS DISTINCT FROM (NEW.pipeline_id, NEW.checkpoint_id, NEW.operator_id,
    NEW.subtask_index) OR NEW.attempt < OLD.attempt)
EXECUTE FUNCTION tidegate.refuse('subtasks_only_forward', \
'attempts only grow, or one that is overtaken could count again')
""",
    """
CREATE TRIGGER subtasks_kept BEFORE DELETE OR TRUNCATE ON tidegate.subtasks FOR EACH STATEMENT
EXECUTE FUNCTION tidegate.refuse('subtasks_kept', 'subtasks of checkpoints are not deleted')
""",
    """
CREATE TRIGGER subtasks_of_ended_insert AFTER INSERT ON tidegate.subtasks
REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION tidegate.refuse_parts_of_ended()
""",
    """
CREATE TRIGGER subtasks_of_ended_update AFTER UPDATE ON tidegate.subtasks
REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION tidegate.refuse_parts_of_ended()
""",
    """
CREATE TRIGGER handles_unchanged AFTER UPDATE ON tidegate.handles FOR EACH ROW
WHEN (OLD IS DISTINCT FROM NEW)
EXECUTE FUNCTION tidegate.refuse('handles_unchanged', 'a reported snapshot stays as it is')
""",
    """
CREATE TRIGGER handles_kept BEFORE DELETE OR TRUNCATE ON tidegate.handles FOR EACH STATEMENT
EXECUTE FUNCTION tidegate.refuse('handles_kept', 'handles of checkpoints are not deleted')
""",
    """
CREATE TRIGGER handles_of_ended_insert AFTER INSERT ON tidegate.handles
REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION tidegate.refuse_parts_of_ended()
""",
    """
CREATE TRIGGER verdicts_unchanged AFTER UPDATE ON tidegate.verdicts FOR EACH ROW
WHEN (OLD IS DISTINCT FROM NEW)
EXECUTE FUNCTION tidegate.refuse('verdicts_unchanged', 'a recorded verdict stands')
""",
    """
CREATE TRIGGER verdicts_kept BEFORE TRUNCATE ON tidegate.verdicts FOR EACH STATEMENT
EXECUTE FUNCTION tidegate.refuse('verdicts_kept', 'verdicts are not deleted')
""",
    """
CREATE TRIGGER verdicts_of_ended_insert AFTER INSERT ON tidegate.verdicts
REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION tidegate.refuse_parts_of_ended()
""",
    """
CREATE TRIGGER verdicts_of_ended_delete AFTER DELETE ON tidegate.verdicts
REFERENCING OLD TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION tidegate.refuse_parts_of_ended()
""",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
