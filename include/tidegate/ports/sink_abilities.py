"""What a sink may be able to do besides: go back, read back what it shows, say whose it is, and what lies in it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

from tidegate.ports.arrow_reading import ArrowRows
from tidegate.ports.sinks import CommitAttempt, SinkWriter
from tidegate.ports.storage import CheckpointStorage
from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.facts.records import StateHandle
from tidegate.protocol.recovery.ownership import Owner

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class TableFiles:
    """A table as of a checkpoint: Parquet files that never change, and that may be deleted some time.

    Attributes:
        paths: The files, oldest first.
        columns: The columns of the table. A file may lack some of them, and may have older types.
    """

    paths: tuple[str, ...]
    columns: "pa.Schema"


@runtime_checkable
class ReadableAtSink(Protocol):
    """A sink whose table can be read as of a checkpoint, whatever it shows now: see `tidegate.read`."""

    def read_at(
        self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle] | None
    ) -> TableFiles | ArrowRows:
        """Find the rows that the table has at a checkpoint, with the columns of the rows alone.

        It changes nothing, and is called beside commits and rewinds. A `FileNotFoundError` says that files have moved
        meanwhile: the caller asks again.

        Args:
            checkpoint_id: A completed checkpoint, whose rows the sink was told to show.
            branch: That checkpoint and all that it follows.
            staged: What the checkpoint staged; None if that is not on record any more.

        Returns:
            The files, or rows that are read when they are needed.

        Raises:
            CheckpointInDoubtError: If the table does not show the checkpoint yet.
            CheckpointNotRetainedError: If the table cannot be read as of the checkpoint any more.
        """
        ...


@runtime_checkable
class ReadableSink(Protocol):
    """A sink that can read back what it shows."""

    def read_table(self, spark: "SparkSession") -> "DataFrame | None":
        """Read what readers see now, with the columns of the rows alone.

        Args:
            spark: The session.

        Returns:
            A lazy DataFrame; None if nothing was ever committed.
        """
        ...


@runtime_checkable
class NumberedSink(Protocol):
    """A sink whose files carry the numbers of checkpoints and attempts, which a new database must not give out again
    when the old one is lost."""

    def numbers(self) -> tuple[int, int]:
        """Find the highest numbers of which anything lies there.

        Returns:
            The highest id of a checkpoint, and the highest attempt at committing; 0 for none.
        """
        ...


@runtime_checkable
class KeyedSink(Protocol):
    """A sink that tells rows apart by some of their columns."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns; none if it keeps every row."""
        ...


@runtime_checkable
class PlacedSink(Protocol):
    """A sink that stages below the checkpoint storage. It learns whose it is when it joins a pipeline, so that no two
    sinks stage in one place."""

    @property
    def place(self) -> str | None:
        """The directory, relative to the checkpoint storage; None if the sink stages elsewhere."""
        ...

    def placed(self, pipeline_id: str, name: str) -> Self:
        """Make the sink as a pipeline has it.

        Args:
            pipeline_id: The pipeline.
            name: The name of the sink in it.

        Returns:
            The sink with its `place`. The one that was given stays as it is.
        """
        ...


@runtime_checkable
class StagingSink(Protocol):
    """A sink that can list its staging, so that a file that was left there long ago is found."""

    def staged_checkpoints(self) -> list[int]:
        """List the checkpoints of which anything lies in staging.

        Returns:
            Their ids.
        """
        ...


@runtime_checkable
class ReferencingSink(Protocol):
    """A sink whose table refers to staged files: they are staged where they stay, and a commit takes them over instead
    of copying their rows. A checkpoint that is no longer needed gives up what it staged. Files that the table refers to
    are then the table's alone, and are not discarded."""

    def referenced(self, paths: Sequence[str]) -> Collection[str]:
        """Find out which files have been taken over. What a commit has not taken over by now is taken over by none.

        Args:
            paths: Staged files.

        Returns:
            Those that the table refers to: also rows that were withdrawn and kept, and versions that it keeps.
        """
        ...


