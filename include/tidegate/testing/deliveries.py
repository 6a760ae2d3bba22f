"""How a sink under trial is told to show rows: by its own commit, or by a participant in a transaction of a real store.

What the coordinator decides in that transaction, whether the checkpoint is still to be completed, is a row here, which
the last participant writes.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from sqlalchemy import text

from tidegate.assembly import open_store
from tidegate.embedded_postgres.locate import start_embedded
from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.ports import Branch, CommitAttempt, CommitStatements, Participant, StateHandle, StatementError
from tidegate.protocol.facts.errors import CheckpointError, SinkError, SupersededAttemptError


class KitServer(EmbeddedPostgres):
    """A server in a temporary directory, with the store's database."""

    def __init__(self) -> None:
        self._directory = TemporaryDirectory(prefix="tidegate-kit-")
        super().__init__(Path(self._directory.name).resolve() / "postgres", fsync=False)
        self.start()
        start_embedded(self.data_dir)
        self.create_database(settings={"synchronous_commit": "on"})  # what is committed outlives a crash

    def remove(self) -> None:
        super().remove()
        self._directory.cleanup()


_MAKE = text(
    "CREATE TABLE IF NOT EXISTS public.tidegate_kit (sink text, checkpoint bigint, attempt bigint, "
    "PRIMARY KEY (sink, attempt))"
)
_FOUND = text("SELECT checkpoint, attempt FROM public.tidegate_kit WHERE sink = :sink")
_NOTE = text("INSERT INTO public.tidegate_kit VALUES (:sink, :checkpoint, :attempt)")


class Delivery(Protocol):
    """Of one sink."""

    def commit(self, sink: Any, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None: ...
    def rewind(
        self, sink: Any, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle], attempt: CommitAttempt
    ) -> None: ...


class AfterTheCommit:
    """`Delivery` to a sink that is told after the commit."""

    def commit(self, sink: Any, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        sink.commit(checkpoint_id, staged, attempt)

    def rewind(
        self, sink: Any, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle], attempt: CommitAttempt
    ) -> None:
        sink.rewind(checkpoint_id, branch, staged, attempt)


class AlreadyCompletedError(CheckpointError):
    """The checkpoint has been completed: the transaction is rolled back, with what participants did in it."""


@dataclass(frozen=True, slots=True)
class InTheCommit:
    """`Delivery` to a sink that takes part in the transaction. `name` tells sinks apart."""

    server: EmbeddedPostgres
    name: str

    def commit(self, sink: Any, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        """Of a checkpoint that has been completed, its transaction is rolled back, and `commit` is called, as for one
        that is brought back from storage."""
        try:
            self.transact(sink.prepare(checkpoint_id, staged), attempt, checkpoint_id)
        except AlreadyCompletedError:
            sink.commit(checkpoint_id, staged, attempt)

    def rewind(
        self, sink: Any, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle], attempt: CommitAttempt
    ) -> None:
        """A restore tells its sinks once more after its transaction."""
        self.transact(sink.prepare_rewind(checkpoint_id, branch, staged), attempt)
        sink.rewind(checkpoint_id, branch, staged, attempt)

    def transact(self, participant: Participant, attempt: CommitAttempt, checkpoint_id: int | None = None) -> None:
        """Run it in a transaction, which is committed if the attempt is the newest and the checkpoint is not completed.
        Else, raises `SupersededAttemptError`, `AlreadyCompletedError`."""
        completing = Completing(self.name, checkpoint_id, attempt.number)
        with closing(open_store()) as store, store.transaction("tidegate-kit", None, [participant, completing]):
            pass

    def roll_back(self, participant: Participant) -> None:
        """Run it in a transaction that is rolled back in the end."""
        try:
            with closing(open_store()) as store, store.transaction("tidegate-kit", None, [participant]):
                raise AlreadyCompletedError("Another process was faster.")
        except AlreadyCompletedError:
            return

    def crash(self) -> None:
        """Let the server die and recover. Tables that are not logged are empty then."""
        self.server.stop(immediately=True)
        self.server.start()


@dataclass(frozen=True, slots=True)
class Completing:
    """`Participant`: the completion of a checkpoint, or a restore."""

    name: str
    checkpoint_id: int | None
    attempt: int

    def run(self, statements: CommitStatements) -> None:
        statements.execute(_MAKE)
        found = statements.query(_FOUND, {"sink": self.name})
        if self.checkpoint_id is not None and any(checkpoint == self.checkpoint_id for checkpoint, _ in found):
            raise AlreadyCompletedError(f"Checkpoint {self.checkpoint_id} has been completed.")
        if any(attempt > self.attempt for _, attempt in found):
            raise SupersededAttemptError(f"Attempt {self.attempt} was overtaken.")
        said = {"sink": self.name, "checkpoint": self.checkpoint_id, "attempt": self.attempt}
        statements.execute(_NOTE, said)

    def explain(self, error: StatementError) -> CheckpointError:
        return SinkError(f"The kit's own table is refused: {error.message}.")
