"""What a source may be able to do besides: report its lag, list what it has read, and keep malformed rows apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from tidegate.ports.sinks import Sink
from tidegate.ports.sources import Segment
from tidegate.ports.storage import ReadableStorage
from tidegate.protocol.facts.records import Pending, Snapshot


@runtime_checkable
class BacklogSource(Protocol):
    """A source that can say when it is behind."""

    def is_behind(self, split: int, polled: Segment | None) -> bool:
        """Whether more has arrived than the poll that gave this segment took."""
        ...


@runtime_checkable
class LaggingSource(Protocol):
    """A source that can say how far behind it is."""

    def pending(self, split: int) -> Pending | None:
        """What the last poll of this split has found and left; None before the first one. It is asked right after a
        poll, of the same object, so it costs no further look at the input."""
        ...


@dataclass(frozen=True, slots=True)
class ReadSince:
    """What a source has read between two snapshots, in files or whatever it reads in. `missing` names what is gone or
    has changed since, and so cannot be read again as it was."""

    pieces: int
    bytes: int
    missing: Sequence[str]


@runtime_checkable
class ListingSource(Protocol):
    """A source that can say which files a checkpoint has read."""

    def read_in(self, checkpoint_id: int, taken: Snapshot, storage: ReadableStorage) -> Mapping[str, int]:
        """Of one split: the files, relative to where the source is, with their bytes. Raises `StateIntegrityError`,
        `StorageError` if that is not known any more."""
        ...


@runtime_checkable
class RereadingSource(Protocol):
    """A source that can say what a restore makes it read again."""

    def read_since(
        self, split: int, restored: Snapshot | None, taken: Snapshot | None, storage: ReadableStorage
    ) -> ReadSince:
        """What was read after `restored` and up to `taken`, as it is now."""
        ...


@dataclass(frozen=True, slots=True)
class PieceVersion:
    """What a file is, or was. `checksum` is None if its content is not remembered."""

    bytes: int
    modified_at: datetime
    checksum: str | None


@dataclass(frozen=True, slots=True)
class ReadPiece:
    """A file that a checkpoint has read: as it was then, and as it is now, None if it is gone."""

    name: str
    checkpoint_id: int
    then: PieceVersion
    now: PieceVersion | None
    is_same: bool


@runtime_checkable
class ReplaceableSource(Protocol):
    """A source of files, which can say what it has read of one."""

    def name_of(self, given: str) -> str:
        """How the source calls a file that somebody names: relative to where it reads."""
        ...

    def find_read(
        self, names: Sequence[str], taken: Sequence[Snapshot], storage: ReadableStorage
    ) -> Mapping[str, ReadPiece]:
        """Of these files, those that were read according to the snapshots of all splits."""
        ...


@runtime_checkable
class QuarantiningSource(Protocol):
    """A source that can keep malformed rows apart."""

    @property
    def quarantine(self) -> "Sink | None":
        """Where they go. None: they fail the checkpoint."""
        ...
