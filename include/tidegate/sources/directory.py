"""A source's directory: which files lie in it, how they look now, and the content of small ones."""

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tidegate.protocol.errors import ConfigurationError, StorageError
from tidegate.sources.line_numbers import lines_before
from tidegate.sources.links import moved_away, require_as_listed
from tidegate.sources.listing import FileVersion, Listing
from tidegate.sources.quotes import Rules
from tidegate.sources.walking import files_below

if TYPE_CHECKING:
    import pyarrow.fs as pafs

#: Bytes up to which a file's content is remembered: a second look at it costs little more than opening it.
CHECKSUM_BELOW = 64 << 10
_ASKED_AT_ONCE = 16


class Directory:
    """A source's directory, local or on any filesystem that `pyarrow.fs` opens by URL."""

    def __init__(self, location: str) -> None:
        # pyarrow is heavy and this module is imported when Airflow parses a DAG: import it where it is used.
        from pyarrow import fs

        self.location = location
        try:
            self._filesystem, path = fs.FileSystem.from_uri(location)
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"The source directory {location!r} cannot be opened: {error}") from error
        self._root = path.rstrip("/")

    def files(self, recursive: bool = True, follow_links: bool = False) -> Listing:
        """What lies at any depth or directly in it. Costs one listing.

        Raises `ConfigurationError` if there is no such directory, `StorageError` if it cannot be listed.
        """
        from pyarrow import fs

        try:
            if self._filesystem.get_file_info(self._root).type is not fs.FileType.Directory:
                raise ConfigurationError(
                    f"The source directory {self.location!r} does not exist. Nothing was read and nothing is lost: "
                    "create it (empty is fine), mount it, or correct the path, then run again."
                )
            return files_below(self._filesystem, self._root, recursive, follow_links)
        except (OSError, UnicodeDecodeError, UnicodeEncodeError) as error:
            why = error if isinstance(error, OSError) else f"the name {error.object!r} is not UTF-8"
            raise StorageError(
                f"The source directory {self.location!r} cannot be listed: {why}. Nothing was read. Correct the "
                "cause (permissions, connection, a file name that is not UTF-8), then run again."
            ) from error

    def look(self, paths: Sequence[str]) -> list[FileVersion | None]:
        """The files as they are now, None for those that are gone. Raises `StorageError`."""
        try:
            found = self._filesystem.get_file_info([f"{self._root}/{path}" for path in paths])
        except OSError as error:
            raise StorageError(f"Files of {self.location!r} cannot be inspected: {error}. Run again.") from error
        return [_version(path, info) if info.is_file else None for path, info in zip(paths, found, strict=True)]

    def with_checksums(self, files: Sequence[FileVersion]) -> list[FileVersion]:
        """The same files, the small ones with a checksum of their content. One that has disappeared gets none, and
        reading its rows raises the error. Raises `StorageError` if a file cannot be read."""
        small = [file for file in files if file.size <= CHECKSUM_BELOW and file.checksum is None]
        with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
            known = dict(zip((file.path for file in small), pool.map(self._checksum, small), strict=True))
        return [file._replace(checksum=known.get(file.path, file.checksum)) for file in files]

    def is_same(self, before: FileVersion, now: FileVersion | None) -> bool:
        """Whether a file is what it was: looks the same, or was only touched, as far as its content is known."""
        if now is None or before.is_at(now):
            return now is not None
        return before.size == now.size and before.checksum is not None and self._checksum(now) == before.checksum

    def _checksum(self, file: FileVersion) -> str | None:
        self._require_as_listed(file.path)
        try:
            with self._filesystem.open_input_stream(f"{self._root}/{file.path}", compression=None) as stream:
                self._require_as_listed(file.path)
                return hashlib.blake2b(stream.read(), digest_size=16).hexdigest()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(
                f"{self.location}/{file.path} cannot be read: {error}. Nothing was read. Correct the cause "
                "(permissions, connection), then run again."
            ) from error

    def lines_before(self, path: str, end: int, rules: Rules) -> int:
        """How many lines end before byte `end` of a file, by these `records.Rules`."""
        self._require_as_listed(path)
        return lines_before(self._filesystem, f"{self._root}/{path}", rules, end)

    def moved_away(self, paths: Sequence[str]) -> list[str]:
        """Those of these files that are reached through a link now."""
        return moved_away(self._filesystem, self._root, paths)

    def _require_as_listed(self, path: str) -> None:
        require_as_listed(self._filesystem, self._root, path, f"{self.location}/{path}")


def _version(path: str, info: "pafs.FileInfo") -> FileVersion:
    return FileVersion(path, info.size, info.mtime_ns or 0)
