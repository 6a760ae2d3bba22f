"""What a source may be able to do besides: report its lag, list what it has read, go on behind lost rows, and keep
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
    """A source that can say when it is behind."""

    def is_behind(self, split: int, polled: Segment | None) -> bool:
        """Say whether more has arrived than a poll took.

        Args:
            split: The split.
            polled: What the poll returned.

        Returns:
            Whether it is behind.
        """
        ...


@runtime_checkable
class DiscoveringSource(Protocol):
    """A source that may take its columns from the system that it reads. That is asked when the pipeline is checked,
    planned or run, and not when it is defined, as Airflow defines it again and again."""

    @property
    def declared_schema(self) -> Schema | None:
        """The columns, if the user has declared them. None: `schema` asks for them."""
        ...


@runtime_checkable
class CheckedSource(Protocol):
    """A source that can look beforehand at the system that it reads, when a definition is checked."""

    def problems(self) -> Sequence[str]:
        """Find what a poll would refuse.

        Returns:
            A sentence for each, which says the way out; none if the system cannot be reached.
        """
        ...


@runtime_checkable
class LaggingSource(Protocol):
    """A source that can say how far behind it is."""

    def pending(self, split: int) -> Pending | None:
        """Say what the last poll of a split has found and left. Called right after a poll, of the same object, so it
        costs no further look at the input.

        Args:
            split: The split.

        Returns:
            What is left; None before the first poll.
        """
        ...


@dataclass(frozen=True, slots=True)
class ReadSince:
    """What a source has read between two snapshots.

    Attributes:
        pieces: The number of files, or of whatever it reads in.
        bytes: Their size.
        missing: The names of those that are gone or have changed since, and so cannot be read again as they were.
    """

    pieces: int
    bytes: int
    missing: Sequence[str]


@runtime_checkable
class ListingSource(Protocol):
    """A source that can say which files a checkpoint has read."""

    def read_in(self, checkpoint_id: int, taken: Snapshot, storage: ReadableStorage) -> Mapping[str, int]:
        """List the files that one split has read in a checkpoint.

        Args:
            checkpoint_id: The checkpoint.
            taken: The snapshot of the split in it.
            storage: The checkpoint storage.

        Returns:
            The files, relative to where the source reads, with their bytes.

        Raises:
            StateIntegrityError: If what records them is missing or damaged.
            StorageError: If it cannot be read.
        """
        ...


@runtime_checkable
class RereadingSource(Protocol):
    """A source that can say what a restore makes it read again."""

    def read_since(
        self, split: int, restored: Snapshot | None, taken: Snapshot | None, storage: ReadableStorage
    ) -> ReadSince:
        """Sum up what was read between two snapshots, as it is now.

        Args:
            split: The split.
            restored: The earlier snapshot; None for the start.
            taken: The later snapshot; None if the split has read nothing.
            storage: The checkpoint storage.

        Returns:
            What was read after `restored` and up to `taken`.
        """
        ...


@dataclass(frozen=True, slots=True)
class PieceVersion:
    """What a file is, or was.

    Attributes:
        bytes: Its size.
        modified_at: When it was modified.
        checksum: Of its content; None if that is not remembered.
    """

    bytes: int
    modified_at: datetime
    checksum: str | None


@dataclass(frozen=True, slots=True)
class ReadPiece:
    """A file that a checkpoint has read.

    Attributes:
        name: Relative to where the source reads.
        checkpoint_id: The checkpoint.
        then: The file as it was read.
        now: The file as it is; None if it is gone.
        is_same: Whether it has not changed.
    """

    name: str
    checkpoint_id: int
    then: PieceVersion
    now: PieceVersion | None
    is_same: bool


@runtime_checkable
class ReplaceableSource(Protocol):
    """A source of files that can say what it has read of one, so that a corrected file can be taken."""

    def name_of(self, given: str) -> str:
        """Name a file as the source does.

        Args:
            given: The file as a user names it, such as by its whole path.

        Returns:
            Its name relative to where the source reads.
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
            Those of the files that were read, by name.
        """
        ...


@dataclass(frozen=True, slots=True)
class Skipped:
    """What is left of a position or a segment when lost rows are skipped.

    Attributes:
        lost: The rows that nobody will read, of each part of the source.
        rest: The position behind them, or the reference of what is left of the segment; None if nothing of it is left.
    """

    lost: Sequence[LostRows]
    rest: Mapping[str, Any] | None


@runtime_checkable
class SkippingSource(Protocol):
    """A source that may lose rows before they are read, refuses to go on then, and can say where it could. Both methods
    look at the source as it is, and change nothing."""

    def skip_lost(self, position: Mapping[str, Any]) -> Skipped | None:
        """Find what a poll that goes on from a position would miss.

        Args:
            position: Of the snapshot of a split, which may be of another number of splits than there are now.

        Returns:
            What is lost, and the parts of the position that change; None if nothing is.

        Raises:
            SourceUnavailableError: If the source cannot be reached.
        """
        ...

    def cut_lost(self, reference: Mapping[str, Any]) -> Skipped | None:
        """Find what of a segment cannot be read any more.

        Args:
            reference: Of a segment that a checkpoint holds as being in flight.

        Returns:
            What is lost, and the reference of the rest; None if nothing is lost.

        Raises:
            SourceUnavailableError: If the source cannot be reached.
        """
        ...


@runtime_checkable
class QuarantiningSource(Protocol):
    """A source that can keep malformed rows apart."""

    @property
    def quarantine(self) -> "Sink | None":
        """Where malformed rows go. None: they fail the checkpoint."""
        ...
