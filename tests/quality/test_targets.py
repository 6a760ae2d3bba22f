"""What is judged for each target of a pipeline: staged rows, state and checks across tables."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate.pipeline.expectations import expect, suite
from tidegate.pipeline.graph import Graph
from tidegate.protocol.facts.names import Target, TargetKind
from tidegate.protocol.facts.records import CheckpointRecord, Verdict
from tidegate.quality.validator import GreatExpectationsValidator

pytestmark = pytest.mark.spark

Judge = Callable[..., Verdict]


def test_a_target_whose_rows_cannot_be_read_does_not_keep_the_others_from_being_judged(
    spark: SparkSession, checkpoint: CheckpointRecord, graph_of: Callable[..., Graph], docs: Path
) -> None:
    def frames(target: Target, subtasks: Any, record: Any) -> DataFrame:
        if str(target) == "check:totals":
            raise ValueError("the query of totals names an unknown table")
        return spark.createDataFrame([("AA",), ("B6",)], "carrier string")

    holds = suite("holds", expect("column_values_to_not_be_null", column="carrier"))
    validator = GreatExpectationsValidator(graph_of(sink=holds, state=holds, check=holds), frames, docs)
    state, sink, check = validator.validate(checkpoint, {})
    assert (str(state.target), state.success) == ("state:carriers", True)
    assert (str(sink.target), sink.success) == ("sink:carriers", True)
    assert (str(check.target), check.success) == ("check:totals", None)
    assert check.error == (
        "check:totals could not be validated by suite 'holds': ValueError: the query of totals names an unknown table."
    )


def test_targets_are_judged_side_by_side_each_by_its_own_rows(
    spark: SparkSession, checkpoint: CheckpointRecord, graph_of: Callable[..., Graph], docs: Path, tmp_path: Path
) -> None:
    """The rows of each wait until those of the other are computed too."""

    def frames(target: Target, subtasks: Any, record: Any) -> DataFrame:
        mine, largest = target.kind.value, 7 if target.kind is TargetKind.SINK else 8

        def meet(batches: Iterator[Any]) -> Iterator[Any]:
            (tmp_path / mine).touch()
            until = time.monotonic() + 30
            while len(list(tmp_path.iterdir())) < 2:
                if time.monotonic() > until:
                    raise TimeoutError("the other target is not judged meanwhile")
                time.sleep(0.01)
            yield from batches

        return (
            spark.range(largest + 1, numPartitions=1)
            .withColumnRenamed("id", "flights")
            .mapInArrow(meet, "flights bigint")
        )

    at_most = suite("at most 7", expect("column_max_to_be_between", column="flights", max_value=7))
    validator = GreatExpectationsValidator(graph_of(sink=at_most, state=at_most), frames, docs)
    state, sink = validator.validate(checkpoint, {})
    assert [(str(each.target), each.success, each.error) for each in (state, sink)] == [
        ("state:carriers", False, None),
        ("sink:carriers", True, None),
    ]
    assert [each.results[0]["observed"] for each in (state, sink)] == [8, 7]


def test_a_check_across_tables_shows_the_rows_that_disagree_by_all_their_columns(
    spark: SparkSession, checkpoint: CheckpointRecord, graph_of: Callable[..., Graph], docs: Path
) -> None:
    totals = spark.sql("select 'flights' as what, 10 as left, 10 as right union all select 'minutes', 7, 9")
    equal = suite("totals", expect("column_pair_values_to_be_equal", column_A="left", column_B="right"))
    frames = {"check:totals": totals}
    validator = GreatExpectationsValidator(graph_of(check=equal), lambda target, *_: frames[str(target)], docs)
    (verdict,) = validator.validate(checkpoint, {})
    (result,) = verdict.results
    assert (str(verdict.target), verdict.success, result["unexpected_count"]) == ("check:totals", False, 1)
    assert result["unexpected_rows"] == [{"what": "minutes", "left": 7, "right": 9}]


def test_state_is_computed_once_for_all_expectations_and_released_afterwards(spark: SparkSession, judge: Judge) -> None:
    computed = spark.sparkContext.accumulator(0)

    def counted(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            computed.add(batch.num_rows)
            yield batch

    state = spark.range(10, numPartitions=1).selectExpr("string(id) as carrier").mapInArrow(counted, "carrier string")
    rules = suite(
        "state",
        expect("column_values_to_be_unique", column="carrier"),
        expect("column_values_to_be_in_set", column="carrier", value_set=["1"]),
    )
    assert judge(state, rules, "state").success is False
    assert computed.value == 10
    assert not state.storageLevel.useMemory


def test_state_that_its_owner_persisted_stays_persisted(spark: SparkSession, judge: Judge) -> None:
    state = spark.sql("select 'AA' as carrier").persist()
    assert judge(state, suite("state", expect("column_values_to_not_be_null", column="carrier")), "state").success
    assert state.storageLevel.useMemory
    state.unpersist()


def test_an_empty_checkpoint_passes_without_importing_great_expectations(docs: Path) -> None:
    program = f"""
import sys
from pathlib import Path
from records import record
from tidegate import FileSource, ParquetSink, Pipeline, expect, suite
from tidegate.pipeline.graph import compile_graph
from tidegate.quality.validator import GreatExpectationsValidator

sys.modules["great_expectations"] = sys.modules["pyspark"] = None  # importing them raises
pipeline = Pipeline("flight_delays")
flights = pipeline.source("flights", FileSource("landing", format="csv", schema="carrier string"))
rule = suite("rule", expect("column_values_to_not_be_null", column="carrier"))
flights.sink("flights", ParquetSink("tables/flights"), expect=rule)
docs = Path({str(docs)!r})
validator = GreatExpectationsValidator(compile_graph(pipeline), lambda target, *_: None, docs)
(verdict,) = validator.validate(record(1), {{}})
assert (verdict.success, verdict.evaluated, verdict.failed, verdict.results) == (True, 0, 0, ())
assert verdict.docs_path is None and not docs.exists()
"""
    support = str(Path(__file__).parents[1] / "support")
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, env=os.environ | {"PYTHONPATH": support})
