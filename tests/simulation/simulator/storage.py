"""Checkpoint storage in memory, each of whose effects is a step that others may come before, and that may fail."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from simulator.directories import ObjectStore, require_closed
from simulator.live_files import require_unneeded
from simulator.scheduler import Process, require
from tidegate.protocol.facts.errors import StorageError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.records import StateHandle
from tidegate.protocol.recovery.canonical import MARKER

if TYPE_CHECKING:
    from simulator.world import World


class SimulatedStorage(ObjectStore):
    """`ports.CheckpointStorage`. `files` is what lies there."""

    def __init__(self, world: "World") -> None:
        super().__init__("simulated://")
        self.world = world

    def elsewhere(self, url: str) -> "SavedDirectory":
        return self.others.setdefault(url, SavedDirectory(self.world, url))

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
            self._require_unneeded(path)
            super().delete([path])
        self.remove_empty(closed, self._removes)

    def _require_unneeded(self, path: str) -> None:
        own = path.startswith(f"{self.world.pipeline_id}/")
        require(own, f"{path} is deleted by {self.world.pipeline_id}, whose it is not")
        require_unneeded(self.world, "storage", path)

    def _removes(self, directory: str) -> None:
        self.world.point(f"has looked at {directory}")
        require_closed(self.world.store.state, self.world.pipeline_id, directory)

    def _effect(self, what: str) -> None:
        self.world.point(what)
        if self.world.strikes("storage_error"):
            self.world.note(f"cannot: {what}")
            raise StorageError(f"the network stumbled: {what}")


class SavedDirectory(SimulatedStorage):
    """A directory for a canonical savepoint. `is_owners`: nobody may touch it but who has claimed it. `changes` counts
    what was written and deleted."""

    def __init__(self, world: "World", url: str) -> None:
        super().__init__(world)
        self.url = url
        self.savepoint = 0
        self.is_owners = self.is_claimed = False
        self.changes = 0
        self.writers: list[Process] = []

    @property
    def is_complete(self) -> bool:
        return MARKER in self.files

    def write(self, path: str, content: bytes) -> None:
        known = self.files.get(path)
        require(known in (None, content), f"{path} in {self.url} is written once more, and differs")
        require(not self.is_owners, f"{path} is written to {self.url}, which is its owner's")
        require(not (self.is_complete and known is None), f"{path} is written to {self.url} behind its marker")
        super().write(path, content)
        self.changes += known is None

    def _require_unneeded(self, path: str) -> None:
        record = self.world.store.state.checkpoints.get(self.savepoint)
        is_kept = record is not None and record.status is Status.COMPLETED
        needed = not self.is_claimed if self.is_owners else is_kept
        require(not needed, f"{path} is deleted from {self.url}, where savepoint {self.savepoint} is")
        require(path == MARKER or not self.is_complete, f"{path} is deleted from {self.url} before its marker")
        self.changes += 1

    def _removes(self, directory: str) -> None:
        self.world.point(f"has looked at {directory} in {self.url}")
