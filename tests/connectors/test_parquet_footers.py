"""Parquet files that do not fit the schema: the verdict is the same with Spark and without, and says what to do."""

import re
import struct
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import StructType

from tidegate.ports import LeftToSparkError, Segment
from tidegate.protocol.facts.errors import CheckpointError, MalformedRowsError
from tidegate.sources.allowed import Allowed
from tidegate.sources.files import FileSource
from tidegate.sources.listing import FileVersion
from tidegate.sources.parquet_footers import Expected, Footers
from tidegate.spark.driver.columns import arrow_schema
from tidegate.spark.driver.spark_errors import as_checkpoint_error

# A schema's DDL is parsed by Spark, so each test needs a session.
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


def write(path: Path, **columns: Any) -> None:
    pq.write_table(pa.table(columns), path)


def cut_out(path: Path, *_: Any) -> None:
    """The rows are gone, and the footer still has them: Spark reads none, without an error."""
    write(path, id=pa.array(range(10_000), pa.int64()))
    content = path.read_bytes()
    size = struct.unpack("<I", content[-8:-4])[0] + 8
    path.write_bytes(content[:4] + content[-size:])


#: Schema, arguments, how the file is written, and what the error says.
REFUSED: dict[str, tuple[str, dict[str, Any], Callable[[Path], Any], str]] = {
    "a column is missing": (
        "id BIGINT, meter_id STRING",
        {},
        lambda path: write(path, id=[1], meterId=["x"], secret=["y"]),
        'lacks meter_id, and has meterId.*missing_columns="null"',
    ),
    "a wholly foreign file": ("id BIGINT", {}, lambda path: write(path, other=[1]), "lacks id. This checkpoint"),
    "a column twice": ("id BIGINT", {}, lambda path: write(path, id=[1], ID=[2]), "has id more than once"),
    "a column more": (
        "id BIGINT",
        {"extra_columns": "malformed"},
        lambda path: write(path, id=[1], other=[2]),
        "has 1 columns more than the schema",
    ),
    "int64 for int": ("id INT", {}, lambda path: write(path, id=[1]), "id as int64, .* INT.*as BIGINT"),
    "uint32 for int": (
        "id INT",
        {},
        lambda path: write(path, id=pa.array([1], pa.uint32())),
        "id as uint32, .* INT.*Declare the column as BIGINT",
    ),
    "uint64 for bigint": (
        "id BIGINT",
        {},
        lambda path: write(path, id=pa.array([1], pa.uint64())),
        r"id as uint64, .*DECIMAL\(20, 0\)",
    ),
    "what Spark would cut off": (
        "id TINYINT",
        {},
        lambda path: write(path, id=pa.array([1, 300], pa.int32())),
        "id as int32, .* TINYINT.*as INT",
    ),
    "nanoseconds": (
        "at TIMESTAMP",
        {},
        lambda path: write(path, at=pa.array([1], pa.timestamp("ns", "UTC"))),
        r"at as timestamp\[ns, tz=UTC\].*coerce_timestamps",
    ),
    "a struct": ("id BIGINT", {}, lambda path: write(path, id=[{"id": 1}]), "id as struct.*as it is stored"),
    "no struct": ("id STRUCT<id: BIGINT>", {}, lambda path: write(path, id=[1]), "id as int64.*as it is stored"),
    "no Parquet": ("id BIGINT", {}, lambda path: path.write_bytes(b"nonsense" * 9), "it is not a Parquet file"),
    "nothing": ("id BIGINT", {}, lambda path: path.write_bytes(b""), "it is not a Parquet file"),
    "the end is missing": (
        "id BIGINT",
        {},
        lambda path: (write(path, id=[1] * 99), path.write_bytes(path.read_bytes()[:-9])),
        "its end is missing",
    ),
    "rows that are not there": ("id BIGINT", {}, cut_out, "its footer promises 10000 rows, and places some of them"),
}


def taken(given: FileSource, context: Callable[..., Any]) -> list[Segment]:
    segment, _ = given.poll(0, None, context(1))
    assert segment is not None
    return [segment]


def source(schema: str, **arguments: Any) -> FileSource:
    return FileSource("landing", "parquet", schema=schema, **arguments)


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_that_does_not_fit_is_refused_without_spark(case: str, landing: Path, context: Any) -> None:
    schema, arguments, make, message = REFUSED[case]
    make(landing / "a.parquet")
    given = source(schema, **arguments)
    with pytest.raises(MalformedRowsError, match=re.compile(f"a.parquet.*{message}", re.DOTALL)) as raised:
        given.arrow_reader(taken(given, context))
    assert "This checkpoint has no effect" in str(raised.value)
    assert "secret" not in str(raised.value)
    is_damaged = "It is damaged" in str(raised.value)
    assert is_damaged is (case in ("no Parquet", "nothing", "the end is missing", "rows that are not there"))


