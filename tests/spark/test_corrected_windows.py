"""Windows that may be corrected for so long that no row is too late: in the end tables of upserts have what all rows
together say, in whichever order they came, whatever happened, in scheduled and continuous runs."""

from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from continuous_checkpoints import Running, restored_by
from draining import take
from dying_checkpoints import DiedError, attempt_until, finalize
from listed import Listed
from mirrors import Mirror, Rows, _plain
from sizes import later
from spark_checkpoints import Checkpoints
from tallies import EXACTLY_ONCE, UNALIGNED

from tidegate import CheckpointConfig, Pipeline, count, session_window, window
from tidegate.pipeline.graph import compile_graph
from tidegate.protocol.barriers.messages import StopMode
from tidegate.protocol.facts.records import StateHandle

pytestmark = pytest.mark.spark
T0, MINUTE, HOUR, GAP = datetime(2026, 1, 1), timedelta(minutes=1), timedelta(hours=1), timedelta(minutes=30)


class Corrected(Mirror):
    """Given rows that take the place of earlier ones, and some that take one back."""

    def _apply(self, table: Rows, handle: StateHandle) -> None:
        for batch in self.batches([handle]):
            for row in batch.to_pylist():
                withdrawn = row.pop("_delete", False)
                values = tuple(_plain(value) for value in row.values())
                assert (values[:3], withdrawn) not in self.given, "a key was given twice"
                self.given.add((values[:3], withdrawn))
                if withdrawn:
                    table.pop(values[:3], None)
                else:
                    table[values[:3]] = values

    def commit(self, checkpoint_id: int, staged: Any, attempt: Any) -> None:
        self.given: set[Any] = set()
        super().commit(checkpoint_id, staged, attempt)
        assert len({key for key, _ in self.given}) == len(self.given), "a key was given and taken back"


class Shop:
    def __init__(self, root: Path, seed: int, step: int = 100) -> None:
        self.random, self.now = Random(seed), T0
        self.source = Listed("k string, at timestamp", step=step)
        self.mirrors = {name: Corrected(str(root / "tables" / name), 3) for name in ("hours", "visits")}
        self.delivered: list[tuple[str, datetime]] = []

    def pipeline(self, parallelism: int = 2, checkpoints: CheckpointConfig | None = None) -> Pipeline:
        pipeline = Pipeline("corrected", parallelism=parallelism, max_parallelism=16, checkpoints=checkpoints)
        rows = pipeline.source("rows", self.source, event_time="at", delay="10 min")
        for name, windows in (("hours", window("at", "1 hour")), ("visits", session_window("at", gap="30 min"))):
            counted = rows.key_by("k").aggregate(name, windows, n=count(), allowed_lateness="90 d")
            counted.sink(name, self.mirrors[name])
        return pipeline

    def deliver(self, rows: int = 6) -> None:
        self.now += self.random.choice([5, 40, 90]) * MINUTE
        new = [
            (self.random.choice("ab"), self.now - self.random.choice([0, 3, 20, 35, 70, 130, 400]) * MINUTE)
            for _ in range(rows)
        ]
        self.delivered += new
        self.source.put(0, *((k, str(at)) for k, at in new))

    def expected(self, watermark: datetime) -> dict[str, list[Any]]:
        hours = Counter((k, start, start + HOUR) for k, at in self.delivered for start in [at.replace(minute=0)])
        visits: list[list[Any]] = []
        for k, at in sorted(self.delivered):
            if visits and visits[-1][0] == k and at <= visits[-1][2]:
                visits[-1][2:] = [at + GAP, visits[-1][3] + 1]
            else:
                visits.append([k, at, at + GAP, 1])
        return {
            "hours": sorted((*key, n) for key, n in hours.items() if key[2] <= watermark),
            "visits": sorted(tuple(each) for each in visits if each[2] <= watermark),
        }

    def check(self, is_ended: bool = False) -> None:
        watermark = max(at for _, at in self.delivered) - 10 * MINUTE
        for name, rows in self.expected(datetime.max if is_ended else watermark).items():
            assert self.mirrors[name].rows() == rows, name


def test_each_scheduled_checkpoint_shows_what_all_rows_say(spark: Any, tmp_path: Path) -> None:
    """Some of them die and are repeated."""
    shop = Shop(tmp_path, seed=3)
    checkpoints = Checkpoints(shop.pipeline(), spark, tmp_path)
    for number in range(4):
        shop.deliver()
        checkpoints.trigger()
        try:
            attempt_until(checkpoints, number, before=bool(number % 2))
        except DiedError:
            checkpoints.attempt_once()
        finalize(checkpoints)
        shop.check()
    take(checkpoints, StopMode.DRAIN)
    shop.check(is_ended=True)
    assert checkpoints.rows("state:visits") == []


@pytest.mark.parametrize(
    ("config", "seed"), [later(EXACTLY_ONCE, 5, id="aligned"), pytest.param(UNALIGNED, 6, id="unaligned")]
)
def test_a_continuous_run_comes_to_the_same(config: CheckpointConfig, seed: int, spark: Any, tmp_path: Path) -> None:
    """Several micro-batches a checkpoint, of which some are aborted and some cut short; then with more subtasks."""
    shop = Shop(tmp_path, seed, step=3)
    running = Running(shop.pipeline(checkpoints=config), spark, tmp_path, max_batch_bytes=1)
    for fate in ("completes", "is cut short", "is aborted"):
        shop.deliver()
        running.round()
        running.begin()
        running.round()
        if fate == "is aborted":
            running.abort()
        elif fate == "completes":
            running.until_acknowledged()
            running.complete()
        if fate == "is cut short":
            running.restart()
    running.until_idle()
    running.take()
    shop.check()
    pipeline = shop.pipeline(3, config)
    restored = restored_by(running.graph, compile_graph(pipeline), running.completed)
    again = Running(pipeline, spark, tmp_path, completed=restored, checkpoint_id=running.checkpoint_id)
    shop.deliver()
    again.until_idle()
    again.take(stop=StopMode.DRAIN)
    shop.check(is_ended=True)
