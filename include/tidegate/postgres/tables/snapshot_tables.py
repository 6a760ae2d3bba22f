"""The parts of a checkpoint: its subtasks, the files that they refer to, and the deletion of those files."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Computed,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from tidegate.postgres.guards import HANDLE_GUARDS, SUBTASK_GUARDS
from tidegate.postgres.reader_views import CURRENT, HISTORY
from tidegate.postgres.rules import HANDLES_FUNCTION, HANDLES_TRIGGERS, LIVE_REFERENCES
from tidegate.postgres.tables.columns import INSTANT, after_create, confined, members, metadata
from tidegate.protocol.facts.names import SAVED_AT, STAGED_BY, STORAGE
from tidegate.protocol.facts.records import HandleKind

#: Metrics of protocol.md section 19, in the order of `records.SubtaskMetrics`; -1 is "not reported".
METRICS = (
    "start_delay",
    "alignment_duration",
    "sync_duration",
    "async_duration",
    "processed_bytes",
    "persisted_bytes",
    "rows_in",
    "rows_out",
)

subtasks = Table(
    "subtasks",
    metadata,
    Column("pipeline_id", Text, nullable=False),
    Column("checkpoint_id", BigInteger, nullable=False),
    Column("operator_id", Text, nullable=False),
    Column("subtask_index", Integer, nullable=False),
    Column("attempt", Integer, nullable=False, server_default=text("0")),
    Column("acknowledged_at", INSTANT),
    Column("position", JSONB),
    *(Column(name, BigInteger, nullable=False, server_default=text("-1")) for name in METRICS),
    Column("finished", Boolean, nullable=False, server_default=text("false")),
    PrimaryKeyConstraint("pipeline_id", "checkpoint_id", "operator_id", "subtask_index", name="subtasks_pkey"),
    ForeignKeyConstraint(
        ["pipeline_id", "checkpoint_id"],
        ["tidegate.checkpoints.pipeline_id", "tidegate.checkpoints.checkpoint_id"],
        name="subtasks_checkpoint_fkey",
    ),
    CheckConstraint("operator_id <> '' AND subtask_index >= 0", name="subtasks_identity"),
    CheckConstraint("attempt >= 0", name="subtasks_attempt"),
    CheckConstraint("acknowledged_at IS NULL OR attempt >= 1 OR finished", name="subtasks_asked_before_acknowledged"),
    CheckConstraint("NOT finished OR acknowledged_at IS NOT NULL", name="subtasks_finished"),
    CheckConstraint("position IS NULL OR acknowledged_at IS NOT NULL", name="subtasks_position"),
    CheckConstraint(f"least({', '.join(METRICS)}) >= -1", name="subtasks_metrics"),
)
# Every row is updated twice, when its attempt begins and when it is acknowledged. Free space on its page spares the
# index both times. Rows are rolled up as fast as they are added, and their space is needed again before a fifth of the
# table is dead.
after_create(
    subtasks,
    "ALTER TABLE tidegate.subtasks SET (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.02,"
    " autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05)",
)


def _handle_columns() -> tuple[Column[object], ...]:
    return (
        Column("path", Text, nullable=False),
        Column("kind", Text, nullable=False),
        Column("rows", BigInteger, nullable=False),
        Column("bytes", BigInteger, nullable=False),
        Column("checksum", Text, nullable=False),
        Column("created_by", BigInteger, nullable=False),
        Column("first_key_group", Integer),
        Column("last_key_group", Integer),
        Column("details", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    )


def _handle_checks(table: str) -> tuple[CheckConstraint, ...]:
    return (
        CheckConstraint(confined("path"), name=f"{table}_path_confined"),
        CheckConstraint(f"kind IN ({members(HandleKind)})", name=f"{table}_kind"),
        CheckConstraint("rows >= 0 AND bytes >= 0 AND created_by >= 1", name=f"{table}_sizes"),
        CheckConstraint(
            "(first_key_group IS NULL) = (last_key_group IS NULL)"
            " AND (first_key_group IS NULL OR (first_key_group >= 0 AND first_key_group <= last_key_group))",
            name=f"{table}_key_groups",
        ),
    )


handles = Table(
    "handles",
    metadata,
    Column("pipeline_id", Text, nullable=False),
    Column("checkpoint_id", BigInteger, nullable=False),
    Column("operator_id", Text, nullable=False),
    Column("subtask_index", Integer, nullable=False),
    Column("ordinal", Integer, nullable=False),
    *_handle_columns(),
    Column(
        "owner",
        Text,
        Computed(
            f"CASE WHEN kind = '{HandleKind.STAGED}' THEN '{STAGED_BY}' || operator_id ELSE '{STORAGE}' END",
            persisted=True,
        ),
    ),
    PrimaryKeyConstraint(
        "pipeline_id", "checkpoint_id", "operator_id", "subtask_index", "ordinal", name="handles_pkey"
    ),
    *_handle_checks("handles"),
    CheckConstraint("created_by <= checkpoint_id", name="handles_created_before"),
)

compactions = Table(
    "compactions",
    metadata,
    Column("pipeline_id", Text, ForeignKey("tidegate.pipelines.pipeline_id", name="compactions_pipeline_fkey")),
    Column("position", BigInteger, Identity(always=True), nullable=False),
    Column("operator_id", Text, nullable=False),
    Column("subtask_index", Integer, nullable=False),
    *_handle_columns(),
    Column("replaces", ARRAY(Text), nullable=False),
    PrimaryKeyConstraint("pipeline_id", "path", name="compactions_pkey"),
    *_handle_checks("compactions"),
    CheckConstraint("operator_id <> '' AND subtask_index >= 0", name="compactions_identity"),
    CheckConstraint("cardinality(replaces) >= 1", name="compactions_replaces"),
)

deletion_queue = Table(
    "deletion_queue",
    metadata,
    Column("pipeline_id", Text, ForeignKey("tidegate.pipelines.pipeline_id", name="deletion_queue_pipeline_fkey")),
    Column("position", BigInteger, Identity(always=True), nullable=False),
    Column("owner", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("given_up_by", BigInteger),
    PrimaryKeyConstraint("pipeline_id", "owner", "path", name="deletion_queue_pkey"),
    CheckConstraint(
        f"owner = '{STORAGE}' OR owner ~ '^{STAGED_BY}.' OR owner ~ '^{SAVED_AT}.'", name="deletion_queue_owner"
    ),
    CheckConstraint(confined("path"), name="deletion_queue_path_confined"),
    CheckConstraint("given_up_by >= 1", name="deletion_queue_given_up_by"),
    Index("deletion_queue_oldest", "pipeline_id", "position"),
)

after_create(
    handles,
    "ALTER TABLE tidegate.handles SET (autovacuum_vacuum_scale_factor = 0.02,"
    " autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05)",
)
# Rows of the queue are short-lived, and a search for garbage reads all dead ones.
after_create(
    deletion_queue,
    "ALTER TABLE tidegate.deletion_queue SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000)",
)

after_create(subtasks, *SUBTASK_GUARDS)
after_create(handles, HANDLES_FUNCTION, *HANDLES_TRIGGERS, *HANDLE_GUARDS)
after_create(metadata, LIVE_REFERENCES, HISTORY, CURRENT)
