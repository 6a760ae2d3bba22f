"""A source's directory: its files, their present sizes and times, and their content."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING

from tidegate.protocol.facts.errors import ConfigurationError, SourceUnavailableError, StorageError
from tidegate.protocol.text.object_stores import Refusal, refusal_in
from tidegate.sources.decoding import PIECE
from tidegate.sources.line_numbers import lines_before
from tidegate.sources.links import moved_away, require_as_listed
from tidegate.sources.listing import FileVersion, Listing
from tidegate.sources.quotes import Rules
from tidegate.sources.walking import files_below

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.fs as pafs

#: Bytes of files that a poll reads for their checksums: some seconds at most. Spark takes far longer for their rows.
CHECKSUM_BYTES = 4 << 30
#: The largest size of a file that may have grown from no rows: it had no more than a header.
BEGINNING = 64 << 10
_READ_AT_ONCE = 16
_OBJECT_STORES = ("s3", "gcs", "abfs")  # a directory exists there once it has a file


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
        """List the files at any depth or directly in the directory, in one listing.

        Raise `SourceUnavailableError` if there is no such directory, `StorageError` if it cannot be listed.
        """
        from pyarrow import fs

        try:
            if self._filesystem.get_file_info(self._root).type is not fs.FileType.Directory:
                self._require_bucket()
            return files_below(self._filesystem, self._root, recursive, follow_links)
        except (OSError, UnicodeDecodeError, UnicodeEncodeError) as error:
            why = str(error) if isinstance(error, OSError) else f"the name {error.object!r} is not UTF-8"
            cause = Refusal(why, "Correct the cause (permissions, connection, a file name that is not UTF-8)")
            why, advice = refusal_in(error) or cause
            raise StorageError(
                f"The source directory {self.location!r} cannot be listed: {why}. Nothing was read. {advice}, then run "
                "again."
            ) from error

    def _require_bucket(self) -> None:
        """Raise `SourceUnavailableError`, unless this is a prefix of an object store, without files yet."""
        from pyarrow import fs

        bucket, _, prefix = self._root.partition("/")
        if self._filesystem.type_name not in _OBJECT_STORES:
            what = f"The source directory {self.location!r} does not exist"
            way_out = "create it (empty is fine), mount it, or correct the path"
        elif not prefix or self._filesystem.get_file_info(bucket).type is not fs.FileType.Directory:
            what = f"The bucket {bucket!r} of the source {self.location!r} does not exist"
            way_out = "create it (empty is fine), or correct the URL"
        else:
            return
        raise SourceUnavailableError(f"{what}. Nothing was read and nothing is lost: {way_out}, then run again.")

    def current(self, paths: Sequence[str]) -> list[FileVersion | None]:
        """Return the files as they are now, None for those that are gone. Raise `StorageError`."""
        try:
            found = self._filesystem.get_file_info([f"{self._root}/{path}" for path in paths])
        except OSError as error:
            why, advice = refusal_in(error) or Refusal(str(error), "Check the connection")
            raise StorageError(
                f"Files of {self.location!r} cannot be inspected: {why}. Nothing was read. {advice}, then run again."
            ) from error
        return [_version(path, info) if info.is_file else None for path, info in zip(paths, found, strict=True)]

    def with_checksums(self, files: Sequence[FileVersion]) -> list[FileVersion]:
        """Return the files with checksums of their content, smallest first, up to `CHECKSUM_BYTES` in all. A file that
        has disappeared gets none, and the error is raised when its rows are read. Raise `StorageError` if a file cannot
        be read."""
        wanted = sorted((file for file in files if file.checksum is None), key=lambda file: file.size)
        ends = accumulate(file.size for file in wanted)
        wanted = [file for file, end in zip(wanted, ends, strict=True) if end <= CHECKSUM_BYTES]
        with ThreadPoolExecutor(_READ_AT_ONCE) as pool:
            known = dict(zip((file.path for file in wanted), pool.map(self._checksum, wanted), strict=True))
        return [file._replace(checksum=known.get(file.path, file.checksum)) for file in files]

    def is_same(self, before: FileVersion, now: FileVersion | None) -> bool:
        """Whether a file is unchanged: it has the same size and time, or was only touched, as far as its content is
        known."""
        if now is None or before.is_at(now):
            return now is not None
        if before.size != now.size or before.checksum is None:
            return before.size == now.size == 0
        return self._checksum(now) == before.checksum

    def begins_with(self, before: FileVersion, now: FileVersion) -> bytes | None:
        """Return the former content of a small file, if it is longer now and still begins with it; else None."""
        if not now.size > before.size <= BEGINNING:
            return None
        content = self._read(now.path, before.size)
        is_known = not before.size or _hashed([content]) == before.checksum
        return content if content is not None and is_known else None

    def content(self, file: FileVersion) -> bytes | None:
        """Return the content of a file; None if the file has changed by the time all of it has been read. Raise
        `StorageError`."""
        content = self._read(file.path, file.size)
        is_whole = content is not None and len(content) == file.size
        return content if is_whole and file.is_at(self.current([file.path])[0]) else None

    def _checksum(self, file: FileVersion) -> str | None:
        with self._opened(file.path) as stream:
            return None if stream is None else _hashed(iter(lambda: stream.read(PIECE), b""))

    def _read(self, path: str, size: int) -> bytes | None:
        with self._opened(path) as stream:
            return None if stream is None else bytes(stream.read(size))

    @contextmanager
    def _opened(self, path: str) -> "Iterator[pa.NativeFile | None]":
        """Open a file; None if it has disappeared. Raise `StorageError`, `SourceChangedError`."""
        self._require_as_listed(path)
        try:
            with self._filesystem.open_input_stream(f"{self._root}/{path}", compression=None) as stream:
                self._require_as_listed(path)
                yield stream
        except FileNotFoundError:
            yield None
        except OSError as error:
            why, advice = refusal_in(error) or Refusal(str(error), "Correct the cause (permissions, connection)")
            raise StorageError(
                f"{self.location}/{path} cannot be read: {why}. Nothing was read. {advice}, then run again."
            ) from error

    def lines_before(self, path: str, end: int, rules: Rules) -> int:
        """Count the lines that end before byte `end` of a file, by these `records.Rules`."""
        self._require_as_listed(path)
        return lines_before(self._filesystem, f"{self._root}/{path}", rules, end)

    def moved_away(self, paths: Sequence[str]) -> list[str]:
        """Return those of these files that are now reached through a link."""
        return moved_away(self._filesystem, self._root, paths)

    def _require_as_listed(self, path: str) -> None:
        require_as_listed(self._filesystem, self._root, path, f"{self.location}/{path}")


def _version(path: str, info: "pafs.FileInfo") -> FileVersion:
    return FileVersion(path, info.size, info.mtime_ns or 0)


def _hashed(pieces: Iterable[bytes | None]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for piece in pieces:
        digest.update(piece or b"")
    return digest.hexdigest()
