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

    def read(self, path: str) -> bytes:
        """Read a file.

        Args:
            path: The file.

        Returns:
            Its content.
        """
        ...


class CheckpointStorage(Protocol):
    """Where state lies. Paths are relative to `url` and never leave it. What was written can be read back at once,
    whole.

    Every method raises `StorageError` if it cannot read or write, and `StateIntegrityError` for a file that is missing
    or damaged.
    """

    @property
    def url(self) -> str:
        """The root."""
        ...

    def write(self, path: str, content: bytes) -> None:
        """Write a file, all of it or nothing. Replaces one that is there.

        Args:
            path: The file.
            content: Its content.
        """
        ...

    def read(self, path: str) -> bytes:
        """Read a file.

        Args:
            path: The file.

        Returns:
            Its content.
        """
        ...

    def marked(self, path: str) -> bytes | None:
        """Read a mark.

        Args:
            path: The file that `mark` has written.

        Returns:
            Its content; None if there is no mark.
        """
        ...

    def mark(self, path: str, content: bytes, anew: bool = False) -> bytes:
        """Write a small file unless it is there.

        Where the storage has no such step, of two at once the last counts, and both are given that as far as it shows
        by then.

        Args:
            path: The file.
            content: Its content.
            anew: Write it also if it is there.

        Returns:
            What the file holds from then on.
        """
        ...

    def list(self, prefix: str) -> list[str]:
        """List all files below a directory, at any depth.

        Args:
            prefix: The directory; "" for the root.

        Returns:
            Paths that `read` takes; none if the directory does not exist.
        """
        ...

    def delete(self, paths: Sequence[str], closed: Collection[str] = ()) -> None:
        """Delete files. Missing ones are fine; directories left empty are removed.

        An object store has none, but its file system leaves empty objects that stand for them. They cannot be removed
        alone, so this happens only in `closed` directories.

        Args:
            paths: The files.
            closed: Directories where nothing that counts is written any more.
        """
        ...

    def elsewhere(self, url: str) -> "CheckpointStorage":
        """Open storage at another URL.

        Args:
            url: The root.

        Returns:
            The storage.

        Raises:
            ConfigurationError: If there cannot be any.
        """
        ...

    def copy(self, file: StateHandle, source: "CheckpointStorage", path: str, keep: Callable[[], None]) -> None:
        """Copy a file from another storage, all of it or nothing.

        Args:
            file: The file.
            source: The storage that has it.
            path: Where to.
            keep: Called now and then.

        Raises:
            StateIntegrityError: If it is not what was written there.
        """
        ...

    def verify(self, files: Sequence[StateHandle], in_full: Collection[str]) -> None:
        """Check that every file is there in its full length.

        Args:
            files: The files.
            in_full: The paths whose checksums must match, too.

        Raises:
            StateIntegrityError: For the first that differs from what was written.
        """
        ...
