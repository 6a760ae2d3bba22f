"""The events for notifiers, and the state of their deliveries."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)

from tidegate.postgres.tables.columns import INSTANT, listed, members, metadata
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.observing.events import EventKind

events = Table(
    "events",
    metadata,
    Column("pipeline_id", Text, ForeignKey("tidegate.pipelines.pipeline_id", name="events_pipeline_fkey")),
    Column("number", BigInteger, Identity(always=True), nullable=False),
    Column("kind", Text, nullable=False),
    Column("at", INSTANT, nullable=False),
    Column("message", Text, nullable=False),
    Column("checkpoint_id", BigInteger),
    Column("reason", Text),
    PrimaryKeyConstraint("pipeline_id", "number", name="events_pkey"),
    CheckConstraint(f"kind IN ({members(EventKind)})", name="events_kind"),
    CheckConstraint(f"reason IN ({listed([reason.name for reason in FailureReason])})", name="events_reason"),
    ForeignKeyConstraint(
        ["pipeline_id", "checkpoint_id"],
        ["tidegate.checkpoints.pipeline_id", "tidegate.checkpoints.checkpoint_id"],
        name="events_checkpoint_fkey",
    ),
)

#: A row for each notifier that was tried, see `protocol.observing.events.Undelivered`.
event_deliveries = Table(
    "event_deliveries",
    metadata,
    Column("pipeline_id", Text, nullable=False),
    Column("number", BigInteger, nullable=False, autoincrement=False),
    Column("notifier", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("again_at", INSTANT, nullable=False),
    Column("refused", Boolean, nullable=False, server_default=text("false")),
    Column("delivered_at", INSTANT),
    PrimaryKeyConstraint("pipeline_id", "number", "notifier", name="event_deliveries_pkey"),
    ForeignKeyConstraint(
        ["pipeline_id", "number"],
        ["tidegate.events.pipeline_id", "tidegate.events.number"],
        name="event_deliveries_event_fkey",
        ondelete="CASCADE",
    ),
    CheckConstraint("notifier <> ''", name="event_deliveries_notifier"),
    CheckConstraint("attempts >= 1", name="event_deliveries_attempts"),
)
