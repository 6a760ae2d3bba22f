"""A new pipeline `q` beside the pipeline `p` of a world with savepoints, to be forked from it: another name, a table of
its own, and everything else shared."""

from typing import Any

from savepoint_directories import CurrentSink, Exported
from worlds import small_pipeline

from tidegate.coordination.fork import PlannedFork
from tidegate.coordination.restore import ToCheckpoint
from tidegate.pipeline.graph import compile_graph
from tidegate.ports import CheckpointStore
from tidegate.protocol.restore_plan import Accepted


class OwnSink(CurrentSink):
    """A table in a place of its own."""

    def describe(self) -> dict[str, Any]:
        return {"type": "MemorySink", "path": "/tables/q"}


class New(Exported):
    """The new pipeline's side of `original`. Its sink stages all rows with each checkpoint."""

    def __init__(self, original: Exported, store: CheckpointStore | None = None) -> None:
        super().__init__(store or original.store)
        self.original = original
        self.storage, self.clock, self.effects = original.storage, original.clock, original.effects
        self.sink = OwnSink()
        options, self.pipeline = self.pipeline.checkpoints, small_pipeline(self.sink, name="q")
        self.pipeline.checkpoints = options
        self.reopen(self.store)

    def plan(self, where: ToCheckpoint | str) -> PlannedFork:
        return self.coordinator.forking.plan(compile_graph(self.original.pipeline), where)

    def fork(self, where: ToCheckpoint | str, accepted: Accepted | None = None) -> PlannedFork:
        """As the command does it."""
        planned = self.plan(where)
        self.coordinator.fork(planned, accepted)
        return planned

    def untouched(self) -> Any:
        """All that is the original's: what the database knows, its files, its table, its savepoints' directories."""
        with self.store.transaction("p") as tx:
            ids = range(1, tx.last_checkpoint_id() + 1)
            recorded = (
                [(tx.checkpoint(id_), tx.subtasks(id_)) for id_ in ids],
                (tx.restores(), tx.endpoints(), tx.pipeline(), tx.imports(), tx.region(), tx.committer()),
                tx.pending_deletions(100),
            )
        sink = self.original.sink
        directories = {url: dict(each.files) for url, each in self.storage.others.items() if each.files}
        return recorded, self.files("p"), dict(sink.files.files), sink.current, directories

    def files(self, pipeline_id: str = "q") -> dict[str, bytes]:
        return {path: content for path, content in self.storage.files.items() if path.startswith(f"{pipeline_id}/")}
