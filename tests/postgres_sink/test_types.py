"""Every type of column, both ways: what Postgres shows, and what type a table that the sink makes has."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from marts import values

from tidegate import PostgresSink

UTC = dt.UTC
NAN = float("nan")
POINT = pa.struct([("x", pa.int32()), ("at", pa.timestamp("us", "UTC")), ("cost", pa.decimal128(9, 2))])
CASES = {
    "boolean": (pa.bool_(), [True, False], "boolean", [True, False]),
    "byte": (pa.int8(), [-128, 127], "smallint", [-128, 127]),
    "unsigned byte": (pa.uint8(), [255], "smallint", [255]),
    "short": (pa.int16(), [-32768, 32767], "smallint", [-32768, 32767]),
    "unsigned short": (pa.uint16(), [65535], "integer", [65535]),
    "integer": (pa.int32(), [-(2**31), 2**31 - 1], "integer", [-(2**31), 2**31 - 1]),
    "unsigned integer": (pa.uint32(), [2**32 - 1], "bigint", [2**32 - 1]),
    "long": (pa.int64(), [-(2**63), 2**63 - 1], "bigint", [-(2**63), 2**63 - 1]),
    "unsigned long": (pa.uint64(), [2**64 - 1], "numeric(20,0)", [Decimal(2**64 - 1)]),
    "half float": (pa.float16(), [1.5], "real", None),
    "float": (pa.float32(), [1.5, float("inf")], "real", [1.5, float("inf")]),
    "double": (pa.float64(), [0.1, -float("inf"), 5e-324], "double precision", [0.1, -float("inf"), 5e-324]),
    "decimal": (
        pa.decimal128(38, 10),
        [Decimal("-1234567890123456789012345678.0123456789"), Decimal("0E-10")],
        "numeric(38,10)",
        [Decimal("-1234567890123456789012345678.0123456789"), Decimal(0)],
    ),
    "narrow decimal": (pa.decimal128(5, 2), [Decimal("999.99"), Decimal("-0.01")], "numeric(5,2)", None),
    "whole decimal": (pa.decimal128(20, 0), [Decimal(10**19)], "numeric(20,0)", None),
    "text": (pa.string(), ["", "naïve ☃ 𝄞", "a\tb\n\\N\"'"], "text", None),
    "large text": (pa.large_string(), ["", "x"], "text", None),
    "repeated text": (pa.dictionary(pa.int32(), pa.string()), ["a", "b", "a"], "text", None),
    "binary": (pa.binary(), [b"", b"\x00\xff"], "bytea", None),
    "fixed binary": (pa.binary(2), [b"\x00\xff"], "bytea", None),
    "date of milliseconds": (pa.date64(), [dt.date(2024, 1, 2)], "date", None),
    "date": (
        pa.date32(),
        [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)],
        "date",
        None,
    ),
    "time": (pa.time64("us"), [dt.time(0), dt.time(23, 59, 59, 999999)], "time without time zone", None),
    "time of milliseconds": (pa.time32("ms"), [dt.time(1, 2, 3, 4000)], "time without time zone", None),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime(2024, 2, 29, 1, 2, 3, 456789, UTC)],
        "timestamp with time zone",
        None,
    ),
    "timestamp elsewhere": (
        pa.timestamp("us", "Asia/Kolkata"),
        [dt.datetime(2024, 2, 29, 1, 2, 3, 456789, UTC)],
        "timestamp with time zone",
        None,
    ),
    "timestamp without zone": (
        pa.timestamp("us"),
        [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)],
        "timestamp without time zone",
        None,
    ),
    "timestamp of milliseconds": (
        pa.timestamp("ms"),
        [dt.datetime(2024, 1, 1, 0, 0, 0, 7000)],
        "timestamp without time zone",
        None,
    ),
    "array": (pa.list_(pa.int32()), [[1, None, 3], []], "jsonb", None),
    "array of texts": (pa.list_(pa.string()), [["", "☃", None, 'a"\\u0041']], "jsonb", None),
    "array of numbers": (pa.list_(pa.float64()), [[NAN, float("inf"), 0.5]], "jsonb", [["NaN", "Infinity", 0.5]]),
    "struct": (
        POINT,
        [{"x": 1, "at": dt.datetime(2024, 1, 1, tzinfo=UTC), "cost": Decimal("1.50")}],
        "jsonb",
        [{"x": 1, "at": "2024-01-01T00:00:00+00:00", "cost": "1.50"}],
    ),
    "map": (pa.map_(pa.string(), pa.int64()), [[("a", 1), ("b", None)], []], "jsonb", [{"a": 1, "b": None}, {}]),
    "map of whole numbers": (pa.map_(pa.int32(), pa.string()), [[(1, "a")]], "jsonb", [[[1, "a"]]]),
    "deep": (
        pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.date32())))])),
        [[{"m": [("k", [dt.date(2024, 1, 1)])]}]],
        "jsonb",
        [[{"m": {"k": ["2024-01-01"]}}]],
    ),
}


LONGEST = 1 + max(len(given) for _, given, _, _ in CASES.values())


def test_each_type_and_its_nulls_are_what_they_are(mart, here):
    given = {
        name: pa.array([*given, *[None] * (LONGEST - len(given))], kind) for name, (kind, given, _, _) in CASES.items()
    }
    mart(t=PostgresSink("t")).take(t=pa.table(given))
    made = dict(
        here.rows(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = 't'::regclass AND attnum > 0 AND attname <> '_checkpoint'"
        )
    )
    assert made == {name: case[2] for name, case in CASES.items()}
    for name, found in zip(made, zip(*here.rows("SELECT * FROM t"), strict=True), strict=False):
        _, given, _, expected = CASES[name]
        plain = [bytes(value) if isinstance(value, memoryview) else value for value in found]
        assert plain == [*(expected or given), *[None] * (LONGEST - len(given))], name


def test_a_number_that_is_none_stays_none_and_is_no_null(mart, here):
    mart(t=PostgresSink("t")).take(t=values(NAN, None, kind=pa.float64()))
    assert here.rows("SELECT v::text FROM t") == ["NaN", None]


ODD = ['a"b', "Größe ☃", "two words", "%s", "100%(x)s", ":p", "SELECT", "a.b", "'", "x" * 63, "A", "a", "?", "\\"]


def test_names_are_what_they_are(mart, here):
    here.do('CREATE SCHEMA "Odd ""schema"" %s"', 'GRANT ALL ON SCHEMA "Odd ""schema"" %s" TO tidegate_runner')
    shop = mart(t=PostgresSink('Odd "schema" %s.Tab;le ☃'))
    shop.take(t=pa.table({name: pa.array([number], pa.int64()) for number, name in enumerate(ODD)}))
    assert here.rows('SELECT * FROM "Odd ""schema"" %s"."Tab;le ☃"') == [(*range(len(ODD)), 1)]
    shop.take(t=pa.table({name: pa.array([], pa.int64()) for name in ODD}))
    shop.restore(1)
    shop.restore()
    assert here.rows('SELECT count(*) FROM "Odd ""schema"" %s"."Tab;le ☃"') == [1]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("ü" * 32, "cannot be the name of a column in Postgres, as it is longer than 63 bytes"),
        ("", "as it is empty or has a character zero"),
        ("xmin", "'xmin' cannot be the name of a column in Postgres, which has it in each table: rename it"),
        ("_checkpoint", "_checkpoint is a name that the sink needs itself: rename that column"),
        ("_number", "_number is a name that the sink needs itself: rename that column"),
    ],
)
def test_a_name_that_no_column_can_have_is_found_in_the_definition(here, name, why):
    (said,) = PostgresSink("t").unstorable(pa.schema([(name, pa.int64())]))
    assert why in said
