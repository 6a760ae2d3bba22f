"""`crash_test` on a pipeline that reads and writes Iceberg tables: none of its deaths costs or doubles a row."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from iceberg_tables import Lake
from pyiceberg.exceptions import NamespaceAlreadyExistsError, TableAlreadyExistsError
from pyspark.sql import SparkSession
from sizes import later

from tidegate import FileSource, IcebergSink, IcebergSource, Pipeline, PostgresSink, count
from tidegate.embedded_postgres.locate import locate_database
from tidegate.iceberg import catalog
from tidegate.iceberg.names import table_name
from tidegate.postgres_sink.databases import connected
from tidegate.settings import absolute
from tidegate.testing import crash_test

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
FILES = [{"landing/a.csv": "customer\nann\nbob\n"}, {"landing/b.csv": "customer\nbob\ncyd\n"}]
BRONZE = "bronze.orders"


class FilledSource(IcebergSource):
    """Of a table to which somebody appends each file that has arrived, before it is polled."""

    def latest_within(self, *given: Any) -> Any:
        fill()
        return super().latest_within(*given)


def fill() -> None:
    """Each file once, in a snapshot of its own, which has its name."""
    with connected(None, table_name(BRONZE).target) as connection:
        catalog.make(connection)
    opened = Lake(locate_database().render_as_string(hide_password=False)).catalog()
    try:
        table = made(opened)
        have = {each.summary["file"] for each in table.snapshots() if each.summary is not None}
        for path in sorted(Path(absolute("landing")).glob("*.csv")):
            if path.name not in have:
                rows = pyarrow.csv.read_csv(path).cast(pa.schema({"customer": pa.string()}))
                table.append(rows, snapshot_properties={"file": path.name})
    finally:
        opened.close()


def made(opened: Any) -> Any:
    with suppress(NamespaceAlreadyExistsError):
        opened.create_namespace("bronze")
    with suppress(TableAlreadyExistsError):
        opened.create_table(BRONZE, pa.schema({"customer": pa.string()}), location=f"file://{absolute('bronze')}")
    return opened.load_table(BRONZE)


def pipeline_from(source: Any) -> Pipeline:
    pipeline = Pipeline("shop", parallelism=2)
    orders = pipeline.source("orders", source)
    orders.sink("seen", IcebergSink("silver.seen"))
    customers = orders.key_by("customer").aggregate("customers", n=count())
    customers.sink("customers", IcebergSink("silver.customers", "latest"))
    customers.sink("mart", PostgresSink("customers", "replace"))
    return pipeline


@pytest.mark.parametrize(
    "source",
    [
        later(FileSource("landing", schema="customer STRING"), id="bronze"),
        pytest.param(FilledSource(BRONZE, schema="customer STRING"), id="silver"),
    ],
)
def test_a_pipeline_with_iceberg_tables_costs_nothing_to_kill(source: Any, spark: SparkSession) -> None:
    report = crash_test(lambda: pipeline_from(source), FILES, spark=spark, every=24)
    assert report.crashes >= 2
    assert report.checkpoints >= report.crashes + 3
