"""The rest of the subtasks of checkpoints that ended long ago: the totals of each operator, and the number and costs of
all such checkpoints of a pipeline."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Integer,
    Numeric,
    PrimaryKeyConstraint,
    Table,
    Text,
)
from sqlalchemy.dialects.postgresql import ARRAY

from tidegate.postgres.guards import FOLDED_GUARDS, TOTAL_GUARDS
from tidegate.postgres.tables.columns import INSTANT, after_create, metadata

folded_operators = Table(
    "folded_operators",
    metadata,
    Column("pipeline_id", Text, nullable=False),
    Column("checkpoint_id", BigInteger, nullable=False, autoincrement=False),
    Column("operator_id", Text, nullable=False),
    *(Column(name, Integer, nullable=False) for name in ("number", "acknowledged", "finished", "attempt")),
    Column("latest", INSTANT),
    *(Column(name, BigInteger, nullable=False) for name in ("checkpointed_size", "state_size", "files")),
    *(Column(name, Boolean, nullable=False) for name in ("unaligned", "positioned")),
    *(Column(name, BigInteger, nullable=False) for name in ("processed_data", "persisted_data", "rows_in", "rows_out")),
    Column("spreads", ARRAY(Double), nullable=False),
    PrimaryKeyConstraint("pipeline_id", "checkpoint_id", "operator_id", name="folded_operators_pkey"),
    ForeignKeyConstraint(
        ["pipeline_id", "checkpoint_id"],
        ["tidegate.checkpoints.pipeline_id", "tidegate.checkpoints.checkpoint_id"],
        name="folded_operators_checkpoint_fkey",
    ),
    CheckConstraint(
        "number >= 1 AND acknowledged BETWEEN 0 AND number AND finished BETWEEN 0 AND acknowledged"
        " AND cardinality(spreads) = 33",
        name="folded_operators_counts",
    ),
)

folded_totals = Table(
    "folded_totals",
    metadata,
    Column("pipeline_id", Text, ForeignKey("tidegate.pipelines.pipeline_id", name="folded_totals_pipeline_fkey")),
    *(Column(name, BigInteger, nullable=False) for name in ("failed", "discarded", "measured")),
    *(Column(name, ARRAY(BigInteger), nullable=False) for name in ("smallest", "largest")),
    Column("total", ARRAY(Numeric), nullable=False),
    PrimaryKeyConstraint("pipeline_id", name="folded_totals_pkey"),
    CheckConstraint(
        "failed >= 0 AND discarded >= 0 AND measured >= 0 AND cardinality(smallest) = 5"
        " AND cardinality(largest) = 5 AND cardinality(total) = 5",
        name="folded_totals_counts",
    ),
)

after_create(folded_operators, *FOLDED_GUARDS)
after_create(folded_totals, *TOTAL_GUARDS)
