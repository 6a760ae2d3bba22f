"""State that ends, in a simulated continuous run: what each micro-batch did, and what a plain execution makes of it.

How rows fall into micro-batches is not fixed, and so neither is what has expired. But each batch says which rows it
took and when, and a checkpoint of which batches it is. From this, and from the checkpoint with which an attempt began,
the state after it follows, and what readers of its table see.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from simulator.expiring import TICK
from simulator.running_emitting import key_of
from tidegate.dataflow.continuous_driver import ContinuousDriver
from tidegate.dataflow.execution_plan import ExecutionPlan
from tidegate.dataflow.running import PendingSnapshot
from tidegate.pipeline.vertices import KeyedVertex
from tidegate.protocol.schema.expiry import TimeToLive, microseconds

LogRow = tuple[str, int, int]  # log, split and place


@dataclass(frozen=True, slots=True)
class Ageing:
    """By processing time, counts rows while their key lives. By event time, takes the last place of those that came
    together, which may be an older one than was known."""

    dated: bool

    def update(self, old: int | None, rows: Iterable[LogRow]) -> int:
        places = [at for _, _, at in rows]
        return max(places) if self.dated else (old or 0) + len(places)


@dataclass(frozen=True)
class Batch:
    """Rows that were processed together. `told` is the newest checkpoint that the region knew to be complete."""

    rows: tuple[LogRow, ...]
    at: int
    told: int


@dataclass(eq=False)
class Attempt:
    """What one attempt at running continuously did, which began with checkpoint `start`."""

    start: int
    now: Callable[[], datetime]
    taken: dict[int, tuple["Attempt", int, int]]  # by checkpoint: by whom, how many batches, what it was told by then
    told: int = field(init=False)
    batches: list[Batch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.told = self.start

    def processed(self, rows: Iterable[LogRow], at: int) -> None:
        """`at` is what the region took the time for: a clock that is set back does not set it back."""
        assert at >= microseconds(self.now())
        self.batches.append(Batch(tuple(rows), at, self.told))

    def takes(self, checkpoint_id: int) -> None:
        self.taken[checkpoint_id] = (self, len(self.batches), self.told)


class ToldDriver(ContinuousDriver):
    """Says which checkpoints it was told of, and after which batches it takes them."""

    said: Attempt

    def tell(self, said: Attempt) -> None:
        """From now on. Operators whose state ends are watched where they freeze it."""
        self.said = said
        for running in self._chains:
            if isinstance(running.vertex, KeyedVertex) and running.vertex.ttl is not None:
                running.take = partial(_take, said, running.take)  # type: ignore[method-assign]

    def merge_after(self, batches: int) -> None:
        self._merging.after = batches

    def completed(self, checkpoint_id: int) -> None:
        super().completed(checkpoint_id)
        self.said.told = checkpoint_id


def _take(said: Attempt, take: Callable[[ExecutionPlan], PendingSnapshot], plan: ExecutionPlan) -> PendingSnapshot:
    said.takes(plan.checkpoint_id)
    return take(plan)


@dataclass(frozen=True)
class Lived:
    """After a checkpoint: the rows that were taken, and by key the value and when it was changed, expired ones too.
    `newest` is the latest of these times that there was."""

    rows: frozenset[LogRow] = frozenset()
    values: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    newest: int | None = None
    shown: Mapping[int, int] = field(default_factory=dict)


class Ages:
    """Of one run: what each checkpoint must have."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.after = {0: Lived()}
        self._now = now
        self._taken: dict[int, tuple[Attempt, int, int]] = {}

    def begin(self, checkpoint_id: int | None) -> Attempt:
        return Attempt(checkpoint_id or 0, self._now, self._taken)

    def complete(self, checkpoint_id: int, vertex: KeyedVertex, triggered_at: datetime) -> int | None:
        """What follows for the checkpoint. Returns up to where rows have expired."""
        attempt, number, told = self._taken[checkpoint_id]
        assert vertex.ttl is not None
        ttl, lived = vertex.ttl, self.after[attempt.start]
        for batch in attempt.batches[:number]:
            lived = self._take_in(ttl, vertex.update, lived, batch)
        at = microseconds(triggered_at)
        clock = self.after[told].newest if not ttl.processing_time else max(at, lived.newest or at)
        horizon = None if clock is None else clock - ttl.after
        self.after[checkpoint_id] = replace(lived, shown=_alive(lived, horizon))
        return horizon

    def _take_in(self, ttl: TimeToLive, function: Ageing, lived: Lived, batch: Batch) -> Lived:
        if not batch.rows:  # records of a topic that no reader gets
            return lived
        at = max(batch.at, lived.newest or batch.at)  # where a clock was set back, the newest time that is known stands
        clock = at if ttl.processing_time else self.after[batch.told].newest
        known = _alive(lived, None if clock is None else clock - ttl.after)
        by_key: dict[int, list[LogRow]] = {}
        for row in batch.rows:
            by_key.setdefault(key_of(row[1:]), []).append(row)
        changed = {}
        for key, rows in by_key.items():
            value = function.update(known.get(key), rows)
            changed[key] = (value, at if ttl.processing_time else value * TICK)
        times = [changed_at for _, changed_at in changed.values()]
        newest = max(times) if lived.newest is None else max(lived.newest, *times)
        return Lived(lived.rows | set(batch.rows), {**lived.values, **changed}, newest)


def _alive(lived: Lived, horizon: int | None) -> dict[int, int]:
    return {key: value for key, (value, at) in lived.values.items() if horizon is None or at > horizon}
