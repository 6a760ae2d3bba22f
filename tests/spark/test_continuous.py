"""A continuous region on Spark: micro-batches, checkpoints between them, kills, and what each guarantee is worth."""

from pathlib import Path

import pytest
from continuous_checkpoints import Running
from offsets import Offsets
from orders import newest, rows_of
from pyspark.sql import SparkSession
from sizes import later

from tidegate import CheckpointConfig, ParquetSink, Pipeline, count, max_

pytestmark = pytest.mark.spark

EXACTLY_ONCE = CheckpointConfig()
AT_LEAST_ONCE = CheckpointConfig(mode="AT_LEAST_ONCE")
UNALIGNED = CheckpointConfig(unaligned=True)


def counted(source: Offsets, tables: Path, checkpoints: CheckpointConfig = EXACTLY_ONCE) -> Pipeline:
    """Rows a split, in a log and a table; how many splits have as many; and the rows as they came."""
    pipeline = Pipeline("counted", parallelism=2, checkpoints=checkpoints)
    rows = pipeline.source("rows", source)
    splits = rows.key_by("split").aggregate("splits", n=count(), newest=max_("at"))
    splits.sink("log", ParquetSink(str(tables / "log")))
    splits.sink("current", ParquetSink(str(tables / "current"), mode="latest"))
    rows.sink("seen", ParquetSink(str(tables / "seen")))
    return pipeline


@pytest.mark.parametrize(
    ("checkpoints", "counts"),
    [
        pytest.param(EXACTLY_ONCE, [105, 105], id="exactly_once"),
        pytest.param(AT_LEAST_ONCE, [110, 105], id="at_least_once"),
        later(UNALIGNED, [105, 105], id="unaligned"),
    ],
)
def test_two_splits_at_100_and_105_of_which_one_ran_ahead_of_its_barrier(
    checkpoints: CheckpointConfig, counts: list[int], spark: SparkSession, tmp_path: Path
) -> None:
    """The example of protocol.md section 17: what ran ahead is counted twice after a kill, unless it waited."""
    source = Offsets(ends=[100, 105], steps=[20, 5])
    running = Running(counted(source, tmp_path / "tables", checkpoints), spark, tmp_path, max_batch_bytes=5)
    while source.polled != {0: 100, 1: 105}:
        running.round()
    running.begin()
    source.ends[0] = 105  # behind the barrier of a channel that has no backlog, while the other one has
    running.until_acknowledged()
    offsets = [dict(running.acknowledged[key].snapshot.position or {}) for key in running.graph.subtasks[:2]]
    assert offsets == [{"offset": 100}, {"offset": 105}]
    running.complete()
    running.restart()
    running.until_idle()
    running.take()
    assert [row[:2] for row in running.rows("state:splits")] == list(enumerate(counts))
    current = {row["split"]: row["n"] for row in rows_of(tmp_path / "tables" / "current" / "current")}
    assert current == dict(enumerate(counts))
    assert {key: row["n"] for key, row in newest(rows_of(tmp_path / "tables" / "log"), "split").items()} == current
    seen = [(row["split"], row["at"]) for row in rows_of(tmp_path / "tables" / "seen")]
    everything = [(split, at) for split in (0, 1) for at in range(105)]
    assert set(seen) == set(everything)
    assert len(seen) == sum(counts)
