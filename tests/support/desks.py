"""A coordinator of a small pipeline on a given store, asked for checkpoints and walked through them."""

from worlds import CapturingRegion, Judge, ManualClock, MemorySink, MemoryStorage, small_pipeline

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.pipeline.config import CheckpointConfig
from tidegate.ports import CheckpointStore
from tidegate.protocol.facts.records import Acknowledgement, CheckpointKind, CheckpointRecord, Snapshot
from tidegate.protocol.steps.snapshot import SnapshotTask
from tidegate.protocol.steps.trigger import TriggerOutcome


class Desk:
    """A coordinator of a small pipeline, and a way to complete a checkpoint of it. With `hold_for` its rule holds."""

    def __init__(self, store: CheckpointStore, hold_for: str | None = None, **config: object) -> None:
        self.store, self.clock, self.sink, self.storage = store, ManualClock(), MemorySink(), MemoryStorage()
        self.pipeline = small_pipeline(self.sink, hold_for=hold_for)
        self.pipeline.checkpoints = CheckpointConfig(**config)
        self.reopen(store)

    def reopen(self, store: CheckpointStore) -> None:
        """Another process, which may see the store in its own way."""
        self.coordinator = CheckpointCoordinator(self.pipeline, store, self.storage, self.clock)

    def ask(
        self, request_id: str, *, periodic: bool = False, savepoint: bool = False, wait: bool = True
    ) -> TriggerOutcome:
        kind = CheckpointKind.SAVEPOINT if savepoint else CheckpointKind.CHECKPOINT
        return self.coordinator.trigger(request_id, periodic, kind, wait)

    def stop(self, request_id: str, drain: bool = False) -> TriggerOutcome:
        return self.coordinator.trigger(request_id, kind=CheckpointKind.SYNC_SAVEPOINT, drain=drain)

    def acknowledge(
        self, checkpoint_id: int, finished: str = "", region: type[CapturingRegion] = CapturingRegion
    ) -> None:
        """By all who are asked; `finished` names operators, or one of their subtasks, that nothing will follow."""

        def report(task: SnapshotTask) -> list[Acknowledgement]:
            ended = finished.split()
            return [
                Acknowledgement(key, attempt, Snapshot(finished=str(key) in ended or key.operator_id in ended))
                for key, attempt in task.attempts.items()
            ]

        self.coordinator.snapshot(checkpoint_id, region(report))

    def complete(self, checkpoint_id: int, finished: str = "") -> None:
        self.acknowledge(checkpoint_id, finished)
        self.coordinator.validate(checkpoint_id, Judge(True))
        self.coordinator.finalize(checkpoint_id)
        self.coordinator.notify(checkpoint_id)

    def record(self, checkpoint_id: int) -> CheckpointRecord:
        found = self.store.checkpoint("p", checkpoint_id)
        assert found is not None
        return found

    def answer(self, task: SnapshotTask) -> None:
        """Every subtask acknowledges, with nothing."""
        acks = [Acknowledgement(key, attempt, Snapshot()) for key, attempt in task.attempts.items()]
        self.coordinator.record_acknowledgements(task.checkpoint_id, acks)

    def complete_by(self, attempt: int, checkpoint_id: int) -> None:
        """A region takes a checkpoint, and it completes."""
        task = self.coordinator.begin_snapshot(attempt, checkpoint_id)
        assert task is not None
        self.answer(task)
        self.coordinator.validate(checkpoint_id, Judge(True))
        self.coordinator.finalize(checkpoint_id)
        self.coordinator.notify(checkpoint_id)
