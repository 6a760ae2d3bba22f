"""The identity of this database. A copy of it, or a restore of its dump, has the same identity."""

from sqlalchemy import Boolean, CheckConstraint, Column, PrimaryKeyConstraint, Table, Uuid, text

from tidegate.postgres.tables.columns import after_create, metadata

database_identity = Table(
    "database_identity",
    metadata,
    Column("id", Uuid, nullable=False, server_default=text("gen_random_uuid()")),
    Column("is_only", Boolean, nullable=False, server_default=text("true")),
    PrimaryKeyConstraint("is_only", name="database_identity_pkey"),
    CheckConstraint("is_only", name="database_identity_once"),
)

after_create(database_identity, "INSERT INTO tidegate.database_identity DEFAULT VALUES")
