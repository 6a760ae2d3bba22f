"""Who commits the sinks of a checkpoint: one at a time, the newest if two believe they are it,
and nobody waits for ever."""

from datetime import timedelta
from typing import Any

import pytest
from store_steps import PIPELINE, at, completed
from worlds import Crash, Judge, ManualClock, MemorySink, MemoryStorage, MortalStore, small_pipeline

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.coordination.steps.commit_attempts import TURNS
from tidegate.ports import CheckpointStore, CommitAttempt
from tidegate.protocol.facts.errors import FinalizeError, SinkError, StateIntegrityError, SupersededAttemptError
from tidegate.protocol.steps.committing import COMMIT_LEASE, CommitterRecord


def test_an_attempt_may_end_with_its_record(store: CheckpointStore) -> None:
    completed(store, notified=False)
    with store.transaction(PIPELINE) as transaction:
        assert transaction.begin_commit(at(1)) == 1
        assert not transaction.mark_notified(1, 2, at(2), ends=True)
        assert transaction.committer() == CommitterRecord(1, at(1))
        assert transaction.mark_notified(1, 1, at(3), ends=True)
        assert transaction.committer() == CommitterRecord(1, None)
    with store.transaction(PIPELINE) as transaction:
        assert transaction.committer() == CommitterRecord(1, None)
        assert not transaction.end_commit(1)
        assert transaction.begin_commit(at(4)) == 2
        assert transaction.mark_notified(1, 2, at(5), ends=True)  # the first record stays, and the attempt ends
        assert transaction.committer() == CommitterRecord(2, None)
    record = store.checkpoint(PIPELINE, 1)
    assert record is not None
    assert record.notified_at == at(3)


def test_why_an_attempt_has_failed_is_kept_until_one_succeeds(store: CheckpointStore) -> None:
    completed(store, notified=False)
    with store.transaction(PIPELINE) as transaction:
        assert transaction.begin_commit(at(1)) == 1
        assert transaction.end_commit(1, "no space \0 left")
    with store.transaction(PIPELINE) as transaction:
        assert transaction.committer() == CommitterRecord(1, None, "no space \ufffd left")
        assert transaction.begin_commit(at(2)) == 2
    with store.transaction(PIPELINE) as transaction:
        assert transaction.committer() == CommitterRecord(2, at(2), "no space \ufffd left")
        assert not transaction.end_commit(1, "overtaken")
        assert transaction.mark_notified(1, 2, at(3), ends=True)
    with store.transaction(PIPELINE) as transaction:
        assert transaction.committer() == CommitterRecord(2, None)


def test_attempts_grow_and_only_the_newest_may_do_anything(store: CheckpointStore) -> None:
    completed(store, notified=False)
    with store.transaction(PIPELINE) as transaction:
        assert transaction.committer() == CommitterRecord()
        assert transaction.begin_commit(at(1)) == 1
        assert transaction.committer() == CommitterRecord(1, at(1))
    with store.transaction(PIPELINE) as transaction:
        assert transaction.begin_commit(at(2)) == 2
        assert not transaction.touch_committer(1, at(3))
        assert not transaction.mark_notified(1, 1, at(3))
        assert not transaction.end_commit(1)
        assert transaction.touch_committer(2, at(4))
    with store.transaction(PIPELINE) as transaction:
        assert transaction.committer() == CommitterRecord(2, at(4))
        assert transaction.mark_notified(1, 2, at(5))
        assert transaction.end_commit(2)
        assert not transaction.end_commit(2)
        assert not transaction.touch_committer(2, at(6))
        assert not transaction.mark_notified(1, 2, at(6))
    with store.transaction(PIPELINE) as transaction:
        assert transaction.committer() == CommitterRecord(2, None)
        assert transaction.begin_commit(at(7)) == 3
    record = store.checkpoint(PIPELINE, 1)
    assert record is not None
    assert record.notified_at == at(5)


