"""Rows for readers: figures of completed checkpoints, the DAGs that request them, and the lag of pipelines.

No decision about a checkpoint depends on these rows. The figures could be summed up from the subtasks each time, but
with many subtasks that takes seconds.
"""

from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, ForeignKeyConstraint, Index, Table, Text, text
from sqlalchemy import PrimaryKeyConstraint as PrimaryKey
from sqlalchemy.dialects.postgresql import JSONB

from tidegate.postgres.guards import FIGURE_GUARDS
from tidegate.postgres.tables.columns import INSTANT, after_create, metadata

#: Sums over the subtasks. A subtask that reported nothing counts as 0.
SUMS = ("processed_data", "persisted_data", "rows_in", "rows_out")
#: The longest of a subtask, -1 if none reported any.
LONGEST = ("start_delay", "alignment_duration", "sync_duration", "async_duration")

figures = Table(
    "figures",
    metadata,
    Column("pipeline_id", Text, nullable=False),
    Column("checkpoint_id", BigInteger, nullable=False, autoincrement=False),
    Column("triggered_at", INSTANT, nullable=False),
    *(Column(name, BigInteger, nullable=False) for name in ("end_to_end_duration", "checkpointed_size", "state_size")),
    *(Column(name, BigInteger, nullable=False) for name in (*SUMS, *LONGEST)),
    PrimaryKey("pipeline_id", "checkpoint_id", name="figures_pkey"),
    ForeignKeyConstraint(
        ["pipeline_id", "checkpoint_id"],
        ["tidegate.checkpoints.pipeline_id", "tidegate.checkpoints.checkpoint_id"],
        name="figures_checkpoint_fkey",
    ),
    CheckConstraint(
        f"least(end_to_end_duration, checkpointed_size, state_size, {', '.join(SUMS)}) >= 0"
        f" AND least({', '.join(LONGEST)}) >= -1",
        name="figures_reported",
    ),
)

#: A pipeline may have none, one of another name, or several.
pipeline_dags = Table(
    "pipeline_dags",
    metadata,
    Column("pipeline_id", Text, ForeignKey("tidegate.pipelines.pipeline_id", name="pipeline_dags_pipeline_fkey")),
    Column("dag_id", Text, nullable=False),
    Column("last_seen_at", INSTANT, nullable=False),
    PrimaryKey("pipeline_id", "dag_id", name="pipeline_dags_pkey"),
    CheckConstraint("dag_id <> ''", name="pipeline_dags_named"),
    Index("pipeline_dags_by_dag", "dag_id", "pipeline_id"),
)

#: As of the last poll that was worth recording.
source_lag = Table(
    "source_lag",
    metadata,
    Column("pipeline_id", Text, ForeignKey("tidegate.pipelines.pipeline_id", name="source_lag_pipeline_fkey")),
    Column("source", Text, nullable=False),
    Column("pending", BigInteger, nullable=False),
    Column("unit", Text, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("polled_at", INSTANT, nullable=False),
    Column("parts", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    PrimaryKey("pipeline_id", "source", name="source_lag_pkey"),
    CheckConstraint("pending >= 0 AND bytes >= -1 AND source <> '' AND unit <> ''", name="source_lag_counted"),
)

after_create(figures, *FIGURE_GUARDS)
