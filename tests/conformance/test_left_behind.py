"""A commit or a rewind of sinks that hangs while others take over, commit, and take the pipeline back to before."""

from contextlib import suppress

import pytest
from pasts import Past
from worlds import Crash

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.ports import CheckpointStore
from tidegate.protocol.facts.errors import CheckpointAbandonedError, SinkError, StateIntegrityError, StorageError


@pytest.mark.parametrize("kind", [SinkError, StateIntegrityError, StorageError])
def test_what_a_commit_misses_that_a_restore_has_left_behind_is_not_reported(
    store: CheckpointStore, kind: type[Exception]
) -> None:
    """Its files are no longer needed, and may be deleted by now: nobody is to look for what is wrong with them."""
    world = Past(store, retained=9)
    for number in (1, 2):
        world.take(f"r{number}")
    third = world.finalize("r3").checkpoint_id

    def hangs(checkpoint_id: int) -> None:
        world.sink.before_commit = lambda checkpoint_id: None
        if checkpoint_id == third:
            world.restore(1)
            raise kind("a staged file is gone")

    world.sink.before_commit = hangs
    delivers(world, third)
    assert world.shown() == [1]
    assert world.take("r4") == 4
    assert world.shown() == [1, 4]


def test_what_a_commit_misses_otherwise_is_reported(store: CheckpointStore) -> None:
    world = Past(store, retained=9)
    first = world.finalize("r1").checkpoint_id

    def misses(checkpoint_id: int) -> None:
        world.sink.before_commit = lambda checkpoint_id: None
        raise SinkError("a staged file is gone")

    world.sink.before_commit = misses
    with pytest.raises(SinkError, match="a staged file is gone"):
        world.coordinator.notify(first)
    delivers(world, first)
    assert world.shown() == [1]


def delivers(world: Past, checkpoint_id: int) -> None:
    """It is done, or the step says that a restore has left the checkpoint behind."""
    with suppress(CheckpointAbandonedError):
        world.coordinator.notify(checkpoint_id)


@pytest.mark.parametrize("kind", [SinkError, StateIntegrityError, StorageError])
def test_what_a_rewind_misses_after_another_restore_is_not_reported(
    store: CheckpointStore, kind: type[Exception]
) -> None:
    """The checkpoint that it was to show is given up by then, and its files may be deleted."""
    world = Past(store, retained=9)
    for number in (1, 2, 3):
        world.take(f"r{number}")

    def dies(checkpoint_id: int) -> None:
        raise Crash("rewinds")

    def hangs(checkpoint_id: int) -> None:
        world.sink.before_rewind = dies
        with pytest.raises(Crash):  # another process, whose restore has ended this one's attempt
            CheckpointCoordinator(world.pipeline, store, world.storage, world.clock).restore(ToCheckpoint(1))
        world.sink.before_rewind = lambda checkpoint_id: None
        raise kind("a staged file is gone")

    world.sink.before_rewind = hangs
    world.restore(2)
    assert world.shown() == [1, 2, 3]
    assert world.take("r4") == 4
    assert world.shown() == [1, 4]


def test_what_a_rewind_misses_otherwise_is_reported(store: CheckpointStore) -> None:
    world = Past(store, retained=9)
    for number in (1, 2):
        world.take(f"r{number}")

    def misses(checkpoint_id: int) -> None:
        world.sink.before_rewind = lambda checkpoint_id: None
        raise SinkError("a staged file is gone")

    world.sink.before_rewind = misses
    with pytest.raises(SinkError, match="a staged file is gone"):
        world.restore(1)
    world.take("r3")
    assert world.shown() == [1, 3]
