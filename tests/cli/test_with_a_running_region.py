"""A checkpoint asked for on the command line while a continuous region lives: the region takes it,
the command waits."""

import pytest
from desks import Desk
from memory_store import MemoryCheckpointStore
from rich.console import Console
from worlds import Judge

from tidegate.cli import run as running
from tidegate.protocol.facts.errors import CheckpointNotInProgressError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.records import Acknowledgement, Snapshot


class WatchedStore(MemoryCheckpointStore):
    """What others do while the command waits: one entry a wait."""

    def __init__(self):
        super().__init__()
        self.meanwhile = []

    def wait_for_change(self, pipeline_id, timeout):
        self.meanwhile.pop(0)()
        return True


class InstantRegion:
    """What stands where Spark would be opened."""

    frame = None

    def snapshot(self, task, acknowledge):
        acknowledge([Acknowledgement(key, attempt, Snapshot()) for key, attempt in task.attempts.items()])

    def compact(self, checkpoint_id, snapshots):
        return []


@pytest.fixture
def store():
    return WatchedStore()


@pytest.fixture
def world(store, monkeypatch):
    world = Desk(store)
    world.opened = []
    monkeypatch.setattr(running.assembly, "open_store", lambda: store)
    monkeypatch.setattr(running.assembly, "open_region", lambda _: world.opened.append(1) or InstantRegion())
    monkeypatch.setattr(running.assembly, "open_validator", lambda *_: Judge(True))
    monkeypatch.setattr(running.assembly, "require_definition", lambda coordinator, region: None)
    world.coordinator.start_region()
    return world


def take(world):
    console = Console(quiet=True)
    return running.run_checkpoint(world.coordinator, world.pipeline, lambda: world.ask("by hand"), console)


def answer(world):
    task = world.coordinator.begin_snapshot(1, 1)
    InstantRegion().snapshot(task, lambda acks: world.coordinator.record_acknowledgements(1, acks))


def test_the_command_waits_for_the_region_and_goes_on_from_there(world, store):
    store.meanwhile = [lambda: None, lambda: answer(world)]
    outcome = take(world)
    assert outcome.record.status is Status.COMPLETED
    assert [delivered.sink for delivered in outcome.delivered] == ["out"]
    assert store.meanwhile == []


def test_what_the_region_has_done_to_the_end_needs_no_spark(world, store):
    def complete():
        answer(world)
        world.coordinator.validate(1, Judge(True))
        world.coordinator.finalize(1)
        world.coordinator.notify(1)

    store.meanwhile = [complete]
    assert take(world).record.status is Status.COMPLETED
    assert world.opened == []


def test_a_region_that_dies_before_it_began_leaves_the_snapshot_to_the_command(world, store):
    store.meanwhile = [lambda: world.clock.advance(61)]
    assert take(world).record.status is Status.COMPLETED
    assert world.opened == [1]


def test_a_region_that_ends_meanwhile_is_the_cause_the_command_gives(world, store):
    store.meanwhile = [lambda: world.coordinator.end_region(1)]
    with pytest.raises(CheckpointNotInProgressError, match=r"JOB_FAILOVER_REGION\. The continuous region ended"):
        take(world)
