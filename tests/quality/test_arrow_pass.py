"""What is judged without Spark gets the results that Spark's rows would get, and everything else is left to Spark."""

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tidegate.pipeline.expectations import Expectation, ExpectationSuite, expect, suite
from tidegate.pipeline.graph import Graph
from tidegate.ports import StageContext
from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.records import CheckpointRecord, Snapshot, SubtaskId, SubtaskRecord, Verdict
from tidegate.quality.suite_validation import build, prepare_suite, validate_arrow, validate_frame
from tidegate.quality.validator import GreatExpectationsValidator
from tidegate.sinks.staged_files import StagedFiles

pytestmark = pytest.mark.spark

ROWS = pa.table(
    {
        "key": pa.array([1, 2, 3], pa.int64()),
        "small": pa.array([1, 2, 3], pa.int8()),
        "name": pa.array(["a", "b", None]),
        "other": pa.array(["x", "y", "z"]),
        "nothing": pa.array([None] * 3, pa.int32()),
        "price": pa.array([1.5, None, 2.5], pa.float64()),
        "share": pa.array([1.5, 2.5, -0.1], pa.float32()),
        "day": pa.array([date(2024, 1, 1), date(2024, 1, 2), None], pa.date32()),
        "not_a_number": pa.array([1.0, float("nan"), 3.0], pa.float64()),
        "exact": pa.array([Decimal(1), Decimal(2), Decimal(3)], pa.decimal128(10, 2)),
        "huge": pa.array([2**53, 2**53 + 1, -(2**63)], pa.int64()),
    }
)

GOOD = [
    expect("column_values_to_not_be_null", column="key"),
    expect("column_values_to_be_null", column="nothing"),
    expect("column_values_to_be_between", column="key", min_value=1),
    expect("column_values_to_be_between", column="key", min_value=0, max_value=4, strict_min=True, strict_max=True),
    expect("column_values_to_be_between", column="price", max_value=2.5),
    expect("column_values_to_be_between", column="share", min_value=-0.2),
    expect("column_values_to_be_between", column="nothing", min_value=7),
    expect("column_values_to_be_between", column="huge", max_value=2**53),  # as a double, the second is no larger
    expect("column_values_to_be_in_set", column="name", value_set=["a", "b", "c"]),
    expect("column_values_to_be_in_set", column="small", value_set=[1, 2, 3]),
    expect("column_values_to_be_unique", column="name"),
    expect("column_values_to_be_unique", column="day"),
    expect("column_values_to_be_unique", column="key", mostly=0.5),
    expect("compound_columns_to_be_unique", column_list=["key", "other"]),
    expect("column_max_to_be_between", column="key", max_value=3),
    expect("column_min_to_be_between", column="small", min_value=1),
    expect("column_to_exist", column="key"),
    expect("table_columns_to_match_set", column_set=ROWS.column_names),
    expect("table_columns_to_match_ordered_list", column_list=ROWS.column_names),
    expect("table_row_count_to_equal", value=3),
    expect("table_row_count_to_be_between", min_value=1, max_value=3),
]

CARRIER = expect("column_values_to_not_be_null", column="carrier")

LEFT = [
    expect("column_values_to_not_be_null", column="name"),
    expect("column_values_to_not_be_null", column="name", mostly=0.1),  # met, and there are rows to show
    expect("column_values_to_be_between", column="key", min_value=2),
    expect("column_values_to_be_between", column="price", max_value=2.5, strict_max=True),
    expect("column_values_to_be_between", column="huge", max_value=2**53, strict_max=True),
    expect("column_values_to_be_between", column="not_a_number", min_value=0),
    expect("column_values_to_be_between", column="exact", min_value=0),
    expect("column_values_to_be_between", column="day", min_value="2023-01-01"),
    expect("column_values_to_be_in_set", column="name", value_set=["a"]),
    expect("column_values_to_be_in_set", column="price", value_set=[1.5, 2.5]),
    expect("compound_columns_to_be_unique", column_list=["key", "name"]),
    expect("column_max_to_be_between", column="key", max_value=2),
    expect("column_max_to_be_between", column="nothing", max_value=2),
    expect("column_max_to_be_between", column="price", max_value=9),
    expect("column_mean_to_be_between", column="key", max_value=9),
    expect("column_values_to_not_be_null", column="KEY"),
    expect("column_values_to_not_be_null", column="missing"),
    expect("column_to_exist", column="missing"),
    expect("table_row_count_to_equal", value=4),
    expect("column_values_to_not_be_null", column="key", row_condition="key < 2", condition_parser="spark"),
]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sinks stage below it."""
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))


@pytest.fixture
def stored(tmp_path: Path) -> Callable[[pa.Table], Any]:
    """The rows in two files, as a sink's subtasks stage them."""

    def store(rows: pa.Table) -> Any:
        paths = ["0.parquet", "1.parquet"]
        half = rows.num_rows // 2
        for path, part in zip(paths, (rows.slice(0, half), rows.slice(half)), strict=True):
            pq.write_table(part, tmp_path / path)
        return StagedFiles(str(tmp_path), paths)

    return store


