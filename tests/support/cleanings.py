"""Pasts of which something is to be cleaned up, and what is left of them."""

from pasts import Past

from tidegate.ports import CheckpointStore
from tidegate.protocol.cleaning.retention import SWEEP_FOR

DAY = 86_400


def past_of_four(store: CheckpointStore, **config: object) -> Past:
    """With checkpoints 1 to 4 behind it."""
    world = Past(store, **config)
    for number in (1, 2, 3, 4):
        assert world.take(f"r{number}") == number
    return world


def left_there(world: Past, *paths: str) -> set[str]:
    """Files that somebody has written whom nobody knows."""
    for path in paths:
        world.storage.files[path] = b"left"
    return set(paths)


def settle(world: Past) -> None:
    """Until the routine looks nowhere any more."""
    world.clock.advance(SWEEP_FOR.total_seconds() + 1)
    world.coordinator.clean()
    with world.store.transaction("p") as tx:
        assert tx.unswept() == {}
