"""Parquet files in a bucket behind a transform: Arrow reads them where Spark has no file system for the bucket, and
Spark where it has. The rows are the same."""

import io
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from object_stores import Bucket
from pyspark.sql import SparkSession

from tidegate import StagedParquet
from tidegate.ports import StageContext, TableFiles
from tidegate.protocol.facts.errors import CheckpointError, MalformedRowsError, PipelineDefinitionError
from tidegate.settings.spark_schemes import reaches
from tidegate.sources.files import FileSource
from tidegate.state.storage import ArrowCheckpointStorage
from tidegate.tables.rows import spark_frame
from tidegate.testing.every_type import EVERY_TYPE

pytestmark = pytest.mark.spark

AT = datetime(2026, 11, 28, 10, tzinfo=UTC)

#: By the type that the schema declares: what is stored.
STORED: dict[str, pa.Array] = {
    "BOOLEAN": pa.array([True, None]),
    "TINYINT": pa.array([-128, None], pa.int8()),
    "SMALLINT": pa.array([7, None], pa.int8()),
    "INT": pa.array([-(2**31), None], pa.int32()),
    "BIGINT": pa.array([2**31 - 1, None], pa.int32()),
    "FLOAT": pa.array([1.5, None], pa.float32()),
    "DOUBLE": pa.array([1.5, None], pa.float32()),
    "STRING": pa.array(["€", None], pa.large_string()),
    "BINARY": pa.array([b"\xff", None], pa.binary()),
    "DATE": pa.array([date(1, 1, 1), None]),
    "TIMESTAMP": pa.array([AT, None], pa.timestamp("ms", "America/Toronto")),
    "TIMESTAMP_NTZ": pa.array([AT.replace(tzinfo=None), None], pa.timestamp("us")),
    "DECIMAL(20,3)": pa.array([Decimal("1.25"), None], pa.decimal128(9, 2)),
    "ARRAY<STRUCT<a: BIGINT, b: STRING>>": pa.array(
        [[{"a": 1}, None], None], pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]))
    ),
    "MAP<STRING, BIGINT>": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())),
}


class _Staged(StagedParquet):
    def __init__(self, place: str) -> None:
        self.staged_in = place


def put(bucket: Bucket, path: str, content: bytes | pa.Table, **options: Any) -> None:
    if isinstance(content, pa.Table):
        buffer = io.BytesIO()
        pq.write_table(content, buffer, **options)
        content = buffer.getvalue()
    ArrowCheckpointStorage(f"s3://{bucket.name}").write(path, content)


@pytest.fixture
def read(spark: SparkSession, bucket: Bucket, context: Callable[..., Any]) -> Callable[..., list[Any]]:
    """The rows of all that a source finds in `in/`."""

    def rows(schema: str, **options: Any) -> list[Any]:
        source = FileSource(f"s3://{bucket.name}/in", "parquet", schema=schema, **options)
        segment, _ = source.poll(0, None, context(1))
        segments = [] if segment is None else [segment]
        try:
            return source.read(spark, segments).selectExpr("*").collect()
        except CheckpointError:
            raise
        except Exception as error:
            raise (source.explain(error, segments) or error) from error

    return rows


@pytest.mark.parametrize("declared", list(STORED))
def test_every_type_is_read_as_spark_reads_it(spark, bucket, read, tmp_path, declared: str) -> None:
    table = pa.table({"v": STORED[declared]})
    pq.write_table(table, tmp_path / "x.parquet")
    put(bucket, "in/x.parquet", table)
    by_spark = spark.read.schema(f"v {declared}").parquet(str(tmp_path / "x.parquet")).collect()
    assert read(f"v {declared}") == by_spark


def test_columns_by_name_and_many_files(bucket, read) -> None:
    put(bucket, "in/a.parquet", pa.table({"extra": [0, 0], "V": pa.array([1, 2], pa.int64()), "a.b": ["x", "y"]}))
    for number in range(3, 40):
        put(bucket, f"in/deep/{number}.parquet", pa.table({"v": pa.array([number], pa.int64())}))
    put(bucket, "in/_ignored.parquet", b"")
    rows = read("v BIGINT, `a.b` STRING", missing_columns="null")
    assert sorted(map(tuple, rows), key=lambda row: row[0]) == [(1, "x"), (2, "y"), *((n, None) for n in range(3, 40))]


def test_a_file_without_any_of_the_columns_still_has_rows(bucket, read) -> None:
    put(bucket, "in/x.parquet", pa.table({"other": [1, 2, 3]}))
    assert [tuple(row) for row in read("v BIGINT", missing_columns="null")] == [(None,)] * 3


def test_columns_from_the_names_of_directories(bucket, read) -> None:
    put(bucket, "in/day=2026-11-28/c=a%2Fb+c/x.parquet", pa.table({"v": [1]}))
    assert [tuple(row) for row in read("v BIGINT", partitions="day DATE, c STRING")] == [
        (1, date(2026, 11, 28), "a/b+c")
    ]


