"""Transactions on one pipeline take turns, those on different pipelines do not; waiting ends with a commit."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from store_steps import FIRST, PIPELINE, SUBTASKS, Crash, acknowledgement, at, completed, crash_after, record, triggered

from tidegate.ports import CheckpointStore
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.reasons import FailureReason


def test_a_second_transaction_on_a_pipeline_waits_for_the_first_and_sees_its_writes(store: CheckpointStore) -> None:
    inside, order = threading.Event(), []

    def second() -> None:
        inside.wait(10)
        with store.transaction(PIPELINE) as transaction:
            order.append(("second", [c.checkpoint_id for c in transaction.in_progress()]))

    thread = threading.Thread(target=second)
    thread.start()
    with store.transaction(PIPELINE) as transaction:
        inside.set()
        transaction.add_pending(record(transaction.next_checkpoint_id(), "run-1"), SUBTASKS)
        time.sleep(0.2)
        order.append(("first", [1]))
    thread.join(10)
    assert order == [("first", [1]), ("second", [1])]


def test_pipelines_do_not_wait_for_each_other(store: CheckpointStore) -> None:
    with store.transaction(PIPELINE), ThreadPoolExecutor(1) as pool:
        assert pool.submit(triggered, store, "run-1", "weather").result(timeout=10) == 1


def test_many_threads_make_as_many_checkpoints_with_ids_of_their_own(store: CheckpointStore) -> None:
    with ThreadPoolExecutor(6) as pool:
        ids = list(pool.map(lambda _: triggered(store), range(24)))
    assert sorted(ids) == list(range(1, 25))


def test_one_of_two_that_end_a_checkpoint_wins(store: CheckpointStore) -> None:
    triggered(store)
    start = threading.Barrier(2)

    def fail(message: str) -> bool:
        start.wait(10)
        with store.transaction(PIPELINE) as transaction:
            return transaction.fail(1, FailureReason.TASK_FAILURE, message, at(5))

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(fail, ["one", "other"])) == [False, True]


def test_threads_that_acknowledge_one_after_the_other_lose_nothing(store: CheckpointStore) -> None:
    triggered(store)

    def acknowledge(index: int) -> int:
        with store.transaction(PIPELINE) as transaction:
            return transaction.record_acknowledgements(1, [acknowledgement(SUBTASKS[index], 1)], at(3))

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(acknowledge, range(4))) == [0, 1, 2, 3]


def test_reading_does_not_wait_for_a_transaction(store: CheckpointStore) -> None:
    triggered(store)
    with store.transaction(PIPELINE) as transaction:
        transaction.fail(1, FailureReason.TASK_FAILURE, "gone", at(5))
        with ThreadPoolExecutor(1) as pool:
            seen = pool.submit(store.checkpoint, PIPELINE, 1).result(timeout=10)
    assert seen is not None
    assert seen.status is Status.IN_PROGRESS


def test_waiting_without_a_change_ends_with_the_timeout(store: CheckpointStore) -> None:
    started = time.monotonic()
    assert not store.wait_for_change(PIPELINE, 0.2)
    assert 0.2 <= time.monotonic() - started < 5


def test_waiting_ends_with_a_commit_of_the_pipeline(store: CheckpointStore) -> None:
    assert not store.wait_for_change(PIPELINE, 0)
    timer = threading.Timer(0.2, triggered, (store,))
    timer.start()
    assert store.wait_for_change(PIPELINE, 30)
    timer.join()
    with store.transaction(PIPELINE) as transaction:
        assert len(transaction.in_progress()) == 1


def test_a_change_between_two_waits_is_not_missed(store: CheckpointStore) -> None:
    assert not store.wait_for_change(PIPELINE, 0)
    triggered(store, pipeline_id="weather")
    triggered(store)
    assert store.wait_for_change(PIPELINE, 30)
    assert store.wait_for_change("weather", 30)
    assert not store.wait_for_change(PIPELINE, 0.05)


def test_reading_and_rolling_back_wake_nobody(store: CheckpointStore) -> None:
    completed(store)
    assert not store.wait_for_change(PIPELINE, 0)
    with store.transaction(PIPELINE) as transaction:
        transaction.latest_completed()
        transaction.pending_deletions(5)
        transaction.live_paths(1)
        transaction.subtasks(1, [FIRST])
    with pytest.raises(Crash):
        crash_after(store, lambda transaction: transaction.subsume([1]))
    assert not store.wait_for_change(PIPELINE, 0.1)
