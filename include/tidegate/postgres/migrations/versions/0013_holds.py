"""A checkpoint whose data broke a rule may wait for a person, who approves or rejects it: one more phase, HELD.

Never edited again: what ran on somebody's database must stay what it was.
"""

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

REASONS = """
        'PERIODIC_SCHEDULER_SHUTDOWN', 'MINIMUM_TIME_BETWEEN_CHECKPOINTS', 'TOO_MANY_CHECKPOINT_REQUESTS',
        'NOT_ALL_REQUIRED_TASKS_RUNNING', 'CHECKPOINT_DECLINED', 'CHECKPOINT_ASYNC_EXCEPTION', 'CHECKPOINT_EXPIRED',
        'DECLINED_SUBSUMED', 'DECLINED_ON_CANCELLATION_BARRIER', 'DECLINED_INPUT_END_OF_STREAM',
        'ALIGNMENT_LIMIT_EXCEEDED', 'TASK_FAILURE', 'VALIDATION_FAILED', 'VALIDATION_REJECTED', 'HOLD_EXPIRED',
        'FINALIZE_CHECKPOINT_FAILURE', 'COORDINATOR_SUSPEND', 'COORDINATOR_SHUTDOWN', 'JOB_FAILOVER_REGION'
"""

STATEMENTS = (
    f"""
ALTER TABLE tidegate.checkpoints
    ADD COLUMN held_at timestamptz,
    ADD COLUMN held_until timestamptz,
    ADD COLUMN held_message text,
    ADD COLUMN decision text,
    ADD COLUMN decided_at timestamptz,
    ADD COLUMN decided_by text,
    ADD COLUMN decision_comment text,
    DROP CONSTRAINT checkpoints_stage,
    ADD CONSTRAINT checkpoints_stage CHECK ((status, phase) IN (
        ('IN_PROGRESS', 'TRIGGERED'), ('IN_PROGRESS', 'ACKNOWLEDGED'), ('IN_PROGRESS', 'HELD'),
        ('IN_PROGRESS', 'VALIDATED'), ('COMPLETED', 'VALIDATED'), ('SUBSUMED', 'VALIDATED'),
        ('DISCARDED', 'VALIDATED'), ('FAILED', 'TRIGGERED'), ('FAILED', 'ACKNOWLEDGED'), ('FAILED', 'HELD'),
        ('FAILED', 'VALIDATED'))),
    DROP CONSTRAINT checkpoints_failure_reason,
    ADD CONSTRAINT checkpoints_failure_reason CHECK (failure_reason IN ({REASONS})),
    ADD CONSTRAINT checkpoints_held CHECK (
        num_nulls(held_at, held_until, held_message) IN (0, 3) AND held_until > held_at
        AND (held_at IS NOT NULL OR phase <> 'HELD')
        AND (held_at IS NULL OR phase IN ('HELD', 'VALIDATED'))),
    ADD CONSTRAINT checkpoints_decided CHECK (
        num_nulls(decision, decided_at, decided_by) IN (0, 3) AND decision IN ('APPROVED', 'REJECTED')
        AND decided_by <> '' AND (decision_comment IS NULL OR decision IS NOT NULL)
        AND decided_at < held_until AND (decision IS DISTINCT FROM 'REJECTED' OR phase = 'HELD')),
    ADD CONSTRAINT checkpoints_approved CHECK (
        (decision IS NOT DISTINCT FROM 'APPROVED') = (held_at IS NOT NULL AND phase = 'VALIDATED')),
    ADD CONSTRAINT checkpoints_rejected CHECK (
        status <> 'FAILED' OR (failure_reason = 'VALIDATION_REJECTED') = (decision IS NOT DISTINCT FROM 'REJECTED'))
""",
    f"""
ALTER TABLE tidegate.requests
    DROP CONSTRAINT requests_dropped,
    ADD CONSTRAINT requests_dropped CHECK (dropped IN ({REASONS}))
""",
    """
CREATE OR REPLACE FUNCTION tidegate.refuse_illegal_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF (NEW.status, NEW.phase) = ('IN_PROGRESS', 'TRIGGERED') THEN
            RETURN NEW;
        END IF;
        RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = 'checkpoints_legal_transition',
            MESSAGE = format('a checkpoint cannot begin as %s/%s', NEW.status, NEW.phase);
    END IF;
    IF (OLD.status, OLD.phase) = (NEW.status, NEW.phase) OR (OLD.status, OLD.phase, NEW.status, NEW.phase) IN (
        ('IN_PROGRESS', 'TRIGGERED', 'FAILED', 'TRIGGERED'),
        ('IN_PROGRESS', 'TRIGGERED', 'IN_PROGRESS', 'ACKNOWLEDGED'),
        ('IN_PROGRESS', 'ACKNOWLEDGED', 'FAILED', 'ACKNOWLEDGED'),
        ('IN_PROGRESS', 'ACKNOWLEDGED', 'IN_PROGRESS', 'HELD'),
        ('IN_PROGRESS', 'ACKNOWLEDGED', 'IN_PROGRESS', 'VALIDATED'),
        ('IN_PROGRESS', 'HELD', 'FAILED', 'HELD'),
        ('IN_PROGRESS', 'HELD', 'IN_PROGRESS', 'VALIDATED'),
        ('IN_PROGRESS', 'VALIDATED', 'COMPLETED', 'VALIDATED'),
        ('IN_PROGRESS', 'VALIDATED', 'FAILED', 'VALIDATED'),
        ('COMPLETED', 'VALIDATED', 'SUBSUMED', 'VALIDATED'),
        ('SUBSUMED', 'VALIDATED', 'DISCARDED', 'VALIDATED')
    ) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = 'checkpoints_legal_transition',
        MESSAGE = format('a checkpoint cannot go from %s/%s to %s/%s', OLD.status, OLD.phase, NEW.status, NEW.phase);
END $$
""",
    "DROP TRIGGER checkpoints_ended ON tidegate.checkpoints",
    """
CREATE TRIGGER checkpoints_ended AFTER UPDATE ON tidegate.checkpoints FOR EACH ROW
WHEN (OLD.status <> 'IN_PROGRESS' AND (OLD.deadline, OLD.num_acknowledged, OLD.num_finished,
    OLD.acknowledged_at, OLD.validated_at, OLD.held_at, OLD.held_until, OLD.held_message, OLD.decision, OLD.decided_at,
    OLD.decided_by, OLD.decision_comment, OLD.completed_at, OLD.metadata_path, OLD.state_size,
    OLD.checkpointed_size, OLD.failed_at, OLD.failure_reason, OLD.failure_message) IS DISTINCT FROM (NEW.deadline,
    NEW.num_acknowledged, NEW.num_finished, NEW.acknowledged_at, NEW.validated_at, NEW.held_at, NEW.held_until,
    NEW.held_message, NEW.decision, NEW.decided_at, NEW.decided_by, NEW.decision_comment, NEW.completed_at,
    NEW.metadata_path, NEW.state_size, NEW.checkpointed_size, NEW.failed_at, NEW.failure_reason, NEW.failure_message))
EXECUTE FUNCTION tidegate.refuse('checkpoints_ended', 'the checkpoint has ended and stays as it is')
""",
    """
CREATE TRIGGER checkpoints_decided_once AFTER UPDATE ON tidegate.checkpoints FOR EACH ROW
WHEN (OLD.held_at IS NOT NULL AND (OLD.held_at, OLD.held_until, OLD.held_message)
    IS DISTINCT FROM (NEW.held_at, NEW.held_until, NEW.held_message) OR OLD.decision IS NOT NULL
    AND (OLD.decision, OLD.decided_at, OLD.decided_by, OLD.decision_comment)
    IS DISTINCT FROM (NEW.decision, NEW.decided_at, NEW.decided_by, NEW.decision_comment))
EXECUTE FUNCTION tidegate.refuse('checkpoints_decided_once', 'why it was held, and what was decided, stays so')
""",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
