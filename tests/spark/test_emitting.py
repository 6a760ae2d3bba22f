"""Operators that emit: what leaves them leaves once, whatever happens, and a wrong function is told what is wrong."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from continuous_checkpoints import Running, restored_by
from dying_checkpoints import DiedError, attempt_until, finalize, rescaled
from emitting_shop import Shop
from listed import Listed
from pyspark.sql import functions as F
from sizes import later, sizes
from spark_checkpoints import Checkpoints, Landing
from tallies import AT_LEAST_ONCE, EXACTLY_ONCE, UNALIGNED

from tidegate import CheckpointConfig, FileSource, ParquetSink, Pipeline, Update, count
from tidegate.dataflow.in_flight import in_flight_of
from tidegate.pipeline.graph import compile_graph
from tidegate.protocol.facts.errors import CheckpointError, PipelineDefinitionError, StateSchemaError
from tidegate.protocol.facts.records import HandleKind, SubtaskId
from tidegate.spark.driver import operator_jobs

pytestmark = pytest.mark.spark


def take(checkpoints: Checkpoints) -> None:
    """A whole checkpoint, with what readers see of it."""
    checkpoints.attempt_once()
    finalize(checkpoints)


@pytest.mark.parametrize("small", [0, 1 << 20], ids=["exchanged", "in-one-task"])
def test_the_examples_agree_with_the_plain_computation_at_any_parallelism(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr(operator_jobs, "SMALL", small)
    shop = Shop(tmp_path, seed=1)
    checkpoints = Checkpoints(shop.pipeline(), spark, tmp_path)
    for parallelism in (2, 3, 1, 2):
        checkpoints = rescaled(checkpoints, shop.pipeline(parallelism))
        shop.deliver()
        checkpoints.trigger()
        take(checkpoints)
        shop.check()
    metrics = [checkpoints.acknowledged[SubtaskId("once", index)].metrics for index in (0, 1)]
    assert sum(each.rows_out for each in metrics) == sum(handle.rows for handle in checkpoints.staged("once"))


@sizes("step", sample=5, whole=1)
def test_a_retry_emits_the_same_rows_once(step: int, spark: Any, tmp_path: Path) -> None:
    """Dies before and after every report of a checkpoint, and is run again."""
    shop = Shop(tmp_path, seed=2)
    checkpoints = Checkpoints(shop.pipeline(), spark, tmp_path)
    deaths, number = 0, 0
    while deaths * step == 2 * number:
        for before in (True, False):
            shop.deliver()
            checkpoints.trigger()
            try:
                attempt_until(checkpoints, number, before)
            except DiedError:
                deaths += 1
                for name in ("once", "with_customer", "ranking", "sessions"):
                    known = {id_.subtask_index for id_ in checkpoints.acknowledged if id_.operator_id == name}
                    assert known in (set(), {0, 1}), f"{name} has acknowledged in part"
                if set(checkpoints.acknowledged) != set(checkpoints.graph.subtasks):
                    checkpoints.attempt_once()
            finalize(checkpoints)
            shop.check()
        number += step
    assert deaths >= 4 // step, "sources and operators report one after the other"


@sizes("lives", sample=1, whole=5)
@pytest.mark.parametrize(
    ("checkpoints", "seed"),
    [
        later(EXACTLY_ONCE, 1, id="aligned"),
        later(UNALIGNED, 2, id="unaligned"),
        later(AT_LEAST_ONCE, 3, id="at least once"),
    ],
)
def test_a_continuous_run_emits_each_row_once_however_often_it_is_killed(
    lives: int, checkpoints: CheckpointConfig, seed: int, spark: Any, tmp_path: Path
) -> None:
    """With checkpoints that are aborted or cut short, and a scheduled run of another parallelism at the end."""
    random, shop = Random(seed), Shop(tmp_path, seed, step=3)
    weak = checkpoints is AT_LEAST_ONCE
    running = Running(shop.pipeline(checkpoints=checkpoints), spark, tmp_path, max_batch_bytes=4)
    for fate in (["completes", "is cut short", "is aborted"] * lives)[: lives + 1]:
        shop.deliver()
        for _ in range(random.randint(0, 2)):
            running.round()
        running.begin()
        running.round()
        if fate == "completes":
            running.until_acknowledged()
            running.complete()
        elif fate == "is aborted":
            running.abort()
            shop.deliver()
            running.take()
        if fate != "is aborted":
            running.restart()
    running.take()
    pipeline = shop.pipeline(3, checkpoints)
    restored = restored_by(running.graph, compile_graph(pipeline), running.completed)
    scheduled = Checkpoints(pipeline, spark, tmp_path, restored, checkpoint_id=running.checkpoint_id)
    for source in shop.sources:
        source.step = 1000
    shop.deliver()
    scheduled.trigger()
    take(scheduled)
    if not weak:
        shop.check()


PAIRS = "k bigint, v bigint"


def passing(state: Any, rows: Any) -> Update:
    return Update(state=state.select("k", F.col("v").alias("n")), rows=rows)


def emitter(source: Any, tables: Path, update: Any, output: str | None = PAIRS, **config: Any) -> Pipeline:
    pipeline = Pipeline("emitting", checkpoints=CheckpointConfig(**config))
    rows = pipeline.source("rows", source)
    keyed = pipeline.keyed("emitter", inputs=[rows], key=["k"], state="k bigint, n bigint", output=output)(update)
    keyed.sink("emitted", ParquetSink(str(tables / "emitted")))
    counts = keyed.key_by("k").aggregate("counts", n=count())
    counts.sink("counts", ParquetSink(str(tables / "counts"), mode="latest"))
    return pipeline


WRONG: dict[str, tuple[Callable[[Any, Any], Any], str | None, str]] = {
    "no Update": (
        lambda batch, state: batch.selectExpr("k", "v as n"),
        PAIRS,
        "function of operator 'emitter' of pipeline 'emitting' returned a DataFrame, not an Update",
    ),
    "an Update of an operator without output": (
        lambda batch, state: passing(batch, batch),
        None,
        "operator 'emitter' of pipeline 'emitting' returned an Update, but the operator declares no output",
    ),
    "rows that are no frame": (
        lambda batch, state: passing(batch, [1]),
        PAIRS,
        "in the rows of its Update, returned a list instead of a Spark",
    ),
    "state that is no frame": (
        lambda batch, state: Update(None, batch),
        PAIRS,
        "in the state of its Update, returned nothing",
    ),
    "a column that is missing, and another": (
        lambda batch, state: passing(batch, batch.withColumnRenamed("v", "w")),
        PAIRS,
        "operator 'emitter' of pipeline 'emitting' emits .* k, w. .* missing v, not in the output w",
    ),
    "a wrong type": (
        lambda batch, state: passing(batch, batch.selectExpr("k", "'x' as v")),
        PAIRS,
        "operator 'emitter' of pipeline 'emitting' emits .* v is string, not bigint",
    ),
    "rows that differ each time": (
        lambda batch, state: passing(batch, batch.selectExpr("k", "cast(rand() * 9 as bigint) as v")),
        PAIRS,
        r"The output of the function of operator 'emitter' .* is not deterministic, because of rand\(\)",
    ),
    "an output that is no list of columns": (
        lambda batch, state: passing(batch, batch),
        "k, v",
        "The output of operator 'emitter' of pipeline 'emitting' is 'k, v', which is not a list of columns",
    ),
    "a column twice": (
        lambda batch, state: passing(batch, batch),
        "k bigint, K bigint",
        "output of operator 'emitter' of pipeline 'emitting' has the column k more than once",
    ),
}


@pytest.mark.parametrize(("update", "output", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_function_is_named_and_changes_nothing(
    update: Any, output: str | None, message: str, landing: Any, open_checkpoints: Any, tmp_path: Path
) -> None:
    rows = landing("rows")
    source = FileSource(str(rows.path), format="parquet", schema=PAIRS)
    checkpoints = open_checkpoints(emitter(source, tmp_path, update, output))
    rows.put(k=[1], v=[7])
    checkpoints.trigger()
    with pytest.raises(CheckpointError, match=message) as caught:
        checkpoints.attempt_once()
    assert type(caught.value) is PipelineDefinitionError
    assert {id_.operator_id for id_ in checkpoints.acknowledged} == {"rows"}


def test_rows_keep_their_types_and_may_come_without_any_change_of_state(
    landing: Callable[[str], Landing], open_checkpoints: Any, tmp_path: Path
) -> None:
    output = "d decimal(20,3), t timestamp, nested array<struct<x: int, `y y`: map<string, bigint>>>, wide bigint"
    values = (
        "cast(k as decimal(20, 3)) as d",
        "timestamp'2026-01-02 03:04:05' as t",
        "array(named_struct('x', 1, 'y y', map('a', 1L))) as nested",
        "cast(k as smallint) as wide",
    )

    def update(batch: Any, state: Any) -> Update:
        rows = batch.selectExpr(*values)
        return passing(batch.where("false"), rows.unionAll(rows))

    rows, pipeline = landing("rows"), Pipeline("typed")
    source = pipeline.source("rows", FileSource(str(rows.path), format="parquet", schema=PAIRS))
    typed = pipeline.keyed("typed", inputs=[source], key=["k"], state="k bigint, n bigint", output=output)(update)
    typed.sink("typed", ParquetSink(str(tmp_path / "typed")))
    typed.transform(lambda df: df.select("wide")).sink("wide", ParquetSink(str(tmp_path / "wide")))
    checkpoints = open_checkpoints(pipeline)
    rows.put(k=[5], v=[0])
    checkpoints.take()
    expected = checkpoints.session.createDataFrame([(5,)], "k bigint").selectExpr(*values).collect()
    assert [tuple(row) for row in checkpoints.rows("sink:typed")] == [tuple(expected[0])] * 2
    assert checkpoints.rows("sink:wide") == [(5,), (5,)]
    kinds = {handle.kind for ack in checkpoints.acknowledged.values() for handle in ack.snapshot.handles}
    assert HandleKind.RUN not in kinds
    empty = checkpoints.region.streams.frame(typed, {}).schema.simpleString()
    assert empty == "struct<d:decimal(20,3),t:timestamp,nested:array<struct<x:int,y y:map<string,bigint>>>,wide:bigint>"


def test_another_output_is_refused_while_rows_of_the_old_one_are_in_flight(spark: Any, tmp_path: Path) -> None:
    source = Listed(PAIRS, step=1)

    def pipeline(output: str = PAIRS) -> Pipeline:
        names = [column.split()[0] for column in output.split(",")]
        return emitter(source, tmp_path, lambda b, s: passing(b, b.toDF(*names)), output, unaligned=True)

    running = Running(pipeline(), spark, tmp_path, max_batch_bytes=1)
    source.put(0, (1, 1), (2, 2))
    running.poll()
    running.running._drain(running.running._chains[0])  # what it emits waits at the others
    running.take()
    assert in_flight_of(running.completed[SubtaskId("counts", 0)])
    with pytest.raises(StateSchemaError, match="in-flight data from emitter to counts, in other columns than emitter"):
        running.change(pipeline("k bigint, w bigint"))
    running.change(pipeline(" k  bigint, v bigint "))
    running.take(savepoint=True)
    running.change(pipeline("k bigint, w bigint"))
    source.put(0, (1, 3))
    running.until_idle()
    running.take()
    assert running.rows("state:counts") == [(1, 2), (2, 1)]
