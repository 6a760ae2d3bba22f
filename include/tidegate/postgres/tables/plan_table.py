"""Plans of restores that pages have requested, and their confirmations. See `protocol.recovery.restores_on_pages`."""

from sqlalchemy import CheckConstraint, Column, ForeignKey, PrimaryKeyConstraint, Table, Text
from sqlalchemy.dialects.postgresql import JSONB

from tidegate.postgres.guards import CONFIRMED, PLAN_GUARDS
from tidegate.postgres.tables.columns import INSTANT, after_create, metadata

restore_plans = Table(
    "restore_plans",
    metadata,
    Column("pipeline_id", Text, ForeignKey("tidegate.pipelines.pipeline_id", name="restore_plans_pipeline_fkey")),
    Column("request_id", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("asked_at", INSTANT, nullable=False),
    *(Column(name, Text, nullable=False) for name in ("asked_by", "asked_from", "dag_id", "run_id")),
    Column("planned_at", INSTANT),
    Column("document", JSONB),
    Column("digest", Text),
    Column("refusal", Text),
    Column("confirmed_id", Text),
    Column("confirmed_at", INSTANT),
    *(Column(name, Text) for name in ("confirmed_by", "confirmed_from", "confirmed_dag", "confirmed_run")),
    Column("accepted", JSONB),
    PrimaryKeyConstraint("pipeline_id", "request_id", name="restore_plans_pkey"),
    CheckConstraint("request_id <> '' AND target <> ''", name="restore_plans_named"),
    CheckConstraint(
        "num_nonnulls(document, digest) IN (0, 2)"
        " AND (planned_at IS NOT NULL)::integer = num_nonnulls(document, refusal)",
        name="restore_plans_planned",
    ),
    CheckConstraint(
        f"num_nonnulls({', '.join(CONFIRMED)}) IN (0, 7) AND (confirmed_id IS NULL OR document IS NOT NULL)",
        name="restore_plans_confirmed",
    ),
)

after_create(restore_plans, *PLAN_GUARDS)
