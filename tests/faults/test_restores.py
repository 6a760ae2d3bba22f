"""Back to each checkpoint of a pipeline on Spark, on real files and a real database, and forth again: tables, state and
positions are those of a straight run, wherever a restore dies."""

from datetime import timedelta

import pytest
from orders import Shop, check_storage, check_tables, check_tables_of, orders_pipeline
from sizes import sizes
from worlds import Crash, Judge, ShiftedClock

from tidegate.clock import SystemClock
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.coordination.recovery.restore import ToCheckpoint, Undo
from tidegate.protocol.facts.errors import RestoreRefusedError, SourceChangedError
from tidegate.protocol.recovery.restore_plan import Accepted
from tidegate.settings import Settings
from tidegate.state.storage import ArrowCheckpointStorage
from tidegate.testing.effects import Effects, Mortal, MortalTransactions

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]


class MortalSink(Mortal):
    """With its abilities where a look at the class finds them."""

    rewind, shown_outside, withdrawn, delete_withdrawn = (
        property(lambda self, name=name: self.__getattr__(name))
        for name in ("rewind", "shown_outside", "withdrawn", "delete_withdrawn")
    )


class Past:
    """A pipeline and its shop: what was delivered when each checkpoint was taken."""

    def __init__(self, tmp_path, store, spark):
        from tidegate.spark.region import SparkRegion

        self.shop, self.home, self.store = Shop(tmp_path), tmp_path, store
        self.effects, self.clock = Effects(), ShiftedClock()
        self.settings = Settings(tmp_path, str(tmp_path / "checkpoints"), str(tmp_path / "cache"), tmp_path / "docs")
        storage = ArrowCheckpointStorage(self.settings.storage)
        pipeline = orders_pipeline(
            tmp_path, wrap_sink=lambda sink: MortalSink(sink, self.effects, "commit", "rewind"), retained=99
        )
        mortal = MortalTransactions(store, self.effects)
        self.coordinator = CheckpointCoordinator(pipeline, mortal, storage, self.clock)
        self.region = SparkRegion(self.coordinator.graph, spark, storage, SystemClock(), self.settings)
        self.delivered = {}

    def take(self, request_id):
        checkpoint_id = self.coordinator.trigger(request_id).checkpoint_id
        self.coordinator.snapshot(checkpoint_id, self.region)
        self.coordinator.validate(checkpoint_id, Judge(True))
        self.coordinator.finalize(checkpoint_id)
        self.coordinator.notify(checkpoint_id)
        self.delivered[checkpoint_id] = list(self.shop.rows)
        check_tables(self.shop)
        return checkpoint_id

    def check_as_of(self, checkpoint_id):
        check_tables_of(self.shop, self.delivered[checkpoint_id])


@pytest.fixture
def past(tmp_path, store, spark):
    def take(checkpoints):
        past = Past(tmp_path, store, spark)
        for number in range(checkpoints):
            past.shop.deliver(files=1)
            past.take(f"r{number}")
        return past

    return take


@sizes("checkpoints", sample=3, whole=20)
def test_back_to_each_checkpoint_and_on_gives_the_tables_of_a_straight_run(past, checkpoints):
    past = past(checkpoints)
    for back in range(1, checkpoints):
        plan = past.coordinator.restore(ToCheckpoint(back))
        assert [source.pieces for source in plan.sources] == [checkpoints - back]
        past.check_as_of(back)
        past.take(f"on from {back}")
        past.coordinator.restore(Undo())
        past.check_as_of(checkpoints)
    past.shop.deliver()
    past.take("and on")
    past.clock.shift += timedelta(days=8)
    past.coordinator.clean()
    past.coordinator.clean()
    check_tables(past.shop)
    check_storage(past.store, "orders", past.home / "checkpoints", past.home)


@sizes("step", sample=13, whole=1)
def test_a_restore_that_dies_before_or_after_any_effect_is_finished_by_a_repeat(past, step):
    past, number, survived, crashes = past(2), 0, 0, 0
    while survived < 2:
        survived = 0
        for before in (True, False):
            past.effects.die(number, before)
            try:
                past.coordinator.restore(ToCheckpoint(1))
                survived += 1
            except Crash:
                crashes += 1
            past.effects.die(None)
            past.clock.shift += timedelta(minutes=1)  # the holder of a lease is dead
            past.coordinator.restore(ToCheckpoint(1))
            past.check_as_of(1)
            past.coordinator.restore(ToCheckpoint(2))
            past.check_as_of(2)
        number += step
    assert crashes > 16 // step, past.effects.log


def test_files_that_are_gone_or_have_changed_are_named_and_skipped_only_when_that_is_said(past):
    past = past(3)
    archived, changed = (past.home / "landing" / f"000{number}.csv" for number in (2, 3))
    archived.unlink()
    changed.write_text("customer,amount\nann,1\n")
    with pytest.raises(RestoreRefusedError, match=r"2 files .*0002\.csv, 0003\.csv.*--missing-files skip"):
        past.coordinator.restore(ToCheckpoint(1))
    past.check_as_of(3)
    past.coordinator.restore(ToCheckpoint(1), Accepted(skip_missing_files=True))
    past.shop.rows = [*past.delivered[1], ("ann", 1)]
    past.take("without them")
    changed.write_text("customer,amount\nann,2\n")
    with pytest.raises(RestoreRefusedError, match=r"1 files .*0003\.csv"):
        past.coordinator.restore(ToCheckpoint(1))
    past.coordinator.restore(Undo())
    past.check_as_of(3)
    with pytest.raises(SourceChangedError, match=r"0003\.csv"):
        past.take("as if nothing had happened")
