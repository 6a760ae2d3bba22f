"""The tables of the store, in a schema of their own, and the rules that the database itself enforces.

Constraints and the transition trigger are generated from `protocol.facts.lifecycle` and the closed lists of the
records, so the database refuses everything that the protocol does not have. The modules here define shapes, `rules`
live references, and `guards` legal changes. `migrations/` brings a database to this schema, and a test proves that
both are equal. The schema does not limit how many checkpoints are in progress, which admission decides.
"""

from tidegate.postgres.tables.audit_table import audit
from tidegate.postgres.tables.checkpoint_tables import checkpoints, verdicts
from tidegate.postgres.tables.columns import CHANNEL, SCHEMA, metadata
from tidegate.postgres.tables.event_tables import event_deliveries, events
from tidegate.postgres.tables.identity_table import database_identity
from tidegate.postgres.tables.pipeline_tables import endpoints, imports, pipelines, requests, restores
from tidegate.postgres.tables.plan_table import restore_plans
from tidegate.postgres.tables.reading_tables import figures, pipeline_dags, source_lag
from tidegate.postgres.tables.rollup_tables import folded_operators, folded_totals
from tidegate.postgres.tables.skip_table import source_skips
from tidegate.postgres.tables.snapshot_tables import METRICS, compactions, deletion_queue, handles, subtasks

__all__ = [
    "CHANNEL",
    "METRICS",
    "SCHEMA",
    "audit",
    "checkpoints",
    "compactions",
    "database_identity",
    "deletion_queue",
    "endpoints",
    "event_deliveries",
    "events",
    "figures",
    "folded_operators",
    "folded_totals",
    "handles",
    "imports",
    "metadata",
    "pipeline_dags",
    "pipelines",
    "requests",
    "restore_plans",
    "restores",
    "source_lag",
    "source_skips",
    "subtasks",
    "verdicts",
]
