"""Measures how long a checkpoint is in its parts, by standing between the coordinator and the real ones.

Nothing is changed: each call goes on to the part it was meant for.
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tidegate.ports import Acknowledger, CheckpointStorage, CheckpointStore, Participant, Prefetch, Region
from tidegate.protocol.facts.records import (
    Acknowledgement,
    AcknowledgeResult,
    CompactedRun,
    Snapshot,
    StateHandle,
    SubtaskId,
)
from tidegate.protocol.steps.snapshot import SnapshotTask


class Stopwatch:
    """Seconds spent in each part since the last `reset`, and in subtasks the longest."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def reset(self) -> None:
        self.seconds = dict.fromkeys(("store", "storage", "region", "compaction", "state"), 0.0)

    @contextmanager
    def running(self, part: str) -> Iterator[None]:
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] += time.perf_counter() - begin

    def split(self, total: float) -> Mapping[str, float]:
        """The parts of an epoch without overlaps. `spark` is what the region did beside state and store."""
        store, state = self.seconds["store"], self.seconds["state"]
        spark = self.seconds["region"] - state - self.seconds["acknowledged"]
        parts = {"spark": spark, "state": state, "store": store, "metadata": self.seconds["storage"]}
        parts["compaction"] = self.seconds["compaction"]
        return {**parts, "rest": total - sum(parts.values())}


class TimedStore:
    def __init__(self, store: CheckpointStore, watch: Stopwatch) -> None:
        self._store = store
        self._watch = watch

    @contextmanager
    def transaction(
        self, pipeline_id: str, prefetch: Prefetch | None = None, participants: Sequence[Participant] = ()
    ) -> Iterator[Any]:
        """The decisions made inside the transaction are counted with it; they take microseconds."""
        with self._watch.running("store"), self._store.transaction(pipeline_id, prefetch, participants) as transaction:
            yield transaction

    def subtasks(self, pipeline_id: str, checkpoint_id: int) -> Any:
        with self._watch.running("store"):
            return self._store.subtasks(pipeline_id, checkpoint_id)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class TimedStorage:
    def __init__(self, storage: CheckpointStorage, watch: Stopwatch) -> None:
        self._storage = storage
        self._watch = watch
        self.url = storage.url

    def write(self, path: str, content: bytes) -> None:
        with self._watch.running("storage"):
            self._storage.write(path, content)

    def delete(self, paths: Sequence[str], closed: Collection[str] = ()) -> None:
        with self._watch.running("storage"):
            self._storage.delete(paths, closed)

    def verify(self, files: Sequence[StateHandle], in_full: Collection[str]) -> None:
        with self._watch.running("storage"):
            self._storage.verify(files, in_full)

    def list(self, prefix: str) -> list[str]:
        with self._watch.running("storage"):
            return self._storage.list(prefix)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)


class TimedRegion:
    """Takes from the acknowledgements what subtasks say about themselves;
    the slowest one counts as the state's time."""

    def __init__(self, region: Region, watch: Stopwatch) -> None:
        self._region = region
        self._watch = watch

    def snapshot(self, task: SnapshotTask, acknowledge: Acknowledger) -> None:
        watch = self._watch

        def timed(acknowledgements: Sequence[Acknowledgement]) -> Mapping[SubtaskId, AcknowledgeResult]:
            own = (max(a.metrics.sync_duration, 0) + max(a.metrics.async_duration, 0) for a in acknowledgements)
            watch.seconds["state"] = max(watch.seconds["state"], *(milliseconds / 1000 for milliseconds in own))
            with watch.running("acknowledged"):
                return acknowledge(acknowledgements)

        watch.seconds["acknowledged"] = 0.0
        with watch.running("region"):
            self._region.snapshot(task, timed)

    def compact(self, checkpoint_id: int, snapshots: Mapping[SubtaskId, Snapshot]) -> list[CompactedRun]:
        with self._watch.running("compaction"):
            return self._region.compact(checkpoint_id, snapshots)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._region, name)
