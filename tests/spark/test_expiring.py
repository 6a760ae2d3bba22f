"""State that ends, on Spark: tables and state are those of the plain computation, whatever happens in between."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from continuous_checkpoints import Running, restored_by
from dying_checkpoints import DiedError, finalize, rescaled
from listed import Listed
from orders import rows_of
from pyspark.sql import functions as F
from sizes import later, sizes
from spark_checkpoints import Checkpoints
from tallies import EXACTLY_ONCE, UNALIGNED
from worlds import ManualClock

from expiring import plain
from expiring.activity import EVENTS, activity_pipeline
from tidegate import CheckpointConfig, ParquetSink, Pipeline, count, expect, max_, suite, sum_
from tidegate.pipeline.graph import compile_graph
from tidegate.protocol.facts.records import AcknowledgeResult, HandleKind, SubtaskId
from tidegate.protocol.schema.operator_state import OperatorState
from tidegate.state.reading import StateFiles, open_state

pytestmark = pytest.mark.spark

DAY = 86_400
T0 = datetime(2026, 1, 1)


class Activity:
    """The pipeline of the example, on events that a test delivers while the days go by."""

    def __init__(self, root: Path, seed: int, step: int = 100) -> None:
        self.random, self.clock = Random(seed), ManualClock()
        self.source = Listed(EVENTS, step=step)
        self.tables, self.day = root / "tables", 0.0
        self.checkpoints: list[plain.Checkpoint] = []
        self.waiting: list[plain.Event] = []

    def pipeline(self, parallelism: int = 2, checkpoints: CheckpointConfig | None = None) -> Pipeline:
        return activity_pipeline(self.source, self.tables, parallelism, checkpoints)

    def deliver(self, events: int = 5) -> None:
        random = self.random
        for _ in range(events):
            self.day += random.choice([0, 0.25, 2, 5])
            event = (random.randint(0, 12), random.choice(["ann", "bob", "cyd", None]), random.randint(1, 9))
            late = random.choice([0, 0, 1, 9])
            new = (*event, T0 + timedelta(days=self.day - late))
            again = (known for known in self.waiting if known[0] == new[0])  # which of two came first is open
            self.waiting.append(next(again, new))
        self.source.put(0, *((*event[:3], str(event[3])) for event in self.waiting[-events:]))

    def time_passes(self) -> None:
        self.clock.advance(self.random.choice([0, 1, 10, 20, 31]) * DAY)

    def completed(self, at: datetime) -> None:
        self.checkpoints.append((at.replace(tzinfo=None), self.waiting))
        self.waiting = []

    def check(self) -> None:
        names = ("events", "amount", "different", "about")
        table = rows_of(self.tables / "active/current")
        shown = {row["customer"]: tuple(row[name] for name in names) for row in table}
        assert shown == plain.active(self.checkpoints)
        passed = Counter(
            (row["event_id"], row["customer"], row["amount"], row["at"].replace(tzinfo=None))
            for row in rows_of(self.tables / "once")
        )
        assert passed == plain.once(self.checkpoints)


def complete(checkpoints: Checkpoints, activity: Activity) -> None:
    finalize(checkpoints)
    activity.completed(checkpoints.triggered_at)


def read(checkpoints: Any, operator: str) -> list[tuple[Any, ...]]:
    """As `tidegate state` does, without the definition."""
    handles = {
        id_: ack.snapshot.handles for id_, ack in checkpoints.acknowledged.items() if id_.operator_id == operator
    }
    runs = tuple(tuple(h for h in handles[id_] if h.kind is HandleKind.RUN) for id_ in sorted(handles))
    if not any(runs):
        return []
    groups, at = checkpoints.pipeline.max_parallelism, checkpoints.triggered_at
    state = OperatorState(checkpoints.pipeline.name, operator, checkpoints.checkpoint_id, groups, runs, at)
    rows = [
        row
        for batch in open_state(StateFiles(checkpoints.storage.url, None, state)).batches()
        for row in batch.to_pylist()
    ]
    return sorted((tuple(row.values()) for row in rows), key=repr)


def test_the_example_agrees_with_the_plain_computation_at_any_parallelism(spark: Any, tmp_path: Path) -> None:
    activity = Activity(tmp_path, seed=1)
    checkpoints = Checkpoints(activity.pipeline(), spark, tmp_path, clock=activity.clock)
    for parallelism in (2, 2, 3, 1, 2):
        checkpoints = rescaled(checkpoints, activity.pipeline(parallelism))
        activity.deliver()
        activity.time_passes()
        checkpoints.trigger()
        checkpoints.attempt_once()
        complete(checkpoints, activity)
        activity.check()
        assert read(checkpoints, "active") == checkpoints.rows("state:active")
        shown = sorted(((k, *row) for k, row in plain.active(activity.checkpoints).items()), key=repr)
        assert read(checkpoints, "active") == shown
    activity.clock.advance(31 * DAY)
    checkpoints.take()  # nothing has come, and what has expired leaves the table
    checkpoints.commit("active")
    assert rows_of(tmp_path / "tables/active/current") == []
    assert read(checkpoints, "active") == []
    assert checkpoints.rows("state:active") == []


@sizes("step", sample=3, whole=1)
def test_a_retry_judges_what_has_expired_by_the_time_of_the_trigger(step: int, spark: Any, tmp_path: Path) -> None:
    """Dies before every report of a checkpoint, and is run again many days later."""
    activity = Activity(tmp_path, seed=2)
    checkpoints = Checkpoints(activity.pipeline(), spark, tmp_path, clock=activity.clock)
    for number in range(0, 6, step):
        activity.deliver()
        activity.time_passes()
        checkpoints.trigger()
        reports = 0

        def dies(_: SubtaskId, number: int = number) -> AcknowledgeResult | None:
            nonlocal reports
            reports += 1
            if reports > number:
                raise DiedError
            return None

        for _ in range(2):
            try:
                checkpoints.attempt_once(dies)
            except DiedError:
                reports = -1000
                activity.clock.advance(100 * DAY)
        complete(checkpoints, activity)
        activity.check()


@sizes("lives", sample=1, whole=4)
@pytest.mark.parametrize(
    ("config", "seed"),
    [later(EXACTLY_ONCE, 1, id="aligned"), later(UNALIGNED, 2, id="unaligned")],
)
def test_a_continuous_run_forgets_what_has_expired_however_often_it_is_killed(
    lives: int, config: CheckpointConfig, seed: int, spark: Any, tmp_path: Path
) -> None:
    """With a scheduled run of another parallelism at the end."""
    activity = Activity(tmp_path, seed, step=3)
    running = Running(activity.pipeline(checkpoints=config), spark, tmp_path, max_batch_bytes=4, clock=activity.clock)
    for fate in (["completes", "is cut short", "is aborted"] * lives)[: lives + 2]:
        activity.time_passes()
        activity.deliver()
        running.until_idle()
        running.begin()
        running.until_acknowledged()
        if fate == "completes":
            running.complete()
            activity.completed(running.triggered_at)
            activity.check()
            assert read(running, "active") == running.rows("state:active")
        elif fate == "is aborted":
            running.abort()
            running.take()
            activity.completed(running.triggered_at)
            activity.check()
        running.restart()
    activity.clock.advance(40 * DAY)
    running.until_idle()
    running.take()
    activity.completed(running.triggered_at)
    activity.check()
    pipeline = activity.pipeline(3, config)
    restored = restored_by(running.graph, compile_graph(pipeline), running.completed)
    id_ = running.checkpoint_id
    scheduled = Checkpoints(pipeline, spark, tmp_path, restored, checkpoint_id=id_, clock=activity.clock)
    activity.source.step = 1000
    activity.deliver()
    scheduled.trigger()
    scheduled.attempt_once()
    complete(scheduled, activity)
    activity.check()


ROWS = "k bigint, v bigint"


def counting(source: Any, tables: Path, **ttl: Any) -> Pipeline:
    pipeline = Pipeline("counting", max_parallelism=16)
    rows = pipeline.source("rows", source)
    known = suite("known", expect("column_values_to_be_between", column="n", min_value=1))
    counts = rows.key_by("k").aggregate("counts", n=count(), total=sum_("v"), expect=known, **ttl)
    counts.sink("counts", ParquetSink(str(tables / "counts"), mode="latest"))
    return pipeline


class Changing:
    """One operator, whose time to live changes."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.spark, self.root, self.clock, self.source = spark, root, ManualClock(), Listed(ROWS, step=100)
        self.checkpoints = Checkpoints(counting(self.source, root), spark, root, clock=self.clock)

    def define(self, **ttl: Any) -> None:
        known, id_ = self.checkpoints.completed, self.checkpoints.checkpoint_id
        pipeline = counting(self.source, self.root, **ttl)
        self.checkpoints = Checkpoints(pipeline, self.spark, self.root, known, checkpoint_id=id_, clock=self.clock)

    def take(self, *keys: int) -> dict[int, int]:
        """By key, how often it has come, as state, table and readers have it."""
        self.source.put(0, *((key, 1) for key in keys))
        self.checkpoints.take()
        self.checkpoints.commit("counts")
        state = {row[0]: row[1] for row in self.checkpoints.rows("state:counts")}
        table = {row["k"]: row["n"] for row in rows_of(self.root / "counts/current")}
        assert table == state
        assert {row[0]: row[1] for row in read(self.checkpoints, "counts")} == state
        return state

    def after(self, days: float, *keys: int) -> dict[int, int]:
        self.clock.advance(days * DAY)
        return self.take(*keys)


