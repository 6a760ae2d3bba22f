"""What Arrow, pandas, DuckDB and Spark read of a table as of a checkpoint, with types and columns as they change."""

import os
from datetime import UTC, datetime

import duckdb
import pyarrow as pa
import pytest
from commits import Attempt, commit
from every_type import TYPES, stage, types, values

from tidegate.ports import StageContext, TableFiles
from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.facts.errors import CheckpointNotRetainedError, SinkError
from tidegate.sinks.parquet import ParquetSink
from tidegate.tables.result import Tables


def branch(*spans):
    return Branch(spans)


def tables(sink, checkpoint_id, spans, staged=()):
    def look():
        return {"t": sink.read_at(checkpoint_id, branch(*spans), staged or None)}

    return Tables("p", checkpoint_id, datetime(2026, 3, 1, tzinfo=UTC), look(), look)


def staged(sink, checkpoint_id, table):
    return sink.writer().stage(table, StageContext(checkpoint_id, 0, 1, "u"))


def append(sink, checkpoint_id, **columns):
    table = pa.table(columns)
    commit(sink, checkpoint_id, staged(sink, checkpoint_id, table))


@pytest.fixture
def widened():
    """A table whose column became wider, and that has a new one; one was dropped."""
    sink = ParquetSink("odd [n]ame {x}/table")
    append(sink, 1, v=pa.array([1], pa.int32()), old=["a"])
    append(sink, 2, v=pa.array([2**40], pa.int64()), new=["b"])
    return sink


ROWS = [(1, None, "a"), (2**40, "b", None)]


def test_arrow_and_pandas_read_the_columns_of_all_files(widened):
    found = tables(widened, 2, [(1, 2)])
    table = found.arrow()["t"]
    assert table.schema == pa.schema([("v", pa.int64()), ("new", pa.string()), ("old", pa.string())])
    assert sorted(tuple(row.values()) for row in table.to_pylist()) == ROWS
    frame = found.pandas()["t"]
    assert (list(frame.columns), sorted(frame["v"])) == (["v", "new", "old"], [1, 2**40])
    assert tables(widened, 1, [(1, 1)]).arrow()["t"].column_names == ["v", "old"]


def test_duckdb_has_a_view_of_each(widened):
    connection = duckdb.connect()
    tables(widened, 2, [(1, 2)]).duckdb(connection)
    assert sorted(connection.sql("SELECT v, new, old FROM t").fetchall()) == ROWS
    assert connection.sql("SELECT v FROM t WHERE new = 'b'").fetchall() == [(2**40,)]
    append(widened, 3, v=pa.array([3], pa.int64()), new=["c"])
    assert connection.sql("SELECT count(*) FROM t").fetchall() == [(2,)]


def test_spark_reads_lazily_what_the_others_read(widened, spark):
    frame = tables(widened, 2, [(1, 2)]).spark(spark)["t"]
    assert frame.columns == ["v", "new", "old"]
    assert sorted(map(tuple, frame.collect()), key=str) == ROWS
    empty = ParquetSink("empty")
    os.makedirs(empty.root)
    assert tables(empty, 1, [(1, 1)]).spark(spark)["t"].collect() == []


def test_spark_reads_back_every_type_and_so_does_arrow(spark):
    for mode in ("append", "latest"):
        sink, frame = ParquetSink(f"types-{mode}", mode), spark.sql(TYPES)
        handles = stage(sink, 1, frame)
        commit(sink, 1, handles)
        found = tables(sink, 1, [(1, 1)], handles)
        assert types(found.spark(spark)["t"]) == types(frame)
        assert values(found.spark(spark)["t"]) == values(frame)
        assert found.arrow()["t"].num_rows == 2


def test_a_query_on_files_that_were_deleted_fails_and_shows_nothing_else(widened):
    connection = duckdb.connect()
    found = tables(widened, 2, [(1, 2)])
    found.duckdb(connection)
    widened.rewind(1, branch((1, 1)), [], Attempt())
    with pytest.raises(duckdb.Error, match=r"No such file|not found|Failed to open"):
        connection.sql("SELECT * FROM t").fetchall()
    assert found.arrow()["t"].num_rows == 2
    widened.delete_withdrawn([2], Attempt())
    with pytest.raises((SinkError, FileNotFoundError)):
        tables(widened, 2, [(1, 2)], [object()])
    assert tables(widened, 1, [(1, 1)]).arrow()["t"].num_rows == 1


def test_few_files_are_read_where_a_version_has_exactly_these_rows():
    sink = ParquetSink("merged", merge=True)
    for id_ in (1, 2, 3):
        append(sink, id_, v=[id_])
    found = sink.read_at(3, branch((1, 3)), None)
    assert isinstance(found, TableFiles)
    assert all("/_merged/" in path for path in found.paths)
    assert tables(sink, 3, [(1, 3)]).arrow()["t"]["v"].to_pylist() == [1, 2, 3]
    other = sink.read_at(3, branch((3, 3), (1, 1)), None)  # which no version has
    assert [path.split("/")[-2] for path in other.paths] == ["checkpoint=1", "checkpoint=3"]


def test_a_replaced_table_is_there_for_the_time_that_was_stated():
    for readable_for, is_there in (("5 min", True), ("0 s", False)):
        sink = ParquetSink(f"now-{is_there}", "latest", readable_for=readable_for)
        kept = {}
        for id_ in (1, 2, 3):
            kept[id_] = staged(sink, id_, pa.table({"v": [id_]}))
            commit(sink, id_, kept[id_])
        sink.discard([handle.path for handle in kept[1]])
        if is_there:
            assert tables(sink, 1, [(1, 1)], kept[1]).arrow()["t"]["v"].to_pylist() == [1]
            assert tables(sink, 1, [(1, 1)]).arrow()["t"]["v"].to_pylist() == [1]
        else:
            for handles in (kept[1], None):
                with pytest.raises(CheckpointNotRetainedError, match="readable_for"):
                    tables(sink, 1, [(1, 1)], handles)
        assert tables(sink, 2, [(1, 2)], kept[2]).arrow()["t"]["v"].to_pylist() == [2]
        assert tables(sink, 3, [(1, 3)], kept[3]).arrow()["t"]["v"].to_pylist() == [3]


def test_a_checkpoint_in_which_nothing_changed_is_read_from_the_version_before():
    sink = ParquetSink("now", "latest", readable_for="0 s")
    handles = staged(sink, 1, pa.table({"v": [1]}))
    commit(sink, 1, handles)
    commit(sink, 2, handles)
    sink.discard([handle.path for handle in handles])
    assert tables(sink, 2, [(1, 2)], handles).arrow()["t"]["v"].to_pylist() == [1]


class OwnRows:
    """`ports.ArrowRows`, as a sink of somebody's own gives them."""

    schema = pa.schema([("v", pa.int64()), ("s", pa.string())])

    def to_table(self, columns):
        return pa.table({"v": [1, 2], "s": ["a", None]}, self.schema).select(columns)


def test_rows_that_lie_in_no_files_are_read_by_all(spark):
    found = Tables("p", 1, datetime(2026, 3, 1, tzinfo=UTC), {"t": OwnRows()}, dict)
    connection = duckdb.connect()
    found.duckdb(connection)
    rows = [(1, "a"), (2, None)]
    assert connection.sql("SELECT v, s FROM t ORDER BY v").fetchall() == rows
    assert list(map(tuple, found.spark(spark)["t"].orderBy("v").collect())) == rows
    assert found.pandas()["t"].v.tolist() == [1, 2]
    assert repr(found) == "<tables t of pipeline p as of checkpoint 1>"
