"""The present metadata file of a table, by the catalog that has it."""

from tidegate.iceberg import catalog
from tidegate.iceberg.names import TableName
from tidegate.postgres_sink.databases import connected


def location_now(name: TableName) -> str | None:
    """Return the metadata file of the table; None if there is no table. Raise `SinkError`, `ConfigurationError`."""
    if name.catalog is not None:
        from tidegate.iceberg import elsewhere

        return elsewhere.location_of(name)
    with connected(None, name.target) as connection:
        return catalog.location_of(connection, name)
