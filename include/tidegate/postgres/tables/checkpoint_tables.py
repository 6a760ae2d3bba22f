"""Checkpoints, and the verdicts on their staged rows."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from tidegate.postgres.guards import CHECKPOINT_GUARDS, VERDICT_GUARDS
from tidegate.postgres.rules import TRANSITION_FUNCTION, TRANSITION_TRIGGER
from tidegate.postgres.tables.columns import (
    INSTANT,
    ONLY_OF_SAVEPOINTS,
    ONLY_TO_STOP,
    after_create,
    confined,
    listed,
    members,
    metadata,
)
from tidegate.protocol.facts.lifecycle import COMMITTED, TRANSITIONS, Phase, Stage, Status
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointKind, Decision

_COMMITTED = listed(sorted(COMMITTED))


def _stages(stages: list[Stage]) -> str:
    return ", ".join(f"('{status}', '{phase}')" for status, phase in stages)


checkpoints = Table(
    "checkpoints",
    metadata,
    Column("pipeline_id", Text, ForeignKey("tidegate.pipelines.pipeline_id", name="checkpoints_pipeline_fkey")),
    Column("checkpoint_id", BigInteger, nullable=False, autoincrement=False),
    Column("request_id", Text, nullable=False),
    Column("periodic", Boolean, nullable=False),
    Column("status", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("triggered_at", INSTANT, nullable=False),
    Column("deadline", INSTANT, nullable=False),
    Column("num_subtasks", Integer, nullable=False),
    Column("num_acknowledged", Integer, nullable=False, server_default=text("0")),
    Column("operators", JSONB, nullable=False, server_default=text("'[]'::jsonb")),
    Column("acknowledged_at", INSTANT),
    Column("validated_at", INSTANT),
    Column("completed_at", INSTANT),
    Column("failed_at", INSTANT),
    Column("failure_reason", Text),
    Column("failure_message", Text),
    Column("notified_at", INSTANT),
    Column("metadata_path", Text),
    Column("state_size", BigInteger, nullable=False, server_default=text("0")),
    Column("checkpointed_size", BigInteger, nullable=False, server_default=text("0")),
    Column("swept", Boolean, nullable=False, server_default=text("false")),
    Column("kind", Text, nullable=False, server_default=text(f"'{CheckpointKind.CHECKPOINT}'")),
    Column("num_finished", Integer, nullable=False, server_default=text("0")),
    Column("drain", Boolean, nullable=False, server_default=text("false")),
    Column("abandoned_by", Integer),
    Column("name", Text),
    Column("note", Text),
    Column("location", Text),
    Column("exported_at", INSTANT),
    Column("exported_size", BigInteger),
    Column("held_at", INSTANT),
    Column("held_until", INSTANT),
    Column("held_message", Text),
    Column("decision", Text),
    Column("decided_at", INSTANT),
    Column("decided_by", Text),
    Column("decision_comment", Text),
    Column("committed_sinks", JSONB, nullable=False, server_default=text("'[]'::jsonb")),
    Column("folded", Boolean, nullable=False, server_default=text("false")),
    PrimaryKeyConstraint("pipeline_id", "checkpoint_id", name="checkpoints_pkey"),
    CheckConstraint("checkpoint_id >= 1", name="checkpoints_id"),
    CheckConstraint("request_id <> ''", name="checkpoints_request"),
    CheckConstraint(f"(status, phase) IN ({_stages(list(TRANSITIONS))})", name="checkpoints_stage"),
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
    CheckConstraint(f"committed_sinks = '[]'::jsonb OR status IN ({_COMMITTED})", name="checkpoints_committed_sinks"),
    CheckConstraint(confined("metadata_path"), name="checkpoints_metadata_confined"),
    CheckConstraint(f"notified_at IS NULL OR status IN ({_COMMITTED})", name="checkpoints_notified_at"),
    CheckConstraint(
        f"(failure_reason IS NOT NULL) = (status = '{Status.FAILED}')"
        f" AND (failure_message IS NOT NULL) = (status = '{Status.FAILED}')"
        f" AND (failed_at IS NOT NULL) = (status = '{Status.FAILED}')",
        name="checkpoints_failure",
    ),
    CheckConstraint(
        f"failure_reason IN ({listed([reason.name for reason in FailureReason])})", name="checkpoints_failure_reason"
    ),
    CheckConstraint("state_size >= 0 AND checkpointed_size >= 0", name="checkpoints_sizes"),
    CheckConstraint(f"kind IN ({members(CheckpointKind)})", name="checkpoints_kind"),
    CheckConstraint("num_finished >= 0 AND num_finished <= num_acknowledged", name="checkpoints_finished"),
    CheckConstraint(ONLY_TO_STOP, name="checkpoints_drain"),
    CheckConstraint(ONLY_OF_SAVEPOINTS, name="checkpoints_label"),
    CheckConstraint(
        f"location IS NULL OR location <> '' AND kind <> '{CheckpointKind.CHECKPOINT}' AND status IN ({_COMMITTED})",
        name="checkpoints_location",
    ),
    CheckConstraint(
        "num_nulls(exported_at, exported_size) IN (0, 2) AND exported_size >= 0"
        " AND (exported_at IS NULL OR location IS NOT NULL)",
        name="checkpoints_exported",
    ),
    CheckConstraint(
        "num_nulls(held_at, held_until, held_message) IN (0, 3) AND held_until > held_at"
        f" AND (held_at IS NOT NULL OR phase <> '{Phase.HELD}')"
        f" AND (held_at IS NULL OR phase IN ('{Phase.HELD}', '{Phase.VALIDATED}'))",
        name="checkpoints_held",
    ),
    CheckConstraint(
        f"num_nulls(decision, decided_at, decided_by) IN (0, 3) AND decision IN ({members(Decision)})"
        " AND decided_by <> '' AND (decision_comment IS NULL OR decision IS NOT NULL)"
        f" AND decided_at < held_until AND (decision IS DISTINCT FROM '{Decision.REJECTED}' OR phase = '{Phase.HELD}')",
        name="checkpoints_decided",
    ),
    CheckConstraint(
        f"(decision IS NOT DISTINCT FROM '{Decision.APPROVED}')"
        f" = (held_at IS NOT NULL AND phase = '{Phase.VALIDATED}')",
        name="checkpoints_approved",
    ),
    CheckConstraint(
        f"status <> '{Status.FAILED}' OR (failure_reason = '{FailureReason.VALIDATION_REJECTED.name}')"
        f" = (decision IS NOT DISTINCT FROM '{Decision.REJECTED}')",
        name="checkpoints_rejected",
    ),
    CheckConstraint(f"NOT swept OR status <> '{Status.IN_PROGRESS}'", name="checkpoints_swept"),
    CheckConstraint(
        f"NOT folded OR kind = '{CheckpointKind.CHECKPOINT}' AND (status = '{Status.FAILED}'"
        f" OR status = '{Status.DISCARDED}' AND notified_at IS NOT NULL)",
        name="checkpoints_folded",
    ),
    ForeignKeyConstraint(
        ["pipeline_id", "abandoned_by"],
        ["tidegate.restores.pipeline_id", "tidegate.restores.number"],
        name="checkpoints_abandoned_fkey",
    ),
    CheckConstraint(f"abandoned_by IS NULL OR status IN ({_COMMITTED})", name="checkpoints_abandoned"),
    Index(
        "checkpoints_request_once",
        "pipeline_id",
        "request_id",
        unique=True,
        postgresql_where=text(f"status <> '{Status.FAILED}' AND abandoned_by IS NULL"),
    ),
    Index(
        "checkpoints_named_once",
        "pipeline_id",
        "name",
        unique=True,
        postgresql_where=text(f"status IN ('{Status.IN_PROGRESS}', '{Status.COMPLETED}')"),
    ),
    Index("checkpoints_by_request", "pipeline_id", "request_id", "checkpoint_id"),
    Index("checkpoints_by_status", "pipeline_id", "status", "checkpoint_id"),
    Index("checkpoints_unswept", "pipeline_id", "checkpoint_id", postgresql_where=text("NOT swept")),
    # By id, because the oldest are read. The status is included to be counted.
    Index(
        "checkpoints_unfolded",
        "pipeline_id",
        "checkpoint_id",
        postgresql_include=["status"],
        postgresql_where=text("NOT folded"),
    ),
    # For readers: all checkpoints of a DAG run, by time, and the few that are special.
    Index("checkpoints_by_run", "request_id", postgresql_ops={"request_id": "text_pattern_ops"}),
    Index("checkpoints_by_time", "pipeline_id", "triggered_at"),
    Index(
        "checkpoints_saved",
        "pipeline_id",
        "checkpoint_id",
        postgresql_where=text(f"kind <> '{CheckpointKind.CHECKPOINT}'"),
    ),
    Index(
        "checkpoints_in_doubt",
        "pipeline_id",
        "checkpoint_id",
        postgresql_where=text("completed_at IS NOT NULL AND notified_at IS NULL AND abandoned_by IS NULL"),
    ),
    Index(
        "checkpoints_left_behind",
        "pipeline_id",
        "checkpoint_id",
        postgresql_where=text("abandoned_by IS NOT NULL"),
    ),
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
    Column("carried_from", BigInteger),
    Column("basis", Text),
    PrimaryKeyConstraint("pipeline_id", "checkpoint_id", "ordinal", name="verdicts_pkey"),
    UniqueConstraint("pipeline_id", "checkpoint_id", "target", "suite", name="verdicts_target_once"),
    ForeignKeyConstraint(
        ["pipeline_id", "checkpoint_id"],
        ["tidegate.checkpoints.pipeline_id", "tidegate.checkpoints.checkpoint_id"],
        name="verdicts_checkpoint_fkey",
    ),
    CheckConstraint("success IS NOT NULL OR error IS NOT NULL", name="verdicts_error_said"),
    CheckConstraint("evaluated >= 0 AND failed >= 0", name="verdicts_counts"),
    CheckConstraint("carried_from IS NULL OR (success AND carried_from < checkpoint_id)", name="verdicts_carried_good"),
    CheckConstraint("basis IS NULL OR success", name="verdicts_basis_good"),
    Index("verdicts_by_target", "pipeline_id", "target", "suite", "checkpoint_id"),
)

after_create(checkpoints, TRANSITION_FUNCTION, TRANSITION_TRIGGER, *CHECKPOINT_GUARDS)
after_create(verdicts, *VERDICT_GUARDS)
