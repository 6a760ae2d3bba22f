"""What is left in a bucket, empty objects that mark directories included,
while a pipeline runs and when it is cancelled."""

from dataclasses import replace
from hashlib import sha256

import pytest
from desks import Desk
from object_stores import Bucket
from worlds import CapturingRegion, Judge

from tidegate.ports import CheckpointStore
from tidegate.protocol.cleaning.retention import SWEEP_FOR
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.paths import directory, shared_directory, write_prefix
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import Acknowledgement, HandleKind, KeyGroupRange, Snapshot, StateHandle, SubtaskId
from tidegate.state.storage import ArrowCheckpointStorage


class Written:
    """A pipeline whose operator writes a run of each of its subtasks, below a directory of the caller's choice."""

    def __init__(self, store: CheckpointStore, url: str, bucket: Bucket) -> None:
        self.bucket = bucket
        self.desk = Desk(store, retained=1)
        self.storage = self.desk.storage = ArrowCheckpointStorage(url)
        self.desk.reopen(store)

    def write(self, below: str, subtask: SubtaskId, attempt: int, id_: int) -> StateHandle:
        path = f"{write_prefix(below, subtask, attempt)}-{id_}.parquet"
        self.storage.write(path, b"run")
        checksum = sha256(b"run").hexdigest()
        handle = StateHandle(path, HandleKind.RUN, 1, 3, checksum, id_, KeyGroupRange(0, 3), {"level": 0})
        return handle if subtask.subtask_index == 0 else replace(handle, key_groups=KeyGroupRange(4, 7))

    def acknowledge(self, id_: int, below: str) -> None:
        def report(task) -> None:
            acknowledgements = [
                Acknowledgement(
                    key,
                    attempt,
                    Snapshot((self.write(below, key, attempt, id_),) if key.operator_id == "op" else ()),
                )
                for key, attempt in task.attempts.items()
            ]
            self.desk.coordinator.record_acknowledgements(id_, acknowledgements)

        self.desk.coordinator.snapshot(id_, CapturingRegion(report))

    def begin(self, request: str, below: str | None = None) -> int:
        id_ = self.desk.ask(request).checkpoint_id
        self.acknowledge(id_, below or directory("p", id_))
        return id_

    def complete(self, id_: int) -> None:
        self.desk.coordinator.validate(id_, Judge(True))
        self.desk.coordinator.finalize(id_)
        self.desk.coordinator.notify(id_)

    def files(self) -> set[str]:
        return {key for key in self._objects() if not key.endswith("/") and key}

    def marks(self) -> set[str]:
        """The storage's own directory aside: it is the user's."""
        return {key for key in self._objects() if key.endswith("/")}

    def _objects(self) -> list[str]:
        """But what says to whom the storage belongs, which stays."""
        return [key for key in self.bucket.objects() if not key.startswith("_owners/")]


@pytest.fixture(params=["below a directory", "a whole bucket"])
def written(request, store: CheckpointStore, bucket: Bucket) -> Written:
    url = bucket.url if request.param == "below a directory" else f"s3://{bucket.name}"
    return Written(store, url, bucket)


def check_marks(written: Written) -> None:
    """Each is of a directory with something in it."""
    assert not [mark for mark in written.marks() if not any(file.startswith(mark) for file in written.files())]


def test_no_directory_outlives_its_last_file(written: Written) -> None:
    assert not written.marks()
    for number in range(3):
        written.complete(written.begin(f"r{number}"))
        check_marks(written)
    failed = written.begin("r3")
    written.desk.coordinator.abort(failed, FailureReason.CHECKPOINT_DECLINED, "on purpose")
    check_marks(written)
    assert {file.rpartition("/")[0] for file in written.files()} == {"p/chk-3", "p/chk-3/op"}
    assert written.marks() <= {"p/"}


def test_nothing_of_a_cancelled_pipeline_is_left(written: Written) -> None:
    written.complete(written.begin("r1"))
    written.begin("r2")
    written.desk.coordinator.cancel()
    assert not written.files() | written.marks()


def test_nothing_is_left_of_one_that_never_completed_a_checkpoint(written: Written) -> None:
    failed = written.begin("r1")
    written.desk.coordinator.abort(failed, FailureReason.CHECKPOINT_DECLINED, "on purpose")
    written.desk.coordinator.cancel()
    assert not written.files() | written.marks()


def test_what_a_savepoint_of_a_cancelled_pipeline_refers_to_is_left(written: Written, store: CheckpointStore) -> None:
    id_ = written.desk.ask("s", savepoint=True).checkpoint_id
    written.acknowledge(id_, directory("p", id_))
    written.complete(id_)
    written.complete(written.begin("r2"))
    written.desk.coordinator.cancel()
    assert store.history("p", 9)[-1].status is Status.COMPLETED
    assert {file.rpartition("/")[0] for file in written.files()} == {"p/chk-1", "p/chk-1/op"}
    check_marks(written)


def test_nothing_of_a_region_is_left_that_deleted_its_own_files(written: Written, store: CheckpointStore) -> None:
    """It deletes one by one, and every deletion marks the directory."""
    with store.transaction("p") as tx:
        attempt = tx.begin_region(written.desk.clock.now())
    below = shared_directory("p", attempt)
    mine = written.write(below, SubtaskId("op", 0), 1, 1)
    written.storage.delete([mine.path])
    assert below + "/op/" in written.marks(), "the file system of the object store marks no directories any more"
    with store.transaction("p") as tx:
        tx.end_region(attempt, written.desk.clock.now())
    written.desk.clock.advance(SWEEP_FOR.total_seconds() + 1)
    written.desk.coordinator.clean()
    assert not [mark for mark in written.marks() if mark.startswith(below)]
    written.desk.coordinator.cancel()
    assert not written.files() | written.marks()


def test_a_region_that_goes_on_is_left_alone(written: Written, store: CheckpointStore) -> None:
    with store.transaction("p") as tx:
        first = tx.begin_region(written.desk.clock.now())
    with store.transaction("p") as tx:
        second = tx.begin_region(written.desk.clock.now())
    written.storage.delete([written.write(shared_directory("p", first), SubtaskId("op", 0), 1, 1).path])
    mine = written.write(shared_directory("p", second), SubtaskId("op", 0), 1, 1)
    for seconds in (0, SWEEP_FOR.total_seconds() + 1):
        written.desk.clock.advance(seconds)
        written.desk.coordinator.clean()
        assert written.files() == {mine.path}
    assert not [mark for mark in written.marks() if mark.startswith(shared_directory("p", first))]


def test_what_was_left_long_ago_goes_with_its_directories(written: Written) -> None:
    coordinator = written.desk.coordinator
    failed = written.begin("r1")
    coordinator.abort(failed, FailureReason.CHECKPOINT_DECLINED, "on purpose")
    written.complete(written.begin("r2"))
    written.desk.clock.advance(SWEEP_FOR.total_seconds() + 1)
    coordinator.clean()
    kept = written.files()
    zombie = written.write(directory("p", failed), SubtaskId("op", 0), 9, failed)
    coordinator.clean()
    assert written.files() == kept | {zombie.path}
    report = coordinator.cleaning.clean()
    assert ([deletion.path for deletion in report.garbage], report.damage) == ([zombie.path], ())
    assert written.files() == kept
    check_marks(written)
