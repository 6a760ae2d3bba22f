"""The key hash is Spark's: recorded values, a real session, and the xxhash package for many strings."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
import xxhash
from cases import for_each
from hypothesis import given
from hypothesis import strategies as st

from tidegate.protocol.facts.keygroups import key_group_of
from tidegate.state.hashing import key_groups, spark_hash

MOMENT = datetime(2013, 1, 1, 5, 0, 0, 123456)
LONG_TEXT = "0123456789" * 7 + "abc"

# What Spark 4.2 answered to xxhash64(…): SQL, the value as Arrow, the hash.
RECORDED = [
    ("cast(1 as boolean)", [(True, pa.bool_())], -6698625589789238999),
    ("cast(-5 as tinyint)", [(-5, pa.int8())], 9201179564109417620),
    ("cast(-300 as smallint)", [(-300, pa.int16())], 2895908635257747121),
    ("cast(7 as int)", [(7, pa.int32())], 2786828215451145335),
    ("cast(-7 as int)", [(-7, pa.int32())], 4987848727247274714),
    ("cast(1234567890123 as bigint)", [(1234567890123, pa.int64())], 1687537368341330389),
    ("cast(-1 as bigint)", [(-1, pa.int64())], 3858142552250413010),
    ("cast('-0.0' as float)", [(-0.0, pa.float32())], 3614696996920510707),
    ("cast('0.0' as double)", [(0.0, pa.float64())], -5252525462095825812),
    ("cast('-0.0' as double)", [(-0.0, pa.float64())], -5252525462095825812),
    ("cast('NaN' as double)", [(math.nan, pa.float64())], -3127944061524951246),
    ("cast('NaN' as float)", [(math.nan, pa.float32())], 2692338816207849720),
    ("cast(1.5 as float)", [(1.5, pa.float32())], 6163473420726370430),
    ("cast(-1.5 as double)", [(-1.5, pa.float64())], -1519168156472177911),
    ("cast('-12.34' as decimal(18,2))", [(Decimal("-12.34"), pa.decimal128(18, 2))], -1614697014534150208),
    ("cast('-12.34' as decimal(20,2))", [(Decimal("-12.34"), pa.decimal128(20, 2))], -5902959860576184235),
    ("cast('128' as decimal(20,0))", [(Decimal(128), pa.decimal128(20, 0))], 6715097930120473301),
    ("cast('-128' as decimal(20,0))", [(Decimal(-128), pa.decimal128(20, 0))], -7898411661632158123),
    ("cast('-129' as decimal(38,0))", [(Decimal(-129), pa.decimal128(38, 0))], -6459515886037897956),
    (
        "cast('12345678901234567890123456789012345678' as decimal(38,0))",
        [(Decimal("12345678901234567890123456789012345678"), pa.decimal128(38, 0))],
        -4207986725797954644,
    ),
    ("cast('0' as decimal(38,0))", [(Decimal(0), pa.decimal128(38, 0))], -8959994473701255385),
    ("''", [("", pa.string())], -7444071767201028348),
    ("'carrier'", [("carrier", pa.string())], 7975302828948677536),
    ("'ünïcode 123456789'", [("ünïcode 123456789", pa.string())], 4074289046690000420),
    ("'0123456789012345678901234567890'", [(LONG_TEXT[:31], pa.string())], -601474011062493046),
    ("'01234567890123456789012345678901'", [(LONG_TEXT[:32], pa.string())], -7360845206938539012),
    ("X'00ff10'", [(b"\x00\xff\x10", pa.binary())], 5415089035989094387),
    ("date'1960-02-03'", [(date(1960, 2, 3), pa.date32())], 4872255837823861442),
    (
        "timestamp'2013-01-01 05:00:00.123456'",
        [(MOMENT.replace(tzinfo=UTC), pa.timestamp("us", "UTC"))],
        -6063008264850138510,
    ),
    ("timestamp_ntz'2013-01-01 05:00:00.123456'", [(MOMENT, pa.timestamp("us"))], -6063008264850138510),
    ("cast(null as string)", [(None, pa.string())], 42),
    ("null", [(None, pa.null())], 42),
    (
        "'EWR', timestamp'2013-01-01 05:00:00'",
        [("EWR", pa.string()), (datetime(2013, 1, 1, 5, tzinfo=UTC), pa.timestamp("us", "UTC"))],
        -1219469549713512694,
    ),
    ("cast(null as string), 5L", [(None, pa.string()), (5, pa.int64())], 6251837290343458373),
    ("5L, cast(null as string)", [(5, pa.int64()), (None, pa.string())], 6251837290343458373),
    (
        "1, 'x', 2.50, true",
        [(1, pa.int32()), ("x", pa.string()), (Decimal("2.50"), pa.decimal128(3, 2)), (True, pa.bool_())],
        -7259878753461796890,
    ),
]


@for_each(("sql", "values", "expected"), RECORDED, ids=[sql for sql, _, _ in RECORDED])
def test_the_hash_equals_what_spark_was_recorded_to_answer(sql: str, values: list, expected: int) -> None:
    assert spark_hash([pa.array([value], kind) for value, kind in values]).to_pylist() == [expected]


@pytest.mark.spark
def test_a_real_spark_session_answers_what_was_recorded(spark) -> None:
    row = spark.sql("select " + ", ".join(f"xxhash64({sql})" for sql, _, _ in RECORDED)).collect()[0]
    assert dict(zip([sql for sql, _, _ in RECORDED], row, strict=True)) == {sql: want for sql, _, want in RECORDED}


@given(st.lists(st.none() | st.binary(max_size=100), min_size=1, max_size=30))
def test_bytes_of_any_length_hash_as_xxh64_does(values: list[bytes | None]) -> None:
    expected = [42 if value is None else xxhash.xxh64_intdigest(value, seed=42) for value in values]
    both = pa.concat_arrays([pa.array([b"cut off"], pa.binary()), pa.array(values, pa.binary())]).slice(1)
    assert [hashed & (2**64 - 1) for hashed in spark_hash([both]).to_pylist()] == expected


@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1), min_size=1, max_size=30))
def test_wide_decimals_hash_by_the_fewest_bytes_that_keep_the_sign(values: list[int]) -> None:
    def unscaled(value: int) -> bytes:
        return value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)

    expected = [xxhash.xxh64_intdigest(unscaled(value), seed=42) for value in values]
    column = pa.array([Decimal(value) for value in values], pa.decimal128(38, 0))
    assert [hashed & (2**64 - 1) for hashed in spark_hash([column]).to_pylist()] == expected


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.integers(1, 32768))
def test_key_groups_are_those_of_the_protocol(hashes: list[int], max_parallelism: int) -> None:
    expected = [key_group_of(value & (2**64 - 1), max_parallelism) for value in hashes]
    assert key_groups(pa.array(hashes, pa.int64()), max_parallelism).tolist() == expected
