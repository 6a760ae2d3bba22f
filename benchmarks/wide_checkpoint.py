"""Checkpoints of very many subtasks through the real coordinator and store, and very many acknowledgements at once.

No Spark and no data: a region that reports one run a subtask. `acknowledgements.py` reads the options and prints.
"""

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from measuring import Database
from process_tree import MemorySampler, memory, processor_seconds
from run import progress

from tidegate.clock import SystemClock
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.pipeline.aggregates import count
from tidegate.pipeline.config import CheckpointConfig
from tidegate.pipeline.definition import Pipeline
from tidegate.ports import Acknowledger
from tidegate.postgres.engine import connect
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.keygroups import MAX_PARALLELISM_LIMIT, key_groups_of
from tidegate.protocol.facts.lifecycle import Phase
from tidegate.protocol.facts.records import (
    Acknowledgement,
    AcknowledgeResult,
    CompactedRun,
    HandleKind,
    Snapshot,
    StateHandle,
    SubtaskId,
    SubtaskMetrics,
)
from tidegate.protocol.steps.snapshot import SnapshotTask
from tidegate.protocol.steps.trigger import Triggered
from tidegate.state.storage import ArrowCheckpointStorage

OPERATORS = 10  # the source is one of them
#: The first has nothing to restore; the second restores, compacts, pushes the first out and deletes what it wrote.
CHECKPOINTS = 2
THREADS = 4  # of a process: a store keeps as many connections open
NOT_ASKED: Any = None  # a port that the steps at hand do not use
_PATIENCE = 600.0  # seconds until something that never comes is an error

spawning = multiprocessing.get_context("spawn")


class NamedOnly(ArrowCheckpointStorage):
    """A storage whose runs are named and not written: there is nothing to look at."""

    def verify(self, files: Sequence[StateHandle], in_full: Collection[str]) -> None:
        pass


class Splits:
    """A source that only has splits: nothing is read here."""

    schema = "key bigint"

    def __init__(self, splits: int) -> None:
        self._splits = splits

    def num_splits(self) -> int:
        return self._splits

    def describe(self) -> dict[str, Any]:
        return {"type": "Splits"}


def pipeline_of(name: str, subtasks: int) -> Pipeline:
    """A source and operators in a row that have `subtasks` together, each of them as many."""
    parallelism = subtasks // OPERATORS
    pipeline = Pipeline(name, parallelism, MAX_PARALLELISM_LIMIT, CheckpointConfig("1 h"))
    source: Any = Splits(parallelism)
    stream = pipeline.source("source", source)
    for number in range(1, OPERATORS):
        stream = stream.key_by("key").aggregate(f"totals_{number}", events=count())
    return pipeline


def run_of(subtask: SubtaskId, name: str, checkpoint_id: int, parallelism: int, pipeline: str = "wide") -> StateHandle:
    groups = key_groups_of(subtask.subtask_index, parallelism, MAX_PARALLELISM_LIMIT)
    path = f"{pipeline}/chk-{checkpoint_id}/{subtask.operator_id}/{subtask.subtask_index}-{name}.parquet"
    return StateHandle(path, HandleKind.RUN, 1000, 16_384, "0" * 64, checkpoint_id, groups, {"level": 0})


def acknowledgement(
    subtask: SubtaskId, attempt: int, checkpoint_id: int, parallelism: int, pipeline: str = "wide"
) -> Acknowledgement:
    snapshot = Snapshot((run_of(subtask, f"{attempt}-run", checkpoint_id, parallelism, pipeline),))
    return Acknowledgement(subtask, attempt, snapshot, SubtaskMetrics(1, 2, 3, 4, 5, 6, 7, 8))


class Reporter:
    """A region with nothing to compute: every subtask reports one new run, and every run it had is compacted."""

    def __init__(self, parallelism: int, batch: int, ends: Callable[[str], None]) -> None:
        self._parallelism = parallelism
        self._batch = batch
        self._ends = ends  # called with what has just ended
        self.sent = 0.0  # when the last batch was
        self.batches: list[float] = []  # seconds each took

    def snapshot(self, task: SnapshotTask, acknowledge: Acknowledger) -> None:
        self._ends("begin of the snapshot")
        attempts = list(task.attempts.items())
        for first in range(0, len(attempts), self._batch):
            reports = [
                acknowledgement(subtask, attempt, task.checkpoint_id, self._parallelism)
                for subtask, attempt in attempts[first : first + self._batch]
            ]
            self.sent = time.monotonic()
            require_success(acknowledge(reports).values())
            self.batches.append(time.monotonic() - self.sent)
        self._ends("acknowledgements")

    def compact(self, checkpoint_id: int, snapshots: Mapping[SubtaskId, Snapshot]) -> list[CompactedRun]:
        return [
            CompactedRun(subtask, run_of(subtask, "compacted-merged", checkpoint_id, self._parallelism), (handle.view,))
            for subtask, snapshot in snapshots.items()
            for handle in snapshot.handles
        ]


