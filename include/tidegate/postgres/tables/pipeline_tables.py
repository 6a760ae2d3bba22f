"""Pipelines, the places of their endpoints, and waiting requests."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)

from tidegate.postgres.guards import IMPORT_GUARDS, PIPELINE_GUARDS, REFUSALS, RESTORE_GUARDS
from tidegate.postgres.rules import ATTEMPTS_FUNCTION, ATTEMPTS_TRIGGER
from tidegate.postgres.tables.columns import (
    INSTANT,
    ONLY_OF_SAVEPOINTS,
    ONLY_TO_STOP,
    after_create,
    listed,
    members,
    metadata,
)
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.recovery.identity import Role

pipelines = Table(
    "pipelines",
    metadata,
    Column("pipeline_id", Text, primary_key=True),
    Column("last_checkpoint_id", BigInteger, nullable=False, server_default=text("0")),
    Column("status", Text, nullable=False, server_default=text(f"'{PipelineStatus.CREATED}'")),
    Column("since", INSTANT),
    Column("message", Text),
    Column("forgiven_until", BigInteger, nullable=False, server_default=text("0")),
    # The newest region, see `protocol.continuous.regions.RegionRecord`.
    Column("region_attempt", Integer, nullable=False, server_default=text("0")),
    Column("region_started_at", INSTANT),
    Column("region_seen_at", INSTANT),
    Column("region_ended_at", INSTANT),
    Column("region_swept", Integer, nullable=False, server_default=text("0")),
    # The newest commit attempt, see `protocol.steps.committing.CommitterRecord`.
    Column("commit_attempt", Integer, nullable=False, server_default=text("0")),
    Column("committer_seen_at", INSTANT),
    Column("commit_problem", Text),
    # How often the pipeline continued from a checkpoint, after a failure or with a new region, and the latest time.
    Column("restores", Integer, nullable=False, server_default=text("0")),
    Column("restored_checkpoint", BigInteger),
    Column("restored_at", INSTANT),
    # When the pipeline was found to have completed no checkpoint for too long, see `protocol.observing.staleness`.
    Column("stale_since", INSTANT),
    # The newest of `restores`, which a user requested.
    Column("last_restore", Integer, nullable=False, server_default=text("0")),
    CheckConstraint("pipeline_id <> ''", name="pipelines_named"),
    CheckConstraint("last_checkpoint_id >= 0", name="pipelines_counter"),
    CheckConstraint(f"status IN ({members(PipelineStatus)})", name="pipelines_status"),
    CheckConstraint("forgiven_until >= 0 AND forgiven_until <= last_checkpoint_id", name="pipelines_forgiven"),
    CheckConstraint(
        "region_attempt >= 0 AND (region_attempt > 0) = (region_started_at IS NOT NULL)"
        " AND num_nonnulls(region_seen_at, region_ended_at) = least(region_attempt, 1)",
        name="pipelines_region",
    ),
    CheckConstraint("region_swept >= 0 AND region_swept <= region_attempt", name="pipelines_region_swept"),
    CheckConstraint(
        "commit_attempt >= 0 AND (commit_attempt > 0 OR num_nonnulls(committer_seen_at, commit_problem) = 0)",
        name="pipelines_committer",
    ),
    CheckConstraint(
        "restores >= 0 AND num_nonnulls(restored_checkpoint, restored_at) = 2 * least(restores, 1)"
        " AND (restored_checkpoint IS NULL OR restored_checkpoint BETWEEN 1 AND last_checkpoint_id)",
        name="pipelines_restored",
    ),
)

#: Sources and sinks, and their places, see `protocol.recovery.identity`.
endpoints = Table(
    "endpoints",
    metadata,
    Column("pipeline_id", Text, ForeignKey("tidegate.pipelines.pipeline_id", name="endpoints_pipeline_fkey")),
    Column("role", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("place", Text, nullable=False),
    Column("recorded_at", INSTANT, nullable=False),
    Column("place_before", Text),
    PrimaryKeyConstraint("pipeline_id", "role", "name", name="endpoints_pkey"),
    CheckConstraint(f"role IN ({members(Role)})", name="endpoints_role"),
    CheckConstraint("name <> '' AND type <> ''", name="endpoints_named"),
)

#: The restores that a user requested, see `protocol.facts.branches`.
restores = Table(
    "restores",
    metadata,
    Column("pipeline_id", Text, ForeignKey("tidegate.pipelines.pipeline_id", name="restores_pipeline_fkey")),
    Column("number", Integer, nullable=False, autoincrement=False),
    Column("checkpoint_id", BigInteger, nullable=False),
    Column("last_checkpoint_id", BigInteger, nullable=False),
    Column("previous_checkpoint_id", BigInteger),
    Column("restored_at", INSTANT, nullable=False),
    Column("undoes", Integer),
    Column("rewound_at", INSTANT),
    Column("allows_non_restored_state", Boolean, nullable=False),
    Column("imported", BigInteger),
    PrimaryKeyConstraint("pipeline_id", "number", name="restores_pkey"),
    CheckConstraint("number >= 1", name="restores_number"),
    CheckConstraint(
        "checkpoint_id BETWEEN 1 AND last_checkpoint_id"
        " AND (previous_checkpoint_id IS NULL OR previous_checkpoint_id BETWEEN 1 AND last_checkpoint_id)",
        name="restores_of_the_past",
    ),
    CheckConstraint("undoes >= 1 AND undoes < number", name="restores_undoes"),
    CheckConstraint("imported = last_checkpoint_id + 1", name="restores_imported"),
    Index("restores_undone_once", "pipeline_id", "undoes", unique=True),
)

#: Requests that wait, and dropped ones whose requesters have not read the answer yet.
requests = Table(
    "requests",
    metadata,
    Column("pipeline_id", Text, ForeignKey("tidegate.pipelines.pipeline_id", name="requests_pipeline_fkey")),
    Column("request_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("periodic", Boolean, nullable=False),
    Column("forced", Boolean, nullable=False),
    Column("asked_at", INSTANT, nullable=False),
    Column("seen_at", INSTANT, nullable=False),
    Column("dropped", Text),
    Column("dropped_message", Text),
    Column("drain", Boolean, nullable=False, server_default=text("false")),
    Column("name", Text),
    Column("note", Text),
    PrimaryKeyConstraint("pipeline_id", "request_id", name="requests_pkey"),
    CheckConstraint("request_id <> ''", name="requests_named"),
    CheckConstraint(f"kind IN ({members(CheckpointKind)})", name="requests_kind"),
    CheckConstraint("seen_at >= asked_at", name="requests_seen"),
    CheckConstraint(f"dropped IN ({listed([reason.name for reason in FailureReason])})", name="requests_dropped"),
    CheckConstraint("(dropped IS NULL) = (dropped_message IS NULL)", name="requests_dropped_message"),
    CheckConstraint(ONLY_TO_STOP, name="requests_drain"),
    CheckConstraint(ONLY_OF_SAVEPOINTS, name="requests_label"),
)

imports = Table(
    "imports",
    metadata,
    Column("pipeline_id", Text, ForeignKey("tidegate.pipelines.pipeline_id", name="imports_pipeline_fkey")),
    Column("checkpoint_id", BigInteger, nullable=False, autoincrement=False),
    Column("seen_at", INSTANT, nullable=False),
    Column("ended_at", INSTANT),
    PrimaryKeyConstraint("pipeline_id", "checkpoint_id", name="imports_pkey"),
    CheckConstraint("checkpoint_id >= 1", name="imports_id"),
)

after_create(pipelines, ATTEMPTS_FUNCTION, ATTEMPTS_TRIGGER, *REFUSALS, *PIPELINE_GUARDS)
after_create(restores, *RESTORE_GUARDS)
after_create(imports, *IMPORT_GUARDS)
