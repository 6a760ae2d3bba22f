"""The storage of state: files that are written once, read back, verified and deleted."""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from tidegate.protocol.facts.records import StateHandle


class ReadableStorage(Protocol):
    """Read access to written files. Its methods raise as those of `CheckpointStorage`."""

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
    """The storage of state. Paths are relative to `url` and never leave it. A written file can be read back at once,
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
        """Write a small file unless it exists.

        On a storage without such an atomic step, the last of two concurrent writes wins. Both callers get its content
        if it is visible by then.

        Args:
            path: The file.
            content: Its content.
            anew: Write it even if it exists.

        Returns:
            The content of the file from then on.
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
        """Delete files. Missing ones are ignored, and directories left empty are removed.

        An object store has no directories, but its file system leaves empty objects in their place. They cannot be
        removed one by one, so they are removed only in `closed` directories.

        Args:
            paths: The files.
            closed: Directories to which nothing that counts is written any more.
        """
        ...

    def elsewhere(self, url: str) -> "CheckpointStorage":
        """Open storage at another URL.

        Args:
            url: The root.

        Returns:
            The storage.

        Raises:
            ConfigurationError: If the URL cannot be storage.
        """
        ...

    def copy(self, file: StateHandle, source: "CheckpointStorage", path: str, keep: Callable[[], None]) -> None:
        """Copy a file from another storage, all of it or nothing.

        Args:
            file: The file.
            source: The storage that has it.
            path: The path of the copy.
            keep: Called repeatedly during the copy.

        Raises:
            StateIntegrityError: If the file differs from its handle.
        """
        ...

    def verify(self, files: Sequence[StateHandle], in_full: Collection[str]) -> None:
        """Check that every file is there in its full length.

        Args:
            files: The files.
            in_full: The paths whose checksums must match, too.

        Raises:
            StateIntegrityError: For the first file that differs from its handle.
        """
        ...
