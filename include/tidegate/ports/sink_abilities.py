"""Optional abilities of a sink: to rewind, to read its table back, to report its owner, and to list its files."""

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
    """A table as of a checkpoint: Parquet files that never change, and that may be deleted later.

    Attributes:
        paths: The files, oldest first.
        columns: The columns of the table. A file may lack some of them, and may have older types.
    """

    paths: tuple[str, ...]
    columns: "pa.Schema"


@runtime_checkable
class ReadableAtSink(Protocol):
    """A sink whose table can be read as of a checkpoint, whatever it shows now (see `tidegate.read`)."""

    def read_at(
        self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle] | None
    ) -> TableFiles | ArrowRows:
        """Find the rows that the table has at a checkpoint, with the columns of the rows alone.

        It changes nothing, and is called while commits and rewinds run. A `FileNotFoundError` means that files have
        moved meanwhile, and the caller repeats the call.

        Args:
            checkpoint_id: A completed checkpoint, whose rows the sink was requested to show.
            branch: That checkpoint and its history.
            staged: The files that the checkpoint staged; None if they are not on record any more.

        Returns:
            The files, or rows that are read when they are needed.

        Raises:
            CheckpointInDoubtError: If the table does not show the checkpoint yet.
            CheckpointNotRetainedError: If the table cannot be read as of the checkpoint any more.
        """
        ...


@runtime_checkable
class ReadableSink(Protocol):
    """A sink that can read its table back."""

    def read_table(self, spark: "SparkSession") -> "DataFrame | None":
        """Read the rows that readers see now, with the columns of the rows alone.

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
        """Find the highest numbers that any file of the sink carries.

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
    """A sink that stages below the checkpoint storage. It is given its directory when it joins a pipeline, so that no
    two sinks stage in one place."""

    @property
    def place(self) -> str | None:
        """The directory, relative to the checkpoint storage; None if the sink stages elsewhere."""
        ...

    def placed(self, pipeline_id: str, name: str) -> Self:
        """Make the sink with its place in a pipeline.

        Args:
            pipeline_id: The pipeline.
            name: The name of the sink in it.

        Returns:
            The sink with its `place`. The original stays unchanged.
        """
        ...


@runtime_checkable
class StagingSink(Protocol):
    """A sink that can list its staging, so that a forgotten file is found."""

    def staged_checkpoints(self) -> list[int]:
        """List the checkpoints that have files in staging.

        Returns:
            Their ids.
        """
        ...


@runtime_checkable
class ReferencingSink(Protocol):
    """A sink whose table refers to staged files. They are staged where they stay, and a commit takes them over instead
    of copying their rows. The staged files of a checkpoint that is no longer needed are deleted, except those that
    the table refers to: they belong to the table from then on."""

    def referenced(self, paths: Sequence[str]) -> Collection[str]:
        """Find out which files have been taken over. No later commit takes over any of the others.

        Args:
            paths: Staged files.

        Returns:
            Those that the table refers to, withdrawn rows that are kept and older versions included.
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
        """Make a writer that stages below another root, for rows of a savepoint that the sink has never staged.

        Args:
            url: The root.

        Returns:
            The writer.
        """
        ...


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The rows of one checkpoint that a rewind withdraws from readers.

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
    """A sink that can show the rows of an earlier checkpoint again, for a pipeline that is restored."""

    def rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        """Show exactly what the checkpoints of a branch have committed.

        The rows of other checkpoints are withdrawn but kept, and withdrawn rows of the branch come back. Idempotent and
        fenced as `Sink.commit`: readers see each checkpoint's rows whole or not at all.

        Args:
            checkpoint_id: The restored checkpoint. It may have been left behind before it was committed. Then its
                commit follows, and must add its rows.
            branch: The checkpoints that the pipeline has behind it.
            staged: The files that the restored checkpoint staged, which are kept with it.
            attempt: The attempt at committing.

        Raises:
            SupersededAttemptError: If a step fails because a later attempt was here.
        """
        ...

    def shown_outside(self, branch: Branch) -> list[Withdrawn]:
        """List the rows that a rewind to a branch would withdraw now.

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
        """Delete withdrawn rows that no restore can bring back any more.

        Args:
            checkpoint_ids: The checkpoints.
            attempt: The attempt at committing.
        """
        ...


@runtime_checkable
class PositionedSink(Protocol):
    """A sink of upserts whose table records its checkpoint. Without this ability, the table is assumed to be complete
    until the pipeline is restored, and is given all rows after that."""

    def shown_checkpoint(self) -> int | None:
        """Find out which checkpoint's rows the table has, before further rows are staged.

        Returns:
            The checkpoint that was last committed or rewound to. None if the table may lack rows of it, because it was
            created again or emptied since. The sink is then given all rows.

        Raises:
            SinkError: If that cannot be found out now.
        """
        ...


@runtime_checkable
class JournalingSink(Protocol):
    """A sink that keeps the rows that its checkpoints have replaced, so that a restore can bring them back. It is
    called for each checkpoint, even after all its input has ended."""

    def forget(self, kept: Collection[int]) -> None:
        """Delete kept rows that only a restore to other checkpoints would need. Such a restore is no longer possible.

        Args:
            kept: The checkpoints that a restore can go back to, at least one. Later ones may follow.
        """
        ...


@runtime_checkable
class LingeringSink(Protocol):
    """A sink that keeps some files for a limited time, such as those of a replaced table. Its commits remove them, and
    so does a cleaning if no commits follow."""

    def outdated(self, now: datetime) -> list[str]:
        """List outdated files for a report. Changes nothing.

        Args:
            now: The time.

        Returns:
            The files.
        """
        ...

    def remove_outdated(self, attempt: CommitAttempt) -> None:
        """Remove outdated files. Fenced as `Sink.commit`.

        Args:
            attempt: The attempt at committing.
        """
        ...


@runtime_checkable
class OwnedSink(Protocol):
    """A sink whose place has one owner, recorded in a mark (see `protocol.recovery.ownership`). Without this ability,
    two pipelines that write to one place are only detected when they commit."""

    def owner(self) -> Owner | None:
        """Read the owner of the place.

        Returns:
            The owner; None if the place has no mark.
        """
        ...

    def mark(self, owner: Owner) -> Owner:
        """Mark the place for the owner if it has no mark, in one step. Of two concurrent callers, both get the same
        owner.

        Args:
            owner: The pipeline that claims the place.

        Returns:
            The owner from then on.
        """
        ...

    def mark_anew(self, owner: Owner) -> None:
        """Mark the place for the owner, whatever the mark was before.

        Args:
            owner: The new owner.
        """
        ...

    def is_used(self) -> bool:
        """Check whether the place holds anything but the mark.

        Returns:
            Whether it holds rows that readers see, or files of a pipeline.
        """
        ...
