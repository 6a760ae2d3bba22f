"""Every type that Spark has, as DuckDB and Polars read it from the table: the suite reads it by pyiceberg."""

import pyarrow as pa
import pytest

from tidegate import IcebergSink
from tidegate.testing.every_type import EVERY_TYPE

#: Days before 1970-01-01 00:00 and maps have another form in DuckDB's Python.
COMPARED = [name for name in EVERY_TYPE if not name.startswith(("MAP", "TIMESTAMP", "DATE"))]


@pytest.mark.parametrize("name", COMPARED)
def test_duckdb_reads_what_was_committed(lake, mart, name):
    kind, values = EVERY_TYPE[name]
    rows = [*values, None]
    of = mart(out=IcebergSink("db.out"))
    of.take(out=pa.table({"k": list(range(len(rows))), "v": pa.array(rows, kind)}))
    assert [v for _, v in sorted(lake.duck("db.out"))] == rows
    assert lake.polars("db.out").sort("k")["v"].to_list() == rows


@pytest.mark.parametrize("kind", [pa.duration("us"), pa.month_day_nano_interval(), pa.null()], ids=str)
def test_what_iceberg_lacks_is_refused_at_definition(lake, kind):
    phrases = IcebergSink("db.out").unstorable(pa.schema({"v": kind, "s": pa.struct({"inner": kind})}))
    assert len(phrases) == 2
    assert "which Iceberg does not have" in phrases[0]