def require_success(results: Any) -> None:
    if unexpected := {result for result in results if result is not AcknowledgeResult.SUCCESS}:
        raise RuntimeError(f"Acknowledgements were answered with {', '.join(unexpected)}")


@dataclass(frozen=True, slots=True)
class Step:
    """Seconds of one step of one checkpoint, those on processors, and the bytes of memory at its peak."""

    checkpoint: int
    name: str
    seconds: float
    processors: float
    client: int
    postgres: int


class Steps:
    """Measures steps one after the other."""

    def __init__(self, server: int) -> None:
        self.steps: list[Step] = []
        self._client, self._server = MemorySampler(os.getpid()), MemorySampler(server)
        self._roots = os.getpid(), server
        self.begin(1)

    def __enter__(self) -> "Steps":
        self._client.__enter__()
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._client.__exit__()
        self._server.__exit__()

    def begin(self, checkpoint: int) -> None:
        self._checkpoint = checkpoint
        self._processors, self._began = processor_seconds(*self._roots), time.monotonic()

    def end(self, name: str) -> None:
        """One step ends and the next begins. A short one may have no sample: memory after it counts too."""
        ended, processors = time.monotonic(), processor_seconds(*self._roots) - self._processors
        client, server = (memory(root) for root in self._roots)
        client = max(client, self._client.peak(self._began, ended))
        server = max(server, self._server.peak(self._began, ended))
        self.steps.append(Step(self._checkpoint, name, ended - self._began, processors, client, server))
        self.begin(self._checkpoint)


def watch(url: str, pipeline_id: str, checkpoint_id: int, answer: Connection) -> None:
    """In a process of its own, as a sensor is: answers when it listens, and the moment it saw the decision."""
    store = PostgresCheckpointStore(connect(url))
    store.wait_for_change(pipeline_id, 0)
    answer.send("listening")
    while (record := store.checkpoint(pipeline_id, checkpoint_id)) is not None and record.phase is Phase.TRIGGERED:
        store.wait_for_change(pipeline_id, _PATIENCE)
    answer.send(time.monotonic())  # one clock for all processes of a machine
    store.close()


@contextmanager
def watching(url: str, pipeline_id: str, checkpoint_id: int) -> Iterator[Connection]:
    here, there = spawning.Pipe(duplex=False)
    process = spawning.Process(target=watch, args=(url, pipeline_id, checkpoint_id, there))
    process.start()
    there.close()  # so that a process that dies is noticed
    try:
        received(here)
        yield here
        process.join()
    finally:
        process.terminate()


def received(answer: Connection) -> Any:
    if not answer.poll(_PATIENCE):
        raise RuntimeError(f"A process did not answer within {_PATIENCE:.0f} seconds")
    return answer.recv()


def measure_wide(
    found: Database, storage: Path, subtasks: int, batch: int
) -> tuple[list[Step], list[float], list[float]]:
    """Checkpoints of so many subtasks: their steps, the seconds of each batch, and those from the last batch being sent
    to the decision being seen."""
    pipeline = pipeline_of("wide", subtasks)
    store = PostgresCheckpointStore(connect(found.url))
    coordinator = CheckpointCoordinator(pipeline, store, NamedOnly(str(storage)), SystemClock())
    decisions = []
    with Steps(found.process) as steps:
        region: Any = (reporter := Reporter(pipeline.parallelism, batch, steps.end))
        for number in range(1, CHECKPOINTS + 1):
            progress(f"checkpoint {number} of {subtasks:,} subtasks")
            steps.begin(number)
            checkpoint_id = triggered(coordinator, f"request {number}")
            steps.end("trigger")
            with watching(found.url, pipeline.name, checkpoint_id) as watcher:
                steps.begin(number)
                coordinator.snapshot(checkpoint_id, region)
                steps.end("end of the snapshot")
                decisions.append(received(watcher) - reporter.sent)
            steps.begin(number)
            coordinator.validate(checkpoint_id, NOT_ASKED)
            steps.end("validate")
            coordinator.finalize(checkpoint_id, notifies=True)
            steps.end("finalize")
            coordinator.notify(checkpoint_id)
            steps.end("notify")
    require_all(store, pipeline.name, checkpoint_id, subtasks)
    store.close()
    return steps.steps, reporter.batches, decisions


