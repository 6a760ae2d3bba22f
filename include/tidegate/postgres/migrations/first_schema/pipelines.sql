-- The database's identity, pipelines, and what is asked of them.

CREATE TABLE tidegate.database_identity (
    id UUID DEFAULT gen_random_uuid() NOT NULL,
    is_only BOOLEAN DEFAULT true NOT NULL,
    CONSTRAINT database_identity_pkey PRIMARY KEY (is_only),
    CONSTRAINT database_identity_once CHECK (is_only)
);

INSERT INTO tidegate.database_identity DEFAULT VALUES;

CREATE TABLE tidegate.pipelines (
    pipeline_id TEXT NOT NULL,
    last_checkpoint_id BIGINT DEFAULT 0 NOT NULL,
    status TEXT DEFAULT 'CREATED' NOT NULL,
    since TIMESTAMP WITH TIME ZONE,
    message TEXT,
    forgiven_until BIGINT DEFAULT 0 NOT NULL,
    region_attempt INTEGER DEFAULT 0 NOT NULL,
    region_started_at TIMESTAMP WITH TIME ZONE,
    region_seen_at TIMESTAMP WITH TIME ZONE,
    region_ended_at TIMESTAMP WITH TIME ZONE,
    region_swept INTEGER DEFAULT 0 NOT NULL,
    commit_attempt INTEGER DEFAULT 0 NOT NULL,
    committer_seen_at TIMESTAMP WITH TIME ZONE,
    commit_problem TEXT,
    restores INTEGER DEFAULT 0 NOT NULL,
    restored_checkpoint BIGINT,
    restored_at TIMESTAMP WITH TIME ZONE,
    stale_since TIMESTAMP WITH TIME ZONE,
    last_restore INTEGER DEFAULT 0 NOT NULL,
    PRIMARY KEY (pipeline_id),
    CONSTRAINT pipelines_named CHECK (pipeline_id <> ''),
    CONSTRAINT pipelines_counter CHECK (last_checkpoint_id >= 0),
    CONSTRAINT pipelines_status CHECK (status IN ('CREATED', 'RUNNING', 'STOPPING', 'SUSPENDED', 'FAILED', 'FINISHED',
        'CANCELLED')),
    CONSTRAINT pipelines_forgiven CHECK (forgiven_until >= 0 AND forgiven_until <= last_checkpoint_id),
    CONSTRAINT pipelines_region CHECK (region_attempt >= 0 AND (region_attempt > 0) = (region_started_at IS NOT NULL)
        AND num_nonnulls(region_seen_at, region_ended_at) = least(region_attempt, 1)),
    CONSTRAINT pipelines_region_swept CHECK (region_swept >= 0 AND region_swept <= region_attempt),
    CONSTRAINT pipelines_committer CHECK (commit_attempt >= 0 AND (commit_attempt > 0 OR num_nonnulls(committer_seen_at,
        commit_problem) = 0)),
    CONSTRAINT pipelines_restored CHECK (restores >= 0 AND num_nonnulls(restored_checkpoint, restored_at) = 2 *
        least(restores, 1) AND (restored_checkpoint IS NULL OR restored_checkpoint BETWEEN 1 AND last_checkpoint_id))
);

CREATE TABLE tidegate.endpoints (
    pipeline_id TEXT NOT NULL,
    role TEXT NOT NULL,
    name TEXT NOT NULL,
    type TEXT NOT NULL,
    place TEXT NOT NULL,
    recorded_at TIMESTAMP WITH TIME ZONE NOT NULL,
    place_before TEXT,
    CONSTRAINT endpoints_pkey PRIMARY KEY (pipeline_id, role, name),
    CONSTRAINT endpoints_role CHECK (role IN ('SOURCE', 'SINK')),
    CONSTRAINT endpoints_named CHECK (name <> '' AND type <> ''),
    CONSTRAINT endpoints_pipeline_fkey FOREIGN KEY(pipeline_id) REFERENCES tidegate.pipelines (pipeline_id)
);

