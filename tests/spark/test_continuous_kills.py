"""A continuous region with operators of every kind, killed again and again at moments that a seed chooses."""

from pathlib import Path
from random import Random

import pytest
from continuous_checkpoints import Running
from listed import Listed
from pyspark.sql import SparkSession
from sizes import later, sizes
from tallies import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    NOTES,
    TIMED,
    UNALIGNED,
    chain,
    check_chain,
    logged_in,
    payments,
    seen_in,
    totals_of,
)

from tidegate import CheckpointConfig

pytestmark = pytest.mark.spark

CUSTOMERS = ["ann", "bo", "cyd", None]


class Life:
    """One life of the pipeline after another."""

    def __init__(self, checkpoints: CheckpointConfig, seed: int, spark: SparkSession, root: Path) -> None:
        self.rows, self.notes = payments(), Listed(NOTES)
        self.random = Random(seed)
        pipeline = chain(self.rows, self.notes, root / "tables", checkpoints)
        self.running = Running(pipeline, spark, root, max_batch_bytes=4)

    def live(self) -> None:
        """Rows arrive, a checkpoint is begun somewhere in between, and completes, is aborted, or is cut short."""
        random, running = self.random, self.running
        begun_after, rounds = random.randint(0, 2), random.randint(1, 4)
        fate = random.choice(["completes", "completes", "is aborted", "is cut short"])
        for number in range(rounds):
            self._deliver()
            if number == begun_after:
                running.begin(savepoint=random.random() < 0.2)
            running.round()
        if begun_after >= rounds:
            return
        if fate == "completes":
            running.until_acknowledged()
            running.complete()
        elif fate == "is aborted":
            running.abort()
            self._deliver()
            running.take()

    def _deliver(self) -> None:
        random = self.random
        for split in (0, 1):
            customers = random.choices(CUSTOMERS, k=random.choice([0, 2, 5]))
            self.rows.put(split, *((customer, random.randint(1, 9)) for customer in customers))
        if random.random() < 0.5:
            self.notes.put(0, (random.choice(CUSTOMERS[:3]), f"note {random.randint(100, 999)}"))

    def end(self) -> None:
        self.running.until_idle()
        self.running.take()


@sizes("lives", sample=2, whole=4)
@pytest.mark.parametrize(
    ("checkpoints", "seed"),
    [
        later(EXACTLY_ONCE, 1, id="aligned"),
        pytest.param(UNALIGNED, 2, id="unaligned"),
        later(TIMED, 3, id="timed"),
    ],
)
def test_every_row_counts_once_however_often_the_region_is_killed(
    lives: int, checkpoints: CheckpointConfig, seed: int, spark: SparkSession, tmp_path: Path
) -> None:
    life = Life(checkpoints, seed, spark, tmp_path)
    for _ in range(lives):
        life.live()
        life.running.restart()
    life.end()
    check_chain(life.rows.all(), life.notes.all(), tmp_path / "tables")
    state = {row[0]: row[1:] for row in life.running.rows("state:totals")}
    assert state == totals_of(life.rows.all())


@pytest.mark.long
def test_every_row_counts_at_least_once_where_nothing_waits_at_a_barrier(spark: SparkSession, tmp_path: Path) -> None:
    life = Life(AT_LEAST_ONCE, 4, spark, tmp_path)
    for _ in range(3):
        life.live()
        life.running.restart()
    life.end()
    expected, rows = totals_of(life.rows.all()), life.rows.all()
    state = {row[0]: row[1:] for row in life.running.rows("state:totals")}
    assert state == logged_in(tmp_path / "tables")
    assert all(state[customer] >= value for customer, value in expected.items())
    seen = seen_in(tmp_path / "tables")
    assert all(seen[row] >= rows.count(row) for row in rows)
