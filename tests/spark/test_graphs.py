"""Operators behind operators, sinks of every kind, and what an empty checkpoint costs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from spark_checkpoints import Checkpoints, Landing

from tidegate import FileSource, ParquetSink, Pipeline, count, expect, max_, suite, sum_
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.facts.records import HandleKind, SubtaskId
from tidegate.protocol.steps.restored_snapshots import apply_compactions
from tidegate.spark.driver import run_job
from tidegate.state.compaction import MIN_RUNS

pytestmark = pytest.mark.spark

Open = Callable[[Pipeline], Checkpoints]
Land = Callable[[str], Landing]
SCHEMA = "carrier string, origin string, delay bigint"


def chained(source: Landing, tables: Path) -> Pipeline:
    pipeline = Pipeline("chained", parallelism=3)
    flights = pipeline.source("flights", FileSource(str(source.path), format="parquet", schema=SCHEMA))
    routes = flights.key_by("carrier", "origin").aggregate("routes", flights=count(), minutes=sum_("delay"))
    carriers = routes.key_by("carrier").aggregate("carriers", updates=count(), busiest=max_("flights"))
    carriers.sink("carriers", ParquetSink(str(tables / "carriers"), mode="latest"))
    late = routes.transform(lambda df: df.where("minutes > 10").withColumn("late", F.lit(True)))
    late.sink("late", ParquetSink(str(tables / "late")))
    flights.transform(lambda df: df.where("delay < 0")).sink("early", ParquetSink(str(tables / "early")))
    pipeline.check("totals", sinks=["late", "early"], expect=suite("s", expect("column_to_exist", column="n")))(
        lambda late, early: late.agg(F.count("*").alias("n")).unionAll(early.agg(F.count("*").alias("n")))
    )
    return pipeline


def test_changes_flow_from_operator_to_operator_and_into_sinks(
    landing: Land, open_checkpoints: Open, tmp_path: Path
) -> None:
    flights = landing("flights")
    checkpoints = open_checkpoints(chained(flights, tmp_path))
    flights.put(carrier=["UA", "UA", "AA"], origin=["JFK", "LGA", "JFK"], delay=[20, 5, -1])
    checkpoints.take()
    assert checkpoints.rows("state:routes") == [("AA", "JFK", 1, -1), ("UA", "JFK", 1, 20), ("UA", "LGA", 1, 5)]
    assert checkpoints.rows("state:carriers") == [("AA", 1, 1), ("UA", 2, 1)]
    assert checkpoints.rows("sink:late") == [("UA", "JFK", 1, 20, True)]
    assert checkpoints.rows("sink:early") == [("AA", "JFK", -1)]
    assert checkpoints.rows("check:totals") == [(1,), (1,)]
    flights.put(carrier=["UA"], origin=["LGA"], delay=[30])
    checkpoints.take()
    assert checkpoints.rows("state:carriers") == [("AA", 1, 1), ("UA", 3, 2)]
    assert checkpoints.rows("sink:carriers") == [("AA", 1, 1), ("UA", 3, 2)]
    assert checkpoints.rows("sink:late") == [("UA", "LGA", 2, 35, True)]
    assert checkpoints.frame("sink:early") is None
    assert checkpoints.rows("check:totals") == [(0,), (1,)]


def test_exchange_files_belong_to_their_checkpoint_only(landing: Land, open_checkpoints: Open, tmp_path: Path) -> None:
    flights = landing("flights")
    checkpoints = open_checkpoints(chained(flights, tmp_path))
    flights.put(carrier=["UA"], origin=["JFK"], delay=[1])
    checkpoints.take()
    flights.put(carrier=["UA"], origin=["JFK"], delay=[1])
    checkpoints.take()
    kinds = [
        (handle.kind, handle.created_by)
        for id_, ack in checkpoints.acknowledged.items()
        if id_.operator_id == "routes"
        for handle in ack.snapshot.handles
    ]
    assert sorted(kinds) == [(HandleKind.EXCHANGE, 2), (HandleKind.RUN, 1), (HandleKind.RUN, 2)]


def test_an_empty_checkpoint_runs_no_spark_job_and_carries_everything(
    landing: Land, open_checkpoints: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flights = landing("flights")
    checkpoints = open_checkpoints(chained(flights, tmp_path))
    flights.put(carrier=["UA", "AA"], origin=["JFK", "LGA"], delay=[20, 5])
    checkpoints.take()
    before = checkpoints.completed
    current = checkpoints.rows("sink:carriers")

    def no_job(*_: object, **__: object) -> None:
        raise AssertionError("an empty checkpoint asked Spark for something")

    with monkeypatch.context() as patched:
        patched.setattr(DataFrame, "mapInArrow", no_job)
        patched.setattr(run_job, "_answers", no_job)
        checkpoints.take()
    assert [len(call) for call in checkpoints.calls] == [len(checkpoints.graph.subtasks)]
    for id_, snapshot in before.items():
        staged_once = id_.operator_id in ("late-sink", "early-sink")
        assert checkpoints.completed[id_].handles == (() if staged_once else snapshot.handles)
    assert checkpoints.rows("sink:carriers") == current
    assert checkpoints.rows("state:carriers") == current


def test_sources_acknowledge_together_and_an_operator_with_its_sinks(
    landing: Land, open_checkpoints: Open, tmp_path: Path
) -> None:
    flights = landing("flights")
    checkpoints = open_checkpoints(chained(flights, tmp_path))
    flights.put(carrier=["UA"], origin=["JFK"], delay=[-1])
    checkpoints.take()
    assert checkpoints.calls[0] == [SubtaskId("flights", 0)]
    for call in checkpoints.calls:
        for index in range(3):
            assert (SubtaskId("carriers", index) in call) == (SubtaskId("carriers-sink", index) in call)
    ack = checkpoints.acknowledged[SubtaskId("flights", 0)]
    assert ack.metrics.processed_bytes > 0
    for metrics in (ack.metrics for ack in checkpoints.acknowledged.values()):
        assert -1 not in (
            metrics.start_delay,
            metrics.alignment_duration,
            metrics.sync_duration,
            metrics.async_duration,
        )
    assert sum(a.metrics.rows_in for id_, a in checkpoints.acknowledged.items() if id_.operator_id == "routes") == 1


def test_a_sink_added_later_gets_the_rows_that_are_there(landing: Land, open_checkpoints: Open, tmp_path: Path) -> None:
    flights = landing("flights")

    def pipeline(with_sink: bool) -> Pipeline:
        pipeline = Pipeline("growing")
        source = pipeline.source("flights", FileSource(str(flights.path), format="parquet", schema=SCHEMA))
        totals = source.key_by("carrier").aggregate("totals", flights=count())
        if with_sink:
            totals.sink("totals", ParquetSink(str(tmp_path / "totals"), mode="latest"))
        return pipeline

    first = open_checkpoints(pipeline(with_sink=False))
    flights.put(carrier=[f"C{n}" for n in range(20)], origin=["JFK"] * 20, delay=[1] * 20)
    first.take()
    second = open_checkpoints(pipeline(with_sink=True))
    second.completed, second.checkpoint_id = first.completed, 1
    second.take()
    assert second.rows("sink:totals") == sorted((f"C{n}", 1) for n in range(20))
    flights.put(carrier=["C3"], origin=["JFK"], delay=[1])
    second.take()
    assert second.rows("sink:totals") == sorted((f"C{n}", 2 if n == 3 else 1) for n in range(20))


@pytest.mark.parametrize("change", [{"mode": "append"}, {"path": "elsewhere"}], ids=["mode", "place"])
def test_a_sink_that_was_changed_gets_the_rows_that_are_there_anew(
    change: dict[str, str], landing: Land, open_checkpoints: Open, tmp_path: Path
) -> None:
    flights = landing("flights")

    def pipeline(path: str = "totals", mode: Any = "latest") -> Pipeline:
        pipeline = Pipeline("changing")
        source = pipeline.source("flights", FileSource(str(flights.path), format="parquet", schema=SCHEMA))
        totals = source.key_by("carrier").aggregate("totals", flights=count())
        totals.sink("totals", ParquetSink(str(tmp_path / path), mode=mode))
        return pipeline

    first = open_checkpoints(pipeline(**change))
    flights.put(carrier=[f"C{n}" for n in range(20)], origin=["JFK"] * 20, delay=[1] * 20)
    first.take()
    first.commit("totals")
    flights.put(carrier=["C3"], origin=["JFK"], delay=[1])
    first.take()
    first.commit("totals")
    second = open_checkpoints(pipeline())
    second.completed, second.checkpoint_id = first.completed, 2
    second.take()
    second.commit("totals")
    assert second.rows("sink:totals") == sorted((f"C{n}", 2 if n == 3 else 1) for n in range(20))


def test_what_is_committed_is_what_was_staged(
    spark: Any, landing: Land, open_checkpoints: Open, tmp_path: Path
) -> None:
    flights = landing("flights")
    checkpoints = open_checkpoints(chained(flights, tmp_path))
    flights.put(carrier=["UA", "AA"], origin=["JFK", "LGA"], delay=[20, -5])
    checkpoints.take()
    staged = checkpoints.rows("sink:carriers")
    checkpoints.commit("carriers")
    committed = spark.read.parquet(str(tmp_path / "carriers" / "current")).collect()
    assert sorted(tuple(row) for row in committed) == staged


@pytest.mark.parametrize("target", ["sink:nothing", "state:flights", "check:nothing"])
def test_an_unknown_target_says_which_there_are(
    target: str, landing: Land, open_checkpoints: Open, tmp_path: Path
) -> None:
    checkpoints = open_checkpoints(chained(landing("flights"), tmp_path))
    with pytest.raises(
        PipelineDefinitionError, match=r"has no '.*sink:NAME for .*carriers.*, state:NAME for routes, carriers"
    ):
        checkpoints.frame(target)


def test_runs_are_merged_when_there_are_many(landing: Land, open_checkpoints: Open, tmp_path: Path) -> None:
    flights = landing("flights")
    checkpoints = open_checkpoints(chained(flights, tmp_path))
    for number in range(MIN_RUNS + 1):
        flights.put(carrier=["UA"], origin=["JFK"], delay=[number])
        checkpoints.take()
    compacted = checkpoints.region.compact(checkpoints.checkpoint_id, checkpoints.completed)
    assert {run.subtask.operator_id for run in compacted} == {"routes", "carriers"}
    routes = next(run for run in compacted if run.subtask.operator_id == "routes")
    assert len(routes.replaces) >= MIN_RUNS
    assert routes.handle.rows == 1
    checkpoints.completed = apply_compactions(checkpoints.completed, compacted)
    flights.put(carrier=["UA"], origin=["JFK"], delay=[100])
    checkpoints.take()
    assert checkpoints.rows("state:routes") == [("UA", "JFK", MIN_RUNS + 2, sum(range(MIN_RUNS + 1)) + 100)]
    assert checkpoints.region.compact(checkpoints.checkpoint_id, checkpoints.completed) == []
