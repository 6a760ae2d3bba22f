"""Text becomes a value only where it is written as one: what Spark takes and makes plausible is malformed."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tidegate.ports import Segment
from tidegate.sinks.parquet import ParquetSink
from tidegate.sources.files import FileSource

pytestmark = pytest.mark.spark

INFINITY = float("inf")


def at(*moment: int) -> datetime:
    return datetime(*moment, tzinfo=UTC)  # type: ignore[misc,arg-type]


#: By type: texts that are values of it, and those that are not, though Spark takes most of them.
TAKEN: dict[str, dict[str, Any]] = {
    "TIMESTAMP": {
        "2026-01-02T10:15:00": at(2026, 1, 2, 10, 15),
        "2026-01-02 10:15:00.5": at(2026, 1, 2, 10, 15, 0, 500_000),
        "2026-01-02T10:15": at(2026, 1, 2, 10, 15),
        "2026-01-02": at(2026, 1, 2),
        "2026-01-02T10:15:00Z": at(2026, 1, 2, 10, 15),
        "2026-01-02 10:15:00 UTC": at(2026, 1, 2, 10, 15),
        "2026-01-02T10:15:00+01:00": at(2026, 1, 2, 9, 15),
        "2026-01-02 10:15:00.123456789+01": at(2026, 1, 2, 9, 15, 0, 123_456),
        "2026-01-02 10:15:00 -0130": at(2026, 1, 2, 11, 45),
        "": None,
    },
    "TIMESTAMP_NTZ": {"2026-01-02T10:15:00": datetime(2026, 1, 2, 10, 15), "2026-01-02": datetime(2026, 1, 2)},
    "DATE": {"2026-01-02": date(2026, 1, 2), "": None},
    "DOUBLE": {
        "12": 12.0,
        "-1.5e-3": -0.0015,
        ".5": 0.5,
        "5.": 5.0,
        "+1E3": 1000.0,
        "Infinity": INFINITY,
        "-Inf": -INFINITY,
    },
    "FLOAT": {"1.5": 1.5},
    "DECIMAL(5,2)": {
        "123.45": Decimal("123.45"),
        "-1.5000": Decimal("-1.50"),
        "1.2E2": Decimal("120.00"),
        "12e-1": Decimal("1.20"),
        "": None,
    },
    "DECIMAL(3,0)": {"123": Decimal(123), "5.0": Decimal(5)},
    "INT": {"12": 12, "+12": 12, "-2147483648": -(2**31), "": None},
    "BIGINT": {"9223372036854775807": 2**63 - 1},
    "BOOLEAN": {"true": True, "FALSE": False},
    "TINYINT": {"127": 127, "-128": -128, "+5": 5, "007": 7, "": None},
}
REFUSED: dict[str, list[str]] = {
    "TIMESTAMP": [
        *("10:15:00", "2026", "2026-01", "2026-1-2", "T10:15:00", "1767348900", "1767348900000", "2026-02-30"),
        *("2026-01-02T25:00:00", "2026-01-02T10", "2026-01-02T10:15:00 Europe/Berlin", "now", "+2026-01-02"),
        *("2026-01-02T10:15:00x", " 2026-01-02", "12026-01-02"),
    ],
    "TIMESTAMP_NTZ": ["2026-01-02T10:15:00Z", "10:15:00", "2026"],
    "DATE": ["2026", "2026-01", "2026-1-2", "2026-01-02T10:15:00", "20260102", "2026-13-01"],
    "DOUBLE": ["12f", "12d", "0x1p3", " 12", "1,5", "1_000", "1e999", "-1e999", "e5", ".", "--1", "١٢"],
    "FLOAT": ["1e39", "12f"],
    "DECIMAL(5,2)": ["1.234", "1234.5", "1,5", "1,234", "12f", "1.25E-1", "NaN"],
    "DECIMAL(3,0)": ["0.5", "1234"],
    "INT": ["1.0", "12f", "2147483648", "1e3", "١٢"],
    "BIGINT": ["9223372036854775808"],
    "BOOLEAN": ["1", "yes", "t"],
    "TINYINT": ["128", "255", "-129", "1.0"],
}
COLUMNS = {f"c{number}": kind for number, kind in enumerate(TAKEN)}
SCHEMA = "line INT, " + ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
#: What is quoted in JSON, and what is a number.
OF_JSON = ("TIMESTAMP", "TIMESTAMP_NTZ", "DATE", "DECIMAL(5,2)", "DECIMAL(3,0)")


def segments(source: FileSource, context: Callable[..., Any]) -> list[Segment]:
    segment, _ = source.poll(0, None, context(1))
    assert segment is not None
    return [segment]


def quarantining(form: str, schema: str = SCHEMA, **arguments: Any) -> FileSource:
    sink = ParquetSink("quarantine")
    return FileSource("landing", form, schema=schema, malformed="quarantine", quarantine=sink, **arguments)  # type: ignore[arg-type]


def texts(kinds: Any) -> list[tuple[str, str, Any]]:
    """Column, text, and the value; `REFUSED` itself where there is none."""
    found: list[tuple[str, str, Any]] = []
    for name, kind in COLUMNS.items():
        if kind in kinds:
            found += [(name, text, value) for text, value in TAKEN[kind].items()]
            found += [(name, text, REFUSED) for text in REFUSED[kind]]
    return found


def check(source: FileSource, cases: list[tuple[str, str, Any]], context: Any, spark: Any) -> None:
    taken = segments(source, context)
    found: dict[int, Any] = {}
    for row in source.read(spark, taken).collect():
        name, text, _ = cases[row.line]
        assert not {c for c in COLUMNS if row[c] is not None} - {name}, (name, text)
        found[row.line] = row[name]
    for line, (name, text, value) in enumerate(cases):
        kind = COLUMNS[name]
        got = found.get(line, REFUSED)
        if kind == "TIMESTAMP" and isinstance(got, datetime):
            got = got.astimezone(UTC)
        assert got == value, (kind, text)
    reasons = {row.reason for row in source.read(spark, taken, "malformed").collect()}
    expected = {f"does not fit the schema: {name} = {text}" for name, text, value in cases if value is REFUSED}
    assert reasons == expected


def test_csv(landing: Path, context: Any, spark: Any) -> None:
    cases = texts(TAKEN)
    lines = [
        ",".join([str(line), *(f'"{text}"' if c == name and text else "" for c in COLUMNS)])
        for line, (name, text, _) in enumerate(cases)
    ]
    (landing / "a.csv").write_text("\n".join([",".join(("line", *COLUMNS)), *lines]))
    check(quarantining("csv"), cases, context, spark)


def test_json(landing: Path, context: Any, spark: Any) -> None:
    cases = [case for case in texts(OF_JSON) if case[1]]
    records = [json.dumps({"line": line, name: text}) for line, (name, text, _) in enumerate(cases)]
    (landing / "a.json").write_text("\n".join(records))
    check(quarantining("json"), cases, context, spark)


NUMBERS = {
    "c0": {"1767348900000": REFUSED, "1767348900": REFUSED, "2026": REFUSED, "1.5": REFUSED},
    "c2": {"2026": REFUSED, "20260102": REFUSED},
    "c5": {"1.5": Decimal("1.50"), "1.230": Decimal("1.23"), "1.234": REFUSED, "1234": REFUSED, "1E2": Decimal(100)},
    # Spark takes what is a byte without a sign, too: 200 as -56.
    "c10": {"127": 127, "-128": -128, "0": 0, "128": REFUSED, "200": REFUSED, "255": REFUSED, '"5"': REFUSED},
}


def test_numbers_of_json(landing: Path, context: Any, spark: Any) -> None:
    cases = [(name, text, value) for name, found in NUMBERS.items() for text, value in found.items()]
    records = [f'{{"line": {line}, "{name}": {text}}}' for line, (name, text, _) in enumerate(cases)]
    (landing / "a.json").write_text("\n".join(records))
    source = quarantining("json")
    taken = segments(source, context)
    found = {row.line: row[cases[row.line][0]] for row in source.read(spark, taken).collect()}
    assert {case[:2]: found.get(line, REFUSED) for line, case in enumerate(cases)} == {c[:2]: c[2] for c in cases}


def test_values_inside_of_json(landing: Path, context: Any, spark: Any) -> None:
    schema = (
        "n INT, b ARRAY<TINYINT>, l ARRAY<DATE>, m MAP<STRING, DECIMAL(5,2)>, "
        "s STRUCT<t: TIMESTAMP, more: ARRAY<STRUCT<d: DATE>>>"
    )
    records = [
        '{"n": 1, "l": ["2026-01-02", null], "m": {"a": 1.5}, "s": {"t": "2026-01-02", "more": [{"d": null}]}}',
        '{"n": 2, "l": ["2026"]}',
        '{"n": 3, "m": {"a": 1.234}}',
        '{"n": 4, "s": {"t": 1767348900000}}',
        '{"n": 5, "s": {"more": [{"d": "2026-01-02"}, {"d": "2026"}]}}',
        '{"n": 6, "l": [], "m": {}, "s": {}}',
        '{"n": 7, "b": [1, 200]}',
        '{"n": 8, "b": [1, -128, null]}',
    ]
    (landing / "a.json").write_text("\n".join(records))
    source = quarantining("json", schema)
    taken = segments(source, context)
    kept = sorted(source.read(spark, taken).collect(), key=lambda row: row.n)
    assert [row.n for row in kept] == [1, 6, 8]
    assert kept[0].l == [date(2026, 1, 2), None]
    assert kept[0].m == {"a": Decimal("1.50")}
    reasons = sorted(row.reason for row in source.read(spark, taken, "malformed").collect())
    assert [reason.split(" = ")[0] for reason in reasons] == [f"does not fit the schema: {c}" for c in "blmss"]


def test_options_say_how_text_is_written(landing: Path, context: Any, spark: Any) -> None:
    options = {
        "dateFormat": "dd.MM.yyyy",
        "timestampFormat": "dd.MM.yyyy HH:mm",
        "locale": "de-DE",
        "nanValue": "kein",
        "positiveInf": "viel",
    }
    content = "02.01.2026;02.01.2026 10:15;1,5;kein\n2026;02.01.2026 10:15;1,5;viel\n;;;\n;;;12f\n"
    (landing / "a.csv").write_text(content)
    source = quarantining(
        "csv", "d DATE, t TIMESTAMP, n DECIMAL(5,2), x DOUBLE", options=options | {"sep": ";", "header": "false"}
    )
    taken = segments(source, context)
    found = sorted((tuple(row) for row in source.read(spark, taken).collect()), key=repr)
    first, empty = (row for row in found)
    first, empty = sorted((first, empty), key=lambda row: row[0] is None)
    assert first[0] == date(2026, 1, 2)
    assert first[2] == Decimal("1.50")
    assert first[3] != first[3]
    assert empty == (None, None, None, None)
    reasons = sorted(row.reason for row in source.read(spark, taken, "malformed").collect())
    assert reasons == ["does not fit the schema: d = 2026", "does not fit the schema: x = 12f"]


def test_a_zone_of_the_option_holds_where_the_text_has_none(landing: Path, context: Any, spark: Any) -> None:
    (landing / "a.csv").write_text(
        "n,t\n1,2026-01-02T10:15:00\n2,2026-01-02\n3,2026-01-02T10:15:00Z\n4,10:15\n5,2026-01-02 10:15\n"
    )
    source = quarantining("csv", "n INT, t TIMESTAMP", options={"timeZone": "Europe/Berlin"})
    found = source.read(spark, segments(source, context)).collect()
    assert {row.n: row.t.astimezone(UTC) for row in found} == {
        1: at(2026, 1, 2, 9, 15),
        2: at(2026, 1, 1, 23),
        3: at(2026, 1, 2, 10, 15),
        5: at(2026, 1, 2, 9, 15),
    }


def test_spark_s_own_way_is_an_option(landing: Path, context: Any, spark: Any) -> None:
    (landing / "a.csv").write_text('t,x,n\n2026,12f,1.234\n10:15:00,0x1p3,"1,5"\n2026-01-02,1.5,many\n')
    source = quarantining("csv", "t TIMESTAMP, x DOUBLE, n DECIMAL(5,2)", parsing="spark")
    taken = segments(source, context)
    found = {row.x: (row.t is not None, row.n) for row in source.read(spark, taken).collect()}
    assert found == {12.0: (True, Decimal("1.23")), 8.0: (True, Decimal("15.00"))}
    [row] = source.read(spark, taken, "malformed").collect()
    assert row.reason == "does not fit the schema: n = many"
