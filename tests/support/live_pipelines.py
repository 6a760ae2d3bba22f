"""A continuous run of a small pipeline in one process and one thread: a region that counts up, and a clock that is set.

The region reads the numbers 0, 1, 2, … one a round, and its sink shows them. Whoever looks at the sink sees which
numbers are committed, so a lost or doubled one shows, whatever happened on the way.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any, cast

from desks import Desk
from executors import Inline
from records import T0
from worlds import Judge, MemorySink

from tidegate.coordination.continuous import continuous_run as continuous
from tidegate.coordination.continuous.continuous_run import ContinuousRun
from tidegate.ports import CheckpointStore, Declined, Round
from tidegate.protocol.continuous.overlap import FOLLOWS
from tidegate.protocol.continuous.regions import RegionStart
from tidegate.protocol.facts.errors import CheckpointDeclinedError
from tidegate.protocol.facts.pipelines import PipelineRecord
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import Acknowledgement, HandleKind, Snapshot, StateHandle, SubtaskId
from tidegate.protocol.steps.snapshot import SnapshotTask

FIRST_SPLIT, ROWS = SubtaskId("src", 0), SubtaskId("out-sink", 0)


class Script:
    """What a test wants of the regions of a pipeline, and what came of it."""

    def __init__(self) -> None:
        self.orders: dict[int, str | FailureReason] = {}  # by checkpoint: "silent", or why it is declined
        self.end: int | None = None  # how many numbers there are to read
        self.is_behind = False
        self.notified: list[str] = []
        self.acknowledged: list[int] = []


class CountingRegion:
    """`ports.ContinuousRegion` without Spark."""

    def __init__(self, start: RegionStart, sink: MemorySink, script: Script) -> None:
        restored = start.restored.get(FIRST_SPLIT, Snapshot())
        self.read = (restored.position or {"read": 0})["read"]
        self._shown = self.read  # by the latest completed checkpoint
        self._finished = restored.finished
        self._start, self._sink, self._script = start, sink, script
        self._tasks: dict[int, SnapshotTask] = {}  # those that have not ended
        self._barriers: dict[int, int] = {}  # how much had been read when each began
        self._answered: set[int] = set()
        self._stopped = False

    def advance(self, polls: bool = True) -> Round:
        end = self._script.end
        if polls and not self._stopped and (end is None or self.read < end):
            self.read += 1
        acknowledged: dict[int, Sequence[Acknowledgement]] = {}
        declined: list[Declined] = []
        for checkpoint_id in [id_ for id_ in self._tasks if id_ not in self._answered]:
            self._answer(checkpoint_id, acknowledged, declined)
        ended = end is not None and self.read >= end and not self._finished
        return Round(acknowledged, declined, True, self._script.is_behind, ended)

    def begin(self, task: SnapshotTask) -> None:
        self._script.notified.append(f"begin {task.checkpoint_id}")
        self._tasks[task.checkpoint_id], self._barriers[task.checkpoint_id] = task, self.read
        self._stopped = task.stop is not None

    def completed(self, checkpoint_id: int) -> None:
        self._script.notified.append(f"completed {checkpoint_id}")
        self._shown, self._finished = self._barriers[checkpoint_id], self._is_last(checkpoint_id)
        for ended in [id_ for id_ in self._tasks if id_ <= checkpoint_id]:
            del self._tasks[ended], self._barriers[ended]

    def aborted(self, checkpoint_id: int, latest_completed: int) -> None:
        self._script.notified.append(f"aborted {checkpoint_id}, latest {latest_completed}")
        self._barriers.pop(checkpoint_id, None)
        if self._tasks.pop(checkpoint_id).stop is not None:
            raise CheckpointDeclinedError("It has stopped reading and cannot go on.")

    def _is_last(self, checkpoint_id: int) -> bool:
        at_end = self._script.end is not None and self._barriers[checkpoint_id] >= self._script.end
        task = self._tasks[checkpoint_id]
        return at_end or (task.stop is not None and task.stop.name == "DRAIN")

    def _answer(
        self, checkpoint_id: int, acknowledged: dict[int, Sequence[Acknowledgement]], declined: list[Declined]
    ) -> None:
        match self._script.orders.get(checkpoint_id):
            case "silent":
                return
            case FailureReason() as reason:
                declined.append(Declined(checkpoint_id, reason, "the disk is full"))
            case _:
                self._script.acknowledged.append(checkpoint_id)
                task = self._tasks[checkpoint_id]
                acknowledged[checkpoint_id] = [self._acknowledge(task, key) for key in task.attempts]
        self._answered.add(checkpoint_id)

    def _acknowledge(self, task: SnapshotTask, key: SubtaskId) -> Acknowledgement:
        barrier = self._barriers[task.checkpoint_id]
        handles = tuple(self._staged(task, key)) if key == ROWS else ()
        position = {"read": barrier} if key == FIRST_SPLIT else None
        return Acknowledgement(key, task.attempts[key], Snapshot(handles, position, self._is_last(task.checkpoint_id)))

    def _staged(self, task: SnapshotTask, key: SubtaskId) -> Iterator[StateHandle]:
        """A version for each checkpoint that this one may follow."""
        id_, barrier = task.checkpoint_id, self._barriers[task.checkpoint_id]
        older = {at: each for each, at in reversed(self._barriers.items()) if each < id_ and at > self._shown}
        starts = [(self._shown, 0), *sorted(older.items())]
        for (first, follows), below in zip(starts, [each for _, each in starts[1:]] + [None], strict=True):
            if first < barrier:
                path = f"chk-{id_}/{key.subtask_index}-{task.attempts[key]}-{first}-{barrier}"
                self._sink.staged[path] = id_
                handle = StateHandle(path, HandleKind.STAGED, barrier - first, 100, "0" * 64, id_)
                yield replace(handle, details={FOLLOWS: [follows, below]} if older else {})


def shown(sink: MemorySink) -> list[int]:
    """The numbers that readers of the sink see, in the order in which they were committed."""
    numbers: list[int] = []
    for checkpoint_id in sorted(sink.visible):
        for path in sink.visible[checkpoint_id]:
            *_, first, last = path.rpartition("/")[2].split("-")
            numbers += range(int(first), int(last))
    return numbers


class Latest(Random):
    """The first periodic checkpoint comes after a whole interval."""

    def random(self) -> float:
        return 1.0


class _Waiting:
    """The store, but for waiting: a second passes, and what was arranged for that moment happens."""

    def __init__(self, store: CheckpointStore, wait: Callable[[float], bool]) -> None:
        self._store, self._wait = store, wait

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def wait_for_change(self, pipeline_id: str, timeout: float) -> bool:
        return self._wait(timeout)


class Live(Script):
    """A desk, and continuous runs of its pipeline. One second passes a round; `at` arranges what happens beside it."""

    def __init__(self, store: CheckpointStore, monkeypatch: Any = None, **config: object) -> None:
        super().__init__()
        if monkeypatch is not None:
            monkeypatch.setattr(continuous, "ThreadPoolExecutor", Inline)
        self.world = Desk(store, **config)
        self.judge = Judge(True)
        self.regions: list[CountingRegion] = []
        self.waited: list[float] = []  # how long it would have waited for a change, in seconds
        self.quiet = False  # nothing changes in the store: a round waits as long as it may
        self._arranged: dict[float, list[Callable[[], object]]] = {}

    def at(self, second: float, what: Callable[[], object]) -> None:
        self._arranged.setdefault(second, []).append(what)

    @property
    def second(self) -> float:
        return (self.world.clock.time - T0) / timedelta(seconds=1)

    def forget(self) -> None:
        """Nothing is arranged any more."""
        self._arranged.clear()

    def run(self, until: float | Callable[[], bool] = 1000, validator: Any = None) -> PipelineRecord:
        """Until that second, or until it ends by itself."""
        run = ContinuousRun(self.world.coordinator, self._open, validator or self.judge, Latest())
        run._context = replace(run._context, store=cast(CheckpointStore, _Waiting(self.world.store, self._pass)))
        return run.run(until if callable(until) else lambda: self.second >= until)

    def _open(self, start: RegionStart, _background: Executor) -> CountingRegion:
        self.regions.append(CountingRegion(start, self.world.sink, self))
        return self.regions[-1]

    def _pass(self, timeout: float) -> bool:
        self.waited.append(timeout)
        self.world.clock.advance(timeout if self.quiet else 1)
        for what in self._arranged.pop(self.second, []):
            what()
        return not self.quiet

    # -- what came of it

    def history(self) -> list[tuple[int, str, str]]:
        """Id, who asked, and what became of each checkpoint, oldest first."""
        found = reversed(self.world.store.history("p", 1000))
        return [
            (one.checkpoint_id, one.request_id, one.failure_reason.name if one.failure_reason else str(one.status))
            for one in found
        ]

    def triggered(self) -> list[float]:
        """The seconds in which checkpoints were triggered, oldest first."""
        found = reversed(self.world.store.history("p", 1000))
        return [(one.triggered_at - T0) / timedelta(seconds=1) for one in found]

    def check(self) -> None:
        """Every number up to where the latest checkpoint has read was committed once, none was lost."""
        numbers = shown(self.world.sink)
        assert numbers == list(range(len(numbers)))
        with self.world.store.transaction("p") as tx:
            latest = tx.latest_completed()
            if latest is not None and latest.notified_at is not None:
                position = tx.subtasks(latest.checkpoint_id)[FIRST_SPLIT].snapshot.position
                assert position is not None
                assert len(numbers) == position["read"]
