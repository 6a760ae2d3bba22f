"""Small Parquet files that a Spark task reads with Arrow: the same rows as with Spark's reader, or left to it."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import StructType

from tidegate.ports import LeftToSparkError, Segment
from tidegate.protocol.facts.errors import SourceChangedError
from tidegate.sources import parquet_reading
from tidegate.sources.files import FileSource
from tidegate.spark.driver.columns import arrow_schema

# A schema's DDL is parsed by Spark, so each test needs a session.
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

MOMENTS = [datetime(1900, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)]
DAYS = [date(1582, 10, 15), date(1969, 12, 31), date(9999, 12, 31), None]

#: By Spark's type: columns that mean the same to Arrow and to Spark.
ALIKE: dict[str, list[Any]] = {
    "BOOLEAN": [pa.array([True, None, False])],
    "TINYINT": [pa.array([-128, None, 127], pa.int8())],
    "SMALLINT": [pa.array([-(2**15), None, 7], pa.int16())],
    "INT": [pa.array([-(2**31), None, 7], pa.int32())],
    "BIGINT": [pa.array([-(2**63), None, 2**63 - 1], pa.int64())],
    "FLOAT": [pa.array([float("nan"), -0.0, 1.5, None], pa.float32())],
    "DOUBLE": [pa.array([float("nan"), -0.0, float("-inf"), None], pa.float64())],
    "STRING": [
        pa.array(["", None, "a\x00b", "é€😀", "x" * 100_000]),
        pa.array(["large", None], pa.large_string()),
    ],
    "BINARY": [pa.array([b"", None, b"\xff\x00"], pa.binary())],
    "DATE": [pa.array(DAYS, pa.date32())],
    "TIMESTAMP": [
        pa.array([*MOMENTS, None], pa.timestamp("us", "UTC")),
        pa.array([*MOMENTS, None], pa.timestamp("us", "America/Toronto")),
    ],
    "TIMESTAMP_NTZ": [pa.array([moment.replace(tzinfo=None) for moment in MOMENTS], pa.timestamp("us"))],
    "DECIMAL(5,2)": [pa.array([Decimal("-999.99"), None], pa.decimal128(5, 2))],
    "DECIMAL(38,10)": [pa.array([Decimal("1e27"), None], pa.decimal128(38, 10))],
}


def source(**options: Any) -> FileSource:
    return FileSource("landing", "parquet", **{"schema": "id BIGINT, value STRING", **options})


def taken(given: FileSource, context: Callable[..., Any]) -> list[Segment]:
    segment, _ = given.poll(0, None, context(1))
    assert segment is not None
    return [segment]


def read(given: FileSource, context: Callable[..., Any]) -> list[dict[str, Any]]:
    """What Arrow reads, in the types of the source's schema."""
    reader = given.arrow_reader(taken(given, context))
    assert reader is not None
    schema = arrow_schema(StructType.fromDDL(given.schema))
    rows = [row for batch in reader.read(schema) for row in pa.Table.from_batches([batch], schema).to_pylist()]
    return sorted(rows, key=repr)


def read_by_spark(given: FileSource, spark: Any, context: Callable[..., Any]) -> list[dict[str, Any]]:
    found = given.read(spark, taken(given, context)).toArrow()
    return sorted(found.cast(arrow_schema(StructType.fromDDL(given.schema))).to_pylist(), key=repr)


@pytest.mark.parametrize("kind", ALIKE)
def test_rows_are_those_that_spark_reads(kind: str, landing: Path, context: Any, spark: Any) -> None:
    for number, column in enumerate(ALIKE[kind]):
        table = pa.table({"other": list(range(len(column))), "value": column})
        pq.write_table(table, landing / f"{number} é%+.parquet", row_group_size=2)
    given = source(schema=f"value {kind}")
    found = read(given, context)
    assert repr(found) == repr(read_by_spark(given, spark, context))
    assert len(found) == sum(map(len, ALIKE[kind]))


def test_columns_that_a_file_lacks_are_null(landing: Path, context: Any, spark: Any) -> None:
    pq.write_table(pa.table({"id": [1, 2]}), landing / "a.parquet")
    pq.write_table(pa.table({"other": [1.5] * 200_000}), landing / "b.parquet")
    pq.write_table(pa.table({"id": pa.array([], pa.int64())}), landing / "empty.parquet")
    given = source(missing_columns="null")
    found = read(given, context)
    assert len(found) == 200_002
    assert found == read_by_spark(given, spark, context)


def test_what_spark_wrote_is_read(landing: Path, context: Any, spark: Any) -> None:
    rows = spark.range(5).selectExpr(
        "id", "if(id = 2, null, repeat('é', int(id))) as value", "timestamp_seconds(id) as at", "id / 3 as third"
    )
    rows.coalesce(1).write.parquet(str(landing / "day"))
    given = source(schema="id BIGINT, value STRING, third DOUBLE")
    assert read(given, context) == read_by_spark(given, spark, context)
    given = source(schema="at TIMESTAMP")  # by default Spark writes timestamps as INT96
    with pytest.raises(LeftToSparkError, match="at is timestamp"):
        read(given, context)
    assert len(read_by_spark(given, spark, context)) == 5


def write(path: Path, **columns: Any) -> None:
    pq.write_table(pa.table(columns), path)