def test_the_verdict_is_the_same_with_spark(landing: Path, context: Any, spark: Any) -> None:
    path = landing / "a.parquet"
    for schema, arguments, make, message in REFUSED.values():
        make(path)
        given = source(schema, **arguments)
        with pytest.raises(MalformedRowsError, match=re.compile(f"a.parquet.*{message}", re.DOTALL)):
            given.read(spark, taken(given, context))


#: Files that only Spark judges: what it cannot read is not damaged.
LEFT: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    "an encoding": (
        "v DOUBLE",
        lambda path: pq.write_table(
            pa.table({"v": [1.5]}), path, use_dictionary=False, column_encoding={"v": "BYTE_STREAM_SPLIT"}
        ),
        "written with BYTE_STREAM_SPLIT, which Spark does not read. The file is not damaged",
    ),
    "a compression": (
        "v DOUBLE",
        lambda path: pq.write_table(pa.table({"v": [1.5]}), path, compression="brotli"),
        "written with Brotli, which Spark does not read",
    ),
    "a type": (
        "v DECIMAL(5,2)",
        lambda path: write(path, v=pa.array([Decimal("1.5000")], pa.decimal128(9, 4))),
        r"has the column v as FIXED_LEN_BYTE_ARRAY, which is not read as DECIMAL\(5,2\).*The file is not damaged",
    ),
}


def test_what_spark_cannot_read_is_not_called_damaged(landing: Path, context: Any, spark: Any) -> None:
    for schema, make, message in LEFT.values():
        make(landing / "a.parquet")
        given = source(schema)
        segments = taken(given, context)
        reader = given.arrow_reader(segments)
        if reader is not None:
            with pytest.raises(LeftToSparkError):
                list(reader.read(arrow_schema(StructType.fromDDL(schema))))
        with pytest.raises(Exception) as raised:  # noqa: PT011
            given.read(spark, segments).collect()
        explained = given.explain(raised.value, segments)
        assert isinstance(explained, MalformedRowsError)
        assert re.search(message, str(explained)), explained


def test_integers_that_fit_are_read(landing: Path, context: Any, spark: Any) -> None:
    path = landing / "a.parquet"
    for kind, stored, values in (
        ("TINYINT", pa.int32(), [-128, None, 127]),
        ("SMALLINT", pa.uint16(), [0, None, 2**15 - 1]),
        ("SMALLINT", pa.int32(), [None]),
        ("BIGINT", pa.uint32(), [2**32 - 1]),
        ("DECIMAL(20,0)", pa.uint64(), [2**64 - 1]),
    ):
        write(path, id=pa.array(values, stored))
        given = source(f"id {kind}")
        assert [row.id for row in given.read(spark, taken(given, context)).collect()] == values


def test_columns_are_found_whatever_their_case_and_dots(landing: Path, context: Any, spark: Any) -> None:
    write(landing / "a.parquet", **{"ID": [1], "a.b": [2], "other": [3]})
    given = source("id BIGINT, `A.b` BIGINT")
    [row] = given.read(spark, taken(given, context)).collect()
    assert tuple(row) == (1, 2)
    [row] = given.read(spark, taken(given, context)).select("`A.b`").collect()
    assert tuple(row) == (2,)
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(MalformedRowsError, match=r"lacks id, A.b, and has ID, a.b"):
            given.read(spark, taken(given, context))
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_footers_are_read_once(landing: Path, context: Any) -> None:
    write(landing / "a.parquet", id=[1])
    given = source("id BIGINT")
    segments = taken(given, context)
    files = [FileVersion(*file) for segment in segments for file in segment.reference["files"]]
    expected = Expected(StructType.fromDDL("id BIGINT"), Allowed(extra=True))
    footers = Footers()
    assert footers.check(given.location, files, expected)
    (landing / "a.parquet").unlink()
    assert footers.check(given.location, files, expected)
    assert not Footers().check(given.location, files, expected)


def test_an_error_of_java_is_its_first_line() -> None:
    text = (
        "Job aborted due to stage failure: Lost task 0.0 (TID 170): java.lang.UnsupportedOperationException: Dictionary"
        "\n\tat org.apache.parquet.column.Dictionary.decodeToInt(Dictionary.java:45)\n\tat more\n\nDriver stacktrace:"
    )
    found = as_checkpoint_error(CheckpointlessError(text), "operator 'n' of pipeline 'p'")
    assert "UnsupportedOperationException: Dictionary" in str(found)
    assert "\tat" not in str(found)
    assert isinstance(found, CheckpointError)


class CheckpointlessError(Exception):
    pass
