"""How files become rows on a real Spark session: names, malformed rows, columns, and what errors say."""

import gzip
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.ports import Segment
from tidegate.protocol.facts.errors import (
    CheckpointError,
    MalformedRowsError,
    PipelineDefinitionError,
    SourceChangedError,
)
from tidegate.sinks.parquet import ParquetSink
from tidegate.sources.files import FileSource

SCHEMA = "id INT, name STRING, amount DOUBLE"
HEADER = "id,name,amount\n"
GOOD = f"{HEADER}1,x,2.5\n"


def taken(source: FileSource, context: Callable[..., Any]) -> list[Segment]:
    segments = [source.poll(split, None, context(1, split))[0] for split in range(source.splits)]
    return [segment for segment in segments if segment is not None]


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def explained(source: FileSource, spark: Any, context: Any, use: Callable[[Any], Any]) -> CheckpointError:
    segments = taken(source, context)
    with pytest.raises(Exception) as raised:  # noqa: PT011
        use(source.read(spark, segments))
    if isinstance(raised.value, CheckpointError):
        return raised.value
    error = source.explain(raised.value, segments)
    assert error is not None, raised.value
    return error


ODD = ["a b.csv", "p%20c+x.csv", "br[1].csv", "cu{a,b}.csv", "st*r.csv", "star.csv", "qu?.csv", "ünï.csv", "com,ma.csv"]
ODD += [
    "2013-01-01T05:00.csv",
    "new\nline.csv",
    "back\\slash.csv",
    "hash#tag.csv",
    "d=1/[x]/a&b.csv",
    "'q\"uote.csv",
    "semi;colon.csv",
]


def test_files_with_odd_names_are_read_exactly_once_each(landing: Path, context: Any, spark: Any) -> None:
    for number, name in enumerate(ODD):
        (landing / name).parent.mkdir(parents=True, exist_ok=True)
        (landing / name).write_text(f"{HEADER}{number},,\nbad,{number},\n")
    source = FileSource(
        "landing", schema=SCHEMA, splits=2, malformed="quarantine", quarantine=ParquetSink("quarantine")
    )
    segments = taken(source, context)
    assert rows(source.read(spark, segments).select("id")) == sorted([(n,) for n in range(len(ODD))], key=repr)
    malformed = source.read(spark, segments, "malformed")
    assert malformed.columns == ["file", "record", "reason"]
    assert rows(malformed.select("file")) == sorted([(name,) for name in ODD], key=repr)


def test_a_colon_in_a_parquet_file_s_name_is_refused_with_the_way_out(landing: Path, context: Any, spark: Any) -> None:
    (landing / "2013-01-01T05:00.parquet").write_bytes(parquet(id=[1]))
    source = FileSource("landing", "parquet", schema=SCHEMA)
    with pytest.raises(MalformedRowsError, match=r"T05:00.parquet has a colon in its name.*Rename the file"):
        source.read(spark, taken(source, context))


def test_no_segments_are_an_empty_frame_that_costs_no_job(spark: Any) -> None:
    source = FileSource("landing", schema=SCHEMA, malformed="quarantine", quarantine=ParquetSink("q"))
    frame = source.read(spark, [])
    assert [(f.name, f.dataType.simpleString()) for f in frame.schema] == [
        ("id", "int"),
        ("name", "string"),
        ("amount", "double"),
    ]
    assert frame.collect() == [] == source.read(spark, [], "malformed").collect()
    assert "LocalTableScan <empty>" in frame._jdf.queryExecution().executedPlan().toString()


def test_json_and_parquet_are_read_in_the_declared_schema(landing: Path, context: Any, spark: Any) -> None:
    (landing / "a.json").write_text('{"id": 1, "name": "x", "other": true}\n{"amount": 2.5}\n')
    source = FileSource("landing", "json", schema=SCHEMA)
    assert rows(source.read(spark, taken(source, context))) == [(1, "x", None), (None, None, 2.5)]
    (landing / "a.json").unlink()
    table = pa.table({"amount": [2.5], "id": pa.array([7], pa.int32()), "more": ["z"]})
    pq.write_table(table, landing / "a.parquet")
    source = FileSource("landing", "parquet", schema=SCHEMA, missing_columns="null")
    assert rows(source.read(spark, taken(source, context))) == [(7, None, 2.5)]


