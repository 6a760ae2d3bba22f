"""A pipeline on Spark is forked, and both go on over the same files: state and tables are the same, and what becomes of
the original is nothing to the other."""

import dataclasses

import pytest
from orders import Shop, check_tables, check_tables_of, orders_pipeline
from user_actions import dispose
from worlds import Judge, ShiftedClock

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.protocol.facts.records import CheckpointKind, HandleKind
from tidegate.protocol.facts.savepoints import Label
from tidegate.protocol.recovery.comparison import Likeness
from tidegate.settings import Settings
from tidegate.state.schemas import StoredSchemas
from tidegate.state.storage import ArrowCheckpointStorage

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]


class Side:
    """One of the two, on the same files, database and checkpoint storage."""

    def __init__(self, pipeline, home, store, spark):
        from tidegate.spark.region import SparkRegion
        from tidegate.spark.state_schemas import DefinedSchemas

        settings = Settings(home, str(home / "checkpoints"), str(home / "cache"), home / "docs")
        self.clock, self.storage, self.name = ShiftedClock(), ArrowCheckpointStorage(settings.storage), pipeline.name
        self.coordinator = CheckpointCoordinator(pipeline, store, self.storage, self.clock)
        self.graph = self.coordinator.graph
        schemas = StoredSchemas(
            self.graph, self.storage.url, lambda: DefinedSchemas(self.graph, spark, self.storage.url).of
        )
        self.coordinator = CheckpointCoordinator(pipeline, store, self.storage, self.clock, schemas=schemas)
        self.region = SparkRegion(self.graph, spark, self.storage, self.clock, settings)

    def take(self, request_id, savepoint=None):
        kind = CheckpointKind.CHECKPOINT if savepoint is None else CheckpointKind.SAVEPOINT
        checkpoint_id = self.coordinator.trigger(request_id, kind=kind, label=Label(savepoint)).checkpoint_id
        self.coordinator.snapshot(checkpoint_id, self.region)
        self.coordinator.validate(checkpoint_id, Judge(True))
        self.coordinator.finalize(checkpoint_id)
        self.coordinator.notify(checkpoint_id)
        return checkpoint_id


def elsewhere(sink):
    return dataclasses.replace(sink, path=sink.path.replace("/tables/", "/trial/"))


def compared(spark, first, second):
    """By sink, how alike the two tables are, and what either has alone."""
    from tidegate.spark.comparison import compare_tables

    found = compare_tables(spark, first.graph, second.graph, 0)
    return {each.name: (each.likeness, each.rows.first.surplus, each.rows.second.surplus) for each in found}


def state_of(store, storage, side):
    """The content of the state's files at the latest checkpoint, as it is on storage."""
    (latest, *_) = store.history(side.name, 1)
    handles = [
        handle
        for known in store.subtasks(side.name, latest.checkpoint_id).values()
        for handle in known.snapshot.handles
        if handle.kind is not HandleKind.STAGED
    ]
    storage.verify(handles, {handle.path for handle in handles})
    return {handle.path for handle in handles}


def test_both_go_on_and_what_becomes_of_the_original_is_nothing_to_the_other(tmp_path, store, spark):
    shop = Shop(tmp_path)
    original = Side(orders_pipeline(tmp_path), tmp_path, store, spark)
    shop.deliver(files=2)
    original.take("s1", savepoint="kept")
    then = list(shop.rows)
    shop.deliver(files=1)
    original.take("r2")

    new = Side(orders_pipeline(tmp_path, name="trial", wrap_sink=elsewhere, parallelism=3), tmp_path, store, spark)
    planned = new.coordinator.forking.plan(original.graph, ToCheckpoint(1))
    assert [(each.source, each.pieces) for each in planned.plan.sources] == [("orders", 2)]
    new.coordinator.fork(planned)
    new.take("t1")
    alike = compared(spark, original, new)
    assert alike["totals"] == alike["visits"] == (Likeness.SAME, 0, 0)
    assert alike["seen"] == (Likeness.DIFFERENT, len(then), 0)
    assert alike["totals_log"][2] == alike["balance_log"][2] == 0  # what it appended, the original has, too

    mine = {path for path in (tmp_path / "checkpoints/trial").rglob("*") if path.is_file()}
    original.coordinator.restore(ToCheckpoint(1))
    check_tables_of(shop, then)
    original.take("r3")
    dispose(original.coordinator, "kept")
    check_tables(shop)
    original.coordinator.cancel()
    original.clock.sleep(3600)
    original.coordinator.clean()
    assert not list((tmp_path / "checkpoints/orders").rglob("*.parquet"))
    assert {path for path in (tmp_path / "checkpoints/trial").rglob("*") if path.is_file()} == mine
    assert all(path.startswith("trial/") for path in state_of(store, new.storage, new))

    shop.deliver(files=1)
    new.take("t2")
    for name in ("seen", "totals_log", "balance_log"):  # begun empty: with what the original had, they are whole
        for partition in (tmp_path / "tables" / name).glob("checkpoint=*"):
            if int(partition.name.partition("=")[2]) <= 1:
                partition.rename(tmp_path / "trial" / name / partition.name)
    (tmp_path / "tables").rename(tmp_path / "tables of the original")
    (tmp_path / "trial").rename(tmp_path / "tables")
    check_tables(shop)
