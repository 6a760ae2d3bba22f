"""A world for the coordinator without Spark: a clock that is set, storage and sinks in memory, and everything that can
die on request. The coordinator, the graph and the store under test are the real ones.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from records import T0

from tidegate.pipeline.config import CheckpointConfig
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.expectations import expect, suite
from tidegate.ports import (
    CheckpointStorage,
    CheckpointStore,
    CommitAttempt,
    Prefetch,
    SinkCommit,
    SinkInput,
    StoreTransaction,
    Withdrawn,
)
from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.facts.errors import StateIntegrityError, UnknownOutcomeError
from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.records import (
    CheckpointRecord,
    CompactedRun,
    Snapshot,
    StateHandle,
    SubtaskId,
    SubtaskRecord,
    Verdict,
)
from tidegate.protocol.steps.snapshot import SnapshotTask
from tidegate.testing.effects import Crash as Crash
from tidegate.testing.effects import ShiftedClock as ShiftedClock


class ManualClock:
    """`time` passes; `wrong` is how far the wall clock is from it."""

    def __init__(self) -> None:
        self.time: datetime = T0
        self.wrong = timedelta(0)

    def now(self) -> datetime:
        return self.time + self.wrong

    def monotonic(self) -> float:
        return self.time.timestamp()

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)

    sleep = advance


class MemoryStorage:
    """Checkpoint storage as a dictionary."""

    def __init__(self, url: str = "memory://") -> None:
        self.url = url
        self.files: dict[str, bytes] = {}
        self.others: dict[str, MemoryStorage] = {}
        self.marks: dict[str, bytes] = {}

    def write(self, path: str, content: bytes) -> None:
        self.files[path] = content

    def read(self, path: str) -> bytes:
        if path not in self.files:
            raise StateIntegrityError(path)
        return self.files[path]

    def marked(self, path: str) -> bytes | None:
        return self.marks.get(path)

    def mark(self, path: str, content: bytes, anew: bool = False) -> bytes:
        return self.marks.setdefault(path, content) if not anew else self.marks.update({path: content}) or content

    def list(self, prefix: str) -> list[str]:
        return sorted(path for path in self.files if path.startswith(prefix + "/") or not prefix)

    def delete(self, paths: Sequence[str], closed: Collection[str] = ()) -> None:
        for path in paths:
            self.files.pop(path, None)

    def elsewhere(self, url: str) -> "MemoryStorage":
        return self.others.setdefault(url, type(self)(url))

    def copy(self, file: StateHandle, source: CheckpointStorage, path: str, keep: Callable[[], None]) -> None:
        keep()
        content = source.read(file.path)
        if sha256(content).hexdigest() != file.checksum:
            raise StateIntegrityError(f"{file.path} is damaged.")
        self.write(path, content)

    def verify(self, files: Sequence[StateHandle], in_full: Collection[str]) -> None:
        """Handles of this world are names: nobody writes their files."""


class MemorySink:
    """Remembers what is staged and what is visible; commit moves staged files, as a rename would."""

    input = SinkInput.CHANGES
    commits = SinkCommit.AFTER_THE_COMMIT

    def __init__(self) -> None:
        self.staged: dict[str, int] = {}  # path -> checkpoint
        self.visible: dict[int, tuple[str, ...]] = {}
        self.put_away: dict[int, tuple[str, ...]] = {}  # withdrawn by a rewind
        self.before_commit: Any = lambda checkpoint_id: None
        self.before_rewind: Any = lambda checkpoint_id: None

    def writer(self) -> Any:
        raise AssertionError("this world stages by itself")

    def read_staged(self, spark: Any, staged: Sequence[StateHandle]) -> Any:
        raise AssertionError("this world has no frames")

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        attempt.confirm()
        self.before_commit(checkpoint_id)
        paths = tuple(handle.path for handle in staged)
        if checkpoint_id in self.visible:
            assert self.visible[checkpoint_id] == paths
            return
        for path in paths:
            del self.staged[path]  # a KeyError: something deleted rows that were promised
        self.visible[checkpoint_id] = paths

    def verify(self, staged: Sequence[StateHandle], in_full: Collection[str]) -> None:
        """Handles of this world are names: nobody writes their files."""

    def rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        attempt.confirm()
        self.before_rewind(checkpoint_id)
        known = self.visible | self.put_away
        self.visible = {id_: paths for id_, paths in known.items() if id_ in branch}
        self.put_away = {id_: paths for id_, paths in known.items() if id_ not in branch}

    def shown_outside(self, branch: Branch) -> list[Withdrawn]:
        return [Withdrawn(id_, len(paths), 1) for id_, paths in sorted(self.visible.items()) if id_ not in branch]

    def withdrawn(self) -> list[int]:
        return sorted(self.put_away)

    def delete_withdrawn(self, checkpoint_ids: Collection[int], attempt: CommitAttempt) -> None:
        attempt.confirm()
        for checkpoint_id in checkpoint_ids:
            del self.put_away[checkpoint_id]

    def staged_checkpoints(self) -> list[int]:
        return sorted(set(self.staged.values()))

    def staged_paths(self, checkpoint_id: int) -> list[str]:
        return sorted(path for path, created in self.staged.items() if created == checkpoint_id)

    def discard(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.staged.pop(path, None)

    def describe(self) -> dict[str, Any]:
        return {"type": "MemorySink"}


class SplitSource:
    """A source that only has splits; what it would read is of no interest to the coordinator."""

    schema = "k bigint"

    def __init__(self, splits: int = 2) -> None:
        self._splits = splits

    def num_splits(self) -> int:
        return self._splits

    def describe(self) -> dict[str, Any]:
        return {"type": "SplitSource"}


class CapturingRegion:
    """Takes the task and stops, as a region does whose driver is killed before it acknowledged anything. With a `check`
    that returns acknowledgements it reports these."""

    def __init__(self, check: Any = lambda task: None) -> None:
        self.task: SnapshotTask | None = None
        self._check = check

    def snapshot(self, task: SnapshotTask, acknowledge: Any) -> None:
        reports = self._check(task)
        self.task = task
        if reports:
            acknowledge(reports)

    def compact(self, checkpoint_id: int, snapshots: Mapping[SubtaskId, Snapshot]) -> list[CompactedRun]:
        return []

    def frame(self, target: str, subtasks: Mapping[SubtaskId, SubtaskRecord], record: Any) -> Any:
        return None


class Judge:
    """A validator whose verdict is said beforehand: True, False, None (the judgement fails) or `missing`. With `held`
    it is False, and says which rule failed."""

    def __init__(self, verdict: bool | str | None) -> None:
        self.verdict = verdict
        self.asked = 0

    def validate(
        self, checkpoint: CheckpointRecord, subtasks: Mapping[SubtaskId, SubtaskRecord], settled: Any = ()
    ) -> Sequence[Verdict]:
        self.asked += 1
        if self.verdict == "missing":
            return []
        if self.verdict == "held":
            found = ({"type": "expect_column_to_exist", "kwargs": {"column": "k"}, "success": False},)
            return [Verdict(Target.parse("sink:out"), "s", False, 1, 1, found)]
        error = "it broke" if self.verdict is None else None
        return [Verdict(Target.parse("sink:out"), "s", self.verdict, 1, 0 if self.verdict else 1, error=error)]


class MortalStore:
    """A store whose transactions can end in a crash or a lost connection, at a chosen one,
    before or after the commit."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store
        self.plan: tuple[int, str] | None = None  # how many transactions from now, and how
        self.transactions = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextmanager
    def transaction(
        self, pipeline_id: str, prefetch: Prefetch | None = None, participants: Any = ()
    ) -> Iterator[StoreTransaction]:
        self.transactions += 1
        how = None
        if self.plan is not None:
            left, kind = self.plan
            self.plan = (left - 1, kind) if left else None
            how = None if left else kind
        with self._store.transaction(pipeline_id, prefetch, participants) as tx:
            yield tx
            if how == "crash before commit":
                raise Crash(how)
            if how == "connection lost before commit":
                raise UnknownOutcomeError(how)
        if how == "crash after commit":
            raise Crash(how)
        if how == "connection lost after commit":
            raise UnknownOutcomeError(how)


DEATHS = (
    "crash before commit",
    "crash after commit",
    "connection lost before commit",
    "connection lost after commit",
)


def small_pipeline(
    sink: MemorySink, name: str = "p", retained: int = 2, parallelism: int = 2, hold_for: str | None = None
) -> Pipeline:
    """Two splits, one operator, one judged sink, whose rule holds if it is said for how long."""
    pipeline = Pipeline(
        name, parallelism=parallelism, max_parallelism=8, checkpoints=CheckpointConfig("10 min", retained=retained)
    )
    stream = pipeline.source("src", SplitSource())

    @pipeline.keyed("op", inputs=[stream], key=["k"], state="k bigint, n bigint")
    def keep(batch: Any, state: Any) -> Any:
        return batch

    hold: Any = {} if hold_for is None else {"on_failure": "hold", "hold_for": hold_for}
    keep.sink("out", sink, expect=suite("s", expect("column_to_exist", column="k", **hold)))
    return pipeline
