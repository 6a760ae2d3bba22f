-- Checkpoints, their parts, and the files that must not be deleted.

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
    kind TEXT DEFAULT 'CHECKPOINT' NOT NULL,
    num_finished INTEGER DEFAULT 0 NOT NULL,
    drain BOOLEAN DEFAULT false NOT NULL,
    abandoned_by INTEGER,
    name TEXT,
    note TEXT,
    location TEXT,
    exported_at TIMESTAMP WITH TIME ZONE,
    exported_size BIGINT,
    held_at TIMESTAMP WITH TIME ZONE,
    held_until TIMESTAMP WITH TIME ZONE,
    held_message TEXT,
    decision TEXT,
    decided_at TIMESTAMP WITH TIME ZONE,
    decided_by TEXT,
    decision_comment TEXT,
    committed_sinks JSONB DEFAULT '[]'::jsonb NOT NULL,
    folded BOOLEAN DEFAULT false NOT NULL,
    CONSTRAINT checkpoints_pkey PRIMARY KEY (pipeline_id, checkpoint_id),
    CONSTRAINT checkpoints_id CHECK (checkpoint_id >= 1),
    CONSTRAINT checkpoints_request CHECK (request_id <> ''),
    CONSTRAINT checkpoints_stage CHECK ((status, phase) IN (('IN_PROGRESS', 'TRIGGERED'),
        ('IN_PROGRESS', 'ACKNOWLEDGED'), ('IN_PROGRESS', 'HELD'), ('IN_PROGRESS', 'VALIDATED'),
        ('COMPLETED', 'VALIDATED'), ('SUBSUMED', 'VALIDATED'), ('DISCARDED', 'VALIDATED'), ('FAILED', 'TRIGGERED'),
        ('FAILED', 'ACKNOWLEDGED'), ('FAILED', 'HELD'), ('FAILED', 'VALIDATED'))),
    CONSTRAINT checkpoints_counts CHECK (num_subtasks >= 1 AND num_acknowledged >= 0 AND num_acknowledged <=
        num_subtasks),
    CONSTRAINT checkpoints_all_acknowledged CHECK (phase = 'TRIGGERED' OR num_acknowledged = num_subtasks),
    CONSTRAINT checkpoints_acknowledged_at CHECK ((acknowledged_at IS NOT NULL) = (phase <> 'TRIGGERED')),
    CONSTRAINT checkpoints_validated_at CHECK ((validated_at IS NOT NULL) = (phase = 'VALIDATED')),
    CONSTRAINT checkpoints_completed_at CHECK ((completed_at IS NOT NULL) = (status IN ('COMPLETED', 'DISCARDED',
        'SUBSUMED'))),
    CONSTRAINT checkpoints_metadata CHECK ((metadata_path IS NOT NULL) = (status IN ('COMPLETED', 'DISCARDED',
        'SUBSUMED'))),
    CONSTRAINT checkpoints_committed_sinks CHECK (committed_sinks = '[]'::jsonb OR
        status IN ('COMPLETED', 'DISCARDED', 'SUBSUMED')),
    CONSTRAINT checkpoints_metadata_confined CHECK (metadata_path <> '' AND '/' || metadata_path || '/' NOT LIKE ALL
        (ARRAY['//%', '%/../%'])),
    CONSTRAINT checkpoints_notified_at CHECK (notified_at IS NULL OR status IN ('COMPLETED', 'DISCARDED', 'SUBSUMED')),
    CONSTRAINT checkpoints_failure CHECK ((failure_reason IS NOT NULL) = (status = 'FAILED') AND (failure_message IS NOT
        NULL) = (status = 'FAILED') AND (failed_at IS NOT NULL) = (status = 'FAILED')),
    CONSTRAINT checkpoints_failure_reason CHECK (failure_reason IN ('PERIODIC_SCHEDULER_SHUTDOWN',
        'MINIMUM_TIME_BETWEEN_CHECKPOINTS', 'TOO_MANY_CHECKPOINT_REQUESTS', 'NOT_ALL_REQUIRED_TASKS_RUNNING',
        'CHECKPOINT_DECLINED', 'CHECKPOINT_ASYNC_EXCEPTION', 'CHECKPOINT_EXPIRED', 'DECLINED_SUBSUMED',
        'DECLINED_ON_CANCELLATION_BARRIER', 'DECLINED_INPUT_END_OF_STREAM', 'ALIGNMENT_LIMIT_EXCEEDED', 'TASK_FAILURE',
        'VALIDATION_FAILED', 'VALIDATION_REJECTED', 'HOLD_EXPIRED', 'FINALIZE_CHECKPOINT_FAILURE',
        'CHECKPOINT_SUBSUMED', 'COORDINATOR_SUSPEND', 'COORDINATOR_SHUTDOWN', 'JOB_FAILOVER_REGION')),
    CONSTRAINT checkpoints_sizes CHECK (state_size >= 0 AND checkpointed_size >= 0),
    CONSTRAINT checkpoints_kind CHECK (kind IN ('CHECKPOINT', 'SAVEPOINT', 'SYNC_SAVEPOINT')),
    CONSTRAINT checkpoints_finished CHECK (num_finished >= 0 AND num_finished <= num_acknowledged),
    CONSTRAINT checkpoints_drain CHECK (NOT drain OR kind = 'SYNC_SAVEPOINT'),
    CONSTRAINT checkpoints_label CHECK (kind <> 'CHECKPOINT' OR num_nonnulls(name, note) = 0),
    CONSTRAINT checkpoints_location CHECK (location IS NULL OR location <> '' AND kind <> 'CHECKPOINT' AND status IN
        ('COMPLETED', 'DISCARDED', 'SUBSUMED')),
    CONSTRAINT checkpoints_exported CHECK (num_nulls(exported_at, exported_size) IN (0, 2) AND exported_size >= 0 AND
        (exported_at IS NULL OR location IS NOT NULL)),
    CONSTRAINT checkpoints_held CHECK (num_nulls(held_at, held_until, held_message) IN (0, 3) AND held_until > held_at
        AND (held_at IS NOT NULL OR phase <> 'HELD') AND (held_at IS NULL OR phase IN ('HELD', 'VALIDATED'))),
    CONSTRAINT checkpoints_decided CHECK (num_nulls(decision, decided_at, decided_by) IN (0, 3) AND decision IN
        ('APPROVED', 'REJECTED') AND decided_by <> '' AND (decision_comment IS NULL OR decision IS NOT NULL) AND
        decided_at < held_until AND (decision IS DISTINCT FROM 'REJECTED' OR phase = 'HELD')),
    CONSTRAINT checkpoints_approved CHECK ((decision IS NOT DISTINCT FROM 'APPROVED') = (held_at IS NOT NULL AND phase =
        'VALIDATED')),
    CONSTRAINT checkpoints_rejected CHECK (status <> 'FAILED' OR (failure_reason = 'VALIDATION_REJECTED') = (decision IS
        NOT DISTINCT FROM 'REJECTED')),
    CONSTRAINT checkpoints_swept CHECK (NOT swept OR status <> 'IN_PROGRESS'),
    CONSTRAINT checkpoints_folded CHECK (NOT folded OR kind = 'CHECKPOINT' AND (status = 'FAILED' OR status =
        'DISCARDED' AND notified_at IS NOT NULL)),
    CONSTRAINT checkpoints_abandoned_fkey FOREIGN KEY(pipeline_id, abandoned_by) REFERENCES tidegate.restores
        (pipeline_id, number),
    CONSTRAINT checkpoints_abandoned CHECK (abandoned_by IS NULL OR status IN ('COMPLETED', 'DISCARDED', 'SUBSUMED')),
    CONSTRAINT checkpoints_pipeline_fkey FOREIGN KEY(pipeline_id) REFERENCES tidegate.pipelines (pipeline_id)
);