#: Files that Arrow and Spark would read differently, and those that cannot be read.
LEFT: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "narrower": ("id BIGINT", lambda path: write(path, id=pa.array([1], pa.int32()))),
    "unsigned": ("id BIGINT", lambda path: write(path, id=pa.array([1], pa.uint32()))),
    "dictionary": ("value STRING", lambda path: write(path, value=pa.array(["a"]).dictionary_encode())),
    "bytes for text": ("value STRING", lambda path: write(path, value=pa.array([b"a"]))),
    "text for bytes": ("value BINARY", lambda path: write(path, value=pa.array(["a"]))),
    "of another scale": ("v DECIMAL(5,2)", lambda path: write(path, v=pa.array([Decimal("1.5")], pa.decimal128(5, 1)))),
    "milliseconds": ("at TIMESTAMP", lambda path: write(path, at=pa.array([1], pa.timestamp("ms", "UTC")))),
    "without a zone": ("at TIMESTAMP", lambda path: write(path, at=pa.array([1], pa.timestamp("us")))),
    "with a zone": ("at TIMESTAMP_NTZ", lambda path: write(path, at=pa.array([1], pa.timestamp("us", "UTC")))),
    "before the calendar": ("d DATE", lambda path: write(path, d=pa.array([-141_428, None], pa.date32()))),
    "an early moment": (
        "at TIMESTAMP",
        lambda path: write(path, at=pa.array([-2_208_988_800_000_001], pa.timestamp("us", "UTC"))),
    ),
    "another case": ("id BIGINT", lambda path: write(path, Id=[1])),
    "a dot": ("`a.b` BIGINT", lambda path: write(path, **{"a.b": [1]})),
    "another encoding": (
        "v DOUBLE",
        lambda path: pq.write_table(
            pa.table({"v": [1.5]}), path, use_dictionary=False, column_encoding={"v": "BYTE_STREAM_SPLIT"}
        ),
    ),
    "another compression": ("id BIGINT", lambda path: pq.write_table(pa.table({"id": [1]}), path, compression="lz4")),
}


@pytest.mark.parametrize("name", LEFT)
def test_a_file_that_spark_may_read_otherwise_is_left_to_it(name: str, landing: Path, context: Any) -> None:
    schema, make = LEFT[name]
    make(landing / "b.parquet")
    with pytest.raises(LeftToSparkError):
        read(source(schema=schema), context)


def test_only_the_columns_that_are_read_count(landing: Path, context: Any) -> None:
    write(landing / "a.parquet", id=[1], odd=pa.array([1], pa.timestamp("ms")))
    given = source(schema="id BIGINT, odd TIMESTAMP")
    reader = given.arrow_reader(taken(given, context))
    assert reader is not None
    [batch] = reader.read(pa.schema([("id", pa.int64())]))
    assert batch.to_pylist() == [{"id": 1}]


def test_a_file_that_is_damaged_in_the_middle_is_left_to_spark(landing: Path, context: Any) -> None:
    table = pa.table({"id": list(range(100_000))})
    pq.write_table(table, landing / "a.parquet", compression="zstd", use_dictionary=False)
    content = bytearray((landing / "a.parquet").read_bytes())
    content[4:200] = bytes(196)
    (landing / "a.parquet").write_bytes(content)
    with pytest.raises(LeftToSparkError):
        read(source(schema="id BIGINT"), context)


def test_spark_reads_what_depends_on_its_options_or_names(landing: Path, context: Any, monkeypatch: Any) -> None:
    write(landing / "a.parquet", id=[1], value=["x"])
    assert source().arrow_reader(taken(source(), context)) is not None
    assert source().arrow_reader([]) is None
    given = source(options={"datetimeRebaseMode": "LEGACY"})
    assert given.arrow_reader(taken(given, context)) is None
    write(landing / "b.parquet", id=[2], value=["x"])
    monkeypatch.setattr(parquet_reading, "_MOST_FILES", 1)
    assert source().arrow_reader(taken(source(), context)) is None
    monkeypatch.undo()
    (landing / "b.parquet").rename(landing / "05:00.parquet")
    monkeypatch.setenv("TIDEGATE_HOME", str(landing.parent))
    assert source().arrow_reader(taken(source(), context)) is None
    (landing / "05:00.parquet").unlink()
    (landing / "day=2013-01-01").mkdir()
    (landing / "a.parquet").rename(landing / "day=2013-01-01" / "a.parquet")
    given = source(partitions="day DATE")
    assert given.arrow_reader(taken(given, context)) is None
    for name in ("a.csv", "a.json"):
        (landing / name).write_text('{"id": 1}\n' if name.endswith("json") else "id,value\n1,x\n")
    for form in ("csv", "json"):
        given = FileSource("landing", form, schema="id BIGINT, value STRING", glob=f"*.{form}")
        assert given.arrow_reader(taken(given, context)) is None


def test_a_file_that_changed_after_it_was_listed_is_refused(landing: Path, context: Any) -> None:
    write(landing / "a.parquet", id=[1])
    segments = taken(source(), context)
    write(landing / "a.parquet", id=[1, 2, 3] * 100)
    with pytest.raises(SourceChangedError, match="before its rows were read"):
        source().arrow_reader(segments)


def test_a_file_that_vanishes_while_it_is_read_is_left_to_spark(landing: Path, context: Any) -> None:
    write(landing / "a.parquet", id=[1], value=["x"])
    reader = source().arrow_reader(taken(source(), context))
    assert reader is not None
    (landing / "a.parquet").unlink()
    with pytest.raises(LeftToSparkError):
        list(reader.read(pa.schema([("id", pa.int64())])))
