"""Checkpoint storage in memory, each of whose effects is a step that others may come before, and that may fail."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from simulator.directories import ObjectStore, require_closed
from tidegate.protocol.errors import StorageError
from tidegate.protocol.records import StateHandle

if TYPE_CHECKING:
    from simulator.world import World


class SimulatedStorage(ObjectStore):
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

    def verify(self, files: Sequence[StateHandle], in_full: Collection[str]) -> None:
        self._effect(f"looks at {len(files)} files")
        super().verify(files, in_full)

    def delete(self, paths: Sequence[str], closed: Collection[str] = ()) -> None:
        for path in paths:
            self._effect(f"deletes {path}")
            self.world.observer.deletes("storage", path)
            super().delete([path])
        self.remove_empty(closed, self._removes)

    def _removes(self, directory: str) -> None:
        self.world.point(f"has looked at {directory}")
        require_closed(self.world.store.state, self.world.observer.graph.pipeline.name, directory)

    def _effect(self, what: str) -> None:
        self.world.point(what)
        if self.world.strikes("storage_error"):
            self.world.note(f"cannot: {what}")
            raise StorageError(f"the network stumbled: {what}")
