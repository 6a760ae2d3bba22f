"""Delivery of rows to a sink under trial: by its own commit, or by a participant in a transaction of a real store.

In such a transaction the coordinator decides whether the checkpoint can still be completed. Here, a row that the last
participant writes stands for that decision.
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
    """A server in a temporary directory, with the metadata database."""

    def __init__(self) -> None:
        self._directory = TemporaryDirectory(prefix="tidegate-kit-")
        super().__init__(Path(self._directory.name).resolve() / "postgres", fsync=False)
        self.start()
        start_embedded(self.data_dir)
        self.create_database(settings={"synchronous_commit": "on"})  # commits survive a crash

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
    """The delivery of commits and rewinds to one sink."""

    def commit(self, sink: Any, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None: ...
    def rewind(
        self, sink: Any, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle], attempt: CommitAttempt
    ) -> None: ...


class AfterTheCommit:
    """The `Delivery` to a sink that is notified after the commit."""

    def commit(self, sink: Any, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        sink.commit(checkpoint_id, staged, attempt)

    def rewind(
        self, sink: Any, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle], attempt: CommitAttempt
    ) -> None:
        sink.rewind(checkpoint_id, branch, staged, attempt)


class AlreadyCompletedError(CheckpointError):
    """The checkpoint is already completed: the transaction is rolled back, together with the participants' work."""


@dataclass(frozen=True, slots=True)
class InTheCommit:
    """The `Delivery` to a sink that takes part in the transaction. `name` distinguishes sinks."""

    server: EmbeddedPostgres
    name: str

    def commit(self, sink: Any, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        """Commit a checkpoint. If it is already completed, roll the transaction back and call `commit`, as for a
        checkpoint that is brought back from storage.
        """
        try:
            self.transact(sink.prepare(checkpoint_id, staged), attempt, checkpoint_id)
        except AlreadyCompletedError:
            sink.commit(checkpoint_id, staged, attempt)

    def rewind(
        self, sink: Any, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle], attempt: CommitAttempt
    ) -> None:
        """Rewind a sink. A restore calls its sinks once more after its transaction."""
        self.transact(sink.prepare_rewind(checkpoint_id, branch, staged), attempt)
        sink.rewind(checkpoint_id, branch, staged, attempt)

    def transact(self, participant: Participant, attempt: CommitAttempt, checkpoint_id: int | None = None) -> None:
        """Run a participant in a transaction, which commits if the attempt is the newest and the checkpoint is not
        completed.

        Raises:
            SupersededAttemptError: If there is a newer attempt.
            AlreadyCompletedError: If the checkpoint is completed.
        """
        completing = Completing(self.name, checkpoint_id, attempt.number)
        with closing(open_store()) as store, store.transaction("tidegate-kit", None, [participant, completing]):
            pass

    def roll_back(self, participant: Participant) -> None:
        """Run a participant in a transaction that is rolled back at the end."""
        try:
            with closing(open_store()) as store, store.transaction("tidegate-kit", None, [participant]):
                raise AlreadyCompletedError("Another process was faster.")
        except AlreadyCompletedError:
            return

    def crash(self) -> None:
        """Let the server crash and recover. Unlogged tables are empty afterwards."""
        self.server.stop(immediately=True)
        self.server.start()


@dataclass(frozen=True, slots=True)
class Completing:
    """The `Participant` that completes a checkpoint, or a restore."""

    name: str
    checkpoint_id: int | None
    attempt: int

    def run(self, statements: CommitStatements) -> None:
        statements.execute(_MAKE)
        rows = statements.query(_FOUND, {"sink": self.name})
        if self.checkpoint_id is not None and any(checkpoint == self.checkpoint_id for checkpoint, _ in rows):
            raise AlreadyCompletedError(f"Checkpoint {self.checkpoint_id} has been completed.")
        if any(attempt > self.attempt for _, attempt in rows):
            raise SupersededAttemptError(f"Attempt {self.attempt} was overtaken.")
        values = {"sink": self.name, "checkpoint": self.checkpoint_id, "attempt": self.attempt}
        statements.execute(_NOTE, values)

    def explain(self, error: StatementError) -> CheckpointError:
        return SinkError(f"The kit's own table is refused: {error.message}.")
