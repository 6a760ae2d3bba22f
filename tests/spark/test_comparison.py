"""Rows of two tables, compared as bags: what differs, how often, and some of it."""

import datetime as dt
from decimal import Decimal

import pytest

from tidegate.protocol.recovery.comparison import CountedRows, Likeness, Part, Rows, compare_part
from tidegate.sinks.parquet import ParquetSink
from tidegate.spark.comparison import compare_rows

pytestmark = pytest.mark.spark

TYPES = "k string, n long, x double, d decimal(9,2), day date, at timestamp, b binary, m map<string,int>, a array<int>"
ROW = (
    "a", 1, 0.1, Decimal("1.50"), dt.date(2013, 1, 1), dt.datetime(2013, 1, 1, 12), b"\x00\xff", {"a": 1}, [1, None],
)  # fmt: skip
NULLS = (None,) * 9


def test_rows_of_every_type_in_any_order(spark):
    first = spark.createDataFrame([ROW, NULLS], TYPES)
    second = spark.createDataFrame([NULLS, ROW], TYPES)
    assert compare_rows(first, second, 3) == CountedRows(Rows(2, 0), Rows(2, 0))


def test_a_row_that_is_there_twice_and_another_value_and_null_are_told_apart(spark):
    first = spark.createDataFrame([("a", 1), ("a", 1), ("b", 2), ("d", None)], "k string, n int")
    second = spark.createDataFrame([("a", 1), ("b", 3), ("c", 4), ("d", 0)], "k string, n long")
    found = compare_rows(first, second, 2)
    assert found == CountedRows(
        Rows(4, 3, ('{"k":"a","n":1}', '{"k":"b","n":2}')), Rows(4, 3, ('{"k":"b","n":3}', '{"k":"c","n":4}'))
    )
    assert compare_part(Part.TABLE, "t", found).likeness is Likeness.DIFFERENT


def test_columns_of_one_side_are_named_and_the_others_compared(spark):
    first = spark.createDataFrame([("a", 1)], "`k.k` string, n int")
    second = spark.createDataFrame([("a", 2)], "`k.k` string, m int")
    found = compare_rows(first, second, 2)
    assert found == CountedRows(Rows(1, 0), Rows(1, 0), ("m", "n"))
    assert compare_part(Part.STATE, "s", found).likeness is Likeness.DIFFERENT


def test_a_table_that_nothing_was_committed_to_has_no_rows(spark, tmp_path):
    for mode in ("append", "latest"):
        assert ParquetSink(str(tmp_path / mode), mode).read_table(spark) is None
    one = spark.createDataFrame([("a", 1)], "k string, n int")
    assert compare_rows(None, one, 0) == CountedRows(Rows(0, 0), Rows(1, 1))
    assert compare_rows(one, None, 0) == CountedRows(Rows(1, 1), Rows(0, 0))
    assert compare_rows(None, None, 0) == CountedRows(Rows(0, 0), Rows(0, 0))
