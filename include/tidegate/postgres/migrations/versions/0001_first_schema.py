"""The first schema: pipelines, checkpoints, subtasks, handles, verdicts, compactions and the deletion queue.

Written out in full and never edited again: what ran on somebody's database must stay what it was.
"""

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

STATEMENTS = (
    """
CREATE TABLE tidegate.handles (
    pipeline_id TEXT NOT NULL,
    checkpoint_id BIGINT NOT NULL,
    operator_id TEXT NOT NULL,
    subtask_index INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    path TEXT NOT NULL,
    kind TEXT NOT NULL,
    rows BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    checksum TEXT NOT NULL,
    created_by BIGINT NOT NULL,
    first_key_group INTEGER,
    last_key_group INTEGER,
    details JSONB DEFAULT '{}'::jsonb NOT NULL,
    owner TEXT GENERATED ALWAYS AS (CASE WHEN kind = 'STAGED' THEN 'sink:' || operator_id ELSE 'storage' END)
        STORED,
    CONSTRAINT handles_pkey PRIMARY KEY (pipeline_id, checkpoint_id, operator_id, subtask_index, ordinal),
    CONSTRAINT handles_path_confined CHECK (path <> '' AND '/' || path || '/' NOT LIKE ALL (ARRAY['//%',
        '%/../%'])),
    CONSTRAINT handles_kind CHECK (kind IN ('RUN', 'POSITION', 'EXCHANGE', 'STAGED')),
    CONSTRAINT handles_sizes CHECK (rows >= 0 AND bytes >= 0 AND created_by >= 1),
    CONSTRAINT handles_key_groups CHECK ((first_key_group IS NULL) = (last_key_group IS NULL) AND
        (first_key_group IS NULL OR (first_key_group >= 0 AND first_key_group <= last_key_group))),
    CONSTRAINT handles_created_before CHECK (created_by <= checkpoint_id)
)
""",
    """
CREATE TABLE tidegate.pipelines (
    pipeline_id TEXT NOT NULL,
    last_checkpoint_id BIGINT DEFAULT 0 NOT NULL,
    PRIMARY KEY (pipeline_id),
    CONSTRAINT pipelines_named CHECK (pipeline_id <> ''),
    CONSTRAINT pipelines_counter CHECK (last_checkpoint_id >= 0)
)
""",
    """
CREATE TABLE tidegate.checkpoints (
    pipeline_id TEXT NOT NULL,
    checkpoint_id BIGINT NOT NULL,
    request_id TEXT NOT NULL,
    periodic BOOLEAN NOT NULL,
    status TEXT NOT NULL,
    phase TEXT NOT NULL,
    triggered_at TIMESTAMP WITH TIME ZONE NOT NULL,
    deadline TIMESTAMP WITH TIME ZONE NOT NULL,
    num_subtasks INTEGER NOT NULL,
    num_acknowledged INTEGER DEFAULT 0 NOT NULL,
    operators JSONB DEFAULT '[]'::jsonb NOT NULL,
    acknowledged_at TIMESTAMP WITH TIME ZONE,
    validated_at TIMESTAMP WITH TIME ZONE,
    completed_at TIMESTAMP WITH TIME ZONE,
    failed_at TIMESTAMP WITH TIME ZONE,
    failure_reason TEXT,
    failure_message TEXT,
    notified_at TIMESTAMP WITH TIME ZONE,
    metadata_path TEXT,
    state_size BIGINT DEFAULT 0 NOT NULL,
    checkpointed_size BIGINT DEFAULT 0 NOT NULL,
    swept BOOLEAN DEFAULT false NOT NULL,
    CONSTRAINT checkpoints_pkey PRIMARY KEY (pipeline_id, checkpoint_id),
    CONSTRAINT checkpoints_id CHECK (checkpoint_id >= 1),
    CONSTRAINT checkpoints_request CHECK (request_id <> ''),
    CONSTRAINT checkpoints_stage CHECK ((status, phase) IN (('IN_PROGRESS', 'TRIGGERED'), ('IN_PROGRESS',
        'ACKNOWLEDGED'), ('IN_PROGRESS', 'VALIDATED'), ('COMPLETED', 'VALIDATED'), ('SUBSUMED', 'VALIDATED'),
        ('DISCARDED', 'VALIDATED'), ('FAILED', 'TRIGGERED'), ('FAILED', 'ACKNOWLEDGED'), ('FAILED',
        'VALIDATED'))),
    CONSTRAINT checkpoints_deadline CHECK (deadline >= triggered_at),
    CONSTRAINT checkpoints_counts CHECK (num_subtasks >= 1 AND num_acknowledged >= 0 AND num_acknowledged <=
        num_subtasks),
    CONSTRAINT checkpoints_all_acknowledged CHECK (phase = 'TRIGGERED' OR num_acknowledged = num_subtasks),
    CONSTRAINT checkpoints_acknowledged_at CHECK ((acknowledged_at IS NOT NULL) = (phase <> 'TRIGGERED')),
    CONSTRAINT checkpoints_validated_at CHECK ((validated_at IS NOT NULL) = (phase = 'VALIDATED')),
    CONSTRAINT checkpoints_completed_at CHECK ((completed_at IS NOT NULL) = (status IN ('COMPLETED',
        'DISCARDED', 'SUBSUMED'))),
    CONSTRAINT checkpoints_metadata CHECK ((metadata_path IS NOT NULL) = (status IN ('COMPLETED', 'DISCARDED',
        'SUBSUMED'))),
    CONSTRAINT checkpoints_metadata_confined CHECK (metadata_path <> '' AND '/' || metadata_path || '/' NOT
        LIKE ALL (ARRAY['//%', '%/../%'])),
    CONSTRAINT checkpoints_notified_at CHECK (notified_at IS NULL OR status IN ('COMPLETED', 'DISCARDED',
        'SUBSUMED')),
    CONSTRAINT checkpoints_failure CHECK ((failure_reason IS NOT NULL) = (status = 'FAILED') AND
        (failure_message IS NOT NULL) = (status = 'FAILED') AND (failed_at IS NOT NULL) = (status =
        'FAILED')),
    CONSTRAINT checkpoints_failure_reason CHECK (failure_reason IN ('IO_EXCEPTION',
        'MINIMUM_TIME_BETWEEN_CHECKPOINTS', 'TOO_MANY_CHECKPOINT_REQUESTS', 'TRIGGER_CHECKPOINT_FAILURE',
        'CHECKPOINT_DECLINED', 'CHECKPOINT_ASYNC_EXCEPTION', 'CHECKPOINT_EXPIRED', 'CHECKPOINT_SUBSUMED',
        'DECLINED_SUBSUMED', 'DECLINED_ON_CANCELLATION_BARRIER', 'DECLINED_INPUT_END_OF_STREAM',
        'VALIDATION_FAILED', 'FINALIZE_CHECKPOINT_FAILURE', 'TASK_FAILURE')),
    CONSTRAINT checkpoints_sizes CHECK (state_size >= 0 AND checkpointed_size >= 0),
    CONSTRAINT checkpoints_swept CHECK (NOT swept OR status <> 'IN_PROGRESS'),
    CONSTRAINT checkpoints_pipeline_fkey FOREIGN KEY(pipeline_id) REFERENCES tidegate.pipelines (pipeline_id)
)
""",
    """
CREATE INDEX checkpoints_by_request ON tidegate.checkpoints (pipeline_id, request_id, checkpoint_id)
""",
    """
CREATE INDEX checkpoints_by_status ON tidegate.checkpoints (pipeline_id, status, checkpoint_id)
""",
    """
CREATE UNIQUE INDEX checkpoints_request_once ON tidegate.checkpoints (pipeline_id, request_id) WHERE status <>
        'FAILED'
""",
    """
CREATE INDEX checkpoints_unswept ON tidegate.checkpoints (pipeline_id, checkpoint_id) WHERE NOT swept
""",
    """
CREATE TABLE tidegate.compactions (
    pipeline_id TEXT NOT NULL,
    position BIGINT GENERATED ALWAYS AS IDENTITY,
    operator_id TEXT NOT NULL,
    subtask_index INTEGER NOT NULL,
    path TEXT NOT NULL,
    kind TEXT NOT NULL,
    rows BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    checksum TEXT NOT NULL,
    created_by BIGINT NOT NULL,
    first_key_group INTEGER,
    last_key_group INTEGER,
    details JSONB DEFAULT '{}'::jsonb NOT NULL,
    replaces TEXT[] NOT NULL,
    CONSTRAINT compactions_pkey PRIMARY KEY (pipeline_id, path),
    CONSTRAINT compactions_path_confined CHECK (path <> '' AND '/' || path || '/' NOT LIKE ALL (ARRAY['//%',
        '%/../%'])),
    CONSTRAINT compactions_kind CHECK (kind IN ('RUN', 'POSITION', 'EXCHANGE', 'STAGED')),
    CONSTRAINT compactions_sizes CHECK (rows >= 0 AND bytes >= 0 AND created_by >= 1),
    CONSTRAINT compactions_key_groups CHECK ((first_key_group IS NULL) = (last_key_group IS NULL) AND
        (first_key_group IS NULL OR (first_key_group >= 0 AND first_key_group <= last_key_group))),
    CONSTRAINT compactions_identity CHECK (operator_id <> '' AND subtask_index >= 0),
    CONSTRAINT compactions_replaces CHECK (cardinality(replaces) >= 1),
    CONSTRAINT compactions_pipeline_fkey FOREIGN KEY(pipeline_id) REFERENCES tidegate.pipelines (pipeline_id)
)
""",
    """
CREATE TABLE tidegate.deletion_queue (
    pipeline_id TEXT NOT NULL,
    position BIGINT GENERATED ALWAYS AS IDENTITY,
    owner TEXT NOT NULL,
    path TEXT NOT NULL,
    CONSTRAINT deletion_queue_pkey PRIMARY KEY (pipeline_id, owner, path),
    CONSTRAINT deletion_queue_owner CHECK (owner = 'storage' OR owner ~ '^sink:.'),
    CONSTRAINT deletion_queue_path_confined CHECK (path <> '' AND '/' || path || '/' NOT LIKE ALL
        (ARRAY['//%', '%/../%'])),
    CONSTRAINT deletion_queue_pipeline_fkey FOREIGN KEY(pipeline_id) REFERENCES tidegate.pipelines
        (pipeline_id)
)
""",
    """
CREATE INDEX deletion_queue_oldest ON tidegate.deletion_queue (pipeline_id, position)
""",
    """
CREATE TABLE tidegate.subtasks (
    pipeline_id TEXT NOT NULL,
    checkpoint_id BIGINT NOT NULL,
    operator_id TEXT NOT NULL,
    subtask_index INTEGER NOT NULL,
    attempt INTEGER DEFAULT 0 NOT NULL,
    acknowledged_at TIMESTAMP WITH TIME ZONE,
    position JSONB,
    start_delay BIGINT DEFAULT -1 NOT NULL,
    alignment_duration BIGINT DEFAULT -1 NOT NULL,
    sync_duration BIGINT DEFAULT -1 NOT NULL,
    async_duration BIGINT DEFAULT -1 NOT NULL,
    processed_bytes BIGINT DEFAULT -1 NOT NULL,
    persisted_bytes BIGINT DEFAULT -1 NOT NULL,
    rows_in BIGINT DEFAULT -1 NOT NULL,
    rows_out BIGINT DEFAULT -1 NOT NULL,
    CONSTRAINT subtasks_pkey PRIMARY KEY (pipeline_id, checkpoint_id, operator_id, subtask_index),
    CONSTRAINT subtasks_checkpoint_fkey FOREIGN KEY(pipeline_id, checkpoint_id) REFERENCES
        tidegate.checkpoints (pipeline_id, checkpoint_id),
    CONSTRAINT subtasks_identity CHECK (operator_id <> '' AND subtask_index >= 0),
    CONSTRAINT subtasks_attempt CHECK (attempt >= 0),
    CONSTRAINT subtasks_asked_before_acknowledged CHECK (acknowledged_at IS NULL OR attempt >= 1),
    CONSTRAINT subtasks_position CHECK (position IS NULL OR acknowledged_at IS NOT NULL),
    CONSTRAINT subtasks_metrics CHECK (least(start_delay, alignment_duration, sync_duration, async_duration,
        processed_bytes, persisted_bytes, rows_in, rows_out) >= -1)
)
 WITH (fillfactor = 40)
""",
    """
CREATE TABLE tidegate.verdicts (
    pipeline_id TEXT NOT NULL,
    checkpoint_id BIGINT NOT NULL,
    ordinal INTEGER NOT NULL,
    target TEXT NOT NULL,
    suite TEXT NOT NULL,
    success BOOLEAN,
    evaluated INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    results JSONB DEFAULT '[]'::jsonb NOT NULL,
    error TEXT,
    docs_path TEXT,
    CONSTRAINT verdicts_pkey PRIMARY KEY (pipeline_id, checkpoint_id, ordinal),
    CONSTRAINT verdicts_target_once UNIQUE (pipeline_id, checkpoint_id, target, suite),
    CONSTRAINT verdicts_checkpoint_fkey FOREIGN KEY(pipeline_id, checkpoint_id) REFERENCES
        tidegate.checkpoints (pipeline_id, checkpoint_id),
    CONSTRAINT verdicts_error_said CHECK (success IS NOT NULL OR error IS NOT NULL),
    CONSTRAINT verdicts_counts CHECK (evaluated >= 0 AND failed >= 0)
)
""",
    """CREATE FUNCTION tidegate.refuse_illegal_transition() RETURNS trigger LANGUAGE plpgsql AS $$
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
        ('IN_PROGRESS', 'ACKNOWLEDGED', 'IN_PROGRESS', 'VALIDATED'),
        ('IN_PROGRESS', 'VALIDATED', 'COMPLETED', 'VALIDATED'),
        ('IN_PROGRESS', 'VALIDATED', 'FAILED', 'VALIDATED'),
        ('COMPLETED', 'VALIDATED', 'SUBSUMED', 'VALIDATED'),
        ('SUBSUMED', 'VALIDATED', 'DISCARDED', 'VALIDATED')
    ) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = 'checkpoints_legal_transition',
        MESSAGE = format('a checkpoint cannot go from %s/%s to %s/%s', OLD.status, OLD.phase, NEW.status, NEW.phase);
END $$""",
    """
CREATE TRIGGER checkpoints_legal_transition BEFORE INSERT OR UPDATE OF status, phase ON tidegate.checkpoints
FOR EACH ROW EXECUTE FUNCTION tidegate.refuse_illegal_transition()
""",
    """CREATE FUNCTION tidegate.refuse_handles_without_subtask() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM written w
        WHERE NOT EXISTS (
            SELECT FROM tidegate.subtasks s
            WHERE s.pipeline_id = w.pipeline_id AND s.checkpoint_id = w.checkpoint_id
              AND s.operator_id = w.operator_id AND s.subtask_index = w.subtask_index)
    ) THEN
        RAISE EXCEPTION USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'handles_of_subtask',
            MESSAGE = 'a handle belongs to no subtask that is recorded';
    END IF;
    RETURN NULL;
END $$""",
    """
CREATE TRIGGER handles_of_subtask_inserted AFTER INSERT ON tidegate.handles REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION tidegate.refuse_handles_without_subtask()
""",
    """
CREATE TRIGGER handles_of_subtask_updated AFTER UPDATE ON tidegate.handles REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION tidegate.refuse_handles_without_subtask()
""",
    """
CREATE VIEW tidegate.live_references AS
    SELECT h.pipeline_id, h.owner, h.path, h.created_by, h.checkpoint_id
    FROM tidegate.handles h JOIN tidegate.checkpoints c USING (pipeline_id, checkpoint_id)
    WHERE c.status = 'IN_PROGRESS'
        OR c.status = 'COMPLETED' AND h.kind <> 'EXCHANGE'
        OR c.status = 'SUBSUMED' AND c.notified_at IS NULL AND h.kind = 'STAGED'
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