CREATE UNIQUE INDEX checkpoints_named_once ON tidegate.checkpoints (pipeline_id, name) WHERE status IN
    ('IN_PROGRESS', 'COMPLETED');

CREATE INDEX checkpoints_unswept ON tidegate.checkpoints (pipeline_id, checkpoint_id) WHERE NOT swept;

CREATE INDEX checkpoints_unfolded ON tidegate.checkpoints (pipeline_id, checkpoint_id) INCLUDE (status) WHERE NOT
    folded;

CREATE INDEX checkpoints_by_status ON tidegate.checkpoints (pipeline_id, status, checkpoint_id);

CREATE INDEX checkpoints_by_request ON tidegate.checkpoints (pipeline_id, request_id, checkpoint_id);

CREATE INDEX checkpoints_in_doubt ON tidegate.checkpoints (pipeline_id, checkpoint_id) WHERE completed_at IS NOT NULL
    AND notified_at IS NULL AND abandoned_by IS NULL;

CREATE INDEX checkpoints_left_behind ON tidegate.checkpoints (pipeline_id, checkpoint_id) WHERE abandoned_by IS NOT
    NULL;

CREATE INDEX checkpoints_saved ON tidegate.checkpoints (pipeline_id, checkpoint_id) WHERE kind <> 'CHECKPOINT';

