"""Optional abilities of a source: to report its lag, to list the files it has read, to skip lost rows, and to keep
malformed rows apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from tidegate.ports.declared_schemas import Schema
from tidegate.ports.sinks import Sink
from tidegate.ports.sources import Segment
from tidegate.ports.storage import ReadableStorage
from tidegate.protocol.facts.records import Pending, Snapshot
from tidegate.protocol.recovery.skipping import LostRows


@runtime_checkable
class BacklogSource(Protocol):
    """A source that can report whether it is behind."""

    def is_behind(self, split: int, polled: Segment | None) -> bool:
        """Report whether more has arrived than a poll took.

        Args:
            split: The split.
            polled: The segment that the poll returned.

        Returns:
            Whether it is behind.
        """
        ...


@runtime_checkable
class DiscoveringSource(Protocol):
    """A source that may take its columns from the system that it reads. It reads them when the pipeline is checked,
    planned or run, and not when it is defined, because Airflow defines it again and again."""

    @property
    def declared_schema(self) -> Schema | None:
        """The columns, if the user has declared them. None: `schema` reads them from the system."""
        ...


@runtime_checkable
class CheckedSource(Protocol):
    """A source that can inspect the system that it reads in advance, when a definition is checked."""

    def problems(self) -> Sequence[str]:
        """Find the problems for which a poll would fail.

        Returns:
            A sentence with the way out for each of them; none if the system cannot be reached.
        """
        ...


@runtime_checkable
class LaggingSource(Protocol):
    """A source that can report its lag."""

    def pending(self, split: int) -> Pending | None:
        """Report the input that the last poll of a split has found and left. It is called right after a poll of the
        same object, so it needs no further access to the input.

        Args:
            split: The split.

        Returns:
            The input that is left; None before the first poll.
        """
        ...


@dataclass(frozen=True, slots=True)
class ReadSince:
    """The input that a source has read between two snapshots.

    Attributes:
        pieces: The number of files, or of other pieces that it reads.
        bytes: Their size.
        missing: The names of those that are gone or have changed since, and so cannot be read again as they were.
    """

    pieces: int
    bytes: int
    missing: Sequence[str]


@runtime_checkable
class ListingSource(Protocol):
    """A source that can list the files that a checkpoint has read."""

    def read_in(self, checkpoint_id: int, taken: Snapshot, storage: ReadableStorage) -> Mapping[str, int]:
        """List the files that one split has read in a checkpoint.

        Args:
            checkpoint_id: The checkpoint.
            taken: The snapshot of the split in it.
            storage: The checkpoint storage.

        Returns:
            The files, relative to the source's directory, with their bytes.

        Raises:
            StateIntegrityError: If the record of them is missing or damaged.
            StorageError: If the record cannot be read.
        """
        ...


@runtime_checkable
class RereadingSource(Protocol):
    """A source that can report the input that it reads again after a restore."""

    def read_since(
        self, split: int, restored: Snapshot | None, taken: Snapshot | None, storage: ReadableStorage
    ) -> ReadSince:
        """Sum up the input that was read between two snapshots, in its present form.

        Args:
            split: The split.
            restored: The earlier snapshot; None for the start.
            taken: The later snapshot; None if the split has read nothing.
            storage: The checkpoint storage.

        Returns:
            The input that was read after `restored` and up to `taken`.
        """
        ...


@dataclass(frozen=True, slots=True)
class PieceVersion:
    """One version of a file.

    Attributes:
        bytes: Its size.
        modified_at: When it was modified.
        checksum: The checksum of its content; None if it was not recorded.
    """

    bytes: int
    modified_at: datetime
    checksum: str | None


@dataclass(frozen=True, slots=True)
class ReadPiece:
    """A file that a checkpoint has read.

    Attributes:
        name: Its name relative to the source's directory.
        checkpoint_id: The checkpoint.
        then: The file as it was read.
        now: The file as it is now; None if it is gone.
        is_same: Whether it has not changed.
    """

    name: str
    checkpoint_id: int
    then: PieceVersion
    now: PieceVersion | None
    is_same: bool


@runtime_checkable
class ReplaceableSource(Protocol):
    """A source of files that can report the version of a file that it has read, so that a corrected file can be
    taken."""

    def name_of(self, given: str) -> str:
        """Return the source's name of a file.

        Args:
            given: The file as a user names it, such as by its whole path.

        Returns:
            Its name relative to the source's directory.
        """
        ...

    def find_read(
        self, names: Sequence[str], taken: Sequence[Snapshot], storage: ReadableStorage
    ) -> Mapping[str, ReadPiece]:
        """Find files among those that were read.

        Args:
            names: The files.
            taken: The snapshots of all splits.
            storage: The checkpoint storage.

        Returns:
            The files that were read, by name.
        """
        ...


@dataclass(frozen=True, slots=True)
class Skipped:
    """The rest of a position or a segment after lost rows are skipped.

    Attributes:
        lost: The rows of each part of the source that will never be read.
        rest: The position behind them, or the reference of the rest of the segment; None if nothing is left of it.
    """

    lost: Sequence[LostRows]
    rest: Mapping[str, Any] | None


@runtime_checkable
class SkippingSource(Protocol):
    """A source that may lose rows before they are read, and then refuses to go on. It can report where reading could
    resume. Both methods read the source's present state, and change nothing."""

    def skip_lost(self, position: Mapping[str, Any]) -> Skipped | None:
        """Find the rows that a poll from a position would miss.

        Args:
            position: The position of a split's snapshot. The number of splits may have changed since.

        Returns:
            The lost rows, and the parts of the position that change; None if nothing is lost.

        Raises:
            SourceUnavailableError: If the source cannot be reached.
        """
        ...

    def cut_lost(self, reference: Mapping[str, Any]) -> Skipped | None:
        """Find the rows of a segment that cannot be read any more.

        Args:
            reference: The reference of a segment that a checkpoint holds as in flight.

        Returns:
            The lost rows, and the reference of the rest; None if nothing is lost.

        Raises:
            SourceUnavailableError: If the source cannot be reached.
        """
        ...


@runtime_checkable
class QuarantiningSource(Protocol):
    """A source that can keep malformed rows apart."""

    @property
    def quarantine(self) -> "Sink | None":
        """The sink of malformed rows. None: they fail the checkpoint."""
        ...
