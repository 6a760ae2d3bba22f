"""Tables whose files lie in a bucket: committed, restored, cleaned and read as those in a directory."""

from collections.abc import Callable
from threading import Lock
from time import sleep

import duckdb
import pyarrow as pa
import pytest
from iceberg_tables import Lake
from marts import Mart, values
from object_stores import Bucket

import tidegate
from tidegate import IcebergSink, IcebergSource
from tidegate.iceberg import data_files
from tidegate.iceberg.reach import files_of
from tidegate.ports import SourceContext
from tidegate.state.storage import ArrowCheckpointStorage


@pytest.fixture
def warehouse(bucket: Bucket) -> str:
    return f"s3://{bucket.name}/warehouse"


def of_table(bucket: Bucket, name: str) -> set[str]:
    """Its files, by their URLs."""
    below = f"warehouse/db/{name}/"
    return {f"s3://{bucket.name}/{key}" for key in bucket.objects() if key.startswith(below) and not key.endswith("/")}


def test_every_reader_sees_the_rows_of_completed_checkpoints(lake: Lake, mart: Callable[..., Mart], warehouse) -> None:
    of = mart(one=IcebergSink("db.one", warehouse=warehouse), all=IcebergSink("db.all", "latest", warehouse))
    for number in (1, 2, 3):
        of.take(one=values(number), all=values(number))
    assert (lake.values("db.one"), lake.values("db.all")) == ([1, 2, 3], [3])
    assert sorted(lake.duck("db.one")) == [(1,), (2,), (3,)]
    of.restore(1)
    assert (lake.values("db.one"), lake.duck("db.all")) == ([1], [(1,)])
    of.restore()
    assert (lake.values("db.one"), lake.duck("db.all")) == ([1, 2, 3], [(3,)])


@pytest.mark.parametrize("renamed", [{}, {"v": "w"}])
def test_a_table_is_read_as_of_a_checkpoint(lake: Lake, mart: Callable[..., Mart], warehouse, renamed) -> None:
    """By its files, or by pyiceberg if names do not tell the columns."""
    of = mart(out=IcebergSink("db.out", warehouse=warehouse, renamed=renamed))
    of.take(out=values(1))
    of.take(out=values(2, name=renamed.get("v", "v")))
    for checkpoint, rows in ((1, [1]), (2, [1, 2])):
        found = tidegate.read(of.pipeline, "out", checkpoint=checkpoint)
        assert sorted(found.arrow()["out"].column(0).to_pylist()) == rows
        with duckdb.connect() as connection:
            found.duckdb(connection)
            assert sorted(connection.execute("SELECT * FROM out").fetchall()) == [(row,) for row in rows]


def test_a_table_is_the_source_of_the_next_pipeline(lake: Lake, mart: Callable[..., Mart], warehouse, tmp_path) -> None:
    of = mart(out=IcebergSink("db.out", warehouse=warehouse))
    context = SourceContext(ArrowCheckpointStorage(str(tmp_path / "storage")), 1, "next")
    source = IcebergSource("db.out", schema="v bigint")
    of.take(out=values(1, 2))
    first, position = source.poll(0, None, context)
    of.take(out=values(3))
    second, _ = source.poll(0, position, context)
    wanted = pa.schema({"v": pa.int64()})
    read = [
        pa.Table.from_batches(source.arrow_reader([each]).read(wanted))["v"].to_pylist() for each in (first, second)
    ]
    assert read == [[1, 2], [3]]


def test_no_file_is_left_that_no_snapshot_has(lake: Lake, mart: Callable[..., Mart], warehouse, bucket) -> None:
    of = mart(out=IcebergSink("db.out", "latest", warehouse, readable_for="0 s"), retained=2)
    for number in range(12):
        of.take(out=values(number))
    reach = files_of(lake.table("db.out").metadata_location)
    assert of_table(bucket, "out") == reach.metadata | reach.data
    assert len(reach.data) == 3  # two that are kept, and the one that the next commit gives up


def test_partitions_with_nulls(lake: Lake, mart: Callable[..., Mart], warehouse) -> None:
    of = mart(out=IcebergSink("db.out", warehouse=warehouse, partition_by=["day(at)", "bucket(4, v)"]))
    days = pa.array([None, 0, 86_400_000_000, None], pa.timestamp("us", "UTC"))
    of.take(out=pa.table({"at": days, "v": pa.array([1, None, 3, None], pa.int64())}))
    rows = [(row["at"] and row["at"].day, row["v"]) for row in lake.rows("db.out")]
    assert sorted(rows, key=repr) == sorted([(None, 1), (1, None), (2, 3), (None, None)], key=repr)
    assert len(lake.duck("db.out", 'SELECT * FROM {table} WHERE "at" IS NULL')) == 2


def test_footers_are_read_at_once(mart: Callable[..., Mart], warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a wait for the network."""
    waiting, most, lock = [0], [0], Lock()

    def slow(opened, read=data_files.pq.read_metadata):
        with lock:
            waiting[0] += 1
            most[0] = max(most[0], waiting[0])
        sleep(0.2)
        waiting[0] -= 1
        return read(opened)

    of = mart(out=IcebergSink("db.out", warehouse=warehouse, partition_by=["v"]))
    monkeypatch.setattr(data_files.pq, "read_metadata", slow)
    of.take(out=values(*range(8)))
    assert most[0] > 4
