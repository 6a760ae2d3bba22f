"""A desk whose pipeline has checkpoints behind it that have written something: a run each, and a staged file."""

from collections.abc import Collection, Sequence
from hashlib import sha256

from desks import Desk
from worlds import CapturingRegion, Judge, MemoryStorage

from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.ports import CheckpointStore
from tidegate.protocol.facts.errors import StateIntegrityError
from tidegate.protocol.facts.keygroups import KeyGroupRange
from tidegate.protocol.facts.paths import marker_path
from tidegate.protocol.facts.records import (
    Acknowledgement,
    CheckpointRecord,
    HandleKind,
    Snapshot,
    StateHandle,
    SubtaskId,
    SubtaskMetrics,
)
from tidegate.protocol.recovery.restore_plan import RestorePlan
from tidegate.protocol.steps.snapshot import SnapshotTask

OUT, OP = SubtaskId("out-sink", 0), SubtaskId("op", 0)


class ExactStorage(MemoryStorage):
    """Looks at the files that it is to verify."""

    def verify(self, files: Sequence[StateHandle], in_full: Collection[str]) -> None:
        for handle in files:
            content = self.read(handle.path)
            if len(content) != handle.bytes or sha256(content).hexdigest() != handle.checksum:
                raise StateIntegrityError(f"{handle.path} is damaged.")


class Past(Desk):
    """Its runs are on the storage with their bytes; each checkpoint carries all earlier ones, or only the newest
    `carried`."""

    carried: int | None = None

    def __init__(self, store: CheckpointStore, **config: object) -> None:
        super().__init__(store, **config)
        self.storage = ExactStorage()
        self.reopen(store)

    def take(self, request_id: str, savepoint: bool = False) -> int:
        checkpoint_id = self.finalize(request_id, savepoint).checkpoint_id
        self.coordinator.notify(checkpoint_id)
        return checkpoint_id

    def finalize(self, request_id: str, savepoint: bool = False) -> CheckpointRecord:
        checkpoint_id: int = self.ask(request_id, savepoint=savepoint).checkpoint_id  # type: ignore[union-attr]
        self.snapshot(checkpoint_id)
        self.coordinator.validate(checkpoint_id, Judge(True))
        return self.coordinator.finalize(checkpoint_id)

    def snapshot(self, checkpoint_id: int) -> None:
        def report(task: SnapshotTask) -> None:
            self.restored = task.restored.get(OP, Snapshot()).handles
            acks = [
                Acknowledgement(key, attempt, self.made(checkpoint_id, key, attempt), SubtaskMetrics(1, 0, 2, 3))
                for key, attempt in task.attempts.items()
            ]
            self.coordinator.record_acknowledgements(checkpoint_id, acks)

        self.coordinator.snapshot(checkpoint_id, CapturingRegion(report))

    def made(self, checkpoint_id: int, subtask: SubtaskId, attempt: int) -> Snapshot:
        if subtask == OUT:
            path = f"_staging/chk-{checkpoint_id}/0-{attempt}-x.parquet"
            self.sink.staged[path] = checkpoint_id
            return Snapshot((StateHandle(path, HandleKind.STAGED, 1, 1, "0", checkpoint_id),))
        if subtask == OP:
            path = f"{self.pipeline.name}/chk-{checkpoint_id}/op/0-{attempt}-x.parquet"
            content = f"r{checkpoint_id:02}".encode()
            self.storage.files[path] = content
            checksum, groups = sha256(content).hexdigest(), KeyGroupRange(0, 3)
            run = StateHandle(path, HandleKind.RUN, 1, len(content), checksum, checkpoint_id, groups, {"level": 0})
            carried = (
                self.restored if self.carried is None else self.restored[max(len(self.restored) - self.carried, 0) :]
            )
            return Snapshot((*carried, run))
        return Snapshot((), {"read": checkpoint_id} if subtask.operator_id == "src" else None)

    def shown(self) -> list[int]:
        """Checkpoints whose rows readers see."""
        return sorted(self.sink.visible)

    def runs_restored(self) -> list[int]:
        """Which checkpoints wrote the runs that the last one began with."""
        return [handle.created_by for handle in self.restored]

    def ids(self) -> tuple[list[int], list[int]]:
        """The checkpoints that can be restored: those behind the pipeline, and those that were left behind."""
        with self.store.transaction(self.pipeline.name) as tx:
            return [r.checkpoint_id for r in tx.retained()], [r.checkpoint_id for r in tx.abandoned()]

    def restore(self, checkpoint_id: int) -> RestorePlan:
        return self.coordinator.restore(ToCheckpoint(checkpoint_id))

    def marked(self) -> list[int]:
        """Of the last hundred checkpoints, those that have a marker."""
        return [id_ for id_ in range(1, 100) if marker_path("p", id_) in self.storage.files]