def here(files: StagedFiles, rules: ExpectationSuite) -> Any:
    """Great Expectations' own results as JSON, and the rows; None if they are left to Spark."""
    found = validate_arrow(files, rules, prepare_suite(rules, ["key"]))
    return None if found is None else ([finding.raw.to_json_dict() for finding in found[0]], found[1])


def on_spark(spark: SparkSession, files: StagedFiles, rules: ExpectationSuite) -> tuple[list[Any], int]:
    frame = spark.read.parquet(*(f"{files.url}/{path}" for path in files.paths)).coalesce(1)
    findings, rows = validate_frame(frame, rules, build(rules), ["key"], None)
    return [finding.raw.to_json_dict() for finding in findings], rows


def test_a_good_verdict_without_spark_is_the_one_that_spark_gives(
    spark: SparkSession, stored: Callable[[pa.Table], Any]
) -> None:
    files, rules = stored(ROWS), suite("good", *GOOD)
    assert [here(files, suite("one", rule)) is not None for rule in GOOD] == [True] * len(GOOD)
    (mine, rows), (sparks, counted) = here(files, rules), on_spark(spark, files, rules)
    assert [found for found, other in zip(mine, sparks, strict=True) if found != other] == []
    assert (rows, counted) == (3, 3)


@pytest.mark.filterwarnings("ignore:.*parameter is deprecated")
@pytest.mark.parametrize("rule", LEFT, ids=lambda rule: f"{rule.type}-{dict(rule.kwargs)}")
def test_what_is_not_good_or_not_surely_the_same_is_left_to_spark(
    rule: Expectation, stored: Callable[[pa.Table], Any]
) -> None:
    assert here(stored(ROWS), suite("left", rule)) is None
    assert here(stored(ROWS), suite("left", GOOD[0], rule)) is None, "a suite is judged as a whole, in one place"


@pytest.mark.parametrize(
    ("columns", "rule"),
    [
        ({"key": [1, 2], "Key": [3, 4]}, expect("column_values_to_not_be_null", column="key")),
        ({"in.ner": [1, 2]}, expect("column_values_to_not_be_null", column="in.ner")),
        ({"key": [1, 2], "in.ner": [3, 4]}, expect("column_to_exist", column="key")),
        ({"key": [1, 2], "pair": [{"a": 1}, {"a": 2}]}, expect("column_to_exist", column="key")),
    ],
)
def test_names_that_spark_reads_otherwise_are_left_to_it(
    columns: dict[str, Any], rule: Expectation, stored: Callable[[pa.Table], Any]
) -> None:
    assert here(stored(pa.table(columns)), suite("names", rule)) is None


def test_a_table_without_rows_is_left_to_spark(stored: Callable[[pa.Table], Any]) -> None:
    assert here(stored(ROWS.slice(0, 0)), suite("empty", GOOD[0])) is None


