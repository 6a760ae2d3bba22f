"""A pipeline whose savepoints are written to directories in memory, with a table of current rows, and everything that
an export or a restore does as an effect that can be the last one."""

from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from typing import Any

from pasts import OP, OUT, ExactStorage, Past
from worlds import MemorySink, small_pipeline

from tidegate.ports import CheckpointStore, CommitAttempt, SinkInput, Withdrawn
from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.facts.keygroups import KeyGroupRange
from tidegate.protocol.facts.names import STORAGE
from tidegate.protocol.facts.records import (
    CheckpointKind,
    CheckpointRecord,
    HandleKind,
    Snapshot,
    StateHandle,
    SubtaskId,
    SubtaskRecord,
)
from tidegate.protocol.facts.savepoints import Label
from tidegate.protocol.recovery.canonical import FileCopy, Rewrite
from tidegate.protocol.recovery.editing import Base
from tidegate.testing.effects import Effects, Mortal, MortalTransactions


class CurrentSink(MemorySink):
    """A table of current rows: it shows what one checkpoint staged, and keeps staged files."""

    input = SinkInput.CURRENT
    current: tuple[int, bytes] | None = None

    def __init__(self) -> None:
        super().__init__()
        self.files = ExactStorage("memory://sink")

    def staging(self) -> ExactStorage:
        return self.files

    def writer_at(self, url: str) -> Any:
        raise AssertionError("this world stages by itself")

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        attempt.confirm()
        self.before_commit(checkpoint_id)
        if staged and (self.current is None or self.current[0] <= checkpoint_id):
            self.current = self._rows(checkpoint_id, staged)

    def rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        attempt.confirm()
        self.before_rewind(checkpoint_id)
        self.current = self._rows(checkpoint_id, staged) if staged else None

    def _rows(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> tuple[int, bytes]:
        return checkpoint_id, b"".join(self.files.read(handle.path) for handle in staged)

    def shown_outside(self, branch: Branch) -> list[Withdrawn]:
        return [] if self.current is None or self.current[0] in branch else [Withdrawn(self.current[0], 1, 1)]

    def staged_paths(self, checkpoint_id: int) -> list[str]:
        return [path for path in sorted(self.files.files) if f"/chk-{checkpoint_id}/" in path]

    def discard(self, paths: Sequence[str]) -> None:
        self.files.delete(paths)

    def verify(self, staged: Sequence[StateHandle], in_full: Collection[str]) -> None:
        self.files.verify(staged, in_full)


class MortalStorage(Mortal):
    """With the storages elsewhere that it knows."""

    def __init__(self, port: Any, effects: Effects) -> None:
        super().__init__(port, effects, "write", "copy", "delete")

    def elsewhere(self, url: str) -> "MortalStorage":
        return MortalStorage(self._port.elsewhere(url), self._effects)


class MemoryExporter:
    """A merged run is the bytes of its runs, one after the other."""

    def __init__(self, world: "Exported") -> None:
        self._world = world

    def export(
        self, record: CheckpointRecord, location: str, rewrites: Sequence[Rewrite], copies: Sequence[FileCopy]
    ) -> Mapping[SubtaskId, StateHandle]:
        there, merged = self._world.mortal_storage.elsewhere(location), {}
        for copy in copies:
            home = self._world.storage if copy.owner == STORAGE else self._world.sink.staging()
            there.copy(copy.handle, home, copy.path, lambda: None)
        for rewrite in rewrites:
            content = b"".join(self._world.storage.read(run.path) for run in rewrite.runs)
            path, groups = f"{rewrite.path}.parquet", rewrite.key_groups
            there.write(path, content)
            merged[rewrite.subtask] = _handle(path, HandleKind.RUN, content, record.checkpoint_id, groups)
        return merged


def _handle(
    path: str, kind: HandleKind, content: bytes, checkpoint_id: int, groups: KeyGroupRange | None = None
) -> StateHandle:
    return StateHandle(path, kind, 1, len(content), sha256(content).hexdigest(), checkpoint_id, groups)


class Exported(Past):
    """Each checkpoint adds a run to the state of one subtask, says anew what sources have read, and stages all rows."""

    sink: CurrentSink

    def __init__(self, store: CheckpointStore, sink: CurrentSink | None = None, **config: Any) -> None:
        super().__init__(store, **{"retained": 2} | config)
        self.effects = Effects()
        self.sink = sink or CurrentSink()
        options, self.pipeline = self.pipeline.checkpoints, small_pipeline(self.sink)
        self.pipeline.checkpoints = options
        self.restored_positions: tuple[StateHandle, ...] = ()
        self.reopen(store)

    @property
    def mortal_storage(self) -> MortalStorage:
        return MortalStorage(self.storage, self.effects)

    def mortal(self) -> "Exported":
        """From here on every effect is counted, and may be the last."""
        from tidegate.coordination.coordinator import CheckpointCoordinator

        mortal = MortalTransactions(self.store, self.effects)
        self.coordinator = CheckpointCoordinator(self.pipeline, mortal, self.mortal_storage, self.clock)
        return self

    def made(self, checkpoint_id: int, subtask: SubtaskId, attempt: int) -> Snapshot:
        if subtask == OUT:
            rows, path = f"rows {checkpoint_id}".encode(), f"_staging/chk-{checkpoint_id}/0-{attempt}-x.parquet"
            self.sink.files.write(path, rows)
            return Snapshot((_handle(path, HandleKind.STAGED, rows, checkpoint_id),))
        if subtask.operator_id == "src":
            read = f"read by {checkpoint_id}".encode()
            path = f"{self.pipeline.name}/chk-{checkpoint_id}/src/{subtask.subtask_index}-{attempt}-m"
            self.storage.write(path, read)
            return Snapshot((_handle(path, HandleKind.POSITION, read, checkpoint_id),), {"read": checkpoint_id})
        if subtask == OP:
            return super().made(checkpoint_id, subtask, attempt)
        return Snapshot()

    def savepoint(self, name: str, location: str | None = None) -> CheckpointRecord:
        """As the command does it, also if it was cut short before."""
        known = self.coordinator.savepoints.named(name)
        if known is None:
            found = self.coordinator.trigger(f"s-{name}", kind=CheckpointKind.SAVEPOINT, label=Label(name))
            checkpoint_id: int = found.checkpoint_id
            self.walk(checkpoint_id)
        begun = self.coordinator.exporting.begin(name, location)
        return self.coordinator.exporting.export(begun.checkpoint_id, MemoryExporter(self))

    def walk(self, checkpoint_id: int) -> None:
        from worlds import Judge

        self.snapshot(checkpoint_id)
        self.coordinator.validate(checkpoint_id, Judge(True))
        self.coordinator.finalize(checkpoint_id)
        self.coordinator.notify(checkpoint_id)

    def latest(self) -> tuple[bytes, list[Any], tuple[int, bytes] | None]:
        """State, positions and table, as bytes: what must be equal whichever way led there."""
        with self.store.transaction(self.pipeline.name) as tx:
            record = tx.latest_completed()
            assert record is not None
            known = {key: each.snapshot for key, each in tx.subtasks(record.checkpoint_id).items()}
        state = b"".join(self.storage.read(handle.path) for handle in known[OP].handles)
        read = [
            (snapshot.position, [self.storage.read(handle.path) for handle in snapshot.handles])
            for key, snapshot in sorted(known.items())
            if key.operator_id == "src"
        ]
        return state, read, self.sink.current

    def everything(self) -> Any:
        """What may not change when a restore is refused, without ids that are given out."""
        with self.store.transaction(self.pipeline.name) as tx:
            recorded = tx.retained(), tx.abandoned(), tx.restores(), tx.endpoints(), tx.pipeline(), tx.imports()
        return recorded, dict(self.storage.files), dict(self.sink.files.files), self.sink.current


AT = "memory://saved"


def past_of(store: CheckpointStore, sink: CurrentSink | None = None) -> Exported:
    """Checkpoint 1, savepoint 2 in its directory, and checkpoints 3 and 4 after it."""
    found = Exported(store, sink)
    found.take("r1")
    found.savepoint("kept", AT)
    found.saved = found.latest()
    for number in (3, 4):
        found.take(f"r{number}")
    return found


def directory(world: Exported, url: str = AT) -> dict[str, bytes]:
    return world.storage.elsewhere(url).files


def copy_of(world: Exported, url: str = "memory://copy") -> str:
    directory(world, url).update(directory(world))
    return url


class MemoryEditor:
    """The state that is written is the bytes of its runs, then those of the changes; what it stages says so."""

    def __init__(self, world: Exported, base: Base) -> None:
        self._world = world
        self._home = world.storage if base.url == world.storage.url else world.storage.elsewhere(base.url)

    def checked(self, operator_id: str, rows: Any, removed: bool) -> Any:
        raise AssertionError("this world has no frames")

    def rewrite(
        self,
        record: CheckpointRecord,
        location: str,
        rewrites: Sequence[Rewrite],
        copies: Sequence[FileCopy],
        changes: Mapping[str, bytes],
    ) -> Mapping[SubtaskId, StateHandle]:
        there, written = self._world.mortal_storage.elsewhere(location), {}
        for copy in copies:
            there.copy(copy.handle, self._home, copy.path, lambda: None)
        for rewrite in rewrites:
            content = b"".join(self._home.read(run.path) for run in rewrite.runs)
            content += changes.get(rewrite.subtask.operator_id, b"")
            path = f"{rewrite.path}.parquet"
            there.write(path, content)
            written[rewrite.subtask] = _handle(path, HandleKind.RUN, content, record.checkpoint_id, rewrite.key_groups)
        return written

    def restage(
        self, record: CheckpointRecord, location: str, subtasks: Mapping[SubtaskId, SubtaskRecord]
    ) -> Mapping[SubtaskId, Sequence[StateHandle]]:
        there = self._world.mortal_storage.elsewhere(location)
        state = b"".join(there.read(handle.path) for handle in subtasks[OP].snapshot.handles)
        rows, path = b"rows of " + state, f"_staging/chk-{record.checkpoint_id}/0-1-x.parquet"
        there.write(f"staged/out-sink/{path}", rows)
        return {OUT: (_handle(path, HandleKind.STAGED, rows, record.checkpoint_id),)}


def check_restored(world, restored=None):
    """It is where savepoint 2 was, under a new number, and goes on from there."""
    state, positions, table = world.latest()
    assert (state, positions, table[1]) == (world.saved[0], world.saved[1], world.saved[2][1])
    assert table[0] == (restored or world.store.history("p", 1)[0].checkpoint_id)
    number = world.take("on from there")
    assert [handle.created_by for handle in world.restored] == [table[0]]
    assert world.latest()[0] == world.saved[0] + f"r{number:02}".encode()