def test_times_as_spark_writes_them(bucket, read) -> None:
    table = pa.table({"v": pa.array([AT], pa.timestamp("ns"))})
    put(bucket, "in/x.parquet", table, use_deprecated_int96_timestamps=True)
    assert [row.v.astimezone(UTC) for row in read("v TIMESTAMP")] == [AT]
    with pytest.raises(MalformedRowsError, match=r"has the column v as timestamp"):
        read("v TIMESTAMP_NTZ")


@pytest.mark.parametrize(
    ("declared", "stored"),
    [
        ("INT", pa.array(["1"])),
        ("STRING", pa.array([1])),
        ("DECIMAL(5,2)", pa.array([Decimal("1.234")])),
        ("TIMESTAMP_NTZ", pa.array([AT])),
        ("BIGINT", pa.array([1.0])),
    ],
)
def test_a_column_of_another_type_is_refused_by_name(bucket, read, declared: str, stored: pa.Array) -> None:
    put(bucket, "in/x.parquet", pa.table({"v": stored}))
    with pytest.raises(
        MalformedRowsError, match=r"/in/x\.parquet has the column v as .* This checkpoint has no effect"
    ):
        read(f"v {declared}")


def test_dates_of_an_old_spark_are_not_guessed(bucket, read) -> None:
    said = {"org.apache.spark.version": "2.4.8"}
    put(bucket, "in/x.parquet", pa.table({"v": [date(1600, 1, 1)]}).replace_schema_metadata(said))
    assert len(read("v DATE")) == 1
    put(bucket, "in/y.parquet", pa.table({"v": [date(1500, 1, 1)]}).replace_schema_metadata(said))
    with pytest.raises(MalformedRowsError, match=r"y.parquet has dates .*only Spark converts.*package hadoop-aws"):
        read("v DATE")


def test_a_damaged_file_is_named_without_a_stack_of_java(bucket, read) -> None:
    table = pa.table({"v": list(range(100_000))})
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    content = bytearray(buffer.getvalue())
    content[100:60_000] = b"\xff" * 59_900
    put(bucket, "in/x.parquet", bytes(content))
    with pytest.raises(MalformedRowsError, match=r"/in/x\.parquet cannot be read: .*then run again") as error:
        read("v BIGINT")
    assert "\tat " not in str(error.value)
    assert "Traceback" not in str(error.value)


def test_options_of_sparks_reader_are_refused_before_there_is_a_file(spark, bucket) -> None:
    source = FileSource(f"s3://{bucket.name}/in", "parquet", schema="v INT", options={"int96RebaseMode": "LEGACY"})
    with pytest.raises(
        PipelineDefinitionError, match=r"int96RebaseMode.*no file system for s3a://.*hadoop-aws"
    ) as error:
        source.read(spark, [])
    assert "java" not in str(error.value)


def with_file_system(spark: SparkSession, bucket: Bucket, directory: str) -> SparkSession:
    """A session that finds the bucket's files in a directory, by a class that Spark has."""
    session, viewfs = spark.newSession(), "fs.viewfs.overload.scheme.target"
    session.conf.set("fs.s3a.impl", "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme")
    for scheme in ("file", "s3a"):
        session.conf.set(f"{viewfs}.{scheme}.impl", "org.apache.hadoop.fs.LocalFileSystem")
    session.conf.set(f"fs.viewfs.mounttable.{bucket.name}.link./in", f"file://{directory}")
    return session


def test_spark_reads_where_it_has_a_file_system(spark, bucket, context, tmp_path) -> None:
    """What Spark finds tells who has read."""
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"v": [2]}), tmp_path / "in" / "x.parquet")
    put(bucket, "in/x.parquet", pa.table({"v": [1]}))
    source = FileSource(f"s3://{bucket.name}/in", "parquet", schema="v BIGINT")
    segment, _ = source.poll(0, None, context(1))
    session = with_file_system(spark, bucket, str(tmp_path / "in"))
    assert reaches(session, source.location)
    assert not reaches(spark, source.location)
    assert [row.v for row in source.read(session, [segment]).collect()] == [2]
    assert [row.v for row in source.read(spark, [segment]).collect()] == [1]


def test_staged_rows_of_every_type_are_judged_by_spark(spark, bucket, tmp_path) -> None:
    arrays = {f"c{at}": pa.array(values, kind) for at, (kind, values) in enumerate(EVERY_TYPE.values())}
    long = max(map(len, arrays.values()))
    table = pa.table(
        {name: pa.concat_arrays([array, pa.nulls(long - len(array), array.type)]) for name, array in arrays.items()}
    )
    found = []
    for place in (f"s3://{bucket.name}/staged", str(tmp_path)):
        sink = _Staged(place)
        staged = [handle for n in (0, 1) for handle in sink.writer().stage(table, StageContext(1, n, 1, "u"))]
        rows = sink.read_staged(spark, staged)
        found.append((rows.schema, sorted(map(repr, rows.collect()))))
    assert found[0] == found[1]


def test_a_table_is_read_on_spark(spark, bucket) -> None:
    put(bucket, "t/x.parquet", pa.table({"v": [1, 2]}))
    files = TableFiles((f"s3://{bucket.name}/t/x.parquet",), pa.schema({"v": pa.int64(), "w": pa.string()}))
    assert [tuple(row) for row in spark_frame(spark, files).collect()] == [(1, None), (2, None)]
