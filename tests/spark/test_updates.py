"""User functions over state: what they see, what they may return, and what is kept."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F
from spark_checkpoints import Checkpoints, Landing

from tidegate import FileSource, ParquetSink, Pipeline
from tidegate.protocol.facts.errors import (
    CheckpointDeclinedError,
    CheckpointError,
    OperatorFailedError,
    PipelineDefinitionError,
)

pytestmark = pytest.mark.spark

Open = Callable[[Pipeline], Checkpoints]
Land = Callable[[str], Landing]

HOURLY = "origin string, hour int, flights bigint, minutes double, wind double"


def delay_by_weather(flown: Any, weather: Any, state: Any) -> Any:
    """Flights may come before or after their hour's weather."""
    key = ["origin", "hour"]
    flights = flown.groupBy(key).agg(F.count("*").alias("f"), F.sum("delay").cast("double").alias("m"))
    wind = weather.groupBy(key).agg(F.max("wind").alias("w"))
    return (
        state.join(flights, key, "full")
        .join(wind, key, "full")
        .select(
            *key,
            (F.coalesce("flights", F.lit(0)) + F.coalesce("f", F.lit(0))).alias("flights"),
            (F.coalesce("minutes", F.lit(0.0)) + F.coalesce("m", F.lit(0.0))).alias("minutes"),
            F.coalesce("w", "wind").alias("wind"),
        )
    )


def two_inputs(root: Path, flights: Landing, weather: Landing) -> Pipeline:
    pipeline = Pipeline("joined")
    flown = pipeline.source(
        "flights", FileSource(str(flights.path), format="parquet", schema="origin string, hour int, delay bigint")
    )
    seen = pipeline.source(
        "weather", FileSource(str(weather.path), format="parquet", schema="origin string, hour int, wind double")
    )
    hourly = pipeline.keyed("hourly", inputs=[flown, seen], key=["origin", "hour"], state=HOURLY)(delay_by_weather)
    hourly.sink("hourly", ParquetSink(str(root / "hourly"), mode="latest"))
    return pipeline


def counter(source: Path, update: Callable[..., Any], state: str = "k bigint, n bigint") -> Pipeline:
    pipeline = Pipeline("counting")
    rows = pipeline.source("rows", FileSource(str(source), format="parquet", schema="k bigint, v bigint"))
    pipeline.keyed("counter", inputs=[rows], key=["k"], state=state)(update)
    return pipeline


def int32(values: list[int]) -> Any:
    import pyarrow as pa

    return pa.array(values, pa.int32())


@pytest.mark.parametrize("weather_first", [True, False])
def test_two_inputs_meet_in_state_whichever_comes_first(
    weather_first: bool, landing: Land, open_checkpoints: Open, tmp_path: Path
) -> None:
    flights, weather = landing("flights"), landing("weather")
    checkpoints = open_checkpoints(two_inputs(tmp_path, flights, weather))
    flights.path.mkdir(parents=True)
    weather.path.mkdir(parents=True)

    def fly() -> None:
        flights.put(origin=["JFK", "JFK", "LGA"], hour=int32([1, 1, 2]), delay=[10, 20, 30])

    def blow() -> None:
        weather.put(origin=["JFK", "EWR"], hour=int32([1, 1]), wind=[4.5, 9.0])

    for arrive in (blow, fly) if weather_first else (fly, blow):
        arrive()
        checkpoints.take()
    expected = [("EWR", 1, 0, 0.0, 9.0), ("JFK", 1, 2, 30.0, 4.5), ("LGA", 2, 1, 30.0, None)]
    assert checkpoints.rows("state:hourly") == expected
    assert checkpoints.rows("sink:hourly") == expected


def test_state_holds_the_rows_of_the_batch_only(landing: Land, open_checkpoints: Open) -> None:
    def update(batch: Any, state: Any) -> Any:
        counted = batch.groupBy("k").agg(F.count("*").alias("c"))
        known = state.agg(F.count("*").alias("known"))
        return counted.crossJoin(known).select("k", F.col("known").alias("n"))

    rows = landing("rows")
    checkpoints = open_checkpoints(counter(rows.path, update))
    rows.put(k=[1, 2, 3, 4], v=[0, 0, 0, 0])
    checkpoints.take()
    rows.put(k=[2, 9, 2], v=[0, 0, 0])
    checkpoints.take()
    assert checkpoints.rows("state:counter") == [(1, 0), (2, 1), (3, 0), (4, 0), (9, 1)]


