"""The database of a pipeline on Spark is lost, and it goes on from its checkpoint storage, on real files: tables are
those of a straight run."""

import shutil

import pytest
from orders import Shop, check_storage, check_tables, check_tables_of, orders_pipeline
from sizes import later, sizes
from worlds import Judge

from tidegate.clock import SystemClock
from tidegate.coordination.context import context_of
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.coordination.recovery.lost_database import Recovering
from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.postgres.engine import connect
from tidegate.postgres.migrate import upgrade
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.errors import RecoveryRefusedError
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.recovery.lost_database import AcceptedLosses
from tidegate.settings import Settings
from tidegate.state.storage import ArrowCheckpointStorage

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]


class Lost:
    """A pipeline, its shop, and one database after the other."""

    def __init__(self, home, server, spark):
        self.shop, self.home, self.server, self.spark = Shop(home), home, server, spark
        self.checkpoints, self.databases, self.delivered = home / "checkpoints", 0, {}
        self.lose()

    def lose(self, checkpoints=None):
        """From here on with an empty database, and perhaps a checkpoint storage elsewhere."""
        from tidegate.spark.region import SparkRegion

        if self.databases:
            self.store.close()
        self.databases += 1
        name = f"{self.home.name.replace('-', '_')}_{self.databases}"
        self.server.create_database(name)
        upgrade(self.server.url(name))
        self.store = PostgresCheckpointStore(connect(self.server.running_url(name)))
        self.checkpoints = checkpoints or self.checkpoints
        settings = Settings(self.home, str(self.checkpoints), str(self.home / "cache"), self.home / "docs")
        self.storage, pipeline = ArrowCheckpointStorage(settings.storage), orders_pipeline(self.home, retained=9)
        self.coordinator = CheckpointCoordinator(pipeline, self.store, self.storage, SystemClock())
        self.region = SparkRegion(self.coordinator.graph, self.spark, self.storage, SystemClock(), settings)

    def recover(self, *include, **accepted):
        recovering = Recovering(context_of(self.coordinator.graph, self.store, self.storage, SystemClock()))
        plan = recovering.plan(include)
        recovering.recover(plan, AcceptedLosses(**accepted))
        return [each.record.checkpoint_id for each in plan.checkpoints]

    def finalize(self, request_id, kind=CheckpointKind.CHECKPOINT):
        checkpoint_id = self.coordinator.trigger(request_id, kind=kind).checkpoint_id
        self.coordinator.snapshot(checkpoint_id, self.region)
        self.coordinator.validate(checkpoint_id, Judge(True))
        self.coordinator.finalize(checkpoint_id)
        self.delivered[checkpoint_id] = list(self.shop.rows)
        return checkpoint_id

    def take(self, request_id, kind=CheckpointKind.CHECKPOINT):
        self.shop.deliver(files=1)
        checkpoint_id = self.finalize(request_id, kind)
        self.coordinator.notify(checkpoint_id)
        check_tables(self.shop)
        return checkpoint_id

    def check_as_of(self, checkpoint_id):
        check_tables_of(self.shop, self.delivered[checkpoint_id])


@pytest.fixture
def lost(tmp_path, postgres_server, spark):
    world = Lost(tmp_path, postgres_server, spark)
    yield world
    world.store.close()


@sizes("checkpoints", sample=2, whole=12)
def test_a_pipeline_goes_on_after_its_database_was_lost_again_and_again_and_its_storage_moved(lost, checkpoints):
    for number in range(checkpoints):
        lost.take(f"r{number}", CheckpointKind.SAVEPOINT if number == 0 else CheckpointKind.CHECKPOINT)
    lost.lose()
    assert lost.recover() == [1, *sorted(lost.delivered)[1:][-9:]]  # the savepoint, and what is retained beside it
    latest = lost.take("on")
    assert latest == checkpoints + 1
    moved = lost.home / "elsewhere"
    shutil.move(lost.checkpoints, moved)
    lost.lose(moved)
    assert latest in lost.recover()
    lost.coordinator.restore(ToCheckpoint(latest - 1))
    lost.check_as_of(latest - 1)
    lost.lose(moved)
    lost.recover()
    lost.check_as_of(latest - 1)
    lost.take("back and on")
    lost.coordinator.restore(ToCheckpoint(latest))
    lost.check_as_of(latest)
    lost.take("forth and on")
    check_storage(lost.store, "orders", moved, lost.home)


@pytest.mark.parametrize("included", [True, later(False)])
def test_a_checkpoint_in_doubt_gives_its_rows_once_whatever_is_decided(lost, included):
    lost.take("r1")
    lost.shop.deliver()
    doubtful = lost.finalize("r2")
    lost.lose()
    assert lost.recover(*([doubtful] if included else [])) == ([1, 2] if included else [1])
    lost.take("on")
    assert (lost.home / f"tables/seen/checkpoint={doubtful}").exists() is included


def test_what_tables_show_of_a_damaged_checkpoint_is_withdrawn_and_read_again(lost):
    for number in range(3):
        lost.take(f"r{number}")
    newest = sorted((lost.checkpoints / "orders/chk-3").rglob("*.parquet"))[0]
    newest.write_bytes(newest.read_bytes()[:-1])
    lost.lose()
    with pytest.raises(RecoveryRefusedError, match=r"Checkpoint 3: The file orders/chk-3/.* is damaged"):
        lost.recover()
    assert lost.recover(withdraw=True) == [1, 2]
    assert lost.take("on") == 4