class World:
    """A checkpoint that has completed and whose sinks were not notified, and processes that notify them."""

    def __init__(self, store: CheckpointStore) -> None:
        self.store, self.clock, self.sink, self.storage = store, ManualClock(), MemorySink(), MemoryStorage()
        self.begun_at = self.clock.now()
        self.complete("r1")

    def process(self) -> CheckpointCoordinator:
        return CheckpointCoordinator(small_pipeline(self.sink), self.store, self.storage, self.clock)

    def complete(self, request: str) -> None:
        coordinator = self.process()
        checkpoint_id: int = coordinator.trigger(request).checkpoint_id  # type: ignore[union-attr]
        coordinator.snapshot(checkpoint_id, Reports())
        coordinator.validate(checkpoint_id, Judge(True))
        coordinator.finalize(checkpoint_id)

    def committer(self) -> CommitterRecord:
        with self.store.transaction("p") as tx:
            return tx.committer()

    def is_notified(self) -> bool:
        record = self.store.checkpoint("p", 1)
        return record is not None and record.notified_at is not None

    def waited(self) -> timedelta:
        return self.clock.now() - self.begun_at


class Reports:
    """A region of which every subtask has nothing to say."""

    def snapshot(self, task: Any, acknowledge: Any) -> None:
        from tidegate.protocol.facts.records import Acknowledgement, Snapshot

        acknowledge([Acknowledgement(subtask, attempt, Snapshot()) for subtask, attempt in task.attempts.items()])

    def compact(self, checkpoint_id: int, snapshots: Any) -> list[Any]:
        return []

    def frame(self, target: str, subtasks: Any, record: Any) -> None:
        return None


@pytest.fixture
def world(store: CheckpointStore) -> World:
    return World(store)


def test_a_commit_takes_an_attempt_and_lets_the_next_one_begin_at_once(world: World) -> None:
    world.process().notify(1)
    assert world.is_notified()
    assert world.committer() == CommitterRecord(1, None)
    assert world.waited() == timedelta(0)


def test_after_a_crash_the_next_one_waits_for_the_end_of_the_lease_and_no_longer(world: World) -> None:
    def crash(_: int) -> None:
        raise Crash

    world.sink.before_commit = crash
    with pytest.raises(Crash):
        world.process().notify(1)
    world.sink.before_commit = lambda _: None
    world.process().notify(1)
    assert world.is_notified()
    assert world.committer() == CommitterRecord(2, None)
    assert world.waited() == COMMIT_LEASE


@pytest.mark.parametrize("how", ["connection lost before commit", "connection lost after commit"])
def test_an_attempt_of_a_commit_point_whose_outcome_was_unknown_is_not_gone_on_with(world: World, how: str) -> None:
    """Another process may have got the same number."""
    world.process().notify(1)
    mortal: Any = MortalStore(world.store)
    mine = CheckpointCoordinator(small_pipeline(world.sink), mortal, world.storage, world.clock)
    mine.trigger("r2")
    mine.snapshot(2, Reports())
    mine.validate(2, Judge(True))
    mortal.plan = (1, how)
    if "before" in how:
        with pytest.raises(FinalizeError):
            mine.finalize(2, notifies=True)
        world.process().finalize(2)
    else:
        mine.finalize(2, notifies=True)
    assert mortal.plan is None
    with world.store.transaction("p") as tx:
        others = tx.begin_commit(world.clock.now())
    mine.notify(2)
    assert world.waited() == COMMIT_LEASE
    assert world.committer() == CommitterRecord(others + 1, None)


def test_a_sink_that_fails_lets_the_retry_begin_at_once(world: World) -> None:
    def fail(_: int) -> None:
        raise SinkError("the disk is full")

    world.sink.before_commit = fail
    with pytest.raises(SinkError):
        world.process().notify(1)
    world.sink.before_commit = lambda _: None
    world.process().notify(1)
    assert world.is_notified()
    assert world.waited() == timedelta(0)


def test_a_clock_that_is_far_ahead_holds_nobody_up_for_longer(world: World) -> None:
    with world.store.transaction("p") as tx:
        tx.begin_commit(world.clock.now() + timedelta(days=3))
    world.process().notify(1)
    assert world.is_notified()
    assert world.waited() == COMMIT_LEASE


