"""The rights of the role that runs pipelines, in one place. The schema belongs to another role, which only upgrades it.

A coordinator reads and writes rows and nothing else. It creates nothing, alters nothing, truncates nothing, and
deletes only from tables whose rows are temporary. Sinks in the same database have their own schemas, in which they
create tables. If there is no such role, one role does both.
"""

from sqlalchemy import Connection, text

from tidegate.postgres.roles import ICEBERG_SCHEMA, RUNNING_ROLE, SINKS_SCHEMA
from tidegate.postgres.tables import SCHEMA, metadata

#: The schemas in which the running role creates tables.
_OF_SINKS = (SINKS_SCHEMA, ICEBERG_SCHEMA)
_HISTORY = "SELECT, INSERT, UPDATE"
_COMES_AND_GOES = "SELECT, INSERT, UPDATE, DELETE"

#: The rights by table.
RIGHTS = {
    "pipelines": _HISTORY,
    "endpoints": _HISTORY,
    "requests": _COMES_AND_GOES,
    "restores": _HISTORY,
    "restore_plans": _HISTORY,
    "imports": _COMES_AND_GOES,
    "checkpoints": _HISTORY,
    "subtasks": _COMES_AND_GOES,
    "handles": "SELECT, INSERT, DELETE",
    "folded_operators": "SELECT, INSERT",
    "folded_totals": _HISTORY,
    "verdicts": "SELECT, INSERT, DELETE",
    "figures": "SELECT, INSERT",
    "pipeline_dags": _HISTORY,
    "source_lag": _COMES_AND_GOES,
    "source_skips": "SELECT, INSERT",
    "compactions": "SELECT, INSERT, DELETE",
    "deletion_queue": _COMES_AND_GOES,
    "audit": "SELECT, INSERT",
    "events": "SELECT, INSERT, DELETE",
    "event_deliveries": _COMES_AND_GOES,
    "database_identity": "SELECT",
    "live_references": "SELECT",
    "tidegate_current": "SELECT",
    "tidegate_history": "SELECT",
    "schema_version": "SELECT",
}


def grant_rights(connection: Connection) -> None:
    """Give the running role exactly its rights, as the schema's owner. If there is no such role, only create the
    schemas of sinks."""
    for schema in _OF_SINKS:
        connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {schema}"))
    if not connection.execute(text("SELECT FROM pg_roles WHERE rolname = :role"), {"role": RUNNING_ROLE}).all():
        return
    assert {table.name for table in metadata.tables.values()} <= RIGHTS.keys()
    connection.execute(text(f"REVOKE ALL ON ALL TABLES IN SCHEMA {SCHEMA} FROM {RUNNING_ROLE}"))
    connection.execute(text(f"REVOKE ALL ON SCHEMA {SCHEMA} FROM {RUNNING_ROLE}"))
    connection.execute(text(f"GRANT USAGE ON SCHEMA {SCHEMA} TO {RUNNING_ROLE}"))
    for schema in _OF_SINKS:
        connection.execute(text(f"GRANT USAGE, CREATE ON SCHEMA {schema} TO {RUNNING_ROLE}"))
    for table, rights in RIGHTS.items():
        connection.execute(text(f"GRANT {rights} ON {SCHEMA}.{table} TO {RUNNING_ROLE}"))
