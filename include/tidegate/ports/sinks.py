"""The port for sinks. A sink stages rows out of the readers' sight, and shows them once their checkpoint has
completed."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from tidegate.protocol.facts.records import StateHandle

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class SinkInput(StrEnum):
    """The kind of rows that a sink is given.

    Attributes:
        CHANGES: The rows that the checkpoint produced.
        CURRENT: Every current row of the operator's state, whenever a subtask's part of it changed. Transforms between
            the operator and the sink derive columns of each row.
        UPSERTS: Behind an operator that keeps state, the differences of its rows from those that the sink was given
            before: rows that are new or changed, and, in files of their own, keys that were removed or have expired.
            Such a file has `deletes` in its handle's details, and a column `_delete` that is true; columns that are no
            key are null. A sink may lack earlier rows because it is new, writes elsewhere, was left by a restore, or
            because the pipeline began in another database. Then it is given all rows once, in files with `whole` in
            their details: no other key has a row. A sink without `rewind` may have no way to remove the others, so it
            is also given the keys that the state no longer has since the latest checkpoint. Behind transforms, a row
            may be unchanged, and a removed key may have no row. Behind anything else, the rows that the checkpoint
            produced.
    """

    CHANGES = "CHANGES"
    CURRENT = "CURRENT"
    UPSERTS = "UPSERTS"


class DeliveryGuarantee(StrEnum):
    """The guarantee for a row's way to the readers of a sink after failures (protocol.md section 17).

    Attributes:
        EXACTLY_ONCE: Readers see each row once.
        AT_LEAST_ONCE: No row is lost, but readers may see it twice.
    """

    EXACTLY_ONCE = "EXACTLY_ONCE"
    AT_LEAST_ONCE = "AT_LEAST_ONCE"


class SinkCommit(StrEnum):
    """The moment when a sink shows the rows of a checkpoint, and its guarantee after failures.

    Attributes:
        IN_THE_COMMIT: In the transaction that completes the checkpoint: in the same instant as the checkpoint itself
            and the rows of all other sinks of this kind (`CommittingSink`).
        AFTER_THE_COMMIT: Soon after it. `commit` is repeated until it has succeeded, and shows rows once.
        AT_LEAST_ONCE: Soon after it. A repeated `commit` may show rows again.
    """

    IN_THE_COMMIT = "IN_THE_COMMIT"
    AFTER_THE_COMMIT = "AFTER_THE_COMMIT"
    AT_LEAST_ONCE = "AT_LEAST_ONCE"


@dataclass(frozen=True, slots=True)
class StageContext:
    """The parts of the names of staged files, so that no other attempt, Spark retry or speculation can collide.

    Attributes:
        checkpoint_id: The checkpoint.
        subtask_index: The subtask.
        attempt: The attempt at its snapshot.
        unique: A name that differs for every execution.
    """

    checkpoint_id: int
    subtask_index: int
    attempt: int
    unique: str


class SinkWriter(Protocol):
    """Stages rows on executors. It is picklable, and imports only the standard library, numpy, pyarrow and
    `tidegate.state`."""

    def stage(self, rows: "pa.Table", context: StageContext) -> list[StateHandle]:
        """Write rows out of the readers' sight.

        A path has a directory `chk-<checkpoint_id>`, and its file's name begins with `<subtask_index>-<attempt>-`. A
        report that names any other path is refused (`protocol.cleaning.own_files`).

        Args:
            rows: The rows.
            context: The parts of the files' names.

        Returns:
            Handles of kind `STAGED`, with paths relative to the sink's root.
        """
        ...


class CommitAttempt(Protocol):
    """One attempt at committing a pipeline's sinks.

    A process that was stopped or hangs is overtaken by the next attempt. It may go on at any moment, and then it must
    have no effect.
    """

    @property
    def number(self) -> int:
        """The attempt's number. A higher one overtakes all lower ones, even those of processes that still run."""
        ...

    def confirm(self) -> None:
        """Check that this attempt is the newest one now.

        Raises:
            SupersededAttemptError: If it is not.
        """
        ...

    def keep(self) -> None:
        """Give a sign of life between the parts of long work; mostly this costs nothing. A commit without a sign for
        longer than `committing.COMMIT_LEASE` is overtaken.

        Raises:
            SupersededAttemptError: If this attempt was overtaken.
        """
        ...


class Sink(Protocol):
    """A transactional output, by structure: a class with these methods need not inherit from it.

    Rows are staged during the snapshot, and made visible by `commit` after the checkpoint has completed, or by a
    `CommittingSink` together with it.
    """

    @property
    def input(self) -> SinkInput:
        """The kind of rows that it is given."""
        ...

    @property
    def commits(self) -> SinkCommit:
        """The moment when it shows rows. A sink with `IN_THE_COMMIT` is a `CommittingSink`."""
        ...

    def writer(self) -> SinkWriter:
        """Make the writer that stages rows on executors.

        Returns:
            The writer.
        """
        ...

    def read_staged(self, spark: "SparkSession", staged: Sequence[StateHandle]) -> "DataFrame | None":
        """Read staged rows, which no reader sees yet.

        Args:
            spark: The session.
            staged: The files.

        Returns:
            A lazy DataFrame; None if there are no files, because only the stream knows the columns then.
        """
        ...

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        """Make the staged rows visible, all at once. Idempotent: it will be repeated after crashes.

        Attempts fence: once an attempt with a higher number has begun, the steps of this one must change nothing,
        wherever it had stopped. So publish by a step that then fails by itself. One way is a transaction that compares
        `attempt.number` with the highest number seen. Another is a rename out of a directory of the attempt's own:
        create that directory once, before `attempt.confirm()`, and let every attempt first remove the directories of
        lower numbers.

        Args:
            checkpoint_id: The completed checkpoint.
            staged: The files that it staged.
            attempt: The attempt at committing.

        Raises:
            SupersededAttemptError: If a step fails because a later attempt was here.
        """
        ...

    def verify(self, staged: Sequence[StateHandle], in_full: Collection[str]) -> None:
        """Check staged files as `CheckpointStorage.verify` does, for the last time before the checkpoint completes.

        Args:
            staged: The files, which must be there in their full length.
            in_full: The paths whose checksums must match, too.

        Raises:
            StateIntegrityError: For the first that differs.
        """
        ...

    def staged_paths(self, checkpoint_id: int) -> list[str]:
        """List the files that any attempt of a checkpoint has left in staging, acknowledged or not.

        Args:
            checkpoint_id: The checkpoint.

        Returns:
            The paths.
        """
        ...

    def discard(self, paths: Sequence[str]) -> None:
        """Delete staged files, never rows that readers see.

        Args:
            paths: The files. Missing ones are ignored.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """Describe the sink for the checkpoint's metadata.

        Returns:
            JSON, as from `Source.describe`.
        """
        ...
