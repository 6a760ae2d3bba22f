"""Input that drifts: columns that are added or have another name, and files that have columns of their own."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from object_stores import Bucket

from tidegate.ports import LeftToSparkError, Segment
from tidegate.protocol.facts.errors import MalformedRowsError, PipelineDefinitionError
from tidegate.sinks.parquet import ParquetSink
from tidegate.sources.files import FileSource
from tidegate.state.storage import ArrowCheckpointStorage

SCHEMA = "meter_id BIGINT, `a.b` STRING, value DOUBLE"
ADD: dict[str, Any] = {"evolve": "add"}
ALIASES: dict[str, Any] = {"aliases": {"meter_id": ["meterId", "m.id"], "a.b": ["ab"]}}

#: Arguments, what a file has, and its rows; or what is refused of it.
FILES: dict[str, tuple[dict[str, Any], dict[str, list[Any]], Any]] = {
    "all columns": (ADD, {"meter_id": [1], "a.b": ["x"], "value": [1.5]}, [(1, "x", 1.5)]),
    "before a column was added": (ADD, {"meter_id": [1], "a.b": ["x"]}, [(1, "x", None)]),
    "a column that is not in the schema yet": (
        ADD,
        {"new": ["n"], "value": [1.5], "meter_id": [1], "a.b": ["x"]},
        [(1, "x", 1.5)],
    ),
    "one less and one more": (ADD, {"meterId": [1], "a.b": ["x"], "value": [1.5]}, "lacks meter_id and has 1"),
    "another name": (
        ALIASES,
        {"meterId": [1, 2], "a.b": ["x", "y"], "value": [1.5, None]},
        [(1, "x", 1.5), (2, "y", None)],
    ),
    "another name in another case": (ALIASES, {"METERID": [1], "AB": ["x"], "value": [1.5]}, [(1, "x", 1.5)]),
    "another name with a dot": (ALIASES, {"value": [1.5], "m.id": [1], "ab": ["x"]}, [(1, "x", 1.5)]),
    "both names": (
        ALIASES,
        {"meter_id": [1], "meterId": [2], "a.b": ["x"], "value": [1.5]},
        ("meter_id and meterId, which are both meter_id", "the keys meter_id and meterId are both the column meter_id"),
    ),
    "two other names": (
        ALIASES | ADD,
        {"m.id": [1], "meterId": [2]},
        ("m.id and meterId, which are both meter_id", "the keys m.id and meterId are both the column meter_id"),
    ),
    "another name, and less": (ALIASES | ADD, {"meterId": [1]}, [(1, None, None)]),
    "another name, and more": (
        ALIASES | ADD,
        {"meterId": [1], "ab": ["x"], "value": [2.5], "new": [1]},
        [(1, "x", 2.5)],
    ),
}
FORMATS = ["csv", "json", "parquet"]


def segments(source: FileSource, context: Callable[..., Any]) -> list[Segment]:
    segment, _ = source.poll(0, None, context(1))
    assert segment is not None
    return [segment]


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()))


def deliver(landing: Path, name: str, columns: dict[str, list[Any]], form: Any) -> None:
    table = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    if form == "parquet":
        pq.write_table(pa.table(columns), landing / f"{name}.parquet")
        return
    lines = [",".join(columns), *(",".join("" if v is None else str(v) for v in row.values()) for row in table)]
    lines = lines if form == "csv" else [json.dumps(row) for row in table]
    (landing / f"{name}.{form}").write_text("\n".join(lines) + "\n")


@pytest.mark.spark
@pytest.mark.parametrize("form", FORMATS)
def test_columns_that_are_added_or_renamed(form: Any, landing: Path, context: Any, spark: Any) -> None:
    quarantining: dict[str, Any] = {"malformed": "quarantine", "quarantine": ParquetSink("quarantine")}
    for case, (arguments, columns, expected) in FILES.items():
        deliver(landing, "a", columns, form)
        source = FileSource("landing", form, schema=SCHEMA, **arguments)
        taken = segments(source, context)
        if isinstance(expected, list):
            assert rows(source.read(spark, taken)) == expected, case
            if form == "parquet":
                assert _by_arrow(source, taken) in (None, expected), case
            continue
        wrong = expected if isinstance(expected, str) else expected[form == "json"]
        with pytest.raises(Exception) as raised:  # noqa: PT011
            source.read(spark, taken).collect()
        error = source.explain(raised.value, taken) or raised.value
        assert isinstance(error, MalformedRowsError), case
        assert wrong in str(error), case
        assert f"a.{form}" in str(error), case
        if form != "parquet":
            keeping = FileSource("landing", form, schema=SCHEMA, **arguments, **quarantining)
            assert keeping.read(spark, taken).collect() == []
            reasons = [row.reason for row in keeping.read(spark, taken, "malformed").collect()]
            assert len(reasons) == 1, case
            assert wrong in reasons[0], case


def _by_arrow(source: FileSource, taken: Any) -> list[Any] | None:
    """What subtasks read without Spark; None if they leave it to Spark."""
    reader = source.arrow_reader(taken)
    assert reader is not None
    schema = pa.schema([("meter_id", pa.int64()), ("a.b", pa.string()), ("value", pa.float64())])
    try:
        return [tuple(row.values()) for batch in reader.read(schema) for row in batch.to_pylist()]
    except LeftToSparkError:
        return None


def test_without_spark_a_column_is_found_under_its_other_names(landing: Path, context: Any) -> None:
    deliver(landing, "a", {"meterId": [1, 2], "value": [1.5, None]}, "parquet")
    aliases = {"meter_id": ["meterId"]}
    source = FileSource(
        "landing", "parquet", schema="meter_id BIGINT, more STRING, value DOUBLE", evolve="add", aliases=aliases
    )
    reader = source.arrow_reader(segments(source, context))
    assert reader is not None
    schema = pa.schema([("value", pa.float64()), ("meter_id", pa.int64()), ("more", pa.string())])
    (batch,) = reader.read(schema)
    assert batch.to_pylist() == [
        {"value": 1.5, "meter_id": 1, "more": None},
        {"value": None, "meter_id": 2, "more": None},
    ]


V1 = {"v1_*.{csv,json,parquet}": "meterId INT, value FLOAT, old STRING", "v2_*": "meter_id BIGINT, value DOUBLE"}


@pytest.mark.spark
@pytest.mark.parametrize("form", FORMATS)
def test_files_have_columns_of_their_own_by_their_names(form: Any, landing: Path, context: Any, spark: Any) -> None:
    arguments: dict[str, Any] = {"schemas": V1, "aliases": {"meter_id": ["meterId"]}}
    (landing / "day=2026-01-02").mkdir()
    there = landing / "day=2026-01-02"
    v1: dict[str, Any] = {"meterId": [1], "value": [0.5], "old": ["o"]}
    if form == "parquet":
        v1 |= {"meterId": pa.array([1], pa.int32()), "value": pa.array([0.5], pa.float32())}
    deliver(there, "v1_a", v1, form)
    deliver(there, "v2_a", {"meter_id": [2], "value": [2.5]}, form)
    deliver(there, "v3_a", {"meter_id": [3], "a.b": ["x"], "value": [3.5]}, form)
    source = FileSource("landing", form, schema=SCHEMA, partitions="day DATE", **arguments)
    taken = segments(source, context)
    frame = source.read(spark, taken)
    assert frame.schema == source.read(spark, []).schema
    found = [(*row[:3], str(row[3])) for row in rows(frame)]
    assert found == [(n, x, v, "2026-01-02") for n, x, v in [(1, None, 0.5), (2, None, 2.5), (3, "x", 3.5)]]
    assert source.arrow_reader(taken) is None
    deliver(there, "v2_b", {"meter_id": [2], "value": [2.5], "a.b": ["x"]}, form)
    strict = FileSource("landing", form, schema=SCHEMA, partitions="day DATE", extra_columns="malformed", **arguments)
    taken = segments(strict, context)
    with pytest.raises(Exception) as raised:  # noqa: PT011
        strict.read(spark, taken).collect()
    error = strict.explain(raised.value, taken) or raised.value
    assert isinstance(error, MalformedRowsError)
    assert "v2_b" in str(error)


@pytest.mark.spark
def test_files_without_a_header_have_the_columns_of_their_pattern(landing: Path, context: Any, spark: Any) -> None:
    (landing / "v1_a.csv").write_text("7,1,0.5\n")
    (landing / "b.csv").write_text("2,x,2.5\nnone,y,1\n")
    schemas = {"v1_*": "checksum INT, meter INT, value FLOAT"}
    source = FileSource(
        "landing",
        schema=SCHEMA,
        schemas=schemas,
        aliases={"meter_id": ["meter"]},
        options={"header": "false"},
        malformed="quarantine",
        quarantine=ParquetSink("quarantine"),
    )
    taken = segments(source, context)
    assert rows(source.read(spark, taken)) == [(1, None, 0.5), (2, "x", 2.5)]
    (bad,) = source.read(spark, taken, "malformed").collect()
    assert (bad.file, bad.record) == ("b.csv", "none,y,1")


@pytest.mark.spark
def test_in_a_bucket_without_sparks_file_system(bucket: Bucket, spark: Any, context: Any) -> None:
    for name, table in {
        "v1_a": {"meterId": pa.array([1], pa.int32()), "value": pa.array([0.5], pa.float32()), "old": ["o"]},
        "b": {"m.id": [2], "ab": ["x"], "value": [2.5]},
        "c": {"meter_id": [3], "a.b": ["y"]},
    }.items():
        content = pa.BufferOutputStream()
        pq.write_table(pa.table(table), content)
        ArrowCheckpointStorage(f"s3://{bucket.name}").write(f"in/{name}.parquet", content.getvalue().to_pybytes())
    where = f"s3://{bucket.name}/in"
    schemas = {"v1_*": V1["v1_*.{csv,json,parquet}"]}
    source = FileSource(where, "parquet", schema=SCHEMA, schemas=schemas, **ADD, **ALIASES)
    assert rows(source.read(spark, segments(source, context))) == [(1, None, 0.5), (2, "x", 2.5), (3, "y", None)]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "another way to evolve": ({"evolve": "all"}, "evolve is 'all', but must be \"add\""),
    "evolve and a part of it": ({**ADD, "missing_columns": "null"}, "remove those, or evolve"),
    "evolve and the other part": ({**ADD, "extra_columns": "malformed"}, "remove those, or evolve"),
    "an alias as text": ({"aliases": {"value": "v"}}, "aliases has 'v' for 'value', but must have a list of names"),
    "an alias of no column": (
        {"aliases": {"meter": ["m"]}},
        "aliases names the column 'meter', and the schema has meter_id",
    ),
    "an alias that is a column": ({"aliases": {"value": ["Meter_Id"]}}, "'Meter_Id' is itself a column of the schema"),
    "an alias of two": ({"aliases": {"value": ["m"], "meter_id": ["M"]}}, "'M' both for 'value' and for 'meter_id'"),
    "no header": (
        {**ALIASES, "options": {"header": "false"}},
        "a file without a header does not name its columns",
    ),
    "no pattern": ({"schemas": {"a/b": "value INT"}}, "schemas['a/b']: must be a pattern of file names"),
    "no mapping": ({"schemas": "value INT"}, "must have a schema for each pattern"),
    "nothing left": ({"schemas": {"*": "value INT", "b*": "value INT"}}, "schemas['b*']: no file is left for it"),
    "no schema": ({"schemas": {"b*": " "}}, "schemas['b*']: it needs a schema in Spark DDL"),
    "a type without room": (
        {"schemas": {"b*": "value STRING"}},
        "schemas['b*']: column value is STRING, and the schema has value DOUBLE, which does not hold every value of it",
    ),
    "a narrower type": (
        {"schemas": {"b*": "meter_id DECIMAL(38, 0)"}},
        "and the schema has meter_id BIGINT, which does",
    ),
    "one column under two names": (
        {**ALIASES, "schemas": {"b*": "meter_id INT, meterId INT"}},
        "meter_id and meterId are both the column meter_id",
    ),
    "a misspelt column": (
        {"schemas": {"b*": "meterid INT"}},
        "column meterid is not in the schema, which has meter_id: if it is the same, declare it with aliases={'meter_",
    ),
    "a promise": (
        {"schemas": {"b*": "value INT NOT NULL"}},
        "has a declaration that is not enforced: column 'value' is declared NOT NULL",
    ),
    "versions": (
        {"mode": "snapshot", "key": ["value"], "schemas": {"b*": "value INT"}},
        "takes no schemas: it has the columns of its schema",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_refused_by_name(case: str) -> None:
    arguments, message = WRONG[case]
    with pytest.raises(PipelineDefinitionError) as raised:
        FileSource("landing", schema=SCHEMA, **arguments)
    assert str(raised.value).startswith("FileSource('landing'): ")
    assert message in str(raised.value)


def test_what_is_declared_is_described_in_order() -> None:
    plain = FileSource("landing", schema=SCHEMA)
    assert not {"evolve", "aliases", "schemas"} & set(plain.describe())
    said = FileSource(
        "landing", schema=SCHEMA, schemas={"b*": "value INT", "a*": "value INT"}, **ADD, **ALIASES
    ).describe()
    assert said["schemas"] == [["b*", "value INT"], ["a*", "value INT"]]
    assert (said["evolve"], said["aliases"]) == ("add", ALIASES["aliases"])
    assert not {"missing_columns", "extra_columns"} & set(said)