def test_reader_options_pass_through(landing: Path, context: Any, spark: Any) -> None:
    (landing / "a.csv").write_text("1;NA;2.5\nNA;y;NA\n")
    source = FileSource("landing", schema=SCHEMA, options={"header": "false", "sep": ";", "nullValue": "NA"})
    assert rows(source.read(spark, taken(source, context))) == [(1, None, 2.5), (None, "y", None)]
    (landing / "a.csv").write_text('id,name,amount;1,a\nb,2.5;#2,c,1;3,"x;",;')
    source = FileSource("landing", schema=SCHEMA, options={"lineSep": ";", "comment": "#"})
    assert rows(source.read(spark, taken(source, context))) == [(1, "a\nb", 2.5), (3, "x;", None)]


USES: dict[str, Callable[[Any], Any]] = {
    "column": lambda frame: frame.select("name").collect(),
    "filter": lambda frame: frame.where("amount is not null").groupBy("name").count().collect(),
    "count": lambda frame: frame.where("id = 1").count(),
    "arrow": lambda frame: frame.mapInArrow(lambda batches: batches, SCHEMA).toArrow(),
}


@pytest.mark.parametrize(
    ("use", "line"),
    [
        *((use, "7,y,often") for use in USES),
        *(("filter", line) for line in ("seven,y,1", "7,y", "7,y,1,extra", '7,"y')),
    ],
)
def test_a_malformed_row_fails_whatever_the_query_uses(
    use: str, line: str, landing: Path, context: Any, spark: Any
) -> None:
    (landing / "good.csv").write_text(GOOD)
    (landing / "b ä+[d].csv").write_text(f"{GOOD}{line}\n")
    error = explained(FileSource("landing", schema=SCHEMA), spark, context, USES[use])
    assert isinstance(error, MalformedRowsError)
    assert f"{landing}/b ä+[d].csv has a row that does not fit the source's schema: line 3 (" in str(error)
    assert "positions, state and tables are as before" in str(error)
    assert 'malformed="quarantine"' in str(error)


def compressed(cut: float) -> bytes:
    whole = gzip.compress((HEADER + "".join(f"{n},x,{n / 7}\n" for n in range(20_000))).encode())
    return whole[: int(len(whole) * cut)]


def parquet(**columns: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())


UNREADABLE: list[tuple[str, str, bytes, str]] = [
    (
        "csv",
        "a.csv",
        b"id,nome,amount\n1,x,2\n",
        "columns of .*a.csv are not those of the source's schema.*3 columns: id, [?], amount; the schema",
    ),
    ("csv", "a.csv", b"id,amount\n1,2\n", r"columns of .*a.csv are not.*2 columns: id, amount; the schema has 3"),
    ("csv", "a.csv.gz", compressed(0.5), r"a.csv.gz cannot be read: .*It is damaged"),
    ("csv", "a.csv.gz", GOOD.encode(), r"a.csv.gz cannot be read: .*It is damaged"),
    (
        "json",
        "a.json",
        b'{"id": "one"}\n',
        "a.json has a row that does not fit .*line 1 .*does not fit the schema: id = one",
    ),
    ("json", "a.json", b'{"id": 1\n', "a.json has a row that does not fit the source's schema"),
    ("parquet", "a.parquet", b"nonsense", "a.parquet cannot be read: .* is not a Parquet file"),
    (
        "parquet",
        "a.parquet",
        parquet(id=[1])[:-9],
        "a.parquet cannot be read: it is not a Parquet file, or its end is m",
    ),
    (
        "parquet",
        "a.parquet",
        parquet(id=["x"], name=["x"], amount=[1.0]),
        "a.parquet has the column id as BINARY, which is not read as INT, its type in the schema. The file is not dam",
    ),
]


@pytest.mark.parametrize(("kind", "name", "content", "message"), UNREADABLE)
def test_an_unreadable_file_is_named_with_the_reason(
    kind: Any, name: str, content: bytes, message: str, landing: Path, context: Any, spark: Any
) -> None:
    (landing / name).write_bytes(content)
    error = explained(FileSource("landing", kind, schema=SCHEMA), spark, context, lambda frame: frame.collect())
    assert isinstance(error, MalformedRowsError)
    assert re.search(message, str(error)), error
    assert "This checkpoint has no effect" in str(error)


