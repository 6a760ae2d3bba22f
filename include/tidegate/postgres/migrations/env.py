"""Alembic's entry point: run the migrations on the connection of `tidegate.postgres.migrate`."""

from alembic import context

from tidegate.postgres.migrate import VERSION_TABLE
from tidegate.postgres.tables import SCHEMA, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    version_table_schema=SCHEMA,
    include_schemas=True,
)
with context.begin_transaction():
    context.run_migrations()
