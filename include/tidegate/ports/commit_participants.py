"""The ports for sinks whose tables live in the store's own database, and that join the transaction which completes a
checkpoint."""

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
    """The reason why the database refused a participant's statement.

    Attributes:
        sqlstate: Its five characters.
        message: The server's message, in one line.
        detail: The server's details, such as the key of a row; empty if there are none.
        table: The table of the violated constraint or column, with its schema; empty if the server does not report it.
        constraint: The constraint's name, likewise.
        column: The column's name, likewise.
        role: The role that ran the statement; empty if it is unknown.
    """

    sqlstate: str
    message: str
    detail: str = ""
    table: str = ""
    constraint: str = ""
    column: str = ""
    role: str = ""


class CommitStatements(Protocol):
    """A participant's access to the transaction: its own statements, one at a time.

    Statements that end the transaction or change its settings are refused.
    """

    def execute(self, statement: "Executable", parameters: Mapping[str, Any] | None = None) -> int:
        """Run a statement that changes rows or tables.

        Args:
            statement: A statement of SQLAlchemy.
            parameters: Its values.

        Returns:
            The number of rows that it changed.
        """
        ...

    def query(self, statement: "Executable", parameters: Mapping[str, Any] | None = None) -> Sequence[Sequence[Any]]:
        """Run a statement that returns rows.

        Args:
            statement: A statement of SQLAlchemy.
            parameters: Its values.

        Returns:
            All its rows.
        """
        ...


class Participant(Protocol):
    """The part of one sink in one transaction. It may run several times, each time in another transaction, and at most
    one of them is committed. So it changes nothing but rows and tables of that database."""

    def run(self, statements: CommitStatements) -> None:
        """Make the rows visible with the commit of the transaction.

        Args:
            statements: The transaction.

        Raises:
            CheckpointError: If that is impossible. The transaction is rolled back.
        """
        ...

    def explain(self, error: StatementError) -> CheckpointError:
        """Explain a refused statement in terms of the user's table.

        Args:
            error: The database's error.

        Returns:
            The error to raise. The transaction is rolled back.
        """
        ...


@runtime_checkable
class CommittingSink(Protocol):
    """A sink that is `SinkCommit.IN_THE_COMMIT`. Its tables lie in the metadata database, and change in the transaction
    that completes a checkpoint or restores the pipeline. `Sink.commit` is still needed for a checkpoint that completed
    without it: one from a time when the sink was of another kind, or one that is brought back from storage.

    A restore ends the attempt of any other process that is about to commit or rewind. So a transaction of the sink's
    own first locks the record of the table's place, then calls `CommitAttempt.confirm`, and only then changes the
    table.
    """

    def prepare(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> Participant:
        """Do the slow work, such as loading rows, before the transaction begins. The call is repeated after crashes,
        and two processes may make it at once. So everything it creates has a unique name.

        Args:
            checkpoint_id: The validated checkpoint.
            staged: The files that it staged.

        Returns:
            The sink's part in the transaction.

        Raises:
            SinkError: If the rows cannot be loaded. Nothing is visible.
        """
        ...

    def prepare_rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle]) -> Participant:
        """Prepare a restore, after which readers see exactly the rows that the checkpoints of a branch have committed.

        Args:
            checkpoint_id: The restored checkpoint.
            branch: The checkpoints that the pipeline has behind it.
            staged: The files that the restored checkpoint staged, which are kept with it.

        Returns:
            The sink's part in the transaction.

        Raises:
            SinkError: If the restore cannot be prepared. Nothing was changed.
        """
        ...
