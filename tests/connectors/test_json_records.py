"""How the text of JSON files becomes records, one value each. No Spark."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from cases import for_each
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types
from text_files import read, whole_rows

from tidegate.sinks.parquet import ParquetSink
from tidegate.sources import decoding, json_texts

JSON: list[tuple[str, list[str]]] = [
    ('{"a":1}\n\n  \n{"a":2}', ['{"a":1}', '{"a":2}']),
    ('[{"a":1}, {"a":[2]}]', ['{"a":1}', '{"a":[2]}']),
    ('{"a":1} {"a":2}', ['{"a":1}', '{"a":2}']),
    ('{"a":1}{"a":2}\t[{"a":3}]', ['{"a":1}', '{"a":2}', '{"a":3}']),
    ('{"a":"}{,]["} \t', ['{"a":"}{,]["}']),
    (' {"a":1}', ['{"a":1}']),
    ("[]", []),
    ("[] [ ]{}", ["{}"]),
    ("[[1]] 2 null", ["[1]", "2", "null"]),
    ('{"a":"\\\\"}', ['{"a":"\\\\"}']),
    ('{"a":NaN}', []),
]


@pytest.mark.parametrize(("text", "expected"), JSON)
def test_every_json_value_of_a_line_is_a_record(text: str, expected: list[str], landing: Path) -> None:
    path = landing / "a.json"
    path.write_text(text)
    assert [record for _, record, problem in read(path, format="json") if problem is None] == expected


ENDS = 'the line ends inside a JSON value; values over several lines are read with options={"multiLine": "true"}'
MALFORMED: list[tuple[str, str]] = [
    ('{"a":1},{"a":2}', "not JSON from character 8 on"),
    ('{"a":1};{"a":2}', "not JSON from character 8 on"),
    ('{"a":1} tail', "not JSON from character 9 on"),
    ('{"a":1} oops }', "not JSON from character 9 on"),
    ('{"a":1}}', "not JSON from character 8 on"),
    ("{}}", "not JSON from character 3 on"),
    ('{"a":1}]', "not JSON from character 8 on"),
    ('{"a":"b"}#{}', "not JSON from character 10 on"),
    ("{'a':0}", "not JSON from character 2 on"),
    ('{"a":1}//', "not JSON from character 8 on"),
    ('[{"a":1};{"a":2}]', "not JSON from character 9 on"),
    ('{"a":"x\ty"}', "not JSON from character 8 on"),
    ('{"a":1', ENDS),
    ('[{"a":1}', ENDS),
    ('[{"a":1},', ENDS),
    ('{"a":"x', ENDS),
    ("{", ENDS),
    ('{"a":NaN}', 'NaN is not JSON; it is taken with options={"allowNonNumericNumbers": "true"}'),
    ('{"a":-Infinity}', '-Infinity is not JSON; it is taken with options={"allowNonNumericNumbers": "true"}'),
    ("[" * 100_000, "JSON that is nested too deeply"),
]


@pytest.mark.parametrize(("text", "problem"), MALFORMED)
def test_a_line_that_is_anything_else_is_malformed_as_a_whole(text: str, problem: str, landing: Path) -> None:
    path = landing / "a.json"
    path.write_text(f'{{"a":1}}\n{text}\n[{{"a":2}}]\n')
    assert read(path, format="json") == [(1, '{"a":1}', None), (2, text, problem), (3, '{"a":2}', None)]


PIECES = [
    '{"a":1}',
    '{"b":[{}]}',
    '{"a":"}{"}',
    "{'a':0}",
    "[",
    "]",
    "{",
    "}",
    ",",
    " ",
    "1.50",
    "null",
    '"',
    "#",
    "\\",
]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join), max_size=6), st.booleans())
def test_a_line_is_read_alike_whatever_stands_next_to_it(lines: list[str], odd: bool) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "a.json")

        def found(text: str) -> list[tuple[str, str | None]]:
            path.write_text(text)
            return [(record, problem) for _, record, problem in read(path, format="json")]

        alone = [each for line in lines for each in found(line)]
        assert found("\n".join(lines)) == alone
        other = "\\ud800 [{}] {}\0" if odd else '{"a":1}'
        quarantine: dict[str, Any] = {"malformed": "quarantine", "quarantine": ParquetSink("q")}
        path.write_text("\n".join([*lines, other]))
        among = [(record, problem) for _, record, problem in read(path, format="json", **quarantine)]
        assert among[: len(alone)] == alone


def test_a_record_is_json_or_has_a_problem() -> None:
    """By the standard library, which knows nothing of texts that are divided."""
    for pieces in itertools.product(PIECES, repeat=3):
        text = "".join(pieces)
        values = json_texts.values(text, json_texts.Syntax())
        if values is None:
            assert isinstance(json.loads(text), dict)
            continue
        for value in values:
            if value.problem is None:
                json.loads(value.record)
        if not any(value.problem for value in values):
            assert "".join(value.record for value in values).count("{") == text.count("{")


STRINGS: list[tuple[str, str | None]] = [
    ('{"s":"x","n":1.50,"e":[],"m":{},"o":{"t":null}}', None),
    ('{"s":12345678901234567890.123456789}', '{"s":"12345678901234567890.123456789"}'),
    ('{"s" : 1.10, "n":1.10}', '{"s" : "1.10", "n":1.10}'),
    ('{"S":1e400,"s":-0}', '{"S":"1e400","s":"-0"}'),
    ('{"s":true,"e":["x",false,null,1.0]}', '{"s":"true","e":["x","false",null,"1.0"]}'),
    ('{"s":{"a" :\t1.0},"x":{"s":1.0}}', '{"s":"{\\"a\\" :\\t1.0}","x":{"s":1.0}}'),
    ('{"m":{"k":1.0,"l":"1"},"o":{"t":[1.0, 2],"u":3}}', '{"m":{"k":"1.0","l":"1"},"o":{"t":"[1.0, 2]","u":3}}'),
    ('{"d":[{"t":7},{"t":"7"},{}]}', '{"d":[{"t":"7"},{"t":"7"},{}]}'),
    ('{"s":{"a":"ü\\n\\ud83d\\ude00"}}', '{"s":"{\\"a\\":\\"ü\\\\n\\\\ud83d\\\\ude00\\"}"}'),
    ('{"z":123456789012.12}', None),
    (
        '{"z":12345678901234567.125,"n":12345678901234567.125}',
        '{"z":"12345678901234567.125","n":12345678901234567.125}',
    ),
    ('{"z":true}', None),
    ('{"s":' + "1" * 5000 + "}", '{"s":"' + "1" * 5000 + '"}'),
]
PLACES: json_texts.Places = {"s": 1, "e": [1], "m": [1], "o": {"t": 1}, "d": [{"t": 1}], "z": 2}


@pytest.mark.parametrize(("record", "text"), STRINGS)
def test_what_is_not_a_string_keeps_its_text_where_the_schema_has_strings(
    record: str, text: str | None, landing: Path
) -> None:
    path = landing / "a.json"
    path.write_text(record)
    ((row),) = whole_rows(path, format="json", places=PLACES)
    assert (row["record"], row["text"], row["problem"]) == (record, text, None)
    path.write_text(f"[{record}]")
    ((row),) = whole_rows(path, format="json", places=PLACES)
    assert (row["record"], row["text"], row["problem"]) == (record, text, None)


def test_where_a_schema_has_strings() -> None:
    text, number = types.StringType(), types.IntegerType()
    inner = types.StructType([types.StructField("t", types.CharType(2)), types.StructField("u", types.DateType())])
    columns: dict[str, types.DataType] = {
        "S": text,
        "n": number,
        "e": types.ArrayType(text),
        "i": types.ArrayType(number),
        "m": types.MapType(number, types.VarcharType(3)),
        "o": inner,
        "d": types.ArrayType(inner),
        "z": types.DecimalType(20, 2),
        "x": types.StructType([types.StructField("y", number)]),
    }
    schema = types.StructType([types.StructField(name, type_) for name, type_ in columns.items()])
    assert json_texts.places_of(schema) == PLACES


FLOATS = {"d": types.DoubleType(), "f": types.FloatType(), "a": types.ArrayType(types.DoubleType())}
DOUBLES = {name: type_ for name, type_ in FLOATS.items() if name != "f"}


def changed(text: str, columns: dict[str, types.DataType]) -> str | None:
    schema = types.StructType([types.StructField(name, type_) for name, type_ in columns.items()])
    found = json_texts.values(text, json_texts.Syntax(floats=json_texts.floats_of(schema)))
    return None if found is None else found[0].text


@for_each("number", ["1e400", "-1E+309", "1.8e308", "1" * 400, "1" * 230 + "e99", "0.1e0000310"])
def test_a_number_that_a_double_cannot_hold_becomes_text_which_spark_refuses(number: str) -> None:
    for columns in (FLOATS, DOUBLES):
        assert changed(f'{{"d":{number},"a":[1,{number}],"x":1e400}}', columns) == (
            f'{{"d":"{number}","a":[1,"{number}"],"x":1e400}}'
        )
    assert changed(f'{{"f":{number}}}', FLOATS) == f'{{"f":"{number}"}}'
    assert changed(f'{{"f":{number}}}', DOUBLES) is None


@for_each("number", ["1.79e308", "-1e99", "1e-400", "1" * 300, '"1e400"', "true", "0.01e310"])
def test_any_other_value_of_a_double_stays(number: str) -> None:
    for columns in (FLOATS, DOUBLES):
        assert changed(f'{{"d":{number},"a":[{number}]}}', columns) is None


def test_a_float_holds_less_than_a_double() -> None:
    assert changed('{"d":1e39,"f":3.4028235e38}', FLOATS) is None
    assert changed('{"d":1e39,"f":3.4028236e38}', FLOATS) == '{"d":1e39,"f":"3.4028236e38"}'
    assert changed('{"f":%s}' % ("9" * 30 + "e9"), FLOATS) == '{"f":"%s"}' % ("9" * 30 + "e9")


def test_a_json_file_may_be_one_value_over_many_lines(landing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "PIECE", 3)
    path = landing / "a.json"
    path.write_text('[\n {"a":\n 1},\n {"a":2}\n]\n')
    assert read(path, format="json", options={"multiLine": "true"}) == [
        (2, '{"a":\n 1}', None),
        (4, '{"a":2}', None),
    ]
    path.write_text('\n{"a":\n 1}\r\n{"a":2}')
    assert read(path, format="json", options={"multiLine": "true"}) == [(2, '{"a":\n 1}', None), (4, '{"a":2}', None)]
    path.write_text('[\n {"a":1},\n')
    assert read(path, format="json", options={"multiLine": "true"}) == [
        (1, '[\n {"a":1},\n', "the file ends inside a JSON value")
    ]
    path.write_text('{"a":1}\n ,{"a":2}' + " " * 2000)
    ((_, record, problem),) = read(path, format="json", options={"multiLine": "true"})
    assert (len(record), problem) == (1000, "not JSON from line 2, character 2 on")


@pytest.mark.parametrize(
    ("text", "half"),
    [
        (r"\ud800", r"\ud800"),
        (r"\uD83D\uDE00", None),
        (r"\uDE00\uD83D", r"\uDE00"),
        (r"\\ud800", None),
        (r"\\\udc00", r"\udc00"),
        (r"\ud83dx\ude00", r"\ud83d"),
        (r"\ud83d\ud83d\ude00", r"\ud83d"),
        (r"\u00e9\n", None),
    ],
)
def test_half_a_character_is_a_problem(text: str, half: str | None, landing: Path) -> None:
    path = landing / "a.json"
    path.write_text('{"a":"' + text + '"}\n{"a":1}\n')
    ((_, _, problem), (_, _, fine)) = read(path, format="json")
    assert problem == (half and f"{half} is half of a character")
    assert fine is None
