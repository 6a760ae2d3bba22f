"""The new pipeline of a fork as a world of its own beside the original's: its definition, its tables, its part of the
database and of the storage, and a witness. Time, the disk, the sources and who goes on next are those of the original.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from simulator.comparison import Comparison
from simulator.fork_checks import ForkObserver
from simulator.graphs import rebuilt
from simulator.hearing import listening
from simulator.holding import Holding
from simulator.in_the_commit import accepted
from simulator.messages import Messages
from simulator.sinks import SimulatedSink
from simulator.storage import SimulatedStorage
from simulator.store import SimulatedStore
from simulator.upserting import make_sink
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.pipeline.graph import compile_graph
from tidegate.pipeline.vertices import SinkVertex
from tidegate.protocol.facts.records import CheckpointRecord

if TYPE_CHECKING:
    from simulator.world import World


class Forked:
    """Stands where a `World` is asked for. Whether the pipeline is forked, begins with nothing or never runs at all,
    the seed decides."""

    def __init__(self, original: "World") -> None:
        self.original = original
        self.pipeline_id = f"{original.pipeline_id}_{original.name()}"
        self.sinks: dict[str, SimulatedSink] = {}
        parallelism = original.forking.choice([None, None, 1, 2, 3, 4])
        self.pipeline = rebuilt(original.pipeline, self._with_own_table, parallelism, name=self.pipeline_id)
        self.graph = compile_graph(self.pipeline)
        self.storage = ForkedStorage(self)
        self.store = SimulatedStore(self, original.store.database)
        self.comparison = Comparison(self, self.graph)
        self.messages = Messages(self, self.graph)
        self.observer = ForkObserver(self, self.graph)
        self.holding = Holding(original.seed, f"forked {self.pipeline_id}")
        self.holding.hold_for = None  # people decide about the original alone
        self.late_reports: list = []
        self.requests: dict[str, Any] = {}
        self.foreign: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        """Everything else is as it is for the original."""
        return getattr(self.original, name)

    def _with_own_table(self, vertex: Any) -> Any:
        if not isinstance(vertex, SinkVertex):
            return vertex
        sink = make_sink(self, vertex.name, vertex.sink.input, f"/{self.pipeline_id}.{vertex.name}")
        self.sinks[vertex.name] = sink
        return replace(vertex, sink=sink, guarantee=accepted(sink))

    def open_coordinator(self) -> CheckpointCoordinator:
        self.pipeline.listeners = listening(lambda: self.store.state, self.point, self.messages.missed)
        return CheckpointCoordinator(self.pipeline, self.store, self.storage, self.clock)

    @property
    def first(self) -> CheckpointRecord | None:
        """The checkpoint that is the fork, if it has happened."""
        id_ = self.observer.forked_as
        return None if id_ is None else self.store.state.checkpoints[id_]


class ForkedStorage(SimulatedStorage):
    """The same checkpoint storage. Directories of savepoints are others'."""

    def __init__(self, forked: Forked) -> None:
        super().__init__(forked)
        self.files = forked.original.storage.files

    def write(self, path: str, content: bytes) -> None:
        """When all is copied, and nothing is recorded, is the worst moment to stand still."""
        super().write(path, content)
        world, process = self.world, self.world.scheduler.current
        forks = path.endswith("/_metadata") and not world.store.state.checkpoints
        if forks and process is not None and world.temper.stall and world.forking.random() < 0.3:
            process.stalled = True
            world.point("stands still")

    def elsewhere(self, url: str) -> "OnlyRead":
        return OnlyRead(self.world.original.storage.elsewhere(url))


class OnlyRead:
    """Whoever forks does nothing else there."""

    def __init__(self, there: SimulatedStorage) -> None:
        self.url = there.url
        self.read: Callable[..., bytes] = there.read
        self.list: Callable[..., list[str]] = there.list
        self.verify: Callable[..., None] = there.verify