def test_an_expectation_that_judges_in_its_own_way_is_left_to_spark(
    stored: Callable[[pa.Table], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (built,) = build(suite("own", GOOD[0]))
    assert here(stored(ROWS), suite("own", GOOD[0])) is not None
    monkeypatch.setattr(type(built), "metrics_validate", lambda self, **_: None)
    assert here(stored(ROWS), suite("own", GOOD[0])) is None


@pytest.mark.parametrize("seed", range(3))
def test_of_any_rows_what_is_judged_without_spark_is_what_spark_says(
    seed: int, spark: SparkSession, stored: Callable[[pa.Table], Any]
) -> None:
    chance = random.Random(seed)
    kinds = {"byte": pa.int8(), "whole": pa.int64(), "real": pa.float64(), "half": pa.float32()}
    columns: dict[str, pa.Array] = {"key": pa.array(range(60), pa.int64())}
    for name, kind in kinds.items():
        values = [chance.choice((None, *range(-3, 60))) for _ in range(60)]
        columns[name] = pa.array(values, pa.float64()).cast(kind)
    columns["text"] = pa.array([chance.choice((None, "a", "ä", "Z", "")) for _ in range(60)])
    files = stored(pa.table(columns))
    numbers = [name for name in columns if name != "text"]
    rules = [
        expect("column_values_to_be_between", column=name, min_value=low, max_value=high, strict_min=strict)
        for name in numbers
        for low, high, strict in (
            (-3, 59, False),
            (-3, 59, True),
            (-4, 60, True),
            (0, None, False),
            (None, 58.5, False),
        )
    ]
    rules += [
        expect(f"column_{what}_to_be_between", column=name, min_value=-9) for name in numbers for what in ("min", "max")
    ]
    rules += [expect("column_values_to_be_unique", column=name) for name in columns]
    rules += [expect("column_values_to_be_in_set", column="text", value_set=["a", "ä", "Z", ""])]
    spoken = dict(enumerate(on_spark(spark, files, suite("all", *rules))[0]))
    quick = {at: found[0][0] for at, rule in enumerate(rules) if (found := here(files, suite("one", rule)))}
    assert len(quick) > len(rules) / 4
    for at, found in quick.items():
        meta = spoken[at]["expectation_config"].pop("meta"), found["expectation_config"].pop("meta")
        assert meta == ({"position": at}, {"position": 0})
        assert found == spoken[at]


def staged_by(graph: Graph, rows: pa.Table) -> dict[SubtaskId, SubtaskRecord]:
    """What the only subtask of the sink has staged."""
    sink = graph.sink("carriers")
    handles = sink.sink.writer().stage(rows, StageContext(7, 0, 1, "u"))
    subtask = SubtaskId(sink.operator_id, 0)
    return {subtask: SubtaskRecord(subtask, 1, snapshot=Snapshot(tuple(handles)))}


def validated(
    checkpoint: CheckpointRecord, graph: Graph, docs: Path, rows: pa.Table, frame: Any
) -> tuple[Verdict, list[str]]:
    """The verdict, and what Spark was asked for."""
    asked: list[str] = []

    def frames(target: Target, subtasks: Any, record: Any) -> Any:
        asked.append(str(target))
        return frame

    subtasks = staged_by(graph, rows)
    (verdict,) = GreatExpectationsValidator(graph, frames, docs).validate(checkpoint, subtasks)
    return verdict, asked


def test_the_verdict_on_staged_files_is_the_same_without_spark(
    spark: SparkSession, checkpoint: CheckpointRecord, graph_of: Callable[..., Graph], docs: Path
) -> None:
    rows = pa.table({"carrier": ["AA", "B6"], "flights": pa.array([3, 4], pa.int64())})
    good = suite("good", expect("table_row_count_to_equal", value=2), CARRIER)
    quick, asked = validated(checkpoint, graph_of(sink=good), docs, rows, None)
    assert asked == []
    assert (quick.success, quick.evaluated, quick.results[0]["observed"]) == (True, 2, 2)
    page = (docs / str(quick.docs_path)).read_text()
    frame = spark.createDataFrame([("AA", 3), ("B6", 4)], "carrier string, flights bigint")
    (by_spark,) = GreatExpectationsValidator(graph_of(sink=good), lambda *_: frame, docs).validate(checkpoint, {})
    assert by_spark == quick
    assert len((docs / str(by_spark.docs_path)).read_text()) == len(page)


def test_a_verdict_that_fails_is_sparks_with_the_rows_that_fail(
    spark: SparkSession, checkpoint: CheckpointRecord, graph_of: Callable[..., Graph], docs: Path
) -> None:
    rows = pa.table({"carrier": ["AA", None]})
    frame = spark.createDataFrame([("AA",), (None,)], "carrier string")
    verdict, asked = validated(checkpoint, graph_of(sink=suite("good", CARRIER)), docs, rows, frame)
    assert asked == ["sink:carriers"]
    assert (verdict.success, verdict.results[0]["unexpected_count"]) == (False, 1)


def test_files_that_are_gone_are_left_to_whoever_says_what_is_wrong(
    checkpoint: CheckpointRecord, graph_of: Callable[..., Graph], docs: Path
) -> None:
    graph = graph_of(sink=suite("good", CARRIER))
    subtasks = staged_by(graph, pa.table({"carrier": ["AA"]}))
    (handle,) = next(iter(subtasks.values())).snapshot.handles
    Path(graph.sink("carriers").sink.root, handle.path).unlink()

    def frames(target: Target, *_: Any) -> Any:
        raise ValueError("the file is gone")

    (verdict,) = GreatExpectationsValidator(graph, frames, docs).validate(checkpoint, subtasks)
    assert (verdict.success, verdict.error) == (
        None,
        "sink:carriers could not be validated by suite 'good': ValueError: the file is gone.",
    )


def test_files_that_differ_are_judged_by_spark(stored: Callable[[pa.Table], Any]) -> None:
    """Spark decides what a column is of which files have different types, or that some of them lack."""
    rules = suite("good", expect("column_values_to_not_be_null", column="key"))
    files = stored(pa.table({"key": [1, 2], "other": [1, 2]}))
    assert here(files, rules)[1] == 2
    pq.write_table(pa.table({"key": [1, 2]}), f"{files.url}/{files.paths[1]}")
    assert here(files, rules)[1] == 3  # nobody asks about the other column
    for strange in ({"key": ["1"]}, {"other": [1]}):
        pq.write_table(pa.table(strange), f"{files.url}/{files.paths[1]}")
        assert here(files, rules) is None
    Path(f"{files.url}/{files.paths[1]}").write_bytes(b"damaged")
    assert here(files, rules) is None


def test_large_tables_are_judged_by_spark(graph_of: Callable[..., Graph]) -> None:
    graph = graph_of(sink=suite("good", CARRIER))
    (record,) = staged_by(graph, pa.table({"carrier": ["AA"]})).values()
    (handle,) = record.snapshot.handles
    sink = graph.sink("carriers").sink
    assert sink.staged_rows([handle]) is not None
    assert sink.staged_rows([handle, replace(handle, bytes=1 << 30)]) is None
    assert sink.staged_rows([handle, replace(handle, rows=10_000_000)]) is None
