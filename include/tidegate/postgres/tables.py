"""The tables of the store, in a schema of their own, and the rules that the database itself enforces.

Constraints and the transition trigger are generated from `protocol.lifecycle` and the closed lists of the records, so
the database refuses what the protocol does not know. This file decides shapes, `rules` what is live, and `guards` which
changes are legal. `migrations/` brings a database to this schema, and a test proves that both say the same. The schema
does not limit how many checkpoints are in progress: admission decides that.
"""

from enum import StrEnum

from sqlalchemy import (
    DDL,
    TIMESTAMP,
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
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    event,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from tidegate.postgres.guards import (
    CHECKPOINT_GUARDS,
    HANDLE_GUARDS,
    PIPELINE_GUARDS,
    REFUSE,
    REFUSE_PARTS_OF_ENDED,
    SUBTASK_GUARDS,
    VERDICT_GUARDS,
)
from tidegate.postgres.rules import (
    ATTEMPTS_FUNCTION,
    ATTEMPTS_TRIGGER,
    HANDLES_FUNCTION,
    HANDLES_TRIGGERS,
    LIVE_REFERENCES,
    TRANSITION_FUNCTION,
    TRANSITION_TRIGGER,
)
from tidegate.protocol.identity import Role
from tidegate.protocol.lifecycle import COMMITTED, TRANSITIONS, Phase, Stage, Status
from tidegate.protocol.names import STAGED_BY, STORAGE
from tidegate.protocol.pipelines import PipelineStatus
from tidegate.protocol.reasons import FailureReason
from tidegate.protocol.records import CheckpointKind, HandleKind

SCHEMA = "tidegate"
CHANNEL = "tidegate"  # of NOTIFY; the payload is the pipeline's id

metadata = MetaData(schema=SCHEMA)


def _listed(values: list[str]) -> str:
    return ", ".join(f"'{value}'" for value in values)


def _members(kind: type[StrEnum]) -> str:
    return _listed([member.value for member in kind])


def _stages(stages: list[Stage]) -> str:
    return ", ".join(f"('{status}', '{phase}')" for status, phase in stages)


def _confined(column: str) -> str:
    """Paths stay below the root they are relative to."""
    return f"{column} <> '' AND '/' || {column} || '/' NOT LIKE ALL (ARRAY['//%', '%/../%'])"


_COMMITTED = _listed(sorted(COMMITTED))
_ONLY_TO_STOP = f"NOT drain OR kind = '{CheckpointKind.SYNC_SAVEPOINT}'"
_TIMESTAMP = TIMESTAMP(timezone=True)

pipelines = Table(
    "pipelines",
    metadata,
    Column("pipeline_id", Text, primary_key=True),
    Column("last_checkpoint_id", BigInteger, nullable=False, server_default=text("0")),
    Column("status", Text, nullable=False, server_default=text(f"'{PipelineStatus.CREATED}'")),
    Column("since", _TIMESTAMP),
    Column("message", Text),
    Column("forgiven_until", BigInteger, nullable=False, server_default=text("0")),
    # The newest region, see `protocol.regions.RegionRecord`.
    Column("region_attempt", Integer, nullable=False, server_default=text("0")),
    Column("region_started_at", _TIMESTAMP),
    Column("region_seen_at", _TIMESTAMP),
    Column("region_ended_at", _TIMESTAMP),
    Column("region_swept", Integer, nullable=False, server_default=text("0")),
    # The newest commit attempt, see `protocol.committing.CommitterRecord`.
    Column("commit_attempt", Integer, nullable=False, server_default=text("0")),
    Column("committer_seen_at", _TIMESTAMP),
    # How often the pipeline went on from a checkpoint, after a failure or with a new region, and the latest time.
    Column("restores", Integer, nullable=False, server_default=text("0")),
    Column("restored_checkpoint", BigInteger),
    Column("restored_at", _TIMESTAMP),
    CheckConstraint("pipeline_id <> ''", name="pipelines_named"),
    CheckConstraint("last_checkpoint_id >= 0", name="pipelines_counter"),
    CheckConstraint(f"status IN ({_members(PipelineStatus)})", name="pipelines_status"),
    CheckConstraint("forgiven_until >= 0 AND forgiven_until <= last_checkpoint_id", name="pipelines_forgiven"),
    CheckConstraint(
        "region_attempt >= 0 AND (region_attempt > 0) = (region_started_at IS NOT NULL)"
        " AND num_nonnulls(region_seen_at, region_ended_at) = least(region_attempt, 1)",
        name="pipelines_region",
    ),
    CheckConstraint("region_swept >= 0 AND region_swept <= region_attempt", name="pipelines_region_swept"),
    CheckConstraint(
        "commit_attempt >= 0 AND (commit_attempt > 0 OR committer_seen_at IS NULL)", name="pipelines_committer"
    ),
    CheckConstraint(
        "restores >= 0 AND num_nonnulls(restored_checkpoint, restored_at) = 2 * least(restores, 1)"
        " AND (restored_checkpoint IS NULL OR restored_checkpoint BETWEEN 1 AND last_checkpoint_id)",
        name="pipelines_restored",
    ),
)

#: Sources and sinks, and where they are: see `protocol.identity`.
endpoints = Table(
    "endpoints",
    metadata,
    Column("pipeline_id", Text, ForeignKey("tidegate.pipelines.pipeline_id", name="endpoints_pipeline_fkey")),
    Column("role", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("place", Text, nullable=False),
    Column("recorded_at", _TIMESTAMP, nullable=False),
    Column("place_before", Text),
    PrimaryKeyConstraint("pipeline_id", "role", "name", name="endpoints_pkey"),
    CheckConstraint(f"role IN ({_members(Role)})", name="endpoints_role"),
    CheckConstraint("name <> '' AND type <> ''", name="endpoints_named"),
)

#: Requests that wait, and dropped ones whose owners do not know it yet.
requests = Table(
    "requests",
    metadata,
    Column("pipeline_id", Text, ForeignKey("tidegate.pipelines.pipeline_id", name="requests_pipeline_fkey")),
    Column("request_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("periodic", Boolean, nullable=False),
    Column("forced", Boolean, nullable=False),
    Column("asked_at", _TIMESTAMP, nullable=False),
    Column("seen_at", _TIMESTAMP, nullable=False),
    Column("dropped", Text),
    Column("dropped_message", Text),
    Column("drain", Boolean, nullable=False, server_default=text("false")),
    PrimaryKeyConstraint("pipeline_id", "request_id", name="requests_pkey"),
    CheckConstraint("request_id <> ''", name="requests_named"),
    CheckConstraint(f"kind IN ({_members(CheckpointKind)})", name="requests_kind"),
    CheckConstraint("seen_at >= asked_at", name="requests_seen"),
    CheckConstraint(f"dropped IN ({_listed([reason.name for reason in FailureReason])})", name="requests_dropped"),
    CheckConstraint("(dropped IS NULL) = (dropped_message IS NULL)", name="requests_dropped_message"),
    CheckConstraint(_ONLY_TO_STOP, name="requests_drain"),
)

checkpoints = Table(
    "checkpoints",
    metadata,
    Column("pipeline_id", Text, ForeignKey("tidegate.pipelines.pipeline_id", name="checkpoints_pipeline_fkey")),
    Column("checkpoint_id", BigInteger, nullable=False, autoincrement=False),
    Column("request_id", Text, nullable=False),
    Column("periodic", Boolean, nullable=False),
    Column("status", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("triggered_at", _TIMESTAMP, nullable=False),
    Column("deadline", _TIMESTAMP, nullable=False),
    Column("num_subtasks", Integer, nullable=False),
    Column("num_acknowledged", Integer, nullable=False, server_default=text("0")),
    Column("operators", JSONB, nullable=False, server_default=text("'[]'::jsonb")),
    Column("acknowledged_at", _TIMESTAMP),
    Column("validated_at", _TIMESTAMP),
    Column("completed_at", _TIMESTAMP),
    Column("failed_at", _TIMESTAMP),
    Column("failure_reason", Text),
    Column("failure_message", Text),
    Column("notified_at", _TIMESTAMP),
    Column("metadata_path", Text),
    Column("state_size", BigInteger, nullable=False, server_default=text("0")),
    Column("checkpointed_size", BigInteger, nullable=False, server_default=text("0")),
    Column("swept", Boolean, nullable=False, server_default=text("false")),
    Column("kind", Text, nullable=False, server_default=text(f"'{CheckpointKind.CHECKPOINT}'")),
    Column("num_finished", Integer, nullable=False, server_default=text("0")),
    Column("drain", Boolean, nullable=False, server_default=text("false")),
    PrimaryKeyConstraint("pipeline_id", "checkpoint_id", name="checkpoints_pkey"),
    CheckConstraint("checkpoint_id >= 1", name="checkpoints_id"),
    CheckConstraint("request_id <> ''", name="checkpoints_request"),
    CheckConstraint(f"(status, phase) IN ({_stages(list(TRANSITIONS))})", name="checkpoints_stage"),
    CheckConstraint("deadline >= triggered_at", name="checkpoints_deadline"),
    CheckConstraint(
        "num_subtasks >= 1 AND num_acknowledged >= 0 AND num_acknowledged <= num_subtasks", name="checkpoints_counts"
    ),
    CheckConstraint(
        f"phase = '{Phase.TRIGGERED}' OR num_acknowledged = num_subtasks", name="checkpoints_all_acknowledged"
    ),
    CheckConstraint(
        f"(acknowledged_at IS NOT NULL) = (phase <> '{Phase.TRIGGERED}')", name="checkpoints_acknowledged_at"
    ),
    CheckConstraint(f"(validated_at IS NOT NULL) = (phase = '{Phase.VALIDATED}')", name="checkpoints_validated_at"),
    CheckConstraint(f"(completed_at IS NOT NULL) = (status IN ({_COMMITTED}))", name="checkpoints_completed_at"),
    CheckConstraint(f"(metadata_path IS NOT NULL) = (status IN ({_COMMITTED}))", name="checkpoints_metadata"),
    CheckConstraint(_confined("metadata_path"), name="checkpoints_metadata_confined"),
    CheckConstraint(f"notified_at IS NULL OR status IN ({_COMMITTED})", name="checkpoints_notified_at"),
    CheckConstraint(
        f"(failure_reason IS NOT NULL) = (status = '{Status.FAILED}')"
        f" AND (failure_message IS NOT NULL) = (status = '{Status.FAILED}')"
        f" AND (failed_at IS NOT NULL) = (status = '{Status.FAILED}')",
        name="checkpoints_failure",
    ),
    CheckConstraint(
        f"failure_reason IN ({_listed([reason.name for reason in FailureReason])})", name="checkpoints_failure_reason"
    ),
    CheckConstraint("state_size >= 0 AND checkpointed_size >= 0", name="checkpoints_sizes"),
    CheckConstraint(f"kind IN ({_members(CheckpointKind)})", name="checkpoints_kind"),
    CheckConstraint("num_finished >= 0 AND num_finished <= num_acknowledged", name="checkpoints_finished"),
    CheckConstraint(_ONLY_TO_STOP, name="checkpoints_drain"),
    CheckConstraint(f"NOT swept OR status <> '{Status.IN_PROGRESS}'", name="checkpoints_swept"),
    Index(
        "checkpoints_request_once",
        "pipeline_id",
        "request_id",
        unique=True,
        postgresql_where=text(f"status <> '{Status.FAILED}'"),
    ),
    Index("checkpoints_by_request", "pipeline_id", "request_id", "checkpoint_id"),
    Index("checkpoints_by_status", "pipeline_id", "status", "checkpoint_id"),
    Index("checkpoints_unswept", "pipeline_id", "checkpoint_id", postgresql_where=text("NOT swept")),
)

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
    Column("acknowledged_at", _TIMESTAMP),
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
    # Every row is updated twice, when asked and when acknowledged. Room on its page spares the index both times.
    postgresql_with={"fillfactor": 40},
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
        CheckConstraint(_confined("path"), name=f"{table}_path_confined"),
        CheckConstraint(f"kind IN ({_members(HandleKind)})", name=f"{table}_kind"),
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

verdicts = Table(
    "verdicts",
    metadata,
    Column("pipeline_id", Text, nullable=False),
    Column("checkpoint_id", BigInteger, nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("target", Text, nullable=False),
    Column("suite", Text, nullable=False),
    Column("success", Boolean),
    Column("evaluated", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("results", JSONB, nullable=False, server_default=text("'[]'::jsonb")),
    Column("error", Text),
    Column("docs_path", Text),
    PrimaryKeyConstraint("pipeline_id", "checkpoint_id", "ordinal", name="verdicts_pkey"),
    UniqueConstraint("pipeline_id", "checkpoint_id", "target", "suite", name="verdicts_target_once"),
    ForeignKeyConstraint(
        ["pipeline_id", "checkpoint_id"],
        ["tidegate.checkpoints.pipeline_id", "tidegate.checkpoints.checkpoint_id"],
        name="verdicts_checkpoint_fkey",
    ),
    CheckConstraint("success IS NOT NULL OR error IS NOT NULL", name="verdicts_error_said"),
    CheckConstraint("evaluated >= 0 AND failed >= 0", name="verdicts_counts"),
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
    CheckConstraint(f"owner = '{STORAGE}' OR owner ~ '^{STAGED_BY}.'", name="deletion_queue_owner"),
    CheckConstraint(_confined("path"), name="deletion_queue_path_confined"),
    CheckConstraint("given_up_by >= 1", name="deletion_queue_given_up_by"),
    Index("deletion_queue_oldest", "pipeline_id", "position"),
)


for _ddl in (ATTEMPTS_FUNCTION, ATTEMPTS_TRIGGER):
    event.listen(pipelines, "after_create", DDL(_ddl))  # type: ignore[no-untyped-call]
# DDL() formats its text with `%`.
event.listen(checkpoints, "after_create", DDL(TRANSITION_FUNCTION.replace("%", "%%")))  # type: ignore[no-untyped-call]
event.listen(checkpoints, "after_create", DDL(TRANSITION_TRIGGER))  # type: ignore[no-untyped-call]
for _ddl in (HANDLES_FUNCTION, *HANDLES_TRIGGERS):
    event.listen(handles, "after_create", DDL(_ddl))  # type: ignore[no-untyped-call]
for _table, _guards in (
    (pipelines, (REFUSE, REFUSE_PARTS_OF_ENDED, *PIPELINE_GUARDS)),
    (checkpoints, CHECKPOINT_GUARDS),
    (subtasks, SUBTASK_GUARDS),
    (handles, HANDLE_GUARDS),
    (verdicts, VERDICT_GUARDS),
):
    for _ddl in _guards:
        event.listen(_table, "after_create", DDL(_ddl))  # type: ignore[no-untyped-call]
event.listen(metadata, "after_create", DDL(LIVE_REFERENCES))  # type: ignore[no-untyped-call]