def test_one_that_says_that_it_lives_is_waited_for(world: World) -> None:
    with world.store.transaction("p") as tx:
        attempt = tx.begin_commit(world.clock.now())
    pause, signs = world.clock.sleep, 0

    def sleep(seconds: float) -> None:
        nonlocal signs
        pause(seconds)
        signs += 1
        with world.store.transaction("p") as tx:
            if signs < 200:
                tx.touch_committer(attempt, world.clock.now())
            elif signs == 200:
                assert tx.mark_notified(1, attempt, world.clock.now())
                tx.end_commit(attempt)

    world.clock.sleep = sleep  # type: ignore[method-assign]
    world.process().notify(1)
    assert signs == 200
    assert world.waited() > 2 * COMMIT_LEASE
    assert world.committer() == CommitterRecord(attempt, None), "the second one committed as well"


def test_a_long_commit_says_that_it_lives(world: World) -> None:
    class Long(MemorySink):
        def commit(self, checkpoint_id: int, staged: Any, attempt: CommitAttempt) -> None:
            for _ in range(20):
                world.clock.advance(COMMIT_LEASE.total_seconds() / 3)
                attempt.keep()
                with world.store.transaction("p") as tx:
                    assert tx.committer().seen_at == world.clock.now()
            super().commit(checkpoint_id, staged, attempt)

    world.sink = Long()
    world.process().notify(1)
    assert world.committer() == CommitterRecord(1, None)


class Overtaken(MemorySink):
    """While it commits, others take over so many times, and each either commits or dies."""

    def __init__(self, world: World, times: int, commits: bool) -> None:
        super().__init__()
        self._world, self._times, self._commits = world, times, commits

    def commit(self, checkpoint_id: int, staged: Any, attempt: CommitAttempt) -> None:
        if self._times:
            self._times -= 1
            with self._world.store.transaction("p") as tx:
                number = tx.begin_commit(self._world.clock.now())
                if self._commits:
                    assert tx.mark_notified(checkpoint_id, number, self._world.clock.now())
                    tx.end_commit(number)
        super().commit(checkpoint_id, staged, attempt)


def test_one_that_was_overtaken_looks_again_and_succeeds_if_the_other_has_committed(world: World) -> None:
    world.sink = Overtaken(world, 1, commits=True)
    world.process().notify(1)
    assert world.is_notified()
    assert world.committer() == CommitterRecord(2, None)


def test_files_that_were_deleted_behind_the_one_that_took_over_are_no_damage(world: World) -> None:
    """A checkpoint that was delivered and is not retained any more."""

    class Deleted(MemorySink):
        def commit(self, checkpoint_id: int, staged: Any, attempt: CommitAttempt) -> None:
            attempt.confirm()
            with world.store.transaction("p") as tx:
                number = tx.begin_commit(world.clock.now())
                assert tx.mark_notified(checkpoint_id, number, world.clock.now())
                tx.end_commit(number)
            raise StateIntegrityError("the staged files are gone")

    world.sink = Deleted()
    world.process().notify(1)
    assert world.is_notified()
    assert world.committer() == CommitterRecord(2, None)


def test_one_that_was_overtaken_by_one_that_died_commits_after_all(world: World) -> None:
    world.sink = Overtaken(world, 1, commits=False)
    world.process().notify(1)
    assert world.is_notified()
    assert world.committer() == CommitterRecord(3, None)


def test_one_that_is_overtaken_again_and_again_says_so_and_blames_no_disk(world: World) -> None:
    world.sink = Overtaken(world, TURNS, commits=False)
    with pytest.raises(SupersededAttemptError) as raised:
        world.process().notify(1)
    for part in ("the sinks of checkpoint 1 of pipeline p was overtaken by another process", "its rows are safe"):
        assert part in str(raised.value)
    for part in ("disk", "permission", "mount", "Restore"):
        assert part not in str(raised.value)
    record = world.store.checkpoint("p", 1)
    assert record is not None
    assert record.failure_reason is None
    world.process().notify(1)
    assert world.is_notified()


def test_what_was_committed_and_overtaken_before_it_was_recorded_is_looked_at_again(world: World) -> None:
    """Its rows are visible; the one that took over learns so from the sink, and records it."""
    committed = world.sink.commit

    def commit(checkpoint_id: int, staged: Any, attempt: CommitAttempt) -> None:
        committed(checkpoint_id, staged, attempt)
        if attempt.number == 1:
            with world.store.transaction("p") as tx:
                tx.begin_commit(world.clock.now())

    world.sink.commit = commit  # type: ignore[method-assign]
    world.process().notify(1)
    assert world.is_notified()
    assert world.committer() == CommitterRecord(3, None)
