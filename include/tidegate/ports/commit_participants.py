"""What joins the transaction that completes a checkpoint: sinks whose tables live in the store's own database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.facts.errors import CheckpointError
from tidegate.protocol.facts.records import StateHandle

if TYPE_CHECKING:
    from sqlalchemy import Executable


@dataclass(frozen=True, slots=True)
class StatementError:
    """Why the database refused a participant's statement.

    Attributes:
        sqlstate: Its five characters.
        message: What the server says, in one line.
        detail: What it adds, such as the key of a row; empty if nothing.
        table: Of the constraint or column that is broken, with its schema; empty if the server does not say.
        constraint: The constraint's name, likewise.
        column: The column's name, likewise.
        role: Of whom the statement was; empty if that is not known.
    """

    sqlstate: str
    message: str
    detail: str = ""
    table: str = ""
    constraint: str = ""
    column: str = ""
    role: str = ""


class CommitStatements(Protocol):
    """All that a participant has of the transaction: its own statements, one at a time.

    Those that end the transaction or change its settings are refused.
    """

    def execute(self, statement: "Executable", parameters: Mapping[str, Any] | None = None) -> int:
        """Run a statement that changes rows or tables.

        Args:
            statement: Of SQLAlchemy.
            parameters: Its values.

        Returns:
            The number of rows that it changed.
        """
        ...

    def query(self, statement: "Executable", parameters: Mapping[str, Any] | None = None) -> Sequence[Sequence[Any]]:
        """Run a statement that returns rows.

        Args:
            statement: Of SQLAlchemy.
            parameters: Its values.

        Returns:
            All its rows.
        """
        ...


class Participant(Protocol):
    """What one sink does in one transaction. It may run several times, each time in another transaction, of which at
    most one is committed: it changes nothing but rows and tables of that database."""

    def run(self, statements: CommitStatements) -> None:
        """Make the rows visible, once the transaction is committed.

        Args:
            statements: The transaction.

        Raises:
            CheckpointError: If that cannot be. Nothing of the transaction is kept then.
        """
        ...

    def explain(self, error: StatementError) -> CheckpointError:
        """Say what a refused statement means for the user's table.

        Args:
            error: What the database has said.

        Returns:
            The error to raise. Nothing of the transaction is kept.
        """
        ...


@runtime_checkable
class CommittingSink(Protocol):
    """A sink that is `SinkCommit.IN_THE_COMMIT`: its tables lie in the store's database, and change in the transaction
    that completes a checkpoint or restores the pipeline. `Sink.commit` is still needed: a checkpoint that completed
    without it, because the sink was another kind of sink then, or is brought back from storage, is committed by it.

    A restore ends the attempt of whoever is about to commit or rewind afterwards. So a transaction of the sink's own
    first locks what says where the table is, then calls `CommitAttempt.confirm`, and only then changes the table.
    """

    def prepare(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> Participant:
        """Do what takes long, such as to load rows, before the transaction begins. Repeated after crashes, and done by
        two processes at once: what it makes has a name of its own each time.

        Args:
            checkpoint_id: The validated checkpoint.
            staged: What it staged.

        Returns:
            What runs in the transaction.

        Raises:
            SinkError: If the rows cannot be loaded. Nothing is visible.
        """
        ...

    def prepare_rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle]) -> Participant:
        """The same for a restore: what shows exactly what the checkpoints of a branch have committed.

        Args:
            checkpoint_id: The restored checkpoint.
            branch: The checkpoints that the pipeline has behind it.
            staged: What the restored checkpoint staged, which is kept with it.

        Returns:
            What runs in the transaction.

        Raises:
            SinkError: If that cannot be prepared. Nothing was changed.
        """
        ...
