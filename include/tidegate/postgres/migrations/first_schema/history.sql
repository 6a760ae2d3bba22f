-- What stays on record of checkpoints and of user actions.

CREATE TABLE tidegate.figures (
    pipeline_id TEXT NOT NULL,
    checkpoint_id BIGINT NOT NULL,
    triggered_at TIMESTAMP WITH TIME ZONE NOT NULL,
    end_to_end_duration BIGINT NOT NULL,
    checkpointed_size BIGINT NOT NULL,
    state_size BIGINT NOT NULL,
    processed_data BIGINT NOT NULL,
    persisted_data BIGINT NOT NULL,
    rows_in BIGINT NOT NULL,
    rows_out BIGINT NOT NULL,
    start_delay BIGINT NOT NULL,
    alignment_duration BIGINT NOT NULL,
    sync_duration BIGINT NOT NULL,
    async_duration BIGINT NOT NULL,
    CONSTRAINT figures_pkey PRIMARY KEY (pipeline_id, checkpoint_id),
    CONSTRAINT figures_checkpoint_fkey FOREIGN KEY(pipeline_id, checkpoint_id) REFERENCES tidegate.checkpoints
        (pipeline_id, checkpoint_id),
    CONSTRAINT figures_reported CHECK (least(end_to_end_duration, checkpointed_size, state_size, processed_data,
        persisted_data, rows_in, rows_out) >= 0 AND least(start_delay, alignment_duration, sync_duration,
        async_duration) >= -1)
);

CREATE TABLE tidegate.folded_operators (
    pipeline_id TEXT NOT NULL,
    checkpoint_id BIGINT NOT NULL,
    operator_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    acknowledged INTEGER NOT NULL,
    finished INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    latest TIMESTAMP WITH TIME ZONE,
    checkpointed_size BIGINT NOT NULL,
    state_size BIGINT NOT NULL,
    files BIGINT NOT NULL,
    unaligned BOOLEAN NOT NULL,
    positioned BOOLEAN NOT NULL,
    processed_data BIGINT NOT NULL,
    persisted_data BIGINT NOT NULL,
    rows_in BIGINT NOT NULL,
    rows_out BIGINT NOT NULL,
    spreads DOUBLE PRECISION[] NOT NULL,
    CONSTRAINT folded_operators_pkey PRIMARY KEY (pipeline_id, checkpoint_id, operator_id),
    CONSTRAINT folded_operators_checkpoint_fkey FOREIGN KEY(pipeline_id, checkpoint_id) REFERENCES tidegate.checkpoints
        (pipeline_id, checkpoint_id),
    CONSTRAINT folded_operators_counts CHECK (number >= 1 AND acknowledged BETWEEN 0 AND number AND finished BETWEEN 0
        AND acknowledged AND cardinality(spreads) = 33)
);

CREATE TABLE tidegate.folded_totals (
    pipeline_id TEXT NOT NULL,
    failed BIGINT NOT NULL,
    discarded BIGINT NOT NULL,
    measured BIGINT NOT NULL,
    smallest BIGINT[] NOT NULL,
    largest BIGINT[] NOT NULL,
    total NUMERIC[] NOT NULL,
    CONSTRAINT folded_totals_pkey PRIMARY KEY (pipeline_id),
    CONSTRAINT folded_totals_counts CHECK (failed >= 0 AND discarded >= 0 AND measured >= 0 AND cardinality(smallest) =
        5 AND cardinality(largest) = 5 AND cardinality(total) = 5),
    CONSTRAINT folded_totals_pipeline_fkey FOREIGN KEY(pipeline_id) REFERENCES tidegate.pipelines (pipeline_id)
);

