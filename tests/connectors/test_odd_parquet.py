"""Odd Parquet files by what is odd about them, each with its right rows, or the reason why it is refused: the same with
Spark and where a Spark task reads the file by itself.

A file joins by an entry of its own: the cause, the source's schema and other arguments, what writes the file, and its
rows or words of the refusal. `direct`: it is read without Spark; otherwise that is left to Spark.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import StructType

from tidegate.ports import LeftToSparkError, Segment
from tidegate.protocol.facts.errors import MalformedRowsError
from tidegate.sources.files import FileSource
from tidegate.spark.driver.columns import are_alike, arrow_schema

# A schema's DDL is parsed by Spark, so each test needs a session.
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

DAMAGED, WHOLE = "It is damaged, incomplete or of another format", "The file is not damaged"


@dataclass(frozen=True)
class Odd:
    schema: str
    write: Callable[[Path], Any]
    rows: list[tuple[Any, ...]] | None = None
    refused: str = ""
    direct: bool = False
    arguments: dict[str, Any] = field(default_factory=dict)


def of(*, options: dict[str, Any] | None = None, **columns: Any) -> Callable[[Path], Any]:
    return lambda path: pq.write_table(pa.table(columns), path, **(options or {}))


def encoded(encoding: str, column: Any) -> Callable[[Path], Any]:
    return of(v=column, options={"use_dictionary": False, "column_encoding": {"v": encoding}})


def without_row_groups(path: Path) -> None:
    pq.ParquetWriter(path, pa.schema([("id", pa.int64())])).close()


def changed(write: Callable[[Path], Any], change: Callable[[bytes], bytes]) -> Callable[[Path], Any]:
    def write_changed(path: Path) -> None:
        write(path)
        path.write_bytes(change(path.read_bytes()))

    return write_changed


def promise_more(content: bytes) -> bytes:
    """The footer's number of rows, 25, becomes 60; its row groups have as many as before."""
    number = b"\x16\x32\x19\x1c"  # field 3, an i64, zigzag; then the list of row groups
    assert content.count(number) == 1
    return content.replace(number, b"\x16\x78\x19\x1c")


def cut_out(content: bytes) -> bytes:
    """The rows are gone, and the footer still has them."""
    return content[:4] + content[-int.from_bytes(content[-8:-4], "little") - 8 :]


def overwrite_pages(content: bytes) -> bytes:
    return content[:4] + bytes(196) + content[200:]


MANY = pa.array(range(100_000), pa.int64())
TEXTS = pa.array(["a", None, "ab", "abc"])
NUMBERS = pa.array([1, None, -(2**63), 2**63 - 1], pa.int64())
OLD = [date(1, 1, 1), date(1582, 10, 4), date(1582, 10, 14), None]
OLD_TIMES = [datetime(1, 1, 1, tzinfo=UTC), datetime(1899, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)]


def column(values: Any) -> list[tuple[Any, ...]]:
    return [(value,) for value in (values.to_pylist() if isinstance(values, pa.Array) else values)]


