"""Copies of runs on the local disk, as memory-mapped Arrow files. They are only a cache: losing one costs a download.

Large runs have copies, and all runs in remote storage. A small run in local storage stays decoded in memory instead:
see `decoded_runs`. All processes of a user share the copies, up to `CACHE_BYTES`.

Copies lie in a private directory. They are named by the run's checksum and by this boot of the machine, and appear by a
rename, so a copy that a crash or a power cut left half written is never found again. Each ends with a checksum of its
own, which is checked once per process and file. Adding a copy deletes the least recently used ones beyond that bound,
and those not used for `CACHE_SECONDS`.
"""

import hashlib
import mmap
import os
import re
import stat
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from io import FileIO
from pathlib import Path
from typing import IO

import pyarrow as pa

from tidegate.state.hashing_file import HashingFile
from tidegate.state.private_directories import private_directory, require_private, user_directory

#: The maximum bytes of copies on the disk of a machine, for each user.
CACHE_BYTES = 64 << 30
CACHE_SECONDS = 3 * 24 * 3600

#: A run in local storage with at most this number of bytes (as a file, and in memory) has no copy. It is read in place.
IN_PLACE_FILE = 3 << 20
IN_PLACE_MEMORY = 8 << 20
_TOUCH_SECONDS = 3600

_DIGEST = hashlib.sha256().digest_size
_BLOCK = 1 << 20
_OURS = re.compile(r"[0-9a-f]{64}-\w+\.copy|\.[0-9a-f]{32}\.tmp")

#: Files whose checksum this process has verified, by device, inode, size and time of writing.
_believed: set[tuple[int, int, int, int]] = set()
_MOST_BELIEVED = 10_000


class _DamagedCopy(Exception):
    """The copy differs from what the process wrote."""


@lru_cache(maxsize=1)
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
    except OSError:
        return "any"


def directory(cache_dir: str | None) -> Path:
    """Return the directory of copies. It is separate, so that nothing else is made private, trusted or deleted."""
    return (Path(cache_dir) if cache_dir else user_directory()) / "runs"


def find(cache_dir: str | None, checksum: str, rows: int) -> list[pa.RecordBatch] | None:
    """Return the record batches of a run's copy, or None. Delete a copy that cannot be the run.

    Raise `ConfigurationError` if another user can write to the directory.
    """
    try:
        path = _entry(directory(cache_dir), checksum)
        require_private(path.parent)
    except OSError:
        return None
    try:
        batches = _opened(path)
        _mark_used(path)
    except FileNotFoundError:
        return None
    except (_DamagedCopy, pa.ArrowException, OSError):
        batches = None
    if batches is None or sum(batch.num_rows for batch in batches) != rows:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return None
    return batches


class Addition:
    """A copy being written, batch by batch. Errors of the disk are not raised; they are in `failure`, and no copy is
    kept.

    Once kept, its `batches` stay valid even if the entry is evicted at once. A copy is only kept if it has more than
    `least` bytes in memory.
    """

    def __init__(self, cache_dir: str | None, schema: pa.Schema, least: int = 0) -> None:
        self.failure: OSError | None = None
        self.batches: list[pa.RecordBatch] = []
        self._cache_dir = cache_dir
        self._schema = schema
        self._least = least
        self._temporary: Path | None = None
        self._stack = ExitStack()
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None
        self._hashing: HashingFile | None = None
        self._writer: pa.RecordBatchFileWriter | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)
        self._bytes += batch.nbytes
        if self._bytes > self._least:
            self._attempt(self._flush)

    def keep(self, checksum: str) -> None:
        """Publish the complete copy."""
        if self._bytes > self._least:
            self._attempt(lambda: self._publish(checksum))

    def drop(self) -> None:
        """Remove the copy if it was not kept."""
        with suppress(OSError):
            self._stack.close()
        if self._temporary is not None:
            with suppress(OSError):
                self._temporary.unlink(missing_ok=True)

    def _flush(self) -> None:
        """Write the batches held so far."""
        if self._writer is None:
            self._temporary = _temporary(private_directory(directory(self._cache_dir)))
            self._file = self._stack.enter_context(_created(self._temporary))
            self._hashing = HashingFile(self._file)
            sink = pa.PythonFile(self._hashing, mode="w")
            self._writer = self._stack.enter_context(pa.ipc.new_file(sink, self._schema))
        for batch in self._held:
            self._writer.write_batch(batch)
        self._held.clear()

    def _publish(self, checksum: str) -> None:
        assert self._file is not None
        assert self._hashing is not None
        assert self._temporary is not None
        assert self._writer is not None
        self._writer.close()
        self._hashing.deaf = True  # later output of the writer does not belong to the copy
        self._file.write(self._hashing.digest())
        self._file.flush()
        _believe(os.fstat(self._file.fileno()))  # verified, because this process wrote it
        self._stack.close()
        self.batches = _opened(self._temporary)
        os.replace(self._temporary, _entry(self._temporary.parent, checksum))
        _evict(self._temporary.parent)

    def _attempt(self, action: Callable[[], None]) -> None:
        if self.failure is None:
            try:
                action()
            except OSError as error:
                self.failure = error


