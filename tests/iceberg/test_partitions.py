"""Partitioned tables: readers skip what they do not ask for, and null is a partition."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo

from tidegate import IcebergSink
from tidegate.iceberg.partitions import partition_by
from tidegate.protocol.facts.errors import PipelineDefinitionError

TIMES = [datetime(2026, 11, day, hour, tzinfo=UTC) for day in (1, 2) for hour in (3, 4)] + [None]
COLUMNS = {
    "at": pa.array(TIMES, pa.timestamp("us", "UTC")),
    "day": pa.array([date(1969, 12, 31), date(2026, 1, 1), None, date(2026, 1, 1), date(1582, 10, 15)]),
    "name": pa.array(["a/b", "", None, "ä", "a/b"]),
    "number": pa.array([1, -5, None, 2**40, 1]),
    "price": pa.array([Decimal("1.50"), None, Decimal("-3.25"), Decimal("1.50"), Decimal("0.00")], pa.decimal128(9, 2)),
    "raw": pa.array([b"\x00", b"", None, b"\xff", b"\x00"]),
    "flag": pa.array([True, False, None, True, True]),
}


FIELDS = (
    *("name", "number", "price", "raw", "flag", "day", "year(at)", "month(day)", "day(at)", "hour(at)"),
    *("bucket(4, name)", "bucket(4, number)", "truncate(2, name)", "truncate(10, number)"),
)


@pytest.mark.parametrize("field", FIELDS)
def test_all_rows_are_there_and_each_file_has_one_value(lake, mart, field):
    rows = pa.table(COLUMNS)
    of = mart(out=IcebergSink("db.out", partition_by=[field]))
    of.take(out=rows)
    of.take(out=rows.slice(0, 2))
    found = lake.arrow("db.out")
    assert found.num_rows == 7
    assert sorted(map(repr, found["number"].to_pylist())) == sorted(map(repr, [*rows["number"].to_pylist(), 1, -5]))
    files = lake.table("db.out").inspect.files()
    assert files.num_rows > 2
    assert lake.duck("db.out", "SELECT count(*) FROM {table}") == [(7,)]
    column = partition_by([field])[0].column
    value = rows[column][0].as_py()
    expected = sum(each == value for each in [*rows[column].to_pylist(), *rows[column].to_pylist()[:2]])
    if not isinstance(value, bool | bytes | Decimal):
        asked = value.isoformat() if isinstance(value, date | datetime) else value
        assert lake.arrow("db.out", row_filter=EqualTo(column, asked)).num_rows == expected


def test_two_fields_and_a_table_that_is_replaced(lake, mart):
    of = mart(out=IcebergSink("db.out", "latest", partition_by=["day(at)", "flag"]))
    rows = pa.table(COLUMNS)
    of.take(out=rows)
    of.take(out=rows.slice(1))
    assert lake.arrow("db.out").num_rows == 4
    assert [field.name for field in lake.table("db.out").spec().fields] == ["at_day", "flag"]
    of.restore(1)
    assert lake.arrow("db.out").num_rows == 5


def test_a_table_keeps_its_own_way_of_partitioning(lake, mart):
    rows = pa.table({"name": ["a", "b"], "number": [1, 2]})
    mart(out=IcebergSink("db.out", partition_by=["name"])).take(out=rows)
    again = mart(out=IcebergSink("db.out"))
    again.take(out=rows)
    assert lake.table("db.out").inspect.partitions().num_rows == 2
    with lake.table("db.out").update_spec() as update:
        update.add_field("number", "bucket[2]", "of_number")
    again.take(out=rows)
    assert lake.arrow("db.out").num_rows == 6
    other = IcebergSink("db.out", partition_by=["number"])
    assert "is partitioned by identity of name" in other.unstorable(rows.schema)[0]


@pytest.mark.parametrize("given", ["days(at)", "day(at", "bucket(at)", ""])
def test_what_is_no_partition_is_refused(given):
    with pytest.raises(PipelineDefinitionError, match="partition_by"):
        IcebergSink("db.out", partition_by=[given])
