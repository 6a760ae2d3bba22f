"""What `protocol.schema.table_plan` says of tables whose columns have changed, tried with the readers that it names."""

from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commits import commit

from tidegate.ports import StageContext
from tidegate.protocol.schema.state_schema import can_widen
from tidegate.settings import spark_path
from tidegate.sinks.parquet import ParquetSink

#: Each way that a column may widen: values of before and after, and what both are called.
WIDENED = {
    "int to bigint": (pa.array([1], pa.int32()), pa.array([2**40], pa.int64()), "int", "bigint"),
    "smallint to int": (pa.array([1], pa.int16()), pa.array([2**20], pa.int32()), "smallint", "int"),
    "tinyint to bigint": (pa.array([1], pa.int8()), pa.array([2**40], pa.int64()), "tinyint", "bigint"),
    "int to double": (pa.array([1], pa.int32()), pa.array([2.5]), "int", "double"),
    "float to double": (pa.array([1.5], pa.float32()), pa.array([2.1]), "float", "double"),
    "bigint to decimal": (
        pa.array([1], pa.int64()),
        pa.array([Decimal("2.50")], pa.decimal128(22, 2)),
        "bigint",
        "decimal(22,2)",
    ),
    "decimal to decimal": (
        pa.array([Decimal("1.50")], pa.decimal128(5, 2)),
        pa.array([Decimal("123456.500")], pa.decimal128(12, 3)),
        "decimal(5,2)",
        "decimal(12,3)",
    ),
    "date to timestamp": (
        pa.array([date(2024, 1, 1)]),
        pa.array([datetime(2024, 1, 1, 5)], pa.timestamp("us")),
        "date",
        "timestamp_ntz",
    ),
}


def table_of(path, old, new):
    """A sink with two checkpoints behind it, the first with the old column `v` and the second with the new one."""
    sink = ParquetSink(str(path), "append")
    for number, column in ((1, old), (2, new)):
        rows = pa.table({"k": pa.array([number])} | ({} if column is None else {"v": column}))
        commit(sink, number, sink.writer().stage(rows, StageContext(number, 0, 1, "u")))
    return sink


def read(frame):
    return [row.v for row in frame.orderBy("k").collect()]


@pytest.mark.parametrize("case", WIDENED)
def test_a_widened_column_is_read_with_the_new_columns_named_and_not_otherwise(spark, tmp_path, case):
    old, new, before, now = WIDENED[case]
    assert can_widen(before, now)
    sink, both = table_of(tmp_path / "t", old, new), [old.cast(new.type)[0].as_py(), new[0].as_py()]
    named = pa.schema([("k", pa.int64()), ("v", new.type)])
    assert pq.read_table(sink.root, schema=named).sort_by("k")["v"].to_pylist() == both
    assert read(spark.read.schema(f"k bigint, v {now}").parquet(spark_path(sink.root))) == both
    assert read(sink.read_table(spark)) == both, "what compares pipelines reads it"
    with pytest.raises(Exception, match=r"(?i)merg|incompatible|convert"):
        spark.read.option("mergeSchema", "true").parquet(spark_path(sink.root)).collect()
    try:  # what comes of reading it as before: an error, or other values
        plainly = read(spark.read.parquet(spark_path(sink.root)))
    except Exception:
        plainly = []
    assert plainly != both


def test_a_new_column_is_read_with_an_option_and_a_dropped_one_as_before(spark, tmp_path):
    more = table_of(tmp_path / "more", None, pa.array([2], pa.int32()))
    assert read(spark.read.option("mergeSchema", "true").parquet(spark_path(more.root))) == [None, 2]
    named = pa.schema([("k", pa.int64()), ("v", pa.int32())])
    assert pq.read_table(more.root, schema=named).sort_by("k")["v"].to_pylist() == [None, 2]
    assert read(more.read_table(spark)) == [None, 2]
    less = table_of(tmp_path / "less", pa.array([1], pa.int32()), None)
    assert read(spark.read.parquet(spark_path(less.root))) == [1, None]
    assert pq.read_table(less.root).sort_by("k")["v"].to_pylist() == [1, None]
    assert read(less.read_table(spark)) == [1, None]
