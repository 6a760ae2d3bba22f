"""Where state lies: files that are written once, read back, verified and deleted."""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from tidegate.protocol.facts.records import StateHandle


class ReadableStorage(Protocol):
    """Files that were written before. Raises as `CheckpointStorage`."""

    @property
    def url(self) -> str:
        """The root."""
        ...

    def read(self, path: str) -> bytes: ...


class CheckpointStorage(Protocol):
    """Where state lies. Paths are relative to `url` and never leave it. What was written can be read back at once,
    whole.

    Raises `StorageError` (cannot read or write), `StateIntegrityError` (missing or damaged).
    """

    @property
    def url(self) -> str:
        """The root."""
        ...

    def write(self, path: str, content: bytes) -> None:
        """All or nothing; replaces an existing file."""
        ...

    def read(self, path: str) -> bytes: ...
    def marked(self, path: str) -> bytes | None:
        """What `mark` has written; None if there is no mark."""
        ...

    def mark(self, path: str, content: bytes, anew: bool = False) -> bytes:
        """Write a small file unless it is there; with `anew` also then. Returns what it holds from then on. Where the
        storage has no such step, of two at once the last counts, and both are given that as far as it shows by then."""
        ...

    def list(self, prefix: str) -> list[str]:
        """All files below a directory, "" for the root, at any depth, as paths that `read` takes; none if it does not
        exist."""
        ...

    def delete(self, paths: Sequence[str], closed: Collection[str] = ()) -> None:
        """Missing files are fine; directories left empty are removed.

        An object store has none, but its file system leaves empty objects that stand for them. They cannot be removed
        alone, so this happens only in `closed` directories, where nothing that counts is written any more; also without
        `paths`.
        """
        ...

    def elsewhere(self, url: str) -> "CheckpointStorage":
        """Storage at another URL. Raises `ConfigurationError` if there cannot be any."""
        ...

    def copy(self, file: StateHandle, source: "CheckpointStorage", path: str, keep: Callable[[], None]) -> None:
        """Write to `path` what `file` names on another storage, all of it or nothing; `keep` is called now and then.

        Raises `StateIntegrityError` if it is not what was written there.
        """
        ...

    def verify(self, files: Sequence[StateHandle], in_full: Collection[str]) -> None:
        """Check that every file is there in its full length, and that the paths `in_full` match their checksums.

        Raises `StateIntegrityError` for the first that differs from what was written.
        """
        ...
