"""Files with other columns than the schema: what is missing, what is more, and names in another case."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidegate.ports import Segment
from tidegate.protocol.facts.errors import MalformedRowsError, PipelineDefinitionError
from tidegate.sinks.parquet import ParquetSink
from tidegate.sources.files import FileSource

NULL: dict[str, Any] = {"missing_columns": "null"}
IGNORE: dict[str, Any] = {"extra_columns": "ignore"}
REFUSED = "refused"
PLAIN = "id INT, meter_id STRING"

#: Schema, format, arguments, content, rows or what is refused, and reasons in the quarantine.
READ: dict[str, tuple[str, str, dict[str, Any], str, Any, list[str]]] = {
    "csv: names in another case": (PLAIN, "csv", {}, "ID,Meter_Id\n1,x\n", [(1, "x")], []),
    "csv: another order": (PLAIN, "csv", {}, 'meter_id,id\nx,1\n"a,""b",2\n', [(1, "x"), (2, 'a,"b')], []),
    "csv: a column is missing": (
        PLAIN,
        "csv",
        {},
        "id,meterId\n1,x\n2,y\n",
        [],
        ["the header does not fit the schema: it lacks meter_id; it is HEADER"] * 2,
    ),
    "csv: missing is null": (PLAIN, "csv", NULL, "id\n1\n2\n", [(1, None), (2, None)], []),
    "csv: missing is null, but there is more": (
        PLAIN,
        "csv",
        NULL,
        "id,meterId\n1,x\n",
        [],
        ["the header does not fit the schema: it has 1 more than the schema; it is HEADER"],
    ),
    "csv: both": (PLAIN, "csv", NULL | IGNORE, "meterId,id\nx,1\n", [(1, None)], []),
    "csv: a column more": (
        PLAIN,
        "csv",
        {},
        "id,meter_id,more\n1,x,y\n",
        [],
        ["the header does not fit the schema: it has 1 more than the schema; it is HEADER"],
    ),
    "csv: what is more is ignored": (
        PLAIN,
        "csv",
        IGNORE,
        'id,more,meter_id,last\n1,y,x,z\n2,"a,b","c""d",\n3,,"e\nf",z\n4,y,x\n5,y,x,z,w\n6,y,"",z\n',
        [(1, "x"), (2, 'c"d'), (3, "e\nf"), (6, "")],
        ["not a row of 4 fields"] * 2,
    ),
    "csv: another dialect": (
        PLAIN,
        "csv",
        IGNORE | {"options": {"sep": "||", "quote": "'", "escape": "\\", "multiLine": "false"}},
        "more||id||meter_id\n'a\\'||b'||1||x\n||2||'y\\'||z'\n",
        [(1, "x"), (2, "y'||z")],
        [],
    ),
    "csv: a null value": (
        PLAIN,
        "csv",
        NULL | {"options": {"nullValue": "NA"}},
        "meter_id\nNA\nx\n",
        [(None, "x"), (None, None)],
        [],
    ),
    "csv: a column twice": (
        PLAIN,
        "csv",
        IGNORE,
        "id,ID,meter_id\n1,2,x\n",
        [],
        ["the header does not fit the schema: it has id more than once; it is HEADER"],
    ),
    "csv: one column of several, and blank lines": (
        "id INT",
        "csv",
        IGNORE,
        "more,id\n\nx,1\n\ny,\n",
        [(1,), (None,)],
        [],
    ),
    "csv: a dot": ("`a.b` INT, `c``d` STRING", "csv", {}, "a.b,c`d\n1,x\nz,x\n", [(1, "x")], ["a.b = z"]),
    "json: names in another case": (
        PLAIN,
        "json",
        {},
        '{"ID": 1, "Meter_Id": "x"}\n{"id": 2, "METER_ID":"Meter_Id"}\n{"id":3,"meter_id":"\\"Meter_Id\\":"}\n',
        [(1, "x"), (2, "Meter_Id"), (3, '"Meter_Id":')],
        [],
    ),
    "json: a column twice": (
        PLAIN,
        "json",
        {},
        '{"id": 1, "Id": 2}\n',
        [],
        ["the keys id and Id are both the column id"],
    ),
    "json: names inside": (
        "a STRUCT<b: INT, m: MAP<STRING, INT>>, l ARRAY<STRUCT<b: INT>>, t STRING",
        "json",
        {},
        '{"A": {"B": 1, "M": {"B": 2, "M": 3}}, "L": [{"B": 4}, {"b": 5}], "T": {"A": 6}}\n',
        [({"b": 1, "m": {"B": 2, "M": 3}}, [{"b": 4}, {"b": 5}], '{"A": 6}')],
        [],
    ),
    "json: a column is missing": (PLAIN, "json", {}, '{"id": 1}\n{"id": null}\n', [(1, None), (None, None)], []),
    "json: all columns are missing": (
        PLAIN,
        "json",
        {},
        '{"meterId": "x"}\n{}\n',
        [],
        ["it has none of the columns of the schema"] * 2,
    ),
    "json: missing is null": (PLAIN, "json", NULL, '{"meterId": "x"}\n{}\n', [(None, None)] * 2, []),
    "json: what is more": (PLAIN, "json", {}, '{"id": 1, "more": {"id": 2}}\n', [(1, None)], []),
    "json: what is more is malformed": (
        PLAIN,
        "json",
        {"extra_columns": "malformed"},
        '{"id": 1, "more": {"id": 2}}\n{"ID": 1}\n{"id":2, "meter_id":1.10}',
        [(1, None), (2, "1.10")],
        ["it has 1 key that the schema does not have"],
    ),
    "json: a dot": ("`a.b` INT", "json", {}, '{"a.b": 1}\n{"a.b": "z"}\n{"A.B": 2}\n', [(1,), (2,)], ["a.b = z"]),
}


def segments(source: FileSource, context: Callable[..., Any]) -> list[Segment]:
    segment, _ = source.poll(0, None, context(1))
    assert segment is not None
    return [segment]


def plain(value: Any) -> Any:
    if hasattr(value, "asDict"):
        return value.asDict(recursive=True)
    return [plain(each) for each in value] if isinstance(value, list) else value


def rows(frame: Any) -> list[Any]:
    return sorted((tuple(map(plain, row)) for row in frame.collect()), key=repr)


@pytest.mark.spark
@pytest.mark.parametrize("case", READ)
def test_columns_of_text_are_found_by_name(case: str, landing: Path, context: Any, spark: Any) -> None:
    schema, form, arguments, content, expected, reasons = READ[case]
    (landing / f"a.{form}").write_text(content)
    quarantining = {"malformed": "quarantine", "quarantine": ParquetSink("quarantine")}
    source = FileSource("landing", form, schema=schema, **arguments, **quarantining)  # type: ignore[arg-type]
    taken = segments(source, context)
    assert rows(source.read(spark, taken)) == expected
    found = sorted(row.reason for row in source.read(spark, taken, "malformed").collect())
    reasons = [reason.replace("HEADER", content.partition("\n")[0]) for reason in reasons]
    assert [reason.removeprefix("does not fit the schema: ") for reason in found] == reasons
    if not reasons:
        return
    failing = FileSource("landing", form, schema=schema, **arguments)  # type: ignore[arg-type]
    with pytest.raises(Exception) as raised:  # noqa: PT011
        failing.read(spark, taken).collect()
    explained = failing.explain(raised.value, taken)
    assert isinstance(explained, MalformedRowsError)
    wrong = reasons[0].removeprefix("the header does not fit the schema: ").partition("; it is")[0]
    assert wrong in str(explained)


@pytest.mark.spark
def test_parts_of_a_file_have_its_header(landing: Path, context: Any, spark: Any, monkeypatch: Any) -> None:
    from tidegate.sources import parts

    monkeypatch.setattr(parts, "_SMALL", 100)
    (landing / "a.csv").write_text("more,id,meter_id\n" + "".join(f"y,{n},x\n" for n in range(100)))
    source = FileSource("landing", schema=PLAIN, extra_columns="ignore", options={"multiLine": "false"})
    frame = source.read(spark, segments(source, context))
    assert frame.rdd.getNumPartitions() > 1 if hasattr(frame, "rdd") else True
    assert rows(frame) == sorted([(n, "x") for n in range(100)], key=repr)


def test_arguments_are_checked() -> None:
    for arguments, message in (
        ({"missing_columns": "ignore"}, 'missing_columns is \'ignore\', but must be "malformed" or "null"'),
        ({"extra_columns": "null"}, 'extra_columns is \'null\', but must be "malformed" or "ignore"'),
        ({"schema": "id INT, Id INT"}, "its schema has id and Id, and upper and lower case are alike"),
        ({"options": {"header": "false"}, "missing_columns": "null"}, "a file without a header"),
        ({"format": "parquet", "parsing": "spark"}, "Parquet files are typed"),
    ):
        with pytest.raises(PipelineDefinitionError, match=message):
            FileSource("landing", **{"schema": PLAIN, **arguments})  # type: ignore[arg-type]


def test_a_source_without_the_options_is_described_as_before() -> None:
    new = {"missing_columns", "extra_columns", "parsing"}
    assert not new & set(FileSource("landing", schema=PLAIN).describe())
    assert new & set(FileSource("landing", "json", schema=PLAIN, extra_columns="malformed").describe())
    assert not new & set(FileSource("landing", "json", schema=PLAIN, extra_columns="ignore").describe())
