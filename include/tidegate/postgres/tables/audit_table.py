"""The user actions and their answers. Rows are only added."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Identity,
    Index,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects.postgresql import JSONB

from tidegate.postgres.guards import AUDIT_GUARDS
from tidegate.postgres.tables.columns import INSTANT, after_create, members, metadata
from tidegate.protocol.observing.actions import ActionKind, ActorKind, AnswerStatus

audit = Table(
    "audit",
    metadata,
    Column("number", BigInteger, Identity(always=True), primary_key=True),
    # None for an action on the database itself.
    Column("pipeline_id", Text, ForeignKey("tidegate.pipelines.pipeline_id", name="audit_pipeline_fkey")),
    Column("request_id", Text, nullable=False),
    Column("at", INSTANT, nullable=False),
    Column("kind", Text, nullable=False),
    Column("actor_kind", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("details", JSONB, nullable=False),
    Column("status", Text, nullable=False),
    Column("sentence", Text, nullable=False),
    Column("checkpoint_id", BigInteger),
    UniqueConstraint("pipeline_id", "request_id", name="audit_asked_once"),
    CheckConstraint("request_id <> ''", name="audit_named"),
    CheckConstraint(f"kind IN ({members(ActionKind)})", name="audit_kind"),
    CheckConstraint(f"actor_kind IN ({members(ActorKind)})", name="audit_actor"),
    CheckConstraint(f"status IN ({members(AnswerStatus)})", name="audit_status"),
    Index("audit_of_pipeline", "pipeline_id", "number"),
)

after_create(audit, *AUDIT_GUARDS)