CREATE TABLE tidegate.events (
    pipeline_id TEXT NOT NULL,
    number BIGINT GENERATED ALWAYS AS IDENTITY,
    kind TEXT NOT NULL,
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    message TEXT NOT NULL,
    checkpoint_id BIGINT,
    reason TEXT,
    CONSTRAINT events_pkey PRIMARY KEY (pipeline_id, number),
    CONSTRAINT events_kind CHECK (kind IN ('CHECKPOINT_COMPLETED', 'CHECKPOINT_FAILED', 'VERDICT_HELD',
        'PIPELINE_FAILED', 'PIPELINE_STALE', 'PIPELINE_FRESH')),
    CONSTRAINT events_reason CHECK (reason IN ('PERIODIC_SCHEDULER_SHUTDOWN', 'MINIMUM_TIME_BETWEEN_CHECKPOINTS',
        'TOO_MANY_CHECKPOINT_REQUESTS', 'NOT_ALL_REQUIRED_TASKS_RUNNING', 'CHECKPOINT_DECLINED',
        'CHECKPOINT_ASYNC_EXCEPTION', 'CHECKPOINT_EXPIRED', 'DECLINED_SUBSUMED', 'DECLINED_ON_CANCELLATION_BARRIER',
        'DECLINED_INPUT_END_OF_STREAM', 'ALIGNMENT_LIMIT_EXCEEDED', 'TASK_FAILURE', 'VALIDATION_FAILED',
        'VALIDATION_REJECTED', 'HOLD_EXPIRED', 'FINALIZE_CHECKPOINT_FAILURE', 'CHECKPOINT_SUBSUMED',
        'COORDINATOR_SUSPEND', 'COORDINATOR_SHUTDOWN', 'JOB_FAILOVER_REGION')),
    CONSTRAINT events_checkpoint_fkey FOREIGN KEY(pipeline_id, checkpoint_id) REFERENCES tidegate.checkpoints
        (pipeline_id, checkpoint_id),
    CONSTRAINT events_pipeline_fkey FOREIGN KEY(pipeline_id) REFERENCES tidegate.pipelines (pipeline_id)
);

CREATE TABLE tidegate.event_deliveries (
    pipeline_id TEXT NOT NULL,
    number BIGINT NOT NULL,
    notifier TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    again_at TIMESTAMP WITH TIME ZONE NOT NULL,
    refused BOOLEAN DEFAULT false NOT NULL,
    delivered_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT event_deliveries_pkey PRIMARY KEY (pipeline_id, number, notifier),
    CONSTRAINT event_deliveries_event_fkey FOREIGN KEY(pipeline_id, number) REFERENCES tidegate.events (pipeline_id,
        number) ON DELETE CASCADE,
    CONSTRAINT event_deliveries_notifier CHECK (notifier <> ''),
    CONSTRAINT event_deliveries_attempts CHECK (attempts >= 1)
);

CREATE TABLE tidegate.audit (
    number BIGINT GENERATED ALWAYS AS IDENTITY,
    pipeline_id TEXT,
    request_id TEXT NOT NULL,
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    kind TEXT NOT NULL,
    actor_kind TEXT NOT NULL,
    actor TEXT NOT NULL,
    origin TEXT NOT NULL,
    details JSONB NOT NULL,
    status TEXT NOT NULL,
    sentence TEXT NOT NULL,
    checkpoint_id BIGINT,
    PRIMARY KEY (number),
    CONSTRAINT audit_asked_once UNIQUE (pipeline_id, request_id),
    CONSTRAINT audit_named CHECK (request_id <> ''),
    CONSTRAINT audit_kind CHECK (kind IN ('CHECKPOINT', 'SAVEPOINT', 'STOP', 'DRAIN', 'ABORT', 'APPROVE', 'REJECT',
        'SUSPEND', 'RESUME', 'CANCEL', 'RESTORE', 'UNDO', 'SKIP', 'FORK', 'RENAME', 'DISPOSE', 'RELOCATE', 'EXPORT',
        'REWRITE', 'CLEAN', 'RECOVER', 'UPGRADE')),
    CONSTRAINT audit_actor CHECK (actor_kind IN ('AIRFLOW_USER', 'CLI_USER', 'DAG_RUN')),
    CONSTRAINT audit_status CHECK (status IN ('DONE', 'REFUSED')),
    CONSTRAINT audit_pipeline_fkey FOREIGN KEY(pipeline_id) REFERENCES tidegate.pipelines (pipeline_id)
);

CREATE INDEX audit_of_pipeline ON tidegate.audit (pipeline_id, number);
