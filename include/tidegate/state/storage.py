"""Checkpoint storage over `pyarrow.fs`: a local path, file://, s3://, gs:// or hdfs:// URL.

This module makes a file visible, whole and durable, and explains failures to the user. Other modules decide on the
content of files and on their deletion.
"""

import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pyarrow import fs

from tidegate.protocol.facts.errors import ConfigurationError, StateIntegrityError, StorageError
from tidegate.protocol.facts.records import StateHandle
from tidegate.protocol.text.object_stores import NO_BUCKET, Refusal, refusal_in
from tidegate.state.hashing_file import HashingFile
from tidegate.state.local_files import temporary_name, write_once, written_locally

if TYPE_CHECKING:
    import pyarrow as pa

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_BLOCK = 4 << 20
_REQUESTS_AT_ONCE = 16  # each request waits for the network
_HASHED_AT_ONCE = 2  # hashing a local file takes a processor


@lru_cache(maxsize=32)
def open_storage(url: str) -> "ArrowCheckpointStorage":
    """Return the storage at a URL, opened once per process."""
    return ArrowCheckpointStorage(url)


class ArrowCheckpointStorage:
    """See `ports.CheckpointStorage`. It also streams files too large for memory.

    Locally a file is written under a temporary name, synced and renamed, and its directory is synced. On HDFS it is
    renamed likewise. Object stores publish an object when it is complete. Credentials come from the environment, as
    `pyarrow.fs` finds them.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._shown = self._shown_of(url)
        try:
            if "://" in url:
                self._fs, self._root = fs.FileSystem.from_uri(url)
            else:
                self._fs, self._root = fs.LocalFileSystem(), os.path.abspath(url)
        except (ValueError, OSError, NotImplementedError) as error:
            # Not chained: the library's own text repeats the URL, which may hold credentials.
            raise ConfigurationError(
                f"Checkpoint storage {self._shown!r} cannot be opened: {str(error).replace(url, self._shown)}. Give a "
                "local path, or a URL that starts with file://, s3://, gs:// or hdfs://."
            ) from None
        self.is_local = isinstance(self._fs, fs.LocalFileSystem)
        self._renames = self.is_local or self._fs.type_name == "hdfs"

    @staticmethod
    def _shown_of(url: str) -> str:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.scheme else url

    def write(self, path: str, content: bytes) -> None:
        with self.open_output(path) as file:
            file.write(content)

    def read(self, path: str) -> bytes:
        with self.open_input(path) as file:
            content: bytes = file.read()
            return content

    def marked(self, path: str) -> bytes | None:
        try:
            return self.read(path)
        except StateIntegrityError:
            return None

    def mark(self, path: str, content: bytes, anew: bool = False) -> bytes:
        """See `ports.CheckpointStorage`. Locally this is one step; object stores and HDFS offer none."""
        if anew:
            self.write(path, content)
            return content
        if (found := self.marked(path)) is not None:
            return found
        if self.is_local:
            with self._explained("write", path):
                write_once(self._absolute(path), content)
        else:
            self.write(path, content)
        return self.marked(path) or content

    def list(self, prefix: str) -> list[str]:
        """See `ports.CheckpointStorage`. Targets of links are not listed: they are not this storage's files, or are
        listed under their own names, and listed files may be deleted."""
        below = self._absolute(prefix) if prefix else self._root
        start = len(self._root.rstrip("/")) + 1
        with self._explained("list", prefix):
            if self.is_local:
                return sorted(path[start:] for path in _files_below(below.rstrip("/")))
            found = self._fs.get_file_info(fs.FileSelector(below, recursive=True, allow_not_found=True))
        return sorted(info.path[start:] for info in found if info.type is fs.FileType.File)

    def delete(self, paths: Sequence[str], closed: Collection[str] = ()) -> None:
        parents = set()
        for path in paths:
            absolute = self._absolute(path)
            with self._explained("delete", path), suppress(FileNotFoundError):
                if self.is_local:
                    os.unlink(absolute)
                elif self._fs.get_file_info(absolute).type is fs.FileType.File:
                    self._fs.delete_file(absolute)
            parents.add(os.path.dirname(absolute))
        if self._renames:
            for parent in sorted(parents):
                self._remove_empty(parent)
        else:
            for directory in sorted(closed):
                self._remove_markers(directory)

    def elsewhere(self, url: str) -> "ArrowCheckpointStorage":
        """See `ports.CheckpointStorage`. Credentials are not part of a URL, because it is recorded and shown."""
        if "@" in urlsplit(url).netloc or urlsplit(url).query:
            raise ConfigurationError(
                f"{self._shown_of(url)!r} contains credentials or options, but the place of a savepoint is recorded "
                "and shown. Nothing was changed. Give the URL without them: credentials come from the environment."
            )
        return open_storage(url)

    def copy(self, file: StateHandle, source: Any, path: str, keep: Callable[[], None]) -> None:
        """See `ports.CheckpointStorage`. Copy in blocks from another storage of this kind; that is why `source` is
        `Any`."""
        try:
            with self.open_output(path) as opened:
                hashing = HashingFile(opened)
                for block in source.stream(file.path, _BLOCK):
                    hashing.write(block)
                    keep()
                if (hashing.size, hashing.checksum()) != (file.bytes, file.checksum):
                    raise source.differs(file, f"its SHA-256 is {hashing.checksum()} where {file.checksum} was written")
        except StateIntegrityError:
            self.delete([path])  # an object store has already published the copy
            raise

    def verify(self, files: Sequence[StateHandle], in_full: Collection[str]) -> None:
        read = [handle for handle in files if handle.path in in_full]
        _check_all(files, self._verify_length, 1 if self.is_local else _REQUESTS_AT_ONCE)
        _check_all(read, self._verify_content, _HASHED_AT_ONCE if self.is_local else _REQUESTS_AT_ONCE)

    def _verify_length(self, handle: StateHandle) -> None:
        with self._explained("read", handle.path):
            info = self._fs.get_file_info(self._absolute(handle.path))
        if info.type is not fs.FileType.File:
            raise self._missing(handle.path)
        if info.size != handle.bytes:
            raise self.differs(handle, f"it has {info.size:,} bytes where {handle.bytes:,} were written")

    def _verify_content(self, handle: StateHandle) -> None:
        sha = hashlib.sha256()
        for block in self.stream(handle.path, _BLOCK):
            sha.update(block)
        if sha.hexdigest() != handle.checksum:
            raise self.differs(handle, f"its SHA-256 is {sha.hexdigest()} where {handle.checksum} was written")

    def differs(self, handle: StateHandle, how: str) -> StateIntegrityError:
        """Return the error for a file that differs from its record."""
        return StateIntegrityError(
            f"The file {handle.path} on checkpoint storage {self._shown}, written by checkpoint {handle.created_by}, "
            f"is damaged: {how}. Nothing was changed. Restore the file from a copy of the storage, or go back to a "
            "checkpoint that does not refer to it."
        )

    @contextmanager
    def open_input(self, path: str) -> Iterator[Any]:
        """Open a `pyarrow.NativeFile` to read and seek in."""
        absolute = self._absolute(path)
        with self._explained("read", path), self._fs.open_input_file(absolute) as file:
            yield file

    def stream(self, path: str, size: int) -> Iterator[bytes]:
        """Yield a file's content in blocks of at most `size` bytes. Errors of the consumer are left as they are."""
        with self._explained("read", path):
            file = self._fs.open_input_stream(self._absolute(path), compression=None)
        with file:
            while block := self._read_block(path, file, size):
                yield block

    def _read_block(self, path: str, file: "pa.NativeFile", size: int) -> bytes:
        with self._explained("read", path):
            block: bytes = file.read(size)
            return block

    @contextmanager
    def open_output(self, path: str) -> Iterator[Any]:
        """Open a file to `write` to. It appears under its name, whole and durable, when the block ends without an
        error."""
        absolute = self._absolute(path)
        with self._explained("write", path):
            if self.is_local:
                with written_locally(absolute) as file:
                    yield file
            elif self._renames:
                with self._renamed(absolute) as file:
                    yield file
            else:
                with self._fs.open_output_stream(absolute, compression=None) as file:
                    yield file

    @contextmanager
    def _renamed(self, absolute: str) -> Iterator[Any]:
        self._fs.create_dir(os.path.dirname(absolute), recursive=True)
        temporary = temporary_name(absolute)
        try:
            with self._fs.open_output_stream(temporary, compression=None) as file:
                yield file
            self._fs.move(temporary, absolute)
        except BaseException:
            with suppress(OSError):
                self._fs.delete_file(temporary)
            raise

    def _absolute(self, path: str) -> str:
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or ".." in parts or "\0" in path or "\\" in path:
            raise StorageError(
                f"{path!r} is not a path below checkpoint storage {self._shown}. Nothing was read or written."
            )
        return f"{self._root.rstrip('/')}/{'/'.join(parts)}"

    def _remove_markers(self, path: str) -> None:
        """Remove a directory of an object store, or those below it, if only directory markers are left in it.

        Deleting an object creates a marker for its directory, which can be deleted only with everything in it.
        """
        directory = self._absolute(path)
        with self._explained("delete", path), suppress(FileNotFoundError):
            found = self._fs.get_file_info(fs.FileSelector(directory, recursive=True, allow_not_found=True))
            files = [info.path for info in found if info.type is fs.FileType.File]
            directories = [directory, *(info.path for info in found if info.type is fs.FileType.Directory)]
            empty = {path_ for path_ in directories if not any(file.startswith(f"{path_}/") for file in files)}
            for topmost in sorted(path_ for path_ in empty if os.path.dirname(path_) not in empty):
                self._fs.delete_dir(topmost)

    def _remove_empty(self, directory: str) -> None:
        root = self._root.rstrip("/")
        while len(directory) > len(root):
            try:
                if self.is_local:
                    os.rmdir(directory)
                elif self._fs.get_file_info(fs.FileSelector(directory)):
                    return
                else:
                    self._fs.delete_dir(directory)
            except OSError:
                return
            directory = os.path.dirname(directory)

    @contextmanager
    def _explained(self, doing: str, path: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            if doing != "read":
                raise StorageError(self._cannot(doing, path, error)) from error
            if self._lacks_bucket():
                raise StorageError(self._cannot(doing, path, error, NO_BUCKET)) from error
            raise self._missing(path) from error
        except OSError as error:
            if error.errno in _NO_SPACE or "No space left" in str(error):
                raise StorageError(
                    f"The storage at {self._shown} is full: {path} could not be written ({_free(self._root)}). The "
                    "unfinished file was removed and does not count; the previous checkpoint is untouched. Free some "
                    "space, then retry."
                ) from error
            raise StorageError(self._cannot(doing, path, error)) from error

    def _missing(self, path: str) -> StateIntegrityError:
        return StateIntegrityError(
            f"The file {path} is missing from checkpoint storage {self._shown}. Nothing was changed. Restore the file "
            "from a copy of the storage, or go back to a checkpoint that does not refer to it."
        )

    def _lacks_bucket(self) -> bool:
        """Return whether an object store lacks the bucket. For a file in such a bucket it reports only that the file is
        missing."""
        with suppress(OSError):
            bucket = self._root.split("/")[0]
            return not self._renames and self._fs.get_file_info(bucket).type is fs.FileType.NotFound
        return False

    def _cannot(self, doing: str, path: str, error: OSError, refusal: Refusal | None = None) -> str:
        unknown = Refusal(str(error), "Check permissions, credentials and the connection")
        why, advice = refusal or refusal_in(error) or unknown
        return (
            f"The storage at {self._shown} could not {doing} {path}: {why}. Nothing that was complete is lost. "
            f"{advice}, then retry."
        )


def _check_all(files: Sequence[StateHandle], check: Callable[[StateHandle], None], at_once: int) -> None:
    """Check all files, and raise the error of the first that fails."""
    if at_once == 1 or len(files) <= 1:
        for handle in files:
            check(handle)
        return
    with ThreadPoolExecutor(at_once) as pool:
        for _ in pool.map(check, files):
            pass


def _free(root: str) -> str:
    try:
        return f"{shutil.disk_usage(root).free:,} bytes free"
    except OSError:
        return "free space unknown"


def _files_below(directory: str) -> Iterator[str]:
    """Yield the files below a local directory. Files that disappear meanwhile are left out."""
    directories = [directory]
    while directories:
        try:
            with os.scandir(directories.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        directories.append(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        yield entry.path
        except FileNotFoundError:
            continue
