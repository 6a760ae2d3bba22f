"""The in-memory store behind a connection that breaks, and a process that may die around every commit."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from memory_store import MemoryCheckpointStore
from memory_transaction import MemoryTransaction

from simulator.scheduler import require
from tidegate.ports import Participant, Prefetch
from tidegate.protocol.facts.errors import StoreUnavailableError, UnknownOutcomeError
from tidegate.protocol.facts.lifecycle import Status

if TYPE_CHECKING:
    from memory_state import PipelineState

    from simulator.world import World


def changes_between(before: "PipelineState", after: "PipelineState") -> str:
    """What a transaction did, in a few words."""
    told = []
    for id_, record in after.checkpoints.items():
        known = before.checkpoints.get(id_)
        if known is None:
            told.append(f"chk-{id_} TRIGGERED for {record.request_id}")
        elif (known.status, known.phase) != (record.status, record.phase):
            what = record.phase if record.status is Status.IN_PROGRESS else record.status
            told.append(f"chk-{id_} {what}" + (f" {record.failure_reason.name}" if record.failure_reason else ""))
        elif known.num_acknowledged != record.num_acknowledged:
            told.append(f"chk-{id_} {record.num_acknowledged}/{record.num_subtasks} acknowledged")
        elif known.notified_at != record.notified_at:
            told.append(f"chk-{id_} notified")
        elif id_ in after.rolled_up - before.rolled_up:
            told.append(f"chk-{id_} rolled up")
        elif after.subtasks[id_] is not before.subtasks[id_]:
            told.append(f"chk-{id_} attempt {max(known.attempt for known in after.subtasks[id_].values())}")
    for restore in after.restores[len(before.restores) :]:
        what = "restored" if restore.undoes is None else f"undoes restore {restore.undoes} and is restored"
        told.append(f"{what} to chk-{restore.checkpoint_id}")
    if after.restores[: len(before.restores)] != before.restores:
        told.append("the sinks are rewound")
    if after.pipeline is not None and after.pipeline != before.pipeline:
        told.append(f"pipeline {after.pipeline.status}")
    if after.deletions.keys() - before.deletions.keys():
        told.append(f"{len(after.deletions.keys() - before.deletions.keys())} files to delete")
    return ", ".join(told) or "housekeeping"


class SimulatedStore:
    """`ports.CheckpointStore`, as the processes of one pipeline have it; `shared` is the database if it has others.
    Others have their turn while sinks run their statements, and nobody once the pipeline is locked: from there on they
    are serialised in the real one too."""

    def __init__(self, world: "World", shared: MemoryCheckpointStore | None = None) -> None:
        self.world = world
        self.database = shared or MemoryCheckpointStore()
        self.database.patience = self.database.tables.patience = 0.0  # who waits for a lock has waited in vain
        self._inside = False  # a transaction

    @property
    def state(self) -> "PipelineState":
        """What is committed; never changed in place."""
        return self.database._state(self.world.pipeline_id)

    def identity(self) -> str:
        """Each process knows it: that it asks is no step."""
        return self.database.identity()

    @contextmanager
    def transaction(
        self, pipeline_id: str, prefetch: Prefetch | None = None, participants: Sequence[Participant] = ()
    ) -> Iterator[MemoryTransaction]:
        self._connect("begins a transaction")
        process = self.world.scheduler.current
        fate = next((kind for kind in ("crash", "commit_unknown") if self.world.strikes(kind)), None)
        when = self.world.random.choice(["before commit", "after commit"])
        with self._locked(pipeline_id, prefetch, participants) as tx, self._alone():
            before = self.database._state(pipeline_id)
            yield tx
            changes = fate is not None and tx.state != before
            if changes and when == "before commit":
                self._end(fate, when)
        after = self.database._state(pipeline_id)
        if pipeline_id != self.world.pipeline_id:
            require(after is before, f"what the database knows of {pipeline_id} is changed from another pipeline")
            self.world.observer.read[process] = after
        elif process is not None:
            process.found, process.left = before, after
        if after is not before:
            with self.world.scheduler.final():
                self.world.observer.committed(before, after)
            if changes and when == "after commit":
                self._end(fate, when)
            self.world.point(f"has committed: {changes_between(before, after)}")

    def _locked(
        self, pipeline_id: str, prefetch: Prefetch | None, participants: Sequence[Participant]
    ) -> AbstractContextManager[MemoryTransaction]:
        held = pipeline_id in self.database._locks and self.database._locks[pipeline_id].locked()
        require(not held, f"{pipeline_id} is locked while others have their turn")
        return self.database.transaction(pipeline_id, prefetch, participants)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """What the transaction's process reads beside it lets nobody else go first."""
        self._inside = True
        try:
            yield
        finally:
            self._inside = False

    def _end(self, fate: str, when: str) -> None:
        """The process dies, or the connection is lost and nobody knows what became of the commit."""
        if fate == "crash":
            self.world.die(when)
        self.world.note(f"loses its connection {when}")
        raise UnknownOutcomeError(f"the connection was lost {when}")

    def _connect(self, what: str) -> None:
        self.world.point(what)
        if self.world.strikes("store_unavailable"):
            self.world.note("cannot reach the database")
            raise StoreUnavailableError("the database cannot be reached")

    def __getattr__(self, name: str) -> Any:
        """Reads outside a transaction."""
        found = getattr(self.database, name)

        def read(*args: Any) -> Any:
            if not self._inside:
                self._connect(f"reads {name}")
            return found(*args)

        return read
