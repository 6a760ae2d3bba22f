"""The positions from which a pipeline continues after its sources have lost rows. See `protocol.recovery.skipping`."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Identity,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
)
from sqlalchemy.dialects.postgresql import JSONB

from tidegate.postgres.tables.columns import INSTANT, metadata

source_skips = Table(
    "source_skips",
    metadata,
    Column("pipeline_id", Text, ForeignKey("tidegate.pipelines.pipeline_id", name="source_skips_pipeline_fkey")),
    Column("number", BigInteger, Identity(always=True), nullable=False),
    Column("source", Text, nullable=False),
    Column("checkpoint_id", BigInteger, nullable=False),
    Column("operator_id", Text, nullable=False),
    Column("subtask_index", Integer, nullable=False),
    Column("position", JSONB, nullable=False),
    Column("lost", JSONB, nullable=False),
    Column("skipped_at", INSTANT, nullable=False),
    PrimaryKeyConstraint("pipeline_id", "number", name="source_skips_pkey"),
    CheckConstraint("source <> '' AND operator_id <> '' AND subtask_index >= 0", name="source_skips_identity"),
    CheckConstraint("jsonb_typeof(lost) = 'array' AND lost <> '[]'", name="source_skips_lost"),
)
