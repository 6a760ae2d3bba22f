"""Checkpoint storage in memory, each of whose effects is a step that others may come before, and that may fail."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from worlds import MemoryStorage

from tidegate.protocol.errors import StorageError

if TYPE_CHECKING:
    from simulator.world import World


class SimulatedStorage(MemoryStorage):
    """`ports.CheckpointStorage`. `files` is what lies there."""

    url = "simulated://"

    def __init__(self, world: "World") -> None:
        super().__init__()
        self.world = world

    def write(self, path: str, content: bytes) -> None:
        self._effect(f"writes {path}")
        super().write(path, content)
        self.world.point(f"has written {path}")

    def read(self, path: str) -> bytes:
        self._effect(f"reads {path}")
        return super().read(path)

    def list(self, prefix: str) -> list[str]:
        self._effect(f"lists {prefix}")
        return super().list(prefix)

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._effect(f"deletes {path}")
            self.world.observer.deletes("storage", path)
            super().delete([path])

    def _effect(self, what: str) -> None:
        self.world.point(what)
        if self.world.strikes("storage_error"):
            self.world.note(f"cannot: {what}")
            raise StorageError(f"the network stumbled: {what}")
