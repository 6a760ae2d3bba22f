"""What reaches tables and functions when a key changes several times between two checkpoints,
however Spark partitions it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from continuous_checkpoints import Running
from listed import Listed
from orders import rows_of
from pyspark.sql import DataFrame, SparkSession
from sizes import later
from spark_checkpoints import Checkpoints

from tidegate import ParquetSink, Pipeline, count, max_
from tidegate.spark.driver import direct_input

pytestmark = pytest.mark.spark

PLACES = "carrier string, gate bigint, at bigint"


def in_log(tables: Path, name: str) -> list[tuple[Any, ...]]:
    """Checkpoint first, then the rest of each row; sorted."""
    rows = [(row.pop("checkpoint"), *row.values()) for row in rows_of(tables / name)]
    return sorted(rows, key=repr)


@pytest.mark.parametrize("directly", [0, 1 << 28], ids=["by-spark", "directly"])
def test_a_key_that_changed_several_times_shows_once_a_checkpoint_with_its_last_value(
    directly: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Null is a key like any other, alone and as a part of one; a transform sees the last value only."""
    monkeypatch.setattr(direct_input, "_READ_AGAIN", directly)
    pipeline = Pipeline("places", parallelism=2)
    source = Listed(PLACES, step=2)
    rows = pipeline.source("rows", source)
    places = rows.key_by("carrier", "gate").aggregate("places", n=count(), newest=max_("at"))
    places.sink("log", ParquetSink(str(tmp_path / "log")))
    places.transform(lambda df: df.where("n = 2").select("carrier", "n")).sink(
        "twice", ParquetSink(str(tmp_path / "twice"))
    )
    running = Running(pipeline, spark, tmp_path)
    keys = [("UA", 1), ("UA", None), (None, 1), (None, None)]
    source.put(0, *((*key, 1) for key in keys))
    running.until_idle()
    running.take()
    source.put(0, *((*key, at) for at in (2, 3) for key in keys[1:]))
    running.until_idle()
    running.take()
    source.put(0, (*keys[0], 4))
    running.until_idle()
    running.take()
    first = [(1, *key, 1, 1) for key in keys]
    second = [(2, *key, 3, 3) for key in keys[1:]]
    assert in_log(tmp_path, "log") == sorted([*first, *second, (3, "UA", 1, 2, 4)], key=repr)
    assert in_log(tmp_path, "twice") == [(3, "UA", 2)]


def same(frame: Any) -> Any:
    return frame


def coalesced(frame: Any) -> Any:
    return frame.coalesce(1)


def repartitioned(frame: Any) -> Any:
    return frame.repartition(3)


Reshape = Callable[[DataFrame], DataFrame]


def reshaped(source: Listed, tables: Path, reshape: Reshape) -> Pipeline:
    """Everything that reaches an operator, a sink or a function from an operator's state
    or stream goes through `reshape`."""
    pipeline = Pipeline("reshaped", parallelism=2)
    totals = pipeline.source("rows", source).key_by("carrier").aggregate("totals", n=count(), newest=max_("at"))
    shaped = totals.transform(reshape)

    @pipeline.keyed("best", inputs=[shaped], key=["carrier"], state="carrier string, n bigint, times bigint")
    def best(changed: Any, state: Any) -> Any:
        from pyspark.sql import functions as F

        known = reshape(state)
        together = known.unionByName(changed.selectExpr("carrier", "n", "0L as times"))
        return together.groupBy("carrier").agg(F.max("n").alias("n"), (F.max("times") + 1).alias("times"))

    shaped.key_by("n").aggregate("by_n", newest=max_("newest"))
    shaped.sink("log", ParquetSink(str(tables / "log")))
    return pipeline


CARRIERS = ["UA", "AA", "DL", "B6", None, "WN"]
ROUNDS = [[(carrier, 1, at) for carrier in CARRIERS[at:]] for at in range(2)]
BEST = sorted([("UA", 1, 1), *((carrier, 2, 2) for carrier in CARRIERS[1:])], key=repr)
BY_N = [(1, 0), (2, 1)]
LOG = sorted([(1, c, 1, 0) for c in CARRIERS] + [(2, c, 2, 1) for c in CARRIERS[1:]], key=repr)


@pytest.mark.parametrize("reshape", [coalesced, later(repartitioned)])
def test_a_continuous_run_gives_the_same_rows_however_a_function_partitions_them(
    reshape: Reshape, spark: SparkSession, tmp_path: Path
) -> None:
    source = Listed(PLACES, step=9)
    running = Running(reshaped(source, tmp_path, reshape), spark, tmp_path)
    for rows in ROUNDS:
        source.put(0, *rows)
        running.until_idle()
        running.take()
    assert running.rows("state:best") == BEST
    assert running.rows("state:by_n") == BY_N
    assert in_log(tmp_path, "log") == LOG


@pytest.mark.parametrize("reshape", [same, later(coalesced), repartitioned])
def test_a_scheduled_run_gives_the_same_rows_however_a_function_partitions_them(
    reshape: Reshape, spark: SparkSession, tmp_path: Path
) -> None:
    source = Listed(PLACES, step=9)
    checkpoints = Checkpoints(reshaped(source, tmp_path, reshape), spark, tmp_path)
    for rows in ROUNDS:
        source.put(0, *rows)
        checkpoints.take()
        checkpoints.commit("log")
    assert checkpoints.rows("state:best") == BEST
    assert checkpoints.rows("state:by_n") == BY_N
    assert in_log(tmp_path, "log") == LOG
