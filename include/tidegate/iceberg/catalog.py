"""The catalog of the tables that change in the commit: pyiceberg's tables, in a schema of the metadata database.

Every program reads them with pyiceberg's own `SqlCatalog`, or as a JDBC catalog. The current metadata file of a table
is one value in a row, so a transaction can change any number of tables together.
"""

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    MetaData,
    String,
    Table,
    and_,
    literal,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from tidegate.iceberg.names import CATALOG, TableName
from tidegate.ports import CommitStatements
from tidegate.postgres.roles import ICEBERG_SCHEMA
from tidegate.protocol.facts.errors import SinkError

_TABLES = Table(
    "iceberg_tables",
    MetaData(),
    Column("catalog_name", String(255), primary_key=True),
    Column("table_namespace", String(255), primary_key=True),
    Column("table_name", String(255), primary_key=True),
    Column("metadata_location", String(1000)),
    Column("previous_metadata_location", String(1000)),
    Column("iceberg_type", String(5)),
    schema=ICEBERG_SCHEMA,
)
_NAMESPACES = Table(
    "iceberg_namespace_properties",
    _TABLES.metadata,
    Column("catalog_name", String(255), primary_key=True),
    Column("namespace", String(255), primary_key=True),
    Column("property_key", String(255), primary_key=True),
    Column("property_value", String(1000), nullable=False),
    schema=ICEBERG_SCHEMA,
)
_MADE = 0x49636562657267  # "Iceberg" in ASCII: every process that makes the catalog's tables takes this advisory lock


def make(connection: Connection) -> None:
    """Create the catalog's tables unless they exist. Raise `SinkError` if their schema does not exist."""
    if exists(connection):
        return
    if connection.scalar(text("SELECT to_regnamespace(:name)"), {"name": ICEBERG_SCHEMA}) is None:
        raise SinkError(
            f"The metadata database has no schema {ICEBERG_SCHEMA} for the catalog of Iceberg tables: it was "
            "upgraded by an older version. Nothing was changed. Run `tidegate db upgrade` as the owner of the schema "
            "tidegate."
        )
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MADE})
    _TABLES.metadata.create_all(connection)


def exists(connection: Connection) -> bool:
    found = connection.scalar(text("SELECT to_regclass(:name)"), {"name": f"{ICEBERG_SCHEMA}.iceberg_tables"})
    return found is not None


def location_of(connection: Connection, table: TableName) -> str | None:
    """Return the metadata file of the table; None if there is no table."""
    if not exists(connection):
        return None
    return connection.scalar(select(_TABLES.c.metadata_location).where(_is(table)))


def locked_location(statements: CommitStatements, table: TableName) -> str | None:
    """Return the location in a transaction. Other sessions cannot change the table until it ends."""
    rows = statements.query(select(_TABLES.c.metadata_location).where(_is(table)).with_for_update())
    return rows[0][0] if rows else None


def swap(statements: CommitStatements, table: TableName, base: str | None, location: str) -> bool:
    """Give the table another metadata file if its present one is the base; without a base, create the table. Return
    whether the table was as expected."""
    if base is not None:
        changed = update(_TABLES).where(_is(table), _TABLES.c.metadata_location == base)
        return statements.execute(changed.values(metadata_location=location, previous_metadata_location=base)) == 1
    namespace = {"catalog_name": CATALOG, "namespace": table.namespace}
    there = insert(_NAMESPACES).values(**namespace, property_key="exists", property_value="true")
    statements.execute(there.on_conflict_do_nothing())
    row = {"catalog_name": CATALOG, "table_namespace": table.namespace, "table_name": table.name}
    made = insert(_TABLES).values(**row, metadata_location=location, iceberg_type="TABLE")
    return statements.execute(made.on_conflict_do_nothing()) == 1


def _is(table: TableName) -> ColumnElement[bool]:
    """Match the table. A view that another program keeps in the catalog is no table."""
    kind = _TABLES.c.iceberg_type
    return and_(
        _TABLES.c.catalog_name == literal(CATALOG),
        _TABLES.c.table_namespace == table.namespace,
        _TABLES.c.table_name == table.name,
        or_(kind.is_(None), kind == "TABLE"),
    )
