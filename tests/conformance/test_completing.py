"""What follows when a step of completing a checkpoint fails: the table of protocol.md section 6, row by row,
on every store."""

from typing import Any

import pytest
from desks import Desk
from worlds import Judge, MortalStore

from tidegate.ports import CheckpointStore
from tidegate.protocol.facts.errors import CheckpointError, FinalizeError, SinkError, StorageError
from tidegate.protocol.facts.lifecycle import COMMITTED, Status
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason


class Notified:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.heard.append(f"complete {checkpoint_id}")

    def notify_checkpoint_aborted(self, checkpoint_id: int, latest_completed: int | None) -> None:
        self.heard.append(f"aborted {checkpoint_id}")

    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None:
        self.heard.append(f"subsumed {checkpoint_id}")


class World(Desk):
    """Checkpoint 1 is complete, checkpoint 2 validated; one failure that counts is one too many."""

    def __init__(self, store: CheckpointStore) -> None:
        super().__init__(store, tolerable_failed_checkpoints=0)
        self.notified = Notified()
        self.pipeline.listen(self.notified)
        self.mortal = MortalStore(store)
        self.reopen(self.mortal)
        self.ask("first")
        self.complete(1)
        self.ask("second")
        self.acknowledge(2)
        self.coordinator.validate(2, Judge(True))
        self.notified.heard.clear()

    def finalize(self, transaction: int = 0, how: str | None = None) -> CheckpointError | None:
        """With trouble in that transaction of the step; what it raises."""
        self.mortal.plan = None if how is None else (transaction, how)
        try:
            self.coordinator.finalize(2)
        except CheckpointError as error:
            return error
        finally:
            self.mortal.plan = None
        return None

    def abort(self, error: CheckpointError) -> None:
        self.coordinator.abort(2, error.reason, str(error))

    @property
    def status(self) -> Status:
        record = self.store.checkpoint("p", 2)
        assert record is not None
        return record.status

    @property
    def visible(self) -> set[int]:
        return set(self.sink.visible)


@pytest.fixture
def world(store: CheckpointStore) -> World:
    return World(store)


def refuse(*_: Any) -> None:
    raise StorageError("the disk is full")


def test_row_2_metadata_that_cannot_be_written_abort_with_a_reason_that_counts(world: World) -> None:
    write, world.storage.write = world.storage.write, refuse
    error = world.finalize()
    world.storage.write = write
    assert isinstance(error, FinalizeError)
    assert error.reason is FailureReason.FINALIZE_CHECKPOINT_FAILURE
    assert world.status is Status.IN_PROGRESS
    world.abort(error)
    assert world.status is Status.FAILED
    assert world.visible == {1}
    assert world.notified.heard == ["aborted 2"]
    assert world.store.pipeline("p").status is PipelineStatus.FAILED


def test_row_4_an_entry_that_is_known_not_to_have_landed_is_discarded_and_counts(world: World) -> None:
    """The commit was lost on its way, and looking shows that it did not land."""
    commit = 1  # transactions of the step before it: the permit with the facts of the metadata
    error = world.finalize(commit, "connection lost before commit")
    assert isinstance(error, FinalizeError)
    assert world.status is Status.IN_PROGRESS
    assert any("chk-2" in path for path in world.storage.files), "nothing may be deleted before somebody aborts it"
    world.abort(error)
    assert world.status is Status.FAILED
    assert not any("chk-2" in path for path in world.storage.files)
    assert world.notified.heard == ["aborted 2"]
    assert world.visible == {1}


def test_row_4_an_entry_of_which_nobody_knows_is_looked_for_and_nothing_is_deleted(world: World) -> None:
    assert world.finalize(1, "connection lost after commit") is None
    assert world.status is Status.COMPLETED
    assert any("chk-2" in path for path in world.storage.files)
    world.coordinator.abort(2, FailureReason.FINALIZE_CHECKPOINT_FAILURE, "somebody thinks it failed")
    assert world.status is Status.COMPLETED
    world.coordinator.notify(2)
    assert world.visible == {1, 2}
    assert world.notified.heard[0] == "complete 2"


def test_rows_5_to_9_what_fails_after_the_commit_point_undoes_nothing_and_is_repeated(world: World) -> None:
    assert world.finalize() is None

    def fail(checkpoint_id: int) -> None:
        raise SinkError("the table is locked")

    world.sink.before_commit = fail
    with pytest.raises(SinkError):
        world.coordinator.notify(2)
    world.coordinator.abort(2, FailureReason.TASK_FAILURE, "the task failed for good")
    assert world.status is Status.COMPLETED
    assert world.visible == {1}
    assert world.notified.heard == []
    world.sink.before_commit = lambda checkpoint_id: None
    world.ask("third")  # whoever comes next makes up for it first
    assert world.visible == {1, 2}
    assert world.notified.heard[0] == "complete 2"


def test_a_listener_that_raises_fails_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Notified, "notify_checkpoint_complete", refuse)
    assert world.finalize() is None
    world.coordinator.notify(2)
    record = world.store.checkpoint("p", 2)
    assert record is not None
    assert record.status in COMMITTED
    assert record.notified_at is not None


@pytest.mark.parametrize("how", ["connection lost before commit", "connection lost after commit"])
@pytest.mark.parametrize("transaction", range(4))
def test_a_connection_lost_anywhere_in_the_step_is_recovered_by_repeating_it(
    world: World, transaction: int, how: str
) -> None:
    world.finalize(transaction, how)
    assert world.finalize() is None
    world.coordinator.notify(2)
    assert world.status is Status.COMPLETED
    assert world.visible == {1, 2}