CREATE TABLE tidegate.requests (
    pipeline_id TEXT NOT NULL,
    request_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    periodic BOOLEAN NOT NULL,
    forced BOOLEAN NOT NULL,
    asked_at TIMESTAMP WITH TIME ZONE NOT NULL,
    seen_at TIMESTAMP WITH TIME ZONE NOT NULL,
    dropped TEXT,
    dropped_message TEXT,
    drain BOOLEAN DEFAULT false NOT NULL,
    name TEXT,
    note TEXT,
    CONSTRAINT requests_pkey PRIMARY KEY (pipeline_id, request_id),
    CONSTRAINT requests_named CHECK (request_id <> ''),
    CONSTRAINT requests_kind CHECK (kind IN ('CHECKPOINT', 'SAVEPOINT', 'SYNC_SAVEPOINT')),
    CONSTRAINT requests_seen CHECK (seen_at >= asked_at),
    CONSTRAINT requests_dropped CHECK (dropped IN ('PERIODIC_SCHEDULER_SHUTDOWN', 'MINIMUM_TIME_BETWEEN_CHECKPOINTS',
        'TOO_MANY_CHECKPOINT_REQUESTS', 'NOT_ALL_REQUIRED_TASKS_RUNNING', 'CHECKPOINT_DECLINED',
        'CHECKPOINT_ASYNC_EXCEPTION', 'CHECKPOINT_EXPIRED', 'DECLINED_SUBSUMED', 'DECLINED_ON_CANCELLATION_BARRIER',
        'DECLINED_INPUT_END_OF_STREAM', 'ALIGNMENT_LIMIT_EXCEEDED', 'TASK_FAILURE', 'VALIDATION_FAILED',
        'VALIDATION_REJECTED', 'HOLD_EXPIRED', 'FINALIZE_CHECKPOINT_FAILURE', 'CHECKPOINT_SUBSUMED',
        'COORDINATOR_SUSPEND', 'COORDINATOR_SHUTDOWN', 'JOB_FAILOVER_REGION')),
    CONSTRAINT requests_dropped_message CHECK ((dropped IS NULL) = (dropped_message IS NULL)),
    CONSTRAINT requests_drain CHECK (NOT drain OR kind = 'SYNC_SAVEPOINT'),
    CONSTRAINT requests_label CHECK (kind <> 'CHECKPOINT' OR num_nonnulls(name, note) = 0),
    CONSTRAINT requests_pipeline_fkey FOREIGN KEY(pipeline_id) REFERENCES tidegate.pipelines (pipeline_id)
);

CREATE TABLE tidegate.restores (
    pipeline_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    checkpoint_id BIGINT NOT NULL,
    last_checkpoint_id BIGINT NOT NULL,
    previous_checkpoint_id BIGINT,
    restored_at TIMESTAMP WITH TIME ZONE NOT NULL,
    undoes INTEGER,
    rewound_at TIMESTAMP WITH TIME ZONE,
    allows_non_restored_state BOOLEAN NOT NULL,
    imported BIGINT,
    CONSTRAINT restores_pkey PRIMARY KEY (pipeline_id, number),
    CONSTRAINT restores_number CHECK (number >= 1),
    CONSTRAINT restores_of_the_past CHECK (checkpoint_id BETWEEN 1 AND last_checkpoint_id AND (previous_checkpoint_id IS
        NULL OR previous_checkpoint_id BETWEEN 1 AND last_checkpoint_id)),
    CONSTRAINT restores_undoes CHECK (undoes >= 1 AND undoes < number),
    CONSTRAINT restores_imported CHECK (imported = last_checkpoint_id + 1),
    CONSTRAINT restores_pipeline_fkey FOREIGN KEY(pipeline_id) REFERENCES tidegate.pipelines (pipeline_id)
);

CREATE UNIQUE INDEX restores_undone_once ON tidegate.restores (pipeline_id, undoes);

CREATE TABLE tidegate.imports (
    pipeline_id TEXT NOT NULL,
    checkpoint_id BIGINT NOT NULL,
    seen_at TIMESTAMP WITH TIME ZONE NOT NULL,
    ended_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT imports_pkey PRIMARY KEY (pipeline_id, checkpoint_id),
    CONSTRAINT imports_id CHECK (checkpoint_id >= 1),
    CONSTRAINT imports_pipeline_fkey FOREIGN KEY(pipeline_id) REFERENCES tidegate.pipelines (pipeline_id)
);

CREATE TABLE tidegate.restore_plans (
    pipeline_id TEXT NOT NULL,
    request_id TEXT NOT NULL,
    target TEXT NOT NULL,
    asked_at TIMESTAMP WITH TIME ZONE NOT NULL,
    asked_by TEXT NOT NULL,
    asked_from TEXT NOT NULL,
    dag_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    planned_at TIMESTAMP WITH TIME ZONE,
    document JSONB,
    digest TEXT,
    refusal TEXT,
    confirmed_id TEXT,
    confirmed_at TIMESTAMP WITH TIME ZONE,
    confirmed_by TEXT,
    confirmed_from TEXT,
    confirmed_dag TEXT,
    confirmed_run TEXT,
    accepted JSONB,
    CONSTRAINT restore_plans_pkey PRIMARY KEY (pipeline_id, request_id),
    CONSTRAINT restore_plans_named CHECK (request_id <> '' AND target <> ''),
    CONSTRAINT restore_plans_planned CHECK (num_nonnulls(document, digest) IN (0, 2) AND (planned_at IS NOT
        NULL)::integer = num_nonnulls(document, refusal)),
    CONSTRAINT restore_plans_confirmed CHECK (num_nonnulls(confirmed_id, confirmed_at, confirmed_by, confirmed_from,
        confirmed_dag, confirmed_run, accepted) IN (0, 7) AND (confirmed_id IS NULL OR document IS NOT NULL)),
    CONSTRAINT restore_plans_pipeline_fkey FOREIGN KEY(pipeline_id) REFERENCES tidegate.pipelines (pipeline_id)
);