CREATE UNIQUE INDEX checkpoints_request_once ON tidegate.checkpoints (pipeline_id, request_id) WHERE status <> 'FAILED'
    AND abandoned_by IS NULL;

CREATE INDEX checkpoints_by_time ON tidegate.checkpoints (pipeline_id, triggered_at);

CREATE INDEX checkpoints_by_run ON tidegate.checkpoints (request_id text_pattern_ops);

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
    finished BOOLEAN DEFAULT false NOT NULL,
    CONSTRAINT subtasks_pkey PRIMARY KEY (pipeline_id, checkpoint_id, operator_id, subtask_index),
    CONSTRAINT subtasks_checkpoint_fkey FOREIGN KEY(pipeline_id, checkpoint_id) REFERENCES tidegate.checkpoints
        (pipeline_id, checkpoint_id),
    CONSTRAINT subtasks_identity CHECK (operator_id <> '' AND subtask_index >= 0),
    CONSTRAINT subtasks_attempt CHECK (attempt >= 0),
    CONSTRAINT subtasks_asked_before_acknowledged CHECK (acknowledged_at IS NULL OR attempt >= 1 OR finished),
    CONSTRAINT subtasks_finished CHECK (NOT finished OR acknowledged_at IS NOT NULL),
    CONSTRAINT subtasks_position CHECK (position IS NULL OR acknowledged_at IS NOT NULL),
    CONSTRAINT subtasks_metrics CHECK (least(start_delay, alignment_duration, sync_duration, async_duration,
        processed_bytes, persisted_bytes, rows_in, rows_out) >= -1)
);

ALTER TABLE tidegate.subtasks SET (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

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
    owner TEXT GENERATED ALWAYS AS (CASE WHEN kind = 'STAGED' THEN 'sink:' || operator_id ELSE 'storage' END) STORED,
    CONSTRAINT handles_pkey PRIMARY KEY (pipeline_id, checkpoint_id, operator_id, subtask_index, ordinal),
    CONSTRAINT handles_path_confined CHECK (path <> '' AND '/' || path || '/' NOT LIKE ALL (ARRAY['//%', '%/../%'])),
    CONSTRAINT handles_kind CHECK (kind IN ('RUN', 'POSITION', 'EXCHANGE', 'CHANNEL', 'STAGED')),
    CONSTRAINT handles_sizes CHECK (rows >= 0 AND bytes >= 0 AND created_by >= 1),
    CONSTRAINT handles_key_groups CHECK ((first_key_group IS NULL) = (last_key_group IS NULL) AND (first_key_group IS
        NULL OR (first_key_group >= 0 AND first_key_group <= last_key_group))),
    CONSTRAINT handles_created_before CHECK (created_by <= checkpoint_id)
);

ALTER TABLE tidegate.handles SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.05);

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
    carried_from BIGINT,
    basis TEXT,
    CONSTRAINT verdicts_pkey PRIMARY KEY (pipeline_id, checkpoint_id, ordinal),
    CONSTRAINT verdicts_target_once UNIQUE (pipeline_id, checkpoint_id, target, suite),
    CONSTRAINT verdicts_checkpoint_fkey FOREIGN KEY(pipeline_id, checkpoint_id) REFERENCES tidegate.checkpoints
        (pipeline_id, checkpoint_id),
    CONSTRAINT verdicts_error_said CHECK (success IS NOT NULL OR error IS NOT NULL),
    CONSTRAINT verdicts_counts CHECK (evaluated >= 0 AND failed >= 0),
    CONSTRAINT verdicts_carried_good CHECK (carried_from IS NULL OR (success AND carried_from < checkpoint_id)),
    CONSTRAINT verdicts_basis_good CHECK (basis IS NULL OR success)
);

CREATE INDEX verdicts_by_target ON tidegate.verdicts (pipeline_id, target, suite, checkpoint_id);

CREATE VIEW tidegate.live_references AS
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
    FROM tidegate.compactions k;