def test_deleted_keys_are_gone_and_may_come_back(landing: Land, open_checkpoints: Open) -> None:
    def update(batch: Any, state: Any) -> Any:
        return batch.groupBy("k").agg(F.max("v").alias("n")).withColumn("_delete", F.col("n") < 0)

    rows = landing("rows")
    checkpoints = open_checkpoints(counter(rows.path, update))
    for keys, values, expected in [
        ([1, 2], [5, 6], [(1, 5), (2, 6)]),
        ([1, 7], [-1, -1], [(2, 6)]),
        ([1], [8], [(1, 8), (2, 6)]),
    ]:
        rows.put(k=keys, v=values)
        checkpoints.take()
        assert checkpoints.rows("state:counter") == expected


def wrong_columns(batch: Any, state: Any) -> Any:
    return batch.select("k", F.lit(1).cast("bigint").alias("total"))


def wrong_type(batch: Any, state: Any) -> Any:
    return batch.select("k", F.lit("many").alias("n"))


def no_frame(batch: Any, state: Any) -> Any:
    return [1]


def raising(batch: Any, state: Any) -> Any:
    return batch.nothing_of_the_kind


def doubled(batch: Any, state: Any) -> Any:
    return batch.unionAll(batch).select("k", F.col("v").alias("n"))


def other_keys(batch: Any, state: Any) -> Any:
    return batch.select((F.col("k") + F.when(F.col("v") > 6, 1).otherwise(0)).alias("k"), F.col("v").alias("n"))


def failing_udf(batch: Any, state: Any) -> Any:
    def explode(value):
        raise ValueError(f"no number like {value}")

    return batch.select("k", F.udf(explode, "bigint")("v").alias("n"))


@pytest.mark.parametrize(
    ("update", "kind", "message"),
    [
        (wrong_columns, PipelineDefinitionError, r"returned the columns k, total.* missing n, not in the state total"),
        (wrong_type, PipelineDefinitionError, "n is string, not bigint"),
        (no_frame, PipelineDefinitionError, "returned a list instead of a Spark DataFrame"),
        (raising, PipelineDefinitionError, "function of operator 'counter' of pipeline 'counting' raised"),
        (doubled, CheckpointDeclinedError, "counter"),
        (other_keys, CheckpointDeclinedError, "returned rows for 1 keys that none of its batches has, such as k=2"),
        (failing_udf, OperatorFailedError, "no number like 7"),
    ],
)
def test_a_wrong_function_is_named_and_changes_nothing(
    update: Callable[..., Any], kind: type[CheckpointError], message: str, landing: Land, open_checkpoints: Open
) -> None:
    rows = landing("rows")
    checkpoints = open_checkpoints(counter(rows.path, update))
    rows.put(k=[1], v=[7])
    checkpoints.trigger()
    with pytest.raises(kind, match=message) as caught:
        checkpoints.attempt_once()
    assert type(caught.value) is kind
    assert {id_.operator_id for id_ in checkpoints.acknowledged} == {"rows"}


def test_a_key_of_another_type_is_an_error_and_a_narrower_one_is_widened(landing: Land, open_checkpoints: Open) -> None:
    def update(batch: Any, state: Any) -> Any:
        return batch.select("k", F.col("v").alias("n"))

    rows = landing("rows")
    checkpoints = open_checkpoints(counter(rows.path, update, state="k string, n bigint"))
    rows.put(k=[1], v=[7])
    checkpoints.trigger()
    with pytest.raises(PipelineDefinitionError, match=r"A batch of operator 'counter'.*k is bigint, not string"):
        checkpoints.attempt_once()


def test_narrow_numbers_are_widened_to_the_declared_types(landing: Land, open_checkpoints: Open) -> None:
    def update(batch: Any, state: Any) -> Any:
        return batch.select(F.col("k").cast("int"), F.col("v").cast("smallint").alias("n"))

    rows = landing("rows")
    checkpoints = open_checkpoints(counter(rows.path, update))
    rows.put(k=[1], v=[7])
    checkpoints.take()
    rows.put(k=[1], v=[8])
    checkpoints.take()
    assert checkpoints.rows("state:counter") == [(1, 8)]
