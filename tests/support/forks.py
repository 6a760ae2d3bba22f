"""A new pipeline `q` beside the pipeline `p` of a world with savepoints, to be forked from it: another name, a table of
its own, and everything else shared."""

from hashlib import sha256
from typing import Any

from savepoint_directories import CurrentSink, Exported
from worlds import small_pipeline

from tidegate.coordination.recovery.fork import PlannedFork
from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.pipeline.graph import compile_graph
from tidegate.ports import CheckpointStore
from tidegate.protocol.recovery.restore_plan import Accepted

#: The original's savepoint, natively; `AT` is its directory.
SAVEPOINT = ToCheckpoint(2)


class OwnSink(CurrentSink):
    """A table in a place of its own."""

    def describe(self) -> dict[str, Any]:
        return {"type": "MemorySink", "path": "/tables/q"}


class New(Exported):
    """The new pipeline's side of `original`. Its sink stages all rows with each checkpoint."""

    def __init__(
        self, original: Exported, store: CheckpointStore | None = None, sink: CurrentSink | None = None
    ) -> None:
        super().__init__(store or original.store)
        self.original = original
        self.storage, self.clock, self.effects = original.storage, original.clock, original.effects
        self.sink = sink or OwnSink()
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

    def check_forked(self) -> None:
        """It has the state and the positions of the savepoint, in files of its own, and goes on from them."""
        state, positions, _ = self.original.saved
        first = self.store.history("q", 9)[-1]
        assert self.latest() == (state, positions, None)
        number = self.take("on from there")
        assert {handle.created_by for handle in self.restored} == {first.checkpoint_id}
        assert all(handle.path.startswith(f"q/chk-{first.checkpoint_id}/op/") for handle in self.restored)
        assert self.latest()[0] == state + f"r{number:02}".encode()
        assert self.latest()[2] == (number, f"rows {number}".encode())

    def check_all_is_needed(self) -> None:
        """Every file of it is one that its only checkpoint refers to, as it was written."""
        (first,) = self.store.history("q", 9)
        known = self.store.subtasks("q", first.checkpoint_id)
        handles = [handle for each in known.values() for handle in each.snapshot.handles]
        documents = {f"q/chk-{first.checkpoint_id}/{name}" for name in ("_metadata", "_committed")}
        assert {handle.path for handle in handles} == set(self.files()) - documents
        for handle in handles:
            assert sha256(self.files()[handle.path]).hexdigest() == handle.checksum
