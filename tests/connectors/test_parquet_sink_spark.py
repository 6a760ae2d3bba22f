"""What a real Spark session reads from a `ParquetSink`, staged and committed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from commits import commit
from every_type import TYPES, stage, types, values
from pyspark import TaskContext

from tidegate.ports import StageContext
from tidegate.protocol.facts.errors import SinkError
from tidegate.protocol.facts.records import HandleKind, StateHandle
from tidegate.settings import spark_path
from tidegate.sinks.parquet import ParquetSink


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_spark_reads_back_the_types_and_values_it_gave(zone: str, spark: Any) -> None:
    sink = ParquetSink("odd [n]ame {x}/table")
    frame = spark.sql(TYPES)
    staged = stage(sink, 1, frame)
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        before = sink.read_staged(spark, staged)
        assert types(before) == types(frame)
        assert values(before) == values(frame)
        commit(sink, 1, staged)
        after = spark.read.parquet(spark_path(sink.root))
        assert types(after.drop("checkpoint")) == types(frame)
        assert values(after.drop("checkpoint")) == values(frame)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_executors_stage_and_the_driver_commits(spark: Any) -> None:
    sink = ParquetSink("events")
    writer = sink.writer()

    def staging(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        index = TaskContext.get().partitionId()
        handles = writer.stage(pa.Table.from_batches(batches), StageContext(1, index, 1, "u"))
        columns = {
            name: [getattr(handle, name) for handle in handles] for name in ("path", "rows", "bytes", "checksum")
        }
        yield pa.RecordBatch.from_pydict(columns)

    reported = spark.range(0, 10, 1, 2).mapInArrow(staging, "path string, rows long, bytes long, checksum string")
    handles = [StateHandle(r.path, HandleKind.STAGED, r.rows, r.bytes, r.checksum, 1) for r in reported.collect()]
    assert [handle.rows for handle in handles] == [5, 5]
    assert rows(sink.read_staged(spark, handles)) == [(n,) for n in range(10)]
    commit(sink, 1, handles)
    assert rows(spark.read.parquet(sink.root)) == [(n, 1) for n in range(10)]


def test_readers_see_committed_checkpoints_only_as_partitions(spark: Any) -> None:
    sink = ParquetSink("events")
    for id_ in (1, 2):
        commit(sink, id_, stage(sink, id_, spark.sql(f"select {id_} as v")))
    staged = stage(sink, 3, spark.sql("select 3 as v"))
    table = spark.read.parquet(sink.root)
    assert rows(table.select("v", "checkpoint")) == [(1, 1), (2, 2)]
    assert rows(sink.read_staged(spark, staged)) == [(3,)]


def test_nothing_staged_has_no_frame(spark: Any) -> None:
    assert ParquetSink("events").read_staged(spark, []) is None


def test_an_empty_latest_table_keeps_its_columns(spark: Any) -> None:
    sink = ParquetSink("state", mode="latest")
    staged = stage(sink, 1, spark.sql("select 1 as k, 'x' as v where false"))
    assert [handle.rows for handle in staged] == [0]
    assert sink.read_staged(spark, staged).columns == ["k", "v"]
    commit(sink, 1, staged)
    table = spark.read.parquet(f"{sink.root}/current")
    assert table.columns == ["k", "v"]
    assert table.count() == 0


def test_a_frame_on_the_opened_table_survives_the_next_commit(spark: Any) -> None:
    sink = ParquetSink("state", mode="latest")
    commit(sink, 1, stage(sink, 1, spark.sql("select 1 as v")))
    opened = spark.read.parquet(sink.table())
    commit(sink, 2, stage(sink, 2, spark.sql("select 2 as v")))
    assert rows(opened) == [(1,)]
    assert rows(spark.read.parquet(f"{sink.root}/current")) == [(2,)]


def test_a_missing_staged_file_is_named(spark: Any) -> None:
    sink = ParquetSink("events")
    (handle,) = stage(sink, 1, spark.sql("select 1 as v"))
    Path(sink.root, handle.path).unlink()
    with pytest.raises(
        SinkError, match=r"chk-1/0-1-u0.parquet of checkpoint 1 cannot be read.*Run the checkpoint again"
    ):
        sink.read_staged(spark, [handle])
