"""Readers of Iceberg tables: pyiceberg by its own catalog, DuckDB and Polars by the metadata file."""

import os
from functools import cache
from typing import Any

import duckdb
import polars
import pyarrow as pa
from duckdb_extensions import import_extension
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

_SECRET = """CREATE OR REPLACE SECRET bucket (
    TYPE s3, KEY_ID 'key', SECRET 'secret', REGION 'us-east-1', ENDPOINT $address, URL_STYLE 'path', USE_SSL false
)"""


class Lake:
    """The catalog in a store's database, as a user's program opens it."""

    def __init__(self, url: str) -> None:
        self._uri = f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3Dtidegate_iceberg"

    def catalog(self) -> SqlCatalog:
        endpoint = os.environ.get("AWS_ENDPOINT_URL")
        where = {} if endpoint is None else {"s3.endpoint": endpoint, "s3.region": os.environ["AWS_REGION"]}
        return SqlCatalog("tidegate", uri=self._uri, init_catalog_tables="false", **where)

    def table(self, name: str) -> Table:
        catalog = self.catalog()
        try:
            return catalog.load_table(name)
        finally:
            catalog.close()

    def rows(self, name: str, **scan: Any) -> list[dict[str, Any]]:
        """What pyiceberg reads."""
        return self.arrow(name, **scan).to_pylist()

    def arrow(self, name: str, **scan: Any) -> pa.Table:
        return self.table(name).scan(**scan).to_arrow()

    def values(self, name: str, column: str = "v") -> list[Any]:
        return sorted(self.arrow(name)[column].to_pylist())

    def duck(self, name: str, question: str = "SELECT * FROM {table}") -> list[Any]:
        """What DuckDB reads."""
        table = f"iceberg_scan('{self.table(name).metadata_location}')"
        with duck().cursor() as cursor:
            if endpoint := os.environ.get("AWS_ENDPOINT_URL"):
                cursor.execute(_SECRET, {"address": endpoint.removeprefix("http://")})
            return cursor.execute(question.format(table=table)).fetchall()

    def polars(self, name: str) -> polars.DataFrame:
        """What Polars reads, of the files that pyiceberg finds for it."""
        os.environ["POLARS_ICEBERG_PLANNER"] = "pyiceberg"  # its own is another package
        return polars.scan_iceberg(self.table(name).metadata_location).collect()


@cache
def duck() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name in ("avro", "httpfs", "iceberg"):
        import_extension(name, con=connection)
        connection.execute(f"LOAD {name}")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def files_below(directory: str) -> set[str]:
    """All files, relative to the directory."""
    return {
        os.path.relpath(os.path.join(where, name), directory)
        for where, _, names in os.walk(directory)
        for name in names
    }
