"""Which files a source selects, and the columns that their directories give."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from landed_files import put

from tidegate.protocol.facts.errors import MalformedRowsError, PipelineDefinitionError
from tidegate.sources.files import FileSource

SCHEMA = "k STRING, v INT"
PLACED = ["a.csv", "notes.txt", "b.CSV", "old/c.csv", "old/notes.txt", "old/c.csv.bak"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, sorted(PLACED)),
        ({"glob": "*.csv"}, ["a.csv", "old/c.csv"]),
        ({"glob": "*.[cC][sS][vV]", "recursive": False}, ["a.csv", "b.CSV"]),
        ({"exclude": ["*.md", "notes.*", "*.bak"]}, ["a.csv", "b.CSV", "old/c.csv"]),
        ({"glob": "?.csv", "exclude": ("a*",)}, ["old/c.csv"]),
        ({"glob": "*.{csv,{CSV,md}}"}, ["a.csv", "b.CSV", "old/c.csv"]),
        ({"exclude": ["{a,b}.*", "notes.{t,T}xt", "*.bak"]}, ["old/c.csv"]),
        ({"exclude": ["a.csv", "[{]*[}]"], "glob": "{a,}*{.csv,}.csv"}, ["old/c.csv"]),
    ],
)
def test_a_pattern_selects_files_by_their_names(
    arguments: dict[str, Any], expected: list[str], landing: Path, context: Any
) -> None:
    for name in PLACED:
        put(landing, name)
    segment, snapshot = FileSource("landing", schema=SCHEMA, **arguments).poll(0, None, context(1))
    assert segment is not None
    assert sorted(file[0] for file in segment.reference["files"]) == expected
    assert snapshot.position == {"splits": 1, "files": len(expected)}


NONE_TAKEN = [
    (["a.txt", "b.log"], {"glob": "*.{csv,CSV}"}, "2 not matched by glob"),
    (["a.csv", "d/b.txt"], {"glob": "*.txt", "exclude": ["b*"]}, "1 not matched by glob; 1 left out by exclude"),
    (["a.csv.filepart"], {}, "1 by its name not finished, hidden, or about another file"),
]


@pytest.mark.parametrize(("names", "arguments", "why"), NONE_TAKEN)
def test_files_of_which_none_is_taken_are_said_once(
    names: list[str], arguments: dict[str, Any], why: str, landing: Path, context: Any, caplog: Any
) -> None:
    source = FileSource("landing", schema=SCHEMA, end_marker="DONE", **arguments)
    source.poll(0, None, context(1))
    for name in names:
        put(landing, name)
    for number in (2, 3):
        source.poll(0, None, context(number))
    (said,) = caplog.messages
    how_many = "1 file" if len(names) == 1 else f"{len(names)} files"
    assert said.startswith(f"{landing} has {how_many}, and the source takes none of them, such as {names[0]} ({why})")


def test_where_one_is_taken_or_was_read_before_nothing_is_said(landing: Path, context: Any, caplog: Any) -> None:
    put(landing, "a.txt")
    put(landing, "b.csv")
    put(landing, "DONE")
    _, snapshot = FileSource("landing", schema=SCHEMA, glob="*.csv").poll(0, None, context(1))
    FileSource("landing", schema=SCHEMA, glob="*.csv").poll(0, snapshot, context(2))
    FileSource("landing", schema=SCHEMA, glob="x", exclude=["*"], end_marker="a.txt", recursive=False)
    (landing / "b.csv").unlink()
    (landing / "DONE").unlink()
    FileSource("landing", schema=SCHEMA, end_marker="a.txt").poll(0, None, context(3))
    assert caplog.messages == []


def test_what_is_not_selected_neither_counts_as_late_nor_as_changed(landing: Path, context: Any) -> None:
    put(landing, "a.csv", mtime=1)
    put(landing, "DONE", "", mtime=2)
    put(landing, "report.txt", mtime=3)
    before, narrowed = (
        FileSource("landing", schema=SCHEMA, exclude=exclude, end_marker="DONE") for exclude in (["*.txt"], ["*"])
    )
    _, snapshot = before.poll(0, None, context(1))
    assert snapshot.finished
    put(landing, "a.csv", "k,v\nz,9\n", mtime=1)
    assert narrowed.poll(0, snapshot, context(2))[0] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"glob": ""}, "glob is '', but must be a pattern of file names"),
        ({"glob": "old/*.csv"}, r"glob is 'old/\*\.csv', but must be a pattern of file names"),
        ({"glob": "*.{csv"}, r"glob is '\*\.\{csv', but has braces that do not match"),
        ({"glob": "*.csv}"}, "but has braces that do not match"),
        ({"glob": "{a,{b}.csv"}, "but has braces that do not match"),
        ({"glob": "{1..3}.csv"}, r"but has the range \{1\.\.3\}, which is not expanded"),
        ({"glob": ".*"}, "but matches only names that are never read"),
        ({"glob": "_part*.{csv,txt}"}, "but matches only names that are never read"),
        ({"glob": "*.{done,md5}"}, "but matches only names that are never read"),
        ({"exclude": ["old/*"]}, r"exclude is 'old/\*', but must be a pattern of file names"),
        ({"exclude": "*.md"}, r"exclude is '\*\.md', but must be a list.* such as \['\*\.md'\]"),
        ({"partitions": "day"}, "partitions='day' is not a list of columns such as \"day DATE, country STRING\""),
        ({"partitions": "day TIMESTAMP"}, "the types are STRING, DATE, INT"),
        ({"partitions": "day DATE, Day INT"}, "partitions='day DATE, Day INT' names a column twice"),
    ],
)
def test_a_wrong_selection_is_refused_where_it_is_written(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineDefinitionError, match=message):
        FileSource("landing", schema=SCHEMA, **arguments)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.csv", "a.csv has no directory day=…"),
        ("day=2013-02-30/n=1/a.csv", "has day='2013-02-30'"),
        ("day=2013-02-03/n=x/a.csv", "has n='x'"),
        ("day=2013-02-03/n=2147483648/a.csv", "has n='2147483648'"),
        ("day=2013-02-03/n=1/50%/a.csv", "has day='2013-02-03'"),
        ("day=20130203/n=1/a.csv", "has day='20130203'"),
    ],
)
def test_a_directory_that_gives_no_value_of_the_type_is_named(
    name: str, message: str, landing: Path, context: Any
) -> None:
    put(landing, "day=2013-02-03/n=-2147483648/good.csv")
    put(landing, name)
    source = FileSource("landing", schema=SCHEMA, partitions="day DATE, n INT")
    with pytest.raises(MalformedRowsError) as raised:
        source.poll(0, None, context(1))
    assert message in str(raised.value)
    assert "Nothing was read" in str(raised.value)


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_directories_give_columns(format: str, landing: Path, context: Any, spark: Any) -> None:
    places = {
        "day=2013-01-05/city=S%C3%A3o+Paulo %25": ("2013-01-05", "São+Paulo %"),
        "day=2013-01-06/other=1/city=__HIVE_DEFAULT_PARTITION__": ("2013-01-06", None),
        "day=2012-01-01/day=2013-01-07/city=": ("2013-01-07", ""),
    }
    for number, place in enumerate(places):
        (landing / place).mkdir(parents=True)
        if format == "csv":
            put(landing, f"{place}/{number}.csv", f"k,v\na,{number}\n")
        else:
            pq.write_table(
                pa.table({"k": ["a"], "v": pa.array([number], pa.int32())}), landing / place / f"{number}.parquet"
            )
    partitions = "day DATE, city STRING"
    source = FileSource("landing", format=format, schema=SCHEMA, partitions=partitions)  # type: ignore[arg-type]
    segment, _ = source.poll(0, None, context(1))
    assert segment is not None
    frame = source.read(spark, [segment])
    assert [field.simpleString() for field in frame.schema] == ["k:string", "v:int", "day:date", "city:string"]
    found = [(row.k, row.v, str(row.day), row.city) for row in frame.collect()]
    assert sorted(found) == [("a", number, *values) for number, values in enumerate(places.values())]
    assert source.read(spark, []).schema == frame.schema
    assert source.read(spark, []).collect() == []
    both = FileSource("landing", format=format, schema=SCHEMA, partitions="V BIGINT")  # type: ignore[arg-type]
    with pytest.raises(PipelineDefinitionError, match="has V both in its schema and in its partitions"):
        both.read(spark, [])
