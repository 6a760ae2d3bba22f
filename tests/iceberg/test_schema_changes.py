"""Columns that come, widen, are renamed or leave: Iceberg tells them apart by number, so older rows stay."""

import pyarrow as pa
import pytest
from marts import values
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tidegate import IcebergSink
from tidegate.iceberg.files import read_metadata
from tidegate.iceberg.fitting import evolution
from tidegate.iceberg.places import location_now
from tidegate.protocol.facts.errors import SinkError


def table(**columns):
    return pa.table(columns)


def rows(lake, *names):
    return sorted((tuple(row.get(name) for name in names) for row in lake.rows("db.out")), key=repr)


def test_a_new_column_is_null_in_older_rows(lake, mart):
    of = mart(out=IcebergSink("db.out"))
    of.take(out=table(a=[1]))
    of.take(out=table(a=[2], b=["x"]))
    of.take(out=table(b=["y"], a=[3]))
    assert rows(lake, "a", "b") == [(1, None), (2, "x"), (3, "y")]
    assert len(lake.table("db.out").schemas()) == 2
    of.restore(1)
    assert rows(lake, "a") == [(1,)]
    of.take(out=table(a=[4], b=["z"]))
    assert rows(lake, "a", "b") == [(1, None), (4, "z")]
    assert sorted(lake.duck("db.out", "SELECT a, b FROM {table}"), key=repr) == [(1, None), (4, "z")]


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [(pa.int8(), pa.int64()), (pa.int32(), pa.int64()), (pa.decimal128(5, 2), pa.decimal128(9, 2))],
    ids=str,
)
def test_a_wider_type_is_taken_and_a_narrower_one_fits_it(lake, mart, narrow, wide):
    of = mart(out=IcebergSink("db.out"))
    for number, kind in enumerate((narrow, wide, narrow), 1):
        of.take(out=table(v=pa.array([number], pa.int64()).cast(pa.float64()).cast(kind)))
    assert [int(v) for v in lake.values("db.out")] == [1, 2, 3]
    assert lake.duck("db.out", "SELECT sum(v) FROM {table}")[0][0] == 6


def test_inside_of_structs_and_lists_columns_may_come_too(lake, mart):
    of = mart(out=IcebergSink("db.out"))
    of.take(out=table(s=pa.array([{"a": 1}]), items=pa.array([[{"n": 1}]])))
    of.take(out=table(s=pa.array([{"a": 2, "b": "x"}]), items=pa.array([[{"n": 2, "m": True}]])))
    assert rows(lake, "s", "items") == [
        ({"a": 1, "b": None}, [{"n": 1, "m": None}]),
        ({"a": 2, "b": "x"}, [{"n": 2, "m": True}]),
    ]


def test_a_renamed_column_keeps_its_rows(lake, mart):
    mart(out=IcebergSink("db.out")).take(out=table(old=[1]))
    of = mart(out=IcebergSink("db.out", renamed={"old": "new"}))
    of.take(out=table(new=[2]))
    of.take(out=table(new=[3]))
    assert rows(lake, "new", "old") == [(1, None), (2, None), (3, None)]
    assert sorted(lake.duck("db.out")) == [(1,), (2,), (3,)]


def test_a_column_that_the_stream_lacks_is_null(lake, mart):
    of = mart(out=IcebergSink("db.out"))
    of.take(out=table(a=[1], b=[10]))
    of.take(out=table(a=[2]))
    assert rows(lake, "a", "b") == [(1, 10), (2, None)]


@pytest.mark.parametrize(("before", "after"), [(pa.string(), pa.int64()), (pa.int64(), pa.float64())], ids=str)
def test_any_other_change_is_refused_and_nothing_is_visible(lake, mart, before, after):
    of = mart(out=IcebergSink("db.out"))
    of.take(out=table(v=pa.array([1]).cast(before)))
    id_ = of.validated(out=table(v=pa.array([2]).cast(after)))
    with pytest.raises(SinkError, match=r"'v' is .* and the rows have .* cast it in a transform"):
        of.coordinator.finalize(id_)
    assert of.status(id_) == "IN_PROGRESS"
    assert len(lake.values("db.out")) == 1
    problems = of.sinks["out"].unstorable(pa.schema({"v": after}))
    assert len(problems) == 1
    assert "cast it in a transform" in problems[0]


def test_a_required_column_of_the_users_table_is_asked_for(lake, mart, home):
    mart(out=IcebergSink("db.first")).take(out=values(0))
    catalog = lake.catalog()
    must, may = NestedField(1, "must", LongType(), required=True), NestedField(2, "may", LongType())
    catalog.create_table("db.out", schema=Schema(must, may), location=f"file://{home}/own")
    catalog.close()
    of = mart(out=IcebergSink("db.out"), name="second")
    assert "'must' takes no null" in of.sinks["out"].unstorable(pa.schema({"may": pa.int64()}))[0]
    of.take(out=table(must=[1], more=["x"]))
    assert rows(lake, "must", "may", "more") == [(1, None, "x")]


def test_what_the_table_becomes_is_said_beforehand(lake, mart):
    of = mart(out=IcebergSink("db.out"))
    of.take(out=table(a=pa.array([1], pa.int32()), b=["x"]))
    found = evolution(
        read_metadata(location_now(of.sinks["out"].name)), pa.schema({"a": pa.int64(), "c": pa.string()}), {"b": "c"}
    )
    assert found.changes == ["widens its column a from int to long", "renames its column b to c"]
    assert found.problems == []
