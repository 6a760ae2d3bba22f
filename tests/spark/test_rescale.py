"""A pipeline whose parallelism and splits change between checkpoints, through the real coordinator and Postgres."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from orders import Shop, check_storage, check_tables, orders_pipeline
from pyspark.sql import SparkSession
from sizes import later
from worlds import Judge

from tidegate import FileSource, ParquetSink, Pipeline, count, sum_
from tidegate.clock import SystemClock
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.pipeline.graph import compile_graph
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.steps.trigger import Triggered
from tidegate.settings import Settings
from tidegate.spark.region import SparkRegion
from tidegate.state import compaction
from tidegate.state.storage import ArrowCheckpointStorage

pytestmark = pytest.mark.spark


KEYS = 100_000
MANY = ((1, 1), (8, 3), (2, 2), (1, 2), (5, 1), (5, 5), (3, 2))


@pytest.mark.parametrize("plans", [pytest.param(MANY[:4], id="some"), later(MANY, id="many")])
@pytest.mark.parametrize("min_runs", [pytest.param(2, id="merging"), later(compaction.MIN_RUNS, id="not merging")])
def test_state_and_tables_are_the_same_at_any_parallelism(
    spark: SparkSession,
    store: PostgresCheckpointStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    min_runs: int,
    plans: tuple[tuple[int, int], ...],
) -> None:
    monkeypatch.setattr(compaction, "MIN_RUNS", min_runs)
    shop = Shop(tmp_path)
    settings = Settings(tmp_path, str(tmp_path / "checkpoints"), str(tmp_path / "cache"), tmp_path / "docs")
    storage = ArrowCheckpointStorage(settings.storage)
    for number, (parallelism, splits) in enumerate(plans):
        shop.deliver()
        pipeline = orders_pipeline(tmp_path, parallelism=parallelism, splits=splits)
        region = SparkRegion(compile_graph(pipeline), spark, storage, SystemClock(), settings)
        coordinator = CheckpointCoordinator(pipeline, store, storage, SystemClock())
        triggered = coordinator.trigger(f"request {number}")
        assert isinstance(triggered, Triggered)
        coordinator.snapshot(triggered.checkpoint_id, region)
        coordinator.validate(triggered.checkpoint_id, Judge(True))
        done = coordinator.finalize(triggered.checkpoint_id, notifies=True)
        coordinator.notify(triggered.checkpoint_id)
        assert done.status is Status.COMPLETED
        assert {plan.operator_id: plan.parallelism for plan in done.operators}["totals"] == parallelism
        check_tables(shop)
    check_storage(store, "orders", tmp_path / "checkpoints", tmp_path)


@pytest.mark.long
def test_a_hundred_thousand_keys_survive_every_parallelism_and_number_of_splits(
    spark: SparkSession, store: PostgresCheckpointStore, tmp_path: Path
) -> None:
    settings = Settings(tmp_path, str(tmp_path / "checkpoints"), str(tmp_path / "cache"), tmp_path / "docs")
    storage = ArrowCheckpointStorage(settings.storage)
    landing, random = tmp_path / "landing", np.random.default_rng(4)
    landing.mkdir()
    counts, totals = np.zeros(KEYS, np.int64), np.zeros(KEYS, np.int64)
    for number, (parallelism, splits) in enumerate(((1, 1), (4, 1), (3, 3), (128, 3), (2, 2))):
        for file in range(4):
            keys = random.permutation(KEYS) if number == file == 0 else random.integers(0, KEYS, 10_000)
            values = random.integers(-1000, 1000, len(keys))
            counts += np.bincount(keys, minlength=KEYS)
            np.add.at(totals, keys, values)
            pq.write_table(pa.table({"key": keys, "value": values}), landing / f"{number}-{file}.parquet")
        pipeline = Pipeline("large", parallelism=parallelism, max_parallelism=128)
        source = FileSource(str(landing), format="parquet", schema="key bigint, value bigint", splits=splits)
        rows = pipeline.source("rows", source)
        tallied = rows.key_by("key").aggregate("tally", n=count(), total=sum_("value"))
        tallied.sink("tally", ParquetSink(str(tmp_path / "tally"), mode="latest"))
        rows.sink("rows", ParquetSink(str(tmp_path / "rows")))
        region = SparkRegion(compile_graph(pipeline), spark, storage, SystemClock(), settings)
        coordinator = CheckpointCoordinator(pipeline, store, storage, SystemClock())
        triggered = coordinator.trigger(f"request {number}")
        assert isinstance(triggered, Triggered)
        coordinator.snapshot(triggered.checkpoint_id, region)
        coordinator.validate(triggered.checkpoint_id, Judge(True))
        coordinator.finalize(triggered.checkpoint_id, notifies=True)
        coordinator.notify(triggered.checkpoint_id)
        shown = pq.read_table(tmp_path / "tally/current").sort_by("key")
        assert np.array_equal(shown["key"], np.arange(KEYS))
        assert np.array_equal(shown["n"], counts)
        assert np.array_equal(shown["total"], totals)
        assert pq.read_table(tmp_path / "rows").num_rows == counts.sum()