CREATE TABLE tidegate.pipeline_dags (
    pipeline_id TEXT NOT NULL,
    dag_id TEXT NOT NULL,
    last_seen_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pipeline_dags_pkey PRIMARY KEY (pipeline_id, dag_id),
    CONSTRAINT pipeline_dags_named CHECK (dag_id <> ''),
    CONSTRAINT pipeline_dags_pipeline_fkey FOREIGN KEY(pipeline_id) REFERENCES tidegate.pipelines (pipeline_id)
);

CREATE INDEX pipeline_dags_by_dag ON tidegate.pipeline_dags (dag_id, pipeline_id);

CREATE TABLE tidegate.source_lag (
    pipeline_id TEXT NOT NULL,
    source TEXT NOT NULL,
    pending BIGINT NOT NULL,
    unit TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    polled_at TIMESTAMP WITH TIME ZONE NOT NULL,
    parts JSONB DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT source_lag_pkey PRIMARY KEY (pipeline_id, source),
    CONSTRAINT source_lag_counted CHECK (pending >= 0 AND bytes >= -1 AND source <> '' AND unit <> ''),
    CONSTRAINT source_lag_pipeline_fkey FOREIGN KEY(pipeline_id) REFERENCES tidegate.pipelines (pipeline_id)
);

CREATE TABLE tidegate.source_skips (
    pipeline_id TEXT NOT NULL,
    number BIGINT GENERATED ALWAYS AS IDENTITY,
    source TEXT NOT NULL,
    checkpoint_id BIGINT NOT NULL,
    operator_id TEXT NOT NULL,
    subtask_index INTEGER NOT NULL,
    position JSONB NOT NULL,
    lost JSONB NOT NULL,
    skipped_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT source_skips_pkey PRIMARY KEY (pipeline_id, number),
    CONSTRAINT source_skips_identity CHECK (source <> '' AND operator_id <> '' AND subtask_index >= 0),
    CONSTRAINT source_skips_lost CHECK (jsonb_typeof(lost) = 'array' AND lost <> '[]'),
    CONSTRAINT source_skips_pipeline_fkey FOREIGN KEY(pipeline_id) REFERENCES tidegate.pipelines (pipeline_id)
);

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
    CONSTRAINT compactions_kind CHECK (kind IN ('RUN', 'POSITION', 'EXCHANGE', 'CHANNEL', 'STAGED')),
    CONSTRAINT compactions_sizes CHECK (rows >= 0 AND bytes >= 0 AND created_by >= 1),
    CONSTRAINT compactions_key_groups CHECK ((first_key_group IS NULL) = (last_key_group IS NULL) AND (first_key_group
        IS NULL OR (first_key_group >= 0 AND first_key_group <= last_key_group))),
    CONSTRAINT compactions_identity CHECK (operator_id <> '' AND subtask_index >= 0),
    CONSTRAINT compactions_replaces CHECK (cardinality(replaces) >= 1),
    CONSTRAINT compactions_pipeline_fkey FOREIGN KEY(pipeline_id) REFERENCES tidegate.pipelines (pipeline_id)
);

CREATE TABLE tidegate.deletion_queue (
    pipeline_id TEXT NOT NULL,
    position BIGINT GENERATED ALWAYS AS IDENTITY,
    owner TEXT NOT NULL,
    path TEXT NOT NULL,
    given_up_by BIGINT,
    CONSTRAINT deletion_queue_pkey PRIMARY KEY (pipeline_id, owner, path),
    CONSTRAINT deletion_queue_owner CHECK (owner = 'storage' OR owner ~ '^sink:.' OR owner ~ '^savepoint:.'),
    CONSTRAINT deletion_queue_path_confined CHECK (path <> '' AND '/' || path || '/' NOT LIKE ALL (ARRAY['//%',
        '%/../%'])),
    CONSTRAINT deletion_queue_given_up_by CHECK (given_up_by >= 1),
    CONSTRAINT deletion_queue_pipeline_fkey FOREIGN KEY(pipeline_id) REFERENCES tidegate.pipelines (pipeline_id)
);

CREATE INDEX deletion_queue_oldest ON tidegate.deletion_queue (pipeline_id, position);

ALTER TABLE tidegate.deletion_queue SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
