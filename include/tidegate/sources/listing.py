"""Which files lie in a source's directory, in which order they are read, and to which split each belongs.

Discovery has no high-water mark: a file that arrives late with an old modification time is as new as any other.
`manifests.py` records which files were read, and `files.py` reads their rows.
"""

import hashlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from tidegate.protocol.errors import ConfigurationError, StorageError
from tidegate.sources.arrow_columns import integers, numbers_of
from tidegate.sources.line_numbers import lines_before
from tidegate.sources.text_records import Rules
from tidegate.sources.walking import files_below

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.fs as pafs

# Not finished by their writer: dot and underscore names are hidden from Spark and Hive readers too.
_HIDDEN = (".", "_")
_UNFINISHED = (".tmp", ".part", ".inprogress", "._copying_")


#: Bytes up to which a file's content is remembered: a second look at it costs little more than opening it.
CHECKSUM_BELOW = 64 << 10
_ASKED_AT_ONCE = 16


class FileVersion(NamedTuple):
    """One file as it was seen: `path` relative to the source's directory, `size` bytes, `mtime_ns` since the epoch, and
    of a small one that was read the BLAKE2 digest of its content."""

    path: str
    size: int
    mtime_ns: int
    checksum: str | None = None

    def is_at(self, now: "FileVersion | None") -> bool:
        """Whether it looks the same from outside."""
        return now is not None and self[:3] == now[:3]


@dataclass(frozen=True, eq=False)
class Listing:
    """Every file below a directory, finished or not, by columns: a directory may have a million, and all but a few were
    read before."""

    paths: "pa.StringArray"  # relative to the directory
    sizes: Any  # numpy arrays of integers
    mtimes: Any

    def versions(self, rows: Iterable[int] | None = None) -> list[FileVersion]:
        """The files in these rows; in all rows unless some are given."""
        import numpy as np

        chosen = np.arange(len(self.paths)) if rows is None else np.asarray(rows, np.int64)
        paths = self.paths.take(integers(chosen)).to_pylist()
        return list(map(FileVersion, paths, self.sizes[chosen].tolist(), self.mtimes[chosen].tolist()))

    def is_same(self, other: "Listing") -> bool:
        """Whether nothing has changed between the two. Costs some milliseconds for a million files."""
        import numpy as np

        numbers = ((self.sizes, other.sizes), (self.mtimes, other.mtimes))
        return all(np.array_equal(*pair) for pair in numbers) and bool(self.paths.equals(other.paths))

    def same_ends(self, other: "Listing") -> tuple[int, int]:
        """How many files are the same in both from the beginning, and how many of the others from the end."""
        shorter = min(len(self.paths), len(other.paths))
        begin = _ones(self._same(0, other, 0, shorter))
        rest = shorter - begin
        same = self._same(len(self.paths) - rest, other, len(other.paths) - rest, rest)
        return begin, _ones(same[::-1])

    def _same(self, begin: int, other: "Listing", other_begin: int, count: int) -> Any:
        """Of so many files of each, from these rows on, whether they look the same."""
        import pyarrow as pa
        import pyarrow.compute as pc

        mine, others = slice(begin, begin + count), slice(other_begin, other_begin + count)
        paths = numbers_of(pc.cast(pc.equal(self.paths[mine], other.paths[others]), pa.uint8()))
        numbers = (self.sizes[mine] == other.sizes[others]) & (self.mtimes[mine] == other.mtimes[others])
        return numbers & (paths != 0)


def _ones(values: Any) -> int:
    """How many there are before the first zero."""
    return len(values) if values.all() else int(values.argmin())


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

    def files(self, recursive: bool = True) -> Listing:
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
            return Listing(*files_below(self._filesystem, self._root, recursive))
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
        """The same files; of the small ones the content is known. A file that is gone meanwhile stays as it is: whoever
        reads it says so. Raises `StorageError`."""
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
        try:
            with self._filesystem.open_input_stream(f"{self._root}/{file.path}", compression=None) as stream:
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
        return lines_before(self._filesystem, f"{self._root}/{path}", rules, end)


def _version(path: str, info: "pafs.FileInfo") -> FileVersion:
    return FileVersion(path, info.size, info.mtime_ns or 0)


def in_reading_order(files: Iterable[FileVersion]) -> list[FileVersion]:
    return sorted(files, key=lambda file: (file.mtime_ns, file.path))


def first_of(files: Sequence[FileVersion], max_bytes: int | None) -> Sequence[FileVersion]:
    """As many of the first files as have so many bytes together, and at least one."""
    if max_bytes is None:
        return files
    before = accumulate((file.size for file in files), initial=0)
    return [
        file for file, bytes_before in zip(files, before, strict=False) if not bytes_before or bytes_before < max_bytes
    ]


def is_finished(path: str) -> bool:
    """Whether the file's writer has finished it, and no directory on its relative path is hidden."""
    return not any(part.startswith(_HIDDEN) for part in path.split("/")) and not path.lower().endswith(_UNFINISHED)


def split_of(path: str, splits: int) -> int:
    """The split a file belongs to: a function of its relative path alone, the same in every process and release."""
    if splits == 1:
        return 0
    return int.from_bytes(hashlib.blake2b(path.encode(), digest_size=8).digest(), "big") % splits
