"""A world that is the same each time: a pipeline with a past, on a real database and real files, for the commands."""

from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from shown_pipelines import ShownPipeline

from tidegate.assembly import open_store
from tidegate.protocol.facts.records import CheckpointKind, HandleKind, StateHandle, SubtaskId
from tidegate.protocol.observing.actions import Actor, ActorKind
from tidegate.protocol.steps.snapshot import SnapshotTask
from tidegate.state.storage import ArrowCheckpointStorage

BEGAN = datetime(2026, 3, 1, 8, tzinfo=UTC)
NAME = "flight_delays"

#: The pipelines as the project's code defines them: as the past has them, and one that begins.
CODE = """
from memory_store import MemoryCheckpointStore
from shown_pipelines import ShownPipeline
from worlds import MemoryStorage

pipeline = ShownPipeline(MemoryCheckpointStore(), MemoryStorage(), parallelism=2).pipeline
"""
PROJECT = """
[tool.tidegate.pipelines]
flight_delays = "shown:pipeline"
"""


class KeptPipeline(ShownPipeline):
    """Its files are there, with what their handles say of them."""

    def _file(self, task: SnapshotTask, key: SubtaskId, kind: HandleKind, rows: int, attempt: int) -> StateHandle:
        handle = super()._file(task, key, kind, rows, attempt)
        content = handle.path.encode() * (rows // 1000 + 1)
        self.storage.write(handle.path, content)
        return replace(handle, bytes=len(content), checksum=sha256(content).hexdigest())


def fill(home: Path, url: str) -> None:
    """Seven checkpoints, a savepoint, one that failed its validation, one in progress, and a few user actions."""
    (home / "shown.py").write_text(CODE)
    (home / "pyproject.toml").write_text(PROJECT)
    storage = ArrowCheckpointStorage(str(home / ".tidegate/checkpoints"))
    store = open_store(url)
    shown = KeptPipeline(store, storage, parallelism=2)
    shown.clock.time = BEGAN
    shown.take(3)
    person, operations = Actor(ActorKind.CLI_USER, "ada", "laptop"), shown.coordinator.operations
    operations.suspend("action-1", person)
    shown.clock.advance(60)
    operations.resume("action-2", person)
    shown.take(3)
    shown.complete(request="by-hand", kind=CheckpointKind.SAVEPOINT, name="before-migration", note="for the auditors")
    shown.clock.advance(600)
    shown.fail_validation()
    shown.clock.advance(600)
    shown.snapshot(shown.trigger(), without=[SubtaskId("carriers", 2)])
    store.close()