def test_a_file_that_vanishes_before_spark_opens_it_is_named(landing: Path, context: Any, spark: Any) -> None:
    (landing / "a b.csv").write_text(GOOD)

    def use(frame: Any) -> None:
        (landing / "a b.csv").unlink()
        frame.collect()

    error = explained(FileSource("landing", schema=SCHEMA), spark, context, use)
    assert isinstance(error, SourceChangedError)
    assert f"{landing}/a b.csv was there when this checkpoint listed it and was gone" in str(error)


def test_an_error_about_other_files_is_not_explained(landing: Path, context: Any, spark: Any, home: Path) -> None:
    (landing / "a.csv").write_text(GOOD)
    (home / "other.parquet").write_bytes(b"nonsense")
    source = FileSource("landing", schema=SCHEMA)
    segments = taken(source, context)
    with pytest.raises(Exception, match="FAILED_READ_FILE") as raised:
        spark.read.schema(SCHEMA).parquet(f"file://{home}/other.parquet").collect()
    assert source.explain(raised.value, segments) is None
    assert source.explain(ValueError("anything"), segments) is None


def test_malformed_csv_rows_go_to_quarantine_with_file_and_reason(landing: Path, context: Any, spark: Any) -> None:
    (landing / "a.csv").write_text(f'{GOOD}zz,y,1\n3,z\n4,z,1,2\n5,"a,b",b\n6,ok,\nNA,NA,NA\n')
    sink = ParquetSink("quarantine")
    source = FileSource("landing", schema=SCHEMA, malformed="quarantine", quarantine=sink, options={"nullValue": "NA"})
    segments = taken(source, context)
    assert rows(source.read(spark, segments)) == [(1, "x", 2.5), (6, "ok", None), (None, None, None)]
    assert rows(source.read(spark, segments).where("amount is not null").select("name")) == [("x",)]
    assert rows(source.read(spark, segments, "malformed")) == [
        ("a.csv", "3,z", "not a row of 3 fields"),
        ("a.csv", "4,z,1,2", "not a row of 3 fields"),
        ("a.csv", '5,"a,b",b', "does not fit the schema: amount = b"),
        ("a.csv", "zz,y,1", "does not fit the schema: id = zz"),
    ]
    assert source.read(spark, segments, "malformed").count() == 4


def test_malformed_json_rows_go_to_quarantine_with_file_and_reason(landing: Path, context: Any, spark: Any) -> None:
    (landing / "a.json").write_text('{"id":1,"name":"x"}\n{"id":"q","amount":"w"}\n{bad\n')
    source = FileSource("landing", "json", schema=SCHEMA, malformed="quarantine", quarantine=ParquetSink("q"))
    segments = taken(source, context)
    assert rows(source.read(spark, segments)) == [(1, "x", None)]
    assert rows(source.read(spark, segments, "malformed")) == [
        ("a.json", '{"id":"q","amount":"w"}', "does not fit the schema: id = q, amount = w"),
        ("a.json", "{bad", "not JSON from character 2 on"),
    ]


def test_records_below_another_header_go_to_quarantine(landing: Path, context: Any, spark: Any) -> None:
    (landing / "a.csv").write_text("id,nome,amount\n1,x,2\n")
    source = FileSource("landing", schema=SCHEMA, malformed="quarantine", quarantine=ParquetSink("q"))
    segments = taken(source, context)
    assert rows(source.read(spark, segments)) == []
    reason = "the header does not fit the schema: it lacks name; it is id,nome,amount"
    assert rows(source.read(spark, segments, "malformed")) == [("a.csv", "1,x,2", reason)]


def test_a_schema_that_is_not_ddl_is_refused(landing: Path, context: Any, spark: Any) -> None:
    (landing / "a.csv").write_text(GOOD)
    source = FileSource("landing", schema="id INTEGRAL, name")
    for segments in ([], taken(source, context)):
        with pytest.raises(PipelineDefinitionError, match=r"is not Spark DDL: 'id INTEGRAL, name'"):
            source.read(spark, segments)


def test_only_declared_outputs_exist(spark: Any) -> None:
    with pytest.raises(PipelineDefinitionError, match=r"has no output 'malformed'"):
        FileSource("landing", schema=SCHEMA).read(spark, [], "malformed")