def triggered(coordinator: CheckpointCoordinator, request: str) -> int:
    outcome = coordinator.trigger(request)
    if not isinstance(outcome, Triggered):
        raise RuntimeError(f"The checkpoint was not triggered: {outcome}")
    return outcome.checkpoint_id


def require_all(store: PostgresCheckpointStore, pipeline_id: str, checkpoint_id: int, subtasks: int) -> None:
    """Every subtask counted once, each with its run, and the decision made."""
    record = store.checkpoint(pipeline_id, checkpoint_id)
    known = store.subtasks(pipeline_id, checkpoint_id).values()
    whole = [one for one in known if one.acknowledged_at is not None and len(one.snapshot.handles) == 1]
    if record is None or record.phase is Phase.TRIGGERED or not subtasks == record.num_acknowledged == len(whole):
        raise RuntimeError(f"Of {subtasks:,} subtasks {len(whole):,} are recorded as acknowledged: {record}")


def report_one_by_one(
    url: str,
    checkpoint_id: int,
    shares: Sequence[Sequence[SubtaskId]],
    subtasks: int,
    begin: Barrier,
    answer: Connection,
) -> None:
    """A process of one thread a share, each on a connection of its own;
    answers the seconds of every acknowledgement."""
    pipeline = pipeline_of("at_once", subtasks)
    store = PostgresCheckpointStore(connect(url))
    coordinator = CheckpointCoordinator(pipeline, store, NOT_ASKED, SystemClock())
    seconds: list[float] = []

    def report(share: Sequence[SubtaskId]) -> None:
        begin.wait(_PATIENCE)
        for subtask in share:
            sent = time.monotonic()
            reported = acknowledgement(subtask, 1, checkpoint_id, pipeline.parallelism, pipeline.name)
            require_success(coordinator.record_acknowledgements(checkpoint_id, [reported]).values())
            seconds.append(time.monotonic() - sent)

    threads = [threading.Thread(target=report, args=(share,)) for share in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.close()
    answer.send(seconds)


def measure_at_once(found: Database, storage: Path, subtasks: int, connections: int) -> tuple[float, list[float]]:
    """Seconds until all have acknowledged and the decision was seen, and those of each acknowledgement."""
    progress(f"{subtasks:,} acknowledgements, one by one, over {connections} connections")
    pipeline = pipeline_of("at_once", subtasks)
    store = PostgresCheckpointStore(connect(found.url))
    coordinator = CheckpointCoordinator(pipeline, store, NamedOnly(str(storage)), SystemClock())
    checkpoint_id = triggered(coordinator, "at once")
    with store.transaction(pipeline.name) as tx:
        tx.begin_attempt(checkpoint_id)
    shares = [coordinator.graph.subtasks[n::connections] for n in range(connections)]
    begin = spawning.Barrier(connections + 1)
    answers, processes = [], []
    with watching(found.url, pipeline.name, checkpoint_id) as watcher:
        try:
            for first in range(0, connections, THREADS):
                here, there = spawning.Pipe(duplex=False)
                arguments = (found.url, checkpoint_id, shares[first : first + THREADS], subtasks, begin, there)
                processes.append(spawning.Process(target=report_one_by_one, args=arguments))
                processes[-1].start()
                there.close()
                answers.append(here)
            begin.wait(_PATIENCE)
            began = time.monotonic()
            seconds = [one for answer in answers for one in received(answer)]
            seen = received(watcher)
        finally:
            for process in processes:
                process.join(5)
                process.terminate()
    if len(seconds) != subtasks:
        raise RuntimeError(f"{subtasks - len(seconds):,} of {subtasks:,} acknowledgements failed")
    require_all(store, pipeline.name, checkpoint_id, subtasks)
    store.close()
    return seen - began, seconds