@contextmanager
def fetched(cache_dir: str | None) -> Iterator[tuple[Path, IO[bytes]]]:
    """Open a file in the directory for a download. It is removed after the block."""
    path = _temporary(private_directory(directory(cache_dir)))
    try:
        with _created(path) as file:
            yield path, file
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _entry(directory: Path, checksum: str) -> Path:
    return directory / f"{checksum}-{_boot()}.copy"


def _temporary(directory: Path) -> Path:
    return directory / f".{uuid.uuid4().hex}.tmp"


def _created(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")


def _opened(path: Path) -> list[pa.RecordBatch]:
    """Return the record batches of a copy. Raise `_DamagedCopy`, or `OSError` for anything but a file of this user."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        if not _is_ours(status):
            raise PermissionError(f"{path} is not a file of this user")
        content = status.st_size - _DIGEST
        if content <= 0:
            raise _DamagedCopy
        if _identity(status) not in _believed:
            _require_checksum(file, content)
            _believe(status)
        mapped = pa.py_buffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    reader = pa.ipc.open_file(pa.BufferReader(mapped.slice(0, content)))
    return [reader.get_batch(at) for at in range(reader.num_record_batches)]


def _require_checksum(file: FileIO, size: int) -> None:
    """Verify the checksum. The file is read, not mapped, because mapped pages would count as the process's memory."""
    sha, block = hashlib.sha256(), memoryview(bytearray(_BLOCK))
    while size and (count := file.readinto(block[: min(size, _BLOCK)])):
        sha.update(block[:count])
        size -= count
    if size or file.read(_DIGEST) != sha.digest():
        raise _DamagedCopy


def _believe(status: os.stat_result) -> None:
    if len(_believed) >= _MOST_BELIEVED:
        _believed.clear()
    _believed.add(_identity(status))


def _identity(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _is_ours(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()


def _mark_used(path: Path) -> None:
    """Set the time of the last access. The time of writing stays, because it identifies a verified file."""
    status, now = os.lstat(path), time.time_ns()
    if now - status.st_atime_ns > _TOUCH_SECONDS * 10**9:
        os.utime(path, ns=(now, status.st_mtime_ns), follow_symlinks=False)


def _evict(directory: Path) -> None:
    """Delete old copies: only files created here, by name and owner. A process that has mapped a deleted file keeps
    it."""
    copies = []
    for item in os.scandir(directory):
        with suppress(FileNotFoundError):
            status = item.stat(follow_symlinks=False)
            if _OURS.fullmatch(item.name) and _is_ours(status):
                copies.append((status.st_atime, status.st_size, item.path))
    total, now = 0, time.time()
    for used, size, path in sorted(copies, reverse=True):
        total += size
        if total > CACHE_BYTES or now - used > CACHE_SECONDS:
            with suppress(FileNotFoundError):
                os.unlink(path)
