"""Thousands of subtasks and files through the coordinator: each report counts once, one decides,
nothing is repeated."""

import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from store_steps import acknowledgement, handle
from worlds import ManualClock, MemoryStorage, SplitSource

from tidegate.coordination.cleaning import deletion_queue as deleting
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.pipeline.aggregates import count
from tidegate.pipeline.definition import Pipeline
from tidegate.ports import CheckpointStore, Prefetch
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.records import AcknowledgeResult, CheckpointRecord, Deletion, SubtaskId

PARALLELISM = 1500
THREADS = 8  # a store lends twelve connections
BATCH = 50


class Watched:
    """A store that remembers what was asked of its transactions, with the answers."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store
        self.calls: list[tuple[str, tuple[Any, ...], Any]] = []

    @contextmanager
    def transaction(self, pipeline_id: str, prefetch: Prefetch | None = None, participants: Any = ()) -> Iterator[Any]:
        with self._store.transaction(pipeline_id, prefetch, participants) as tx:
            yield _WatchedTransaction(tx, self.calls)

    def identity(self) -> str:
        return self._store.identity()

    def history(self, pipeline_id: str, limit: int) -> list[Any]:
        return self._store.history(pipeline_id, limit)

    def left(self) -> list[int]:
        """How many subtasks had not acknowledged, after each report."""
        return [left for _, left in self.of("record_acknowledgements")]

    def of(self, name: str) -> list[tuple[tuple[Any, ...], Any]]:
        return [(arguments, answer) for called, arguments, answer in self.calls if called == name]


class _WatchedTransaction:
    def __init__(self, tx: Any, calls: list[tuple[str, tuple[Any, ...], Any]]) -> None:
        self._tx = tx
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._tx, name)

        def call(*arguments: Any, **named: Any) -> Any:
            answer = method(*arguments, **named)
            self._calls.append((name, arguments, answer))
            return answer

        return call


def test_threads_that_report_the_same_subtasks_count_each_once_and_decide_once(store: CheckpointStore) -> None:
    """Every subtask is reported by two threads, in the same attempt, in another order and in other company."""
    watched = Watched(store)
    coordinator = CheckpointCoordinator(_wide(), watched, MemoryStorage(), ManualClock())
    subtasks = coordinator.graph.subtasks
    checkpoint_id = _asked(coordinator, watched)
    together = threading.Barrier(THREADS)

    def report(thread: int) -> Counter[tuple[SubtaskId, AcknowledgeResult]]:
        mine = [*subtasks[thread::THREADS], *subtasks[(thread + 1) % THREADS :: THREADS]]
        random.Random(thread).shuffle(mine)
        answers: Counter[tuple[SubtaskId, AcknowledgeResult]] = Counter()
        together.wait(30)
        for first in range(0, len(mine), BATCH):
            reports = [
                acknowledgement(subtask, 1, handle(path_of(subtask, 1, thread), checkpoint_id))
                for subtask in mine[first : first + BATCH]
            ]
            answers.update(coordinator.record_acknowledgements(checkpoint_id, reports).items())
        return answers

    with ThreadPoolExecutor(THREADS) as pool:
        by_thread = list(pool.map(report, range(THREADS)))

    assert sum(by_thread, Counter()) == Counter(
        (subtask, result) for subtask in subtasks for result in (AcknowledgeResult.SUCCESS, AcknowledgeResult.DUPLICATE)
    )
    assert watched.left().count(0) == 1
    record = _record(store, checkpoint_id)
    assert (record.phase, record.num_acknowledged) == (Phase.ACKNOWLEDGED, len(subtasks))
    kept = store.subtasks("wide", checkpoint_id)
    for thread, answers in enumerate(by_thread):
        for subtask, result in answers:
            if result is AcknowledgeResult.SUCCESS:  # the first report owns the state
                assert [run.path for run in kept[subtask].snapshot.handles] == [path_of(subtask, 1, thread)]


def test_a_later_attempt_among_them_makes_the_older_reports_garbage_and_loses_none(store: CheckpointStore) -> None:
    """Half of the threads report for an attempt that is superseded in the middle, the others for the one after it."""
    watched = Watched(store)
    coordinator = CheckpointCoordinator(_wide(), watched, MemoryStorage(), ManualClock())
    subtasks = coordinator.graph.subtasks
    checkpoint_id = _asked(coordinator, watched)
    superseded = threading.Event()

    def report(thread: int) -> list[tuple[SubtaskId, int, AcknowledgeResult]]:
        attempt = 1 + thread % 2
        mine = list(subtasks[thread // 2 :: THREADS // 2])
        answers = []
        if attempt == 2:
            superseded.wait(30)
        for number, first in enumerate(range(0, len(mine), BATCH)):
            if (thread, number) == (0, 5):
                with watched.transaction("wide") as tx:
                    assert tx.begin_attempt(checkpoint_id) == 2
                superseded.set()
            reports = [
                acknowledgement(subtask, attempt, handle(path_of(subtask, attempt), checkpoint_id))
                for subtask in mine[first : first + BATCH]
            ]
            given = coordinator.record_acknowledgements(checkpoint_id, reports)
            answers += [(subtask, attempt, result) for subtask, result in given.items()]
        return answers

    with ThreadPoolExecutor(THREADS) as pool:
        answers = [one for each in pool.map(report, range(THREADS)) for one in each]

    successes = {subtask: attempt for subtask, attempt, result in answers if result is AcknowledgeResult.SUCCESS}
    assert Counter(result for _, _, result in answers) == {
        AcknowledgeResult.SUCCESS: len(subtasks),
        AcknowledgeResult.UNKNOWN: len(subtasks),
    }
    assert set(successes) == set(subtasks)
    assert set(successes.values()) == {1, 2}
    assert watched.left().count(0) == 1
    kept = store.subtasks("wide", checkpoint_id)
    assert {subtask: known.attempt for subtask, known in kept.items()} == successes
    with store.transaction("wide") as tx:
        garbage = {deletion.path for deletion in tx.pending_deletions(len(subtasks) + 1)}
    assert garbage == {path_of(subtask, 3 - attempt) for subtask, attempt in successes.items()}


def test_much_garbage_is_judged_at_once_and_its_deletion_recorded_in_batches(store: CheckpointStore) -> None:
    """What is live is found out by looking at all there is: once for the whole queue, not for each batch."""
    watched, storage = Watched(store), MemoryStorage()
    coordinator = CheckpointCoordinator(_wide(), watched, storage, ManualClock())
    garbage = [Deletion("storage", f"wide/old/{number}") for number in range(2 * deleting.BATCH + 1)]
    storage.files = {deletion.path: b"" for deletion in garbage}
    with watched.transaction("wide") as tx:
        tx.enqueue_deletions(garbage)
    coordinator.clean()
    assert storage.files == {}
    assert len(watched.of("pending_deletions")) == 1
    assert [len(removed) for (removed,), _ in watched.of("remove_deletions")] == [deleting.BATCH, deleting.BATCH]
    assert [len(removed) for (removed,), _ in watched.of("mark_discarded")] == [1]
    with store.transaction("wide") as tx:
        assert tx.pending_deletions(1) == []


def _wide() -> Pipeline:
    pipeline = Pipeline("wide", parallelism=PARALLELISM, max_parallelism=2048)
    stream = pipeline.source("source", SplitSource(PARALLELISM))
    stream.key_by("k").aggregate("totals", n=count())
    return pipeline


def path_of(subtask: SubtaskId, attempt: int, thread: int = 0) -> str:
    return f"wide/chk-1/{subtask}-{attempt}-{thread}"


def _asked(coordinator: CheckpointCoordinator, store: Any) -> int:
    """A new checkpoint with every subtask at attempt 1."""
    coordinator.trigger("request")
    with store.transaction("wide") as tx:
        assert tx.begin_attempt(1) == 1
    return 1


def _record(store: CheckpointStore, checkpoint_id: int) -> CheckpointRecord:
    record = store.checkpoint("wide", checkpoint_id)
    assert record is not None
    assert record.status is Status.IN_PROGRESS
    return record
