"""The tables in Iceberg as any program reads them: by pyiceberg, which finds them in its own catalog."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import DataScan

NAMESPACE = "flights"
#: The tables in the namespace, by the names of the sinks.
TABLES = {f"{name}_iceberg": name for name in ("departures", "carrier_delays", "delay_by_weather")}


def files(url: str, table: str) -> list[tuple[Path, int]]:
    """Return the data files that readers see, each with its number of rows."""
    with _scan(url, table) as scan:
        found = [(task.file.file_path, task.file.record_count) for task in scan.plan_files()]
    return sorted((Path(path.removeprefix("file://")), rows) for path, rows in found)


def rows(url: str, table: str) -> "pa.Table":
    with _scan(url, table) as scan:
        return scan.to_arrow()


@contextmanager
def _scan(url: str, table: str) -> "Iterator[DataScan]":
    from pyiceberg.catalog.sql import SqlCatalog  # a heavy import, as below

    options = f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3Dtidegate_iceberg"
    catalog = SqlCatalog("tidegate", uri=options, init_catalog_tables="false")
    try:
        yield catalog.load_table((NAMESPACE, table)).scan()
    finally:
        catalog.close()