def test_a_time_to_live_that_is_added_altered_and_removed(spark: Any, tmp_path: Path) -> None:
    changing = Changing(spark, tmp_path)
    assert changing.take(1, 2, 3) == {1: 1, 2: 1, 3: 1}
    changing.define(ttl="30 d")
    assert changing.after(100, 1) == {1: 2, 2: 1, 3: 1}, "the time of rows that were there begins when it is added"
    assert changing.after(29, 2) == {1: 2, 2: 2, 3: 1}
    assert changing.after(1) == {2: 2}, "also where nothing has come since"
    changing.define(ttl="60 d")
    assert changing.after(0, 4) == {2: 2, 4: 1}, "a longer one brings nothing back"
    assert changing.after(45, 1) == {1: 1, 2: 2, 4: 1}
    changing.define(ttl="10 d")
    assert changing.after(0, 5) == {1: 1, 5: 1}
    changing.define()
    assert changing.after(10, 6) == {6: 1}, "what had expired before does not come back"
    assert changing.after(1000, 1) == {1: 1, 6: 1}


def test_a_function_does_not_see_what_has_expired_and_may_delete_it(spark: Any, tmp_path: Path) -> None:
    pipeline, clock, source = Pipeline("seeing", max_parallelism=16), ManualClock(), Listed(ROWS, step=100)

    @pipeline.keyed("seen", inputs=[pipeline.source("rows", source)], key=["k"], state="k bigint, n bigint", ttl="2 d")
    def seen(batch: Any, state: Any) -> Any:
        known = state.withColumnRenamed("k", "known")
        new = batch.groupBy("k").agg(F.max("v").alias("v"))
        joined = new.join(known, F.col("k") == F.col("known"), "left")
        return joined.select("k", (F.coalesce("n", F.lit(0)) + 1).alias("n"), (F.col("v") < 0).alias("_delete"))

    seen.sink("seen", ParquetSink(str(tmp_path / "seen"), mode="latest"))
    checkpoints = Checkpoints(pipeline, spark, tmp_path, clock=clock)
    for days, rows, expected in [
        (0, [(1, 0), (2, 0), (3, 0)], [(1, 1), (2, 1), (3, 1)]),
        (1, [(1, 0)], [(1, 2), (2, 1), (3, 1)]),
        (1, [(2, 0), (3, -1)], [(1, 2), (2, 1)]),
        (1, [(3, 0)], [(2, 1), (3, 1)]),
        (1, [(1, 0)], [(1, 1), (3, 1)]),
    ]:
        clock.advance(days * DAY)
        source.put(0, *rows)
        checkpoints.take()
        assert checkpoints.rows("state:seen") == expected
        assert read(checkpoints, "seen") == expected


def test_a_day_that_is_part_of_the_key_may_say_when_rows_expire(spark: Any, tmp_path: Path) -> None:
    pipeline, source = Pipeline("daily", max_parallelism=16), Listed("day date, v bigint", step=100)
    rows = pipeline.source("rows", source)
    rows.key_by("day").aggregate("daily", n=count(), ttl="2 d", ttl_by="day")
    rows.key_by("v").aggregate("last", at=max_("day"), ttl="1 d", ttl_by="at")
    checkpoints = Checkpoints(pipeline, spark, tmp_path)
    days: Sequence[str]
    for days, expected in [
        (["2026-01-01", "2026-01-02"], {1, 2}),
        (["2026-01-03", "2026-01-01"], {1, 2, 3}),
        (["2026-01-03"], {2, 3}),
        (["2026-01-01"], {2, 3}),
    ]:
        source.put(0, *((day, int(day[-1])) for day in days))
        checkpoints.take()
        assert {row[0].day for row in checkpoints.rows("state:daily")} == expected
        assert {row[0].day for row in read(checkpoints, "daily")} == expected
    assert [row[0] for row in checkpoints.rows("state:last")] == [3]
    assert checkpoints.triggered_at.tzinfo is UTC
