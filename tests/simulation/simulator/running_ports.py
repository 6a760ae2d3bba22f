"""What surrounds a simulated continuous run and may fail it: a connection that breaks, a judge,
a thread that is late."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from memory_store import MemoryCheckpointStore
from memory_transaction import MemoryTransaction
from worlds import Crash

from tidegate.ports import Prefetch
from tidegate.protocol.facts.errors import StoreUnavailableError, UnknownOutcomeError
from tidegate.protocol.facts.records import CheckpointRecord, Verdict

if TYPE_CHECKING:
    from simulator.running import Running

NAME = "running"


class Shaky:
    """`ports.CheckpointStore` behind a connection that breaks."""

    def __init__(self, world: "Running") -> None:
        self._world = world
        self._store = MemoryCheckpointStore()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @property
    def state(self) -> Any:
        return self._store._state(NAME)

    @contextmanager
    def transaction(
        self, pipeline_id: str, prefetch: Prefetch | None = None, participants: Any = ()
    ) -> Iterator[MemoryTransaction]:
        world = self._world
        if world.strikes(0.3):
            raise StoreUnavailableError("the database cannot be reached")
        before, fate = self.state, world.random.choice([Crash, UnknownOutcomeError]) if world.strikes(1) else None
        when = world.random.choice(["before", "after"])
        with self._store.transaction(pipeline_id, prefetch, participants) as tx:
            yield tx
            if fate is not None and when == "before":
                raise fate("before commit")
        world.checks.check(before, self.state)
        if fate is not None:
            raise fate("after commit")


class Judge:
    """Every target is good, unless the seed says otherwise."""

    def __init__(self, world: "Running") -> None:
        self._world = world

    def validate(self, checkpoint: CheckpointRecord, subtasks: Any, settled: Any = ()) -> list[Verdict]:
        self._world.overlapping.judges(self._world, checkpoint.checkpoint_id, subtasks)
        self._world.overlapping.meanwhile(self._world)
        good = not self._world.strikes(3)
        carried = {verdict.target for verdict in settled}
        asked = [target for target in self._world.graph.targets if target not in carried]
        verdicts = [Verdict(target, "s", good, 1, 0 if good else 1) for target in asked]
        if good and self._world.trouble:
            self._world.holding.breaks(checkpoint.checkpoint_id, verdicts)
        return verdicts


class Absent:
    """A scheduled region whose driver dies at once."""

    def snapshot(self, task: Any, acknowledge: Any) -> None:
        raise Crash("a scheduled snapshot")

    def compact(self, checkpoint_id: int, snapshots: Any) -> list[Any]:
        return []
