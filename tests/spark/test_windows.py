"""Windows in event time: each is emitted once, with what its rows were, whatever happens; late rows are kept apart."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from continuous_checkpoints import Running, restored_by
from draining import take
from dying_checkpoints import DiedError, attempt_until, finalize, rescaled
from listed import Listed
from sizes import later, sizes
from spark_checkpoints import Checkpoints
from tallies import EXACTLY_ONCE, UNALIGNED
from window_clicks import ClickShop

from tidegate import CheckpointConfig, ParquetSink, Pipeline, count, session_window, window
from tidegate.pipeline.graph import compile_graph
from tidegate.protocol.barriers.messages import StopMode
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.facts.records import SubtaskId

pytestmark = pytest.mark.spark


def test_windows_agree_with_the_plain_computation_at_any_parallelism(spark: Any, tmp_path: Path) -> None:
    shop = ClickShop(tmp_path, seed=1)
    checkpoints = Checkpoints(shop.pipeline(), spark, tmp_path)
    for parallelism in (2, 3):
        checkpoints = rescaled(checkpoints, shop.pipeline(parallelism))
        shop.deliver()
        take(checkpoints)
        shop.check()
    take(checkpoints, StopMode.DRAIN)
    shop.plain.end()
    shop.check()
    shop.check_counted()
    assert checkpoints.rows("state:hourly") == []
    assert checkpoints.rows("state:rushes") == []
    assert checkpoints.rows("state:revised") == []


@sizes("step", sample=4, whole=1)
def test_a_retry_emits_the_same_windows_once(step: int, spark: Any, tmp_path: Path) -> None:
    """Dies before and after every report of a checkpoint, and is run again."""
    shop = ClickShop(tmp_path, seed=2)
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
                if set(checkpoints.acknowledged) != set(checkpoints.graph.subtasks):
                    checkpoints.attempt_once()
            finalize(checkpoints)
            shop.check()
        number += step
    assert deaths >= 4 // step, "sources and operators report one after the other"


@sizes("lives", sample=1, whole=4)
@pytest.mark.parametrize(
    ("checkpoints", "seed"), [later(EXACTLY_ONCE, 1, id="aligned"), pytest.param(UNALIGNED, 2, id="unaligned")]
)
def test_a_continuous_run_emits_each_window_once_however_often_it_is_killed(
    lives: int, checkpoints: CheckpointConfig, seed: int, spark: Any, tmp_path: Path
) -> None:
    """With checkpoints that are aborted or cut short, a scheduled one of another parallelism, and a drain."""
    shop = ClickShop(tmp_path, seed, step=6)  # one delivery a micro-batch, before and after a kill
    running = Running(shop.pipeline(checkpoints=checkpoints), spark, tmp_path, max_batch_bytes=1)
    for number, fate in enumerate((["completes", "is cut short", "is aborted"] * lives)[: lives + 1]):
        shop.deliver()
        for _ in range(number % 3):
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
    running.until_idle()
    running.take(stop=StopMode.DRAIN if lives == 1 else None)
    if lives == 1:
        shop.plain.end()
    shop.check()
    if lives == 1:
        return
    pipeline = shop.pipeline(3, checkpoints)
    restored = restored_by(running.graph, compile_graph(pipeline), running.completed)
    scheduled = Checkpoints(pipeline, spark, tmp_path, restored, checkpoint_id=running.checkpoint_id)
    shop.deliver()
    take(scheduled)
    shop.check()
    again = Running(pipeline, spark, tmp_path, completed=scheduled.completed, checkpoint_id=scheduled.checkpoint_id)
    shop.deliver()
    again.until_idle()
    again.take(stop=StopMode.DRAIN)
    shop.plain.end()
    shop.check()
    shop.check_counted()


T0 = datetime(2026, 1, 1)


def at(minutes: float) -> str:
    return str(T0 + timedelta(minutes=minutes))


TIMES = "k bigint, at timestamp"


@pytest.mark.long
def test_the_slowest_input_holds_windows_back_and_what_has_no_event_time_does_not(spark: Any, tmp_path: Path) -> None:
    fast, slow, names = Listed(TIMES, rows=[[], []], step=9), Listed(TIMES, step=9), Listed("k bigint, v bigint")
    pipeline = Pipeline("both", parallelism=2)
    fasts = pipeline.source("fast", fast, event_time="at", delay="1 min")
    slows = pipeline.source("slow", slow, event_time="at").transform(lambda df: df.withColumnRenamed("at", "slow_at"))
    joined = fasts.join(slows, name="joined", key=["k"]).join(pipeline.source("names", names), name="named", key=["k"])
    hours = joined.key_by().aggregate("hours", window("at", "1 hour"), n=count())
    hours.transform(lambda df: df.selectExpr("unix_micros(window_start) div 60000000 as m", "n")).sink(
        "hours", ParquetSink(str(tmp_path / "hours"))
    )
    checkpoints = Checkpoints(pipeline, spark, tmp_path)

    def step() -> list[tuple[Any, ...]]:
        checkpoints.take()
        return checkpoints.rows("sink:hours")

    names.put(0, (1, 1))
    fast.put(0, (1, at(5)))
    fast.put(1, (1, at(70)))
    assert step() == []  # nothing is known of the slow one
    slow.put(0, (1, at(61)))
    assert [n for _, n in step()] == [1]
    slow.closed.add(0)
    assert step() == []  # 70 minus 1 holds the second hour back
    fast.closed |= {0, 1}
    assert [n for _, n in step()] == [1]
    position = checkpoints.acknowledged[SubtaskId("hours", 0)].snapshot.position
    assert position == {"watermarks": {"named": (1 << 63) - 1}, "late": 0}


def test_a_watermark_never_goes_back_and_late_rows_are_counted_where_nobody_reads_them(
    spark: Any, tmp_path: Path
) -> None:
    source = Listed(TIMES, step=9)

    def pipeline(delay: str, size: str = "1 hour") -> Pipeline:
        pipeline = Pipeline("late", parallelism=2)
        rows = pipeline.source("rows", source, event_time="at", delay=delay)
        hours = rows.key_by("k").aggregate("hours", window("at", size), n=count())
        hours.transform(lambda df: df.select("k", "n")).sink("hours", ParquetSink(str(tmp_path / "hours")))
        return pipeline

    checkpoints = Checkpoints(pipeline("0 s"), spark, tmp_path)
    source.put(0, (1, at(5)), (1, at(50)), (2, at(61)))
    checkpoints.take()
    assert checkpoints.rows("sink:hours") == [(1, 2)]
    checkpoints = rescaled(checkpoints, pipeline("1 h"))
    source.put(0, (1, at(7)), (3, at(62)), (4, None))
    checkpoints.take()
    assert checkpoints.rows("sink:hours") == []
    position = checkpoints.acknowledged[SubtaskId("hours", 0)].snapshot.position
    assert position is not None
    assert position["late"] == 2
    checkpoints = rescaled(checkpoints, pipeline("0 s", "2 h"))
    source.put(0, (3, at(63)), (5, at(241)))
    checkpoints.take()
    assert checkpoints.rows("sink:hours") == [(2, 1), (3, 1), (3, 1)]  # windows that are open keep their bounds
    assert checkpoints.rows("state:hours") == [(5, datetime(2026, 1, 1, 4), datetime(2026, 1, 1, 6), 1)]


def test_after_a_kill_a_row_of_a_window_that_was_emitted_is_late(spark: Any, tmp_path: Path) -> None:
    source = Listed(TIMES, step=9)
    pipeline = Pipeline("late", parallelism=2)
    rows = pipeline.source("rows", source, event_time="at", delay="0 s")
    hours = rows.key_by("k").aggregate("hours", window("at", "1 hour"), n=count())
    hours.transform(lambda df: df.select("k", "n")).sink("hours", ParquetSink(str(tmp_path / "hours")))
    running = Running(pipeline, spark, tmp_path)
    source.put(0, (1, at(5)), (1, at(50)), (2, at(61)))
    running.until_idle()
    running.begin()
    running.until_acknowledged()
    assert running.rows("sink:hours") == [(1, 2)]
    running.complete()
    running.restart()
    source.put(0, (1, at(7)))
    running.until_idle()
    running.begin()
    running.until_acknowledged()
    assert running.rows("sink:hours") == []
    running.complete()
    position = running.completed[SubtaskId("hours", 0)].position
    assert position is not None
    assert position["late"] == 1


@pytest.mark.parametrize(("type_", "value"), [("date", "2026-01-01"), ("timestamp_ntz", "2026-01-01 10:30:00")])
def test_a_date_is_its_midnight_and_a_time_without_zone_is_in_utc(
    type_: str, value: str, spark: Any, tmp_path: Path
) -> None:
    source = Listed(f"at {type_}", step=9)
    pipeline = Pipeline("zones", parallelism=1)
    rows = pipeline.source("rows", source, event_time="at")
    rows.key_by().aggregate("days", window("at", "1 d"), n=count())
    checkpoints = Checkpoints(pipeline, spark, tmp_path)
    source.put(0, (value,))
    checkpoints.take()
    assert checkpoints.rows("state:days") == [(datetime(2026, 1, 1), datetime(2026, 1, 2), 1)]


def test_windows_of_something_that_is_no_time_are_refused(spark: Any, tmp_path: Path) -> None:
    pipeline = Pipeline("wrong", parallelism=1)
    rows = pipeline.source("rows", Listed(TIMES), event_time="at").transform(lambda df: df)
    rows.key_by("k").aggregate("hours", window("k", "1 h"), n=count())
    with pytest.raises(
        PipelineDefinitionError, match=r"operator 'hours' of pipeline 'wrong' has windows of 'k'.*bigint"
    ):
        Checkpoints(pipeline, spark, tmp_path).region.streams.layout(compile_graph(pipeline).keyed[0])


def test_windows_end_in_subtasks_to_which_only_late_rows_came(spark: Any, tmp_path: Path) -> None:
    source, keys = Listed(TIMES, step=99), range(8)
    pipeline = Pipeline("lonely", parallelism=4)
    rows = pipeline.source("rows", source, event_time="at")
    hours = rows.key_by("k").aggregate("hours", window("at", "1 hour"), n=count())
    hours.sink("hours", ParquetSink(str(tmp_path / "hours")))
    hours.late.sink("late", ParquetSink(str(tmp_path / "late")))
    rushes = rows.key_by().aggregate("rushes", session_window("at", gap="10 min"), n=count())
    rushes.sink("rushes", ParquetSink(str(tmp_path / "rushes")))
    checkpoints = Checkpoints(pipeline, spark, tmp_path)
    for hour in range(2):  # rows of one key close the windows of all, and one comes too late
        source.put(0, *((key, at(60 * hour + 5)) for key in keys))
        checkpoints.take()
        source.put(0, (hour, at(60 * hour + 65)), (hour, None))
        checkpoints.take()
        assert sorted(row[0] for row in checkpoints.rows("sink:hours")) == list(keys)
        assert [row[0] for row in checkpoints.rows("sink:late")] == [hour]
        assert [row[2] for row in checkpoints.rows("sink:rushes")] == [len(keys) + hour]  # of all keys together