ODD = {
    # -- columns
    "missing": Odd("id BIGINT, v STRING", of(id=[1], V2=["x"]), refused="lacks v.*missing_columns"),
    "missing, said to be null": Odd(
        "id BIGINT, v STRING", of(id=[1]), [(1, None)], direct=True, arguments={"missing_columns": "null"}
    ),
    "more": Odd("id BIGINT", of(id=[1], more=["x"]), [(1,)], direct=True),
    "more, not allowed": Odd(
        "id BIGINT",
        of(id=[1], more=["x"]),
        refused="has 1 columns more",
        arguments={"extra_columns": "malformed"},
    ),
    "more, of a type that Spark lacks": Odd(
        "id BIGINT", of(id=[1], at=pa.array([1], pa.time64("ns")), f=pa.array([1.5], pa.float16())), [(1,)], direct=True
    ),
    "another order": Odd("id BIGINT, v STRING", of(v=["x"], id=[1]), [(1, "x")], direct=True),
    "another case": Odd("id BIGINT", of(ID=[1]), [(1,)]),
    "twice, by case": Odd("id BIGINT", of(id=[1], Id=[2]), refused="has id more than once"),
    "a name with a dot": Odd("`a.b` BIGINT", of(**{"a.b": [1]}), [(1,)]),
    "a name with a dot, beside a struct": Odd("`a.b` BIGINT", of(**{"a": [{"b": 2}], "a.b": [1]}), [(1,)]),
    "a name of other letters": Odd("`größe é` BIGINT", of(**{"größe é": [1]}), [(1,)], direct=True),
    # -- types
    "int64 for int": Odd("id INT", of(id=[1]), refused=f"id as int64.*{WHOLE}.*BIGINT"),
    "int32 for bigint": Odd("id BIGINT", of(id=pa.array([1, None], pa.int32())), [(1,), (None,)]),
    "int32 for tinyint, all fit": Odd("id TINYINT", of(id=pa.array([-128, 127], pa.int32())), [(-128,), (127,)]),
    "int32 for tinyint, one does not": Odd(
        "id TINYINT", of(id=pa.array([1, 128], pa.int32())), refused=f"id as int32.*{WHOLE}.*INT"
    ),
    "int32 for smallint, nobody knows": Odd(
        "id SMALLINT",
        of(id=pa.array([1], pa.int32()), options={"write_statistics": False}),
        refused=f"id as int32.*{WHOLE}.*INT",
    ),
    "uint8 for smallint": Odd("id SMALLINT", of(id=pa.array([0, 255], pa.uint8())), [(0,), (255,)]),
    "uint32 for int": Odd("id INT", of(id=pa.array([1], pa.uint32())), refused=f"id as uint32.*{WHOLE}.*BIGINT"),
    "uint32 for bigint": Odd("id BIGINT", of(id=pa.array([0, 2**32 - 1], pa.uint32())), [(0,), (2**32 - 1,)]),
    "uint64 for bigint": Odd("id BIGINT", of(id=pa.array([1], pa.uint64())), refused=rf"id as uint64.*{WHOLE}"),
    "float for double": Odd("v DOUBLE", of(v=pa.array([1.5, None], pa.float32())), [(1.5,), (None,)]),
    "half precision": Odd("v FLOAT", of(v=pa.array([1.5], pa.float16())), refused=WHOLE),
    "a smaller decimal": Odd(
        "v DECIMAL(9,2)", of(v=pa.array([Decimal("1.25")], pa.decimal128(5, 2))), [(Decimal("1.25"),)]
    ),
    "more digits than declared": Odd(
        "v DECIMAL(5,2)", of(v=pa.array([Decimal("1.2500")], pa.decimal128(9, 4))), refused=WHOLE
    ),
    "text for a number": Odd("id BIGINT", of(id=["1"]), refused=WHOLE),
    "a number for text": Odd("v STRING", of(v=[1]), refused=WHOLE),
    "bytes for text": Odd("v STRING", of(v=pa.array([b"\xc3\xa9"])), [("é",)]),
    "long texts": Odd("v STRING", of(v=pa.array(["a", None], pa.large_string())), [("a",), (None,)], direct=True),
    "a dictionary": Odd("v STRING", of(v=TEXTS.dictionary_encode()), column(TEXTS)),
    "a struct for a number": Odd("id BIGINT", of(id=[{"id": 1}]), refused=f"id as struct.*{WHOLE}"),
    "nested": Odd(
        "v STRUCT<a: ARRAY<INT>, b: STRING>",
        of(
            v=pa.array([{"a": [1, None], "b": "x"}, None], pa.struct([("a", pa.list_(pa.int32())), ("b", pa.string())]))
        ),
        [({"a": [1, None], "b": "x"},), (None,)],
    ),
    "a map": Odd(
        "v MAP<STRING, INT>", of(v=pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int32()))), [([("a", 1)],), ([],)]
    ),
    "nulls alone": Odd("v STRING", of(v=pa.array([None, None], pa.string())), [(None,), (None,)], direct=True),
    "nulls of no type": Odd("v BIGINT", of(v=pa.nulls(2)), [(None,), (None,)]),
    **{
        f"nulls of no type for {kind}": Odd(
            f"v {kind}", of(v=pa.nulls(2)), refused=f"v as null.*{WHOLE}.*missing_columns"
        )
        for kind in ("STRING", "BINARY", "BOOLEAN", "TIMESTAMP", "TIMESTAMP_NTZ")
    },
    "no nulls allowed": Odd(
        "id BIGINT",
        lambda path: pq.write_table(
            pa.table({"id": [1]}, pa.schema([pa.field("id", pa.int64(), nullable=False)])), path
        ),
        [(1,)],
        direct=True,
    ),
    # -- times
    "nanoseconds": Odd(
        "at TIMESTAMP", of(at=pa.array([1], pa.timestamp("ns", "UTC"))), refused=f"{WHOLE}.*coerce_timestamps"
    ),
    "nanoseconds as Hive wrote them": Odd(
        "at TIMESTAMP",
        of(at=pa.array([10**15], pa.timestamp("us", "UTC")), options={"use_deprecated_int96_timestamps": True}),
        [(datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC),)],
    ),
    "milliseconds": Odd(
        "at TIMESTAMP",
        of(at=pa.array([10**12], pa.timestamp("ms", "UTC"))),
        [(datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC),)],
    ),
    "days of another calendar": Odd("d DATE", of(d=pa.array(OLD, pa.date32())), column(OLD)),
    "moments before 1900": Odd(
        "at TIMESTAMP", of(at=pa.array(OLD_TIMES, pa.timestamp("us", "UTC"))), column(OLD_TIMES)
    ),
    # -- rows
    "no row groups": Odd("id BIGINT", without_row_groups, [], direct=True),
    "an empty row group": Odd("id BIGINT", of(id=pa.array([], pa.int64())), [], direct=True),
    "many row groups": Odd(
        "id BIGINT", of(id=list(range(9)), options={"row_group_size": 1}), [(n,) for n in range(9)], direct=True
    ),
    "a footer of more rows": Odd(
        "id BIGINT",
        changed(of(id=list(range(25))), promise_more),
        refused=f"its footer promises 60 rows, and its row groups have 25.*{DAMAGED}",
    ),
    "a footer of rows that are gone": Odd(
        "id BIGINT", changed(of(id=MANY), cut_out), refused=f"behind the end of the file.*{DAMAGED}"
    ),
    "the end is missing": Odd("id BIGINT", changed(of(id=[1]), lambda content: content[:-9]), refused=DAMAGED),
    "half of it": Odd("id BIGINT", changed(of(id=MANY), lambda content: content[: len(content) // 2]), refused=DAMAGED),
    "damaged in the middle": Odd(
        "id BIGINT", changed(of(id=MANY, options={"compression": "zstd"}), overwrite_pages), refused=DAMAGED
    ),
    "nothing": Odd("id BIGINT", lambda path: path.write_bytes(b""), refused=f"it is not a Parquet file.*{DAMAGED}"),
    "its first bytes alone": Odd("id BIGINT", lambda path: path.write_bytes(b"PAR1"), refused=DAMAGED),
    "both ends alone": Odd("id BIGINT", lambda path: path.write_bytes(b"PAR1" + bytes(4) + b"PAR1"), refused=DAMAGED),
    # -- encodings and compressions
    "pages of version 2": Odd(
        "v BIGINT", of(v=NUMBERS, options={"data_page_version": "2.0"}), column(NUMBERS), direct=True
    ),
    "differences": Odd("v BIGINT", encoded("DELTA_BINARY_PACKED", NUMBERS), column(NUMBERS)),
    "beginnings in common": Odd("v STRING", encoded("DELTA_BYTE_ARRAY", TEXTS), column(TEXTS)),
    "lengths first": Odd("v STRING", encoded("DELTA_LENGTH_BYTE_ARRAY", TEXTS), column(TEXTS)),
    "split bytes": Odd(
        "v DOUBLE", encoded("BYTE_STREAM_SPLIT", pa.array([1.5])), refused=f"BYTE_STREAM_SPLIT, .*{WHOLE}"
    ),
    **{
        f"{name}": Odd("v STRING", of(v=TEXTS, options={"compression": name}), column(TEXTS), direct=True)
        for name in ("none", "snappy", "gzip", "zstd")
    },
    "lz4": Odd("v STRING", of(v=TEXTS, options={"compression": "lz4"}), column(TEXTS)),
    "brotli": Odd("v STRING", of(v=TEXTS, options={"compression": "brotli"}), refused=f"Brotli, .*{WHOLE}"),
}


def with_spark(given: FileSource, segments: list[Segment], spark: Any) -> list[tuple[Any, ...]]:
    try:
        found = given.read(spark, segments).toArrow()
    except MalformedRowsError:
        raise
    except Exception as error:
        raise given.explain(error, segments) or error from error
    return [tuple(row.values()) for row in found.to_pylist()]


def directly(given: FileSource, segments: list[Segment]) -> list[tuple[Any, ...]] | None:
    """None: it is left to Spark."""
    columns = StructType.fromDDL(given.schema)
    reader = given.arrow_reader(segments)
    if reader is None or not are_alike(columns):
        return None
    try:
        return [tuple(row.values()) for batch in reader.read(arrow_schema(columns)) for row in batch.to_pylist()]
    except LeftToSparkError:
        return None


def directly_or_why(given: FileSource, segments: list[Segment], expected: re.Pattern[str]) -> Any:
    """None also if it is refused in these words."""
    with suppress(MalformedRowsError):
        return directly(given, segments)
    with pytest.raises(MalformedRowsError, match=expected):
        directly(given, segments)
    return None


@pytest.mark.parametrize("cause", ODD)
def test_an_odd_parquet_file_gives_the_same_both_ways(cause: str, landing: Path, context: Any, spark: Any) -> None:
    odd = ODD[cause]
    odd.write(landing / "odd.parquet")
    given = FileSource("landing", "parquet", schema=odd.schema, **odd.arguments)
    segment, _ = given.poll(0, None, context(1))
    assert segment is not None
    if odd.rows is not None:
        assert with_spark(given, [segment], spark) == odd.rows
        assert directly(given, [segment]) == (odd.rows if odd.direct else None)
        return
    expected = re.compile(f"odd.parquet.*{odd.refused}", re.DOTALL)
    with pytest.raises(MalformedRowsError, match=expected):
        with_spark(given, [segment], spark)
    assert directly_or_why(given, [segment], expected) is None
