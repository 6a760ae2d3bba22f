"""Rows of a step that is not deterministic: computed once, durable before anybody reads them,
the same for all and for retries."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from continuous_checkpoints import Running
from dying_checkpoints import DiedError, attempt_until
from listed import Listed
from orders import rows_of
from pyspark.sql import SparkSession
from sizes import later, sizes
from spark_checkpoints import Checkpoints, Landing

from tidegate import CheckpointConfig, FileSource, ParquetSink, Pipeline, count
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.facts.records import HandleKind, SubtaskId

pytestmark = pytest.mark.spark

Open = Callable[[Pipeline], Checkpoints]
Land = Callable[[str], Landing]


def drawn(df: Any) -> Any:
    return df.where("rand() < 0.5").selectExpr("k", "uuid() as id")


def with_consumers(pipeline: Pipeline, source: Any, tables: Path) -> Pipeline:
    """Two tables of what was drawn, one of it after a transform, and an operator with a table of its own."""
    ids = pipeline.source("rows", source).transform(drawn, deterministic=False, name="ids")
    ids.sink("one", ParquetSink(str(tables / "one")))
    ids.sink("two", ParquetSink(str(tables / "two")))
    ids.transform(lambda df: df.selectExpr("upper(id) as id")).sink("upper", ParquetSink(str(tables / "upper")))
    counts = ids.key_by("id").aggregate("counts", n=count())
    counts.sink("counts", ParquetSink(str(tables / "counts"), mode="latest"))
    return pipeline


def scheduled(rows: Landing, tables: Path) -> Pipeline:
    source = FileSource(str(rows.path), format="parquet", schema="k bigint")
    return with_consumers(Pipeline("steps", parallelism=3), source, tables)


def agreed(checkpoints: Checkpoints) -> list[tuple[Any, ...]]:
    """What was drawn, after looking that everybody saw the same."""
    one = checkpoints.rows("sink:one")
    assert checkpoints.rows("sink:two") == one
    assert checkpoints.rows("sink:upper") == sorted(((id_.upper(),) for _, id_ in one), key=repr)
    return one


def test_all_consumers_see_the_rows_that_were_drawn_once(landing: Land, open_checkpoints: Open, tmp_path: Path) -> None:
    rows = landing("rows")
    checkpoints = open_checkpoints(scheduled(rows, tmp_path))
    seen: list[tuple[Any, ...]] = []
    for _ in range(2):
        rows.put(k=list(range(100)))
        checkpoints.take()
        first = agreed(checkpoints)
        assert 0 < len(first) < 100
        assert not set(first) & set(seen)
        seen += first
        assert checkpoints.rows("state:counts") == sorted(((id_, 1) for _, id_ in seen), key=repr)
    checkpoints.take()  # nothing arrives, and nothing is drawn
    assert agreed(checkpoints) == []


@sizes("step", sample=3, whole=1)
def test_a_retry_reads_what_was_recorded(step: int, landing: Land, open_checkpoints: Open, tmp_path: Path) -> None:
    """Dies before and after every report of a checkpoint: what is on record stays, and everybody agrees with it."""
    rows = landing("rows")
    checkpoints = open_checkpoints(scheduled(rows, tmp_path))
    seen: list[tuple[Any, ...]] = []
    deaths, number = 0, 0
    while deaths * step == 2 * number:
        for before in (True, False):
            rows.put(k=list(range(30)))
            checkpoints.trigger()
            try:
                attempt_until(checkpoints, number, before)
            except DiedError:
                deaths += 1
                early = dict(checkpoints.acknowledged)
                recorded = Counter(id_.operator_id for id_ in early)
                assert recorded["ids"] == 3 or not recorded.keys() - {"rows"}, "somebody is ahead of the step"
                if set(early) != set(checkpoints.graph.subtasks):
                    checkpoints.attempt_once()
                assert {id_: checkpoints.acknowledged[id_] for id_ in early} == early
            checkpoints.complete()
            seen += agreed(checkpoints)
            assert checkpoints.rows("state:counts") == sorted(((id_, 1) for _, id_ in seen), key=repr)
        number += step
    assert deaths >= 6 // step, "the source, the step and its consumers report one after the other"


def test_rows_keep_their_types(landing: Land, open_checkpoints: Open, tmp_path: Path) -> None:
    columns = (
        "k as `a column`, uuid() is null as flag, cast(k as decimal(20, 3)) as d, timestamp'2026-01-02 03:04:05' as t, "
        "timestamp_ntz'2026-01-02 03:04:05' as n, date'2026-01-02' as day, cast('x' as binary) as b, cast(null as "
        "double) as nothing, array(named_struct('x', 1, 'y y', map('a', 1L))) as nested, cast(1 as tinyint) as tiny, "
        "'é' as s"
    )
    rows, pipeline = landing("rows"), Pipeline("typed")
    source = pipeline.source("rows", FileSource(str(rows.path), format="parquet", schema="k bigint"))
    step = source.transform(lambda df: df.selectExpr(*split(columns)), deterministic=False, name="typed")
    step.sink("typed", ParquetSink(str(tmp_path / "typed")))
    checkpoints = open_checkpoints(pipeline)
    rows.put(k=[5])
    checkpoints.take()
    handles = checkpoints.acknowledged[SubtaskId("typed", 0)].snapshot.handles
    handles += checkpoints.acknowledged[SubtaskId("typed", 1)].snapshot.handles
    assert [handle.kind for handle in handles] == [HandleKind.EXCHANGE]
    frame = checkpoints.region.streams.frame(step, {"typed": [exchange(handles)]})
    expected = checkpoints.session.sql(f"select {columns} from values (5L) as t(k)")  # noqa: S608
    assert frame.schema.simpleString() == expected.schema.simpleString()
    assert frame.collect() == expected.collect()
    assert checkpoints.region.streams.frame(step, {}).schema.simpleString() == expected.schema.simpleString()


def split(columns: str) -> list[str]:
    """At the commas outside of parentheses."""
    parts, depth = [""], 0
    for character in columns:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def exchange(handles: Any) -> Any:
    from tidegate.dataflow.elements import Exchange

    return Exchange(tuple(handles))


@pytest.mark.parametrize(
    ("columns", "there"), [(["k", "k as K"], "k, K"), ([], "none")], ids=["a name twice", "no column"]
)
def test_columns_that_cannot_be_kept_are_refused(
    columns: list[str], there: str, landing: Land, open_checkpoints: Open, tmp_path: Path
) -> None:
    rows, pipeline = landing("rows"), Pipeline("columns")
    source = pipeline.source("rows", FileSource(str(rows.path), format="parquet", schema="k bigint"))
    step = source.transform(lambda df: df.selectExpr(*columns), deterministic=False, name="step")
    step.sink("out", ParquetSink(str(tmp_path / "out")))
    rows.put(k=[1])
    with pytest.raises(
        PipelineDefinitionError, match=f"step 'step' of pipeline 'columns' returned the columns {there}"
    ):
        open_checkpoints(pipeline).take()


def ids_in(tables: Path, name: str) -> Counter[str]:
    return Counter(row["id"].lower() for row in rows_of(tables / name))


@pytest.mark.parametrize("options", [later({}), {"unaligned": True}, later({"mode": "AT_LEAST_ONCE"})], ids=str)
def test_a_continuous_run_draws_once_for_all(options: dict[str, Any], spark: SparkSession, tmp_path: Path) -> None:
    """With an aborted checkpoint in the middle, whose rows go with the next, and a process that dies."""
    source = Listed("k bigint", step=20)
    pipeline = Pipeline("steps", parallelism=2, checkpoints=CheckpointConfig(**options))
    running = Running(with_consumers(pipeline, source, tmp_path), spark, tmp_path)

    def agree() -> Counter[str]:
        one = ids_in(tmp_path, "one")
        assert ids_in(tmp_path, "two") == one
        assert ids_in(tmp_path, "upper") == one
        assert Counter(id_ for id_, _ in running.rows("state:counts")) == one
        assert set(one.values()) <= {1}
        return one

    source.put(0, *((k,) for k in range(60)))
    running.until_idle()
    running.take()
    first = agree()
    assert 0 < len(first) < 60
    source.put(0, *((k,) for k in range(40)))
    running.until_idle()
    running.begin()
    running.until_acknowledged()
    running.abort()
    running.take()
    second = agree()
    assert first < second
    source.put(0, *((k,) for k in range(40)))
    running.until_idle()
    running.restart()
    running.until_idle()
    running.take()
    assert second < agree()
    running.take()
    left = [path for path in running.storage.list("steps/shared/2") if "exchange" in path]
    assert left == [], "rows that everybody has read stay behind"


def test_rows_of_different_columns_do_not_meet(spark: SparkSession, tmp_path: Path) -> None:
    calls: list[int] = []

    def renamed(df: Any) -> Any:
        calls.append(1)
        return df.withColumnRenamed("k", f"k{len(calls)}")

    source, pipeline = Listed("k bigint", step=1), Pipeline("columns", parallelism=1)
    step = pipeline.source("rows", source).transform(renamed, deterministic=False, name="step")
    step.sink("out", ParquetSink(str(tmp_path / "out")))
    running = Running(pipeline, spark, tmp_path)
    source.put(0, (1,), (2,))
    running.until_idle()
    running.begin()
    running.until_idle()
    assert [declined.message for declined in running.declined if "different columns" in declined.message]
