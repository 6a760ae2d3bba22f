"""A pipeline whose parallelism and splits change between checkpoints, through the real coordinator and Postgres."""

from pathlib import Path

import pytest
from orders import Shop, check_storage, check_tables, orders_pipeline
from pyspark.sql import SparkSession
from sizes import later
from worlds import Judge

from tidegate.clock import SystemClock
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.pipeline.graph import compile_graph
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.lifecycle import Status
from tidegate.protocol.trigger import Triggered
from tidegate.settings import Settings
from tidegate.spark.region import SparkRegion
from tidegate.state import compaction
from tidegate.state.storage import ArrowCheckpointStorage

pytestmark = pytest.mark.spark


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
        done = coordinator.finalize_validated(coordinator.validate(triggered.checkpoint_id, Judge(True)))
        coordinator.notify(triggered.checkpoint_id)
        assert done.status is Status.COMPLETED
        assert {plan.operator_id: plan.parallelism for plan in done.operators}["totals"] == parallelism
        check_tables(shop)
    check_storage(store, "orders", tmp_path / "checkpoints", tmp_path)