@runtime_checkable
class PortableSink(Protocol):
    """A sink whose staged files can be taken along in a savepoint's directory, and staged again from there."""

    def staging(self) -> CheckpointStorage:
        """Open the storage whose root staged paths are relative to. Executors reach it by its URL.

        Returns:
            The storage.
        """
        ...

    def writer_at(self, url: str) -> SinkWriter:
        """Make what stages below another root: rows that are taken along before the sink has ever staged them.

        Args:
            url: The root.

        Returns:
            The writer.
        """
        ...


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The rows of one checkpoint that a rewind takes out of readers' sight.

    Attributes:
        checkpoint_id: The checkpoint.
        files: The number of its files; 0 if they lie in none.
        bytes: Their size, or that of the rows.
        rows: The number of its rows, if they lie in no files.
    """

    checkpoint_id: int
    files: int
    bytes: int
    rows: int | None = None


@runtime_checkable
class RewindableSink(Protocol):
    """A sink that can show again what it showed at an earlier checkpoint, for a pipeline that is restored."""

    def rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        """Show exactly what the checkpoints of a branch have committed.

        What others did is withdrawn but kept, and what of the branch was withdrawn before comes back. Idempotent and
        fenced as `Sink.commit`: readers see each checkpoint's rows whole or not at all.

        Args:
            checkpoint_id: The restored checkpoint.
            branch: The checkpoints that the pipeline has behind it.
            staged: What the restored checkpoint staged, which is kept with it.
            attempt: The attempt at committing.

        Raises:
            SupersededAttemptError: If a step fails because a later attempt was here.
        """
        ...

    def shown_outside(self, branch: Branch) -> list[Withdrawn]:
        """Say what a rewind to a branch would withdraw now.

        Args:
            branch: The branch.

        Returns:
            The rows of each checkpoint that is not of the branch.
        """
        ...

    def withdrawn(self) -> list[int]:
        """List the checkpoints whose rows are withdrawn, and kept.

        Returns:
            Their ids.
        """
        ...

    def delete_withdrawn(self, checkpoint_ids: Collection[int], attempt: CommitAttempt) -> None:
        """Delete withdrawn rows: no restore can bring them back any more.

        Args:
            checkpoint_ids: The checkpoints.
            attempt: The attempt at committing.
        """
        ...


@runtime_checkable
class PositionedSink(Protocol):
    """A sink of upserts whose table says which checkpoint it has. Without this ability, it is taken at its word until
    the pipeline is restored, and is given all rows after that."""

    def shown_checkpoint(self) -> int | None:
        """Find out which checkpoint's rows the table has, before the next ones are staged.

        Returns:
            The checkpoint that was last committed or rewound to. None if the table may lack rows of it, because it was
            made anew or emptied since: then the sink is given all rows.

        Raises:
            SinkError: If that cannot be found out now.
        """
        ...


@runtime_checkable
class JournalingSink(Protocol):
    """A sink that keeps what its checkpoints have replaced, so that a restore can bring it back. It hears of each
    checkpoint, even after all its input has ended."""

    def forget(self, kept: Collection[int]) -> None:
        """Delete what only a restore to other checkpoints would need. No restore leads to them any more.

        Args:
            kept: The checkpoints that a restore can go back to, at least one. Later ones may follow.
        """
        ...


@runtime_checkable
class LingeringSink(Protocol):
    """A sink in whose place something lies for a time only, such as a table that was replaced. Its commits remove it,
    and a cleaning does so where none come."""

    def outdated(self, now: datetime) -> list[str]:
        """List files whose time is over, for a report. Changes nothing.

        Args:
            now: The time.

        Returns:
            The files.
        """
        ...

    def remove_outdated(self, attempt: CommitAttempt) -> None:
        """Remove files whose time is over. Fenced as `Sink.commit`.

        Args:
            attempt: The attempt at committing.
        """
        ...


@runtime_checkable
class OwnedSink(Protocol):
    """A sink whose place has one owner, which a mark in it names: see `protocol.recovery.ownership`. Without this
    ability, two pipelines that write to one place are not found out before they commit."""

    def owner(self) -> Owner | None:
        """Read whose the place is.

        Returns:
            The owner; None if the place has no mark.
        """
        ...

    def mark(self, owner: Owner) -> Owner:
        """Make the place the owner's if it has no mark, in one step: of two at once both learn whose it is.

        Args:
            owner: Who asks for the place.

        Returns:
            Whose it is from then on.
        """
        ...

    def mark_anew(self, owner: Owner) -> None:
        """Make the place the owner's, whosever it is.

        Args:
            owner: The new owner.
        """
        ...

    def is_used(self) -> bool:
        """Look for anything but the mark.

        Returns:
            Whether rows that readers see, or files of a pipeline, lie there.
        """
        ...
