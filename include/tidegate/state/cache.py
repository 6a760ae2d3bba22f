"""Local copies of runs as Arrow files, the large ones memory-mapped. A cache and nothing more: losing it costs a download.

Entries are named by the run's checksum and by this boot of the machine, and appear by a rename: a copy that a crash or
a power cut left half written is never found again. What is old, or too much, is deleted when something is added.
"""

import os
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

CACHE_BYTES = 64 << 30
CACHE_SECONDS = 3 * 24 * 3600

#: A run in local storage with at most so many bytes (as a file, and in memory) gets no copy: it is read in place.
IN_PLACE_FILE = 3 << 20
IN_PLACE_MEMORY = 8 << 20
#: Copies with at most so many bytes in memory are compressed; larger ones are mapped, so that only what is used is read.
COMPRESSED = 32 << 20
_TOUCH_SECONDS = 3600


@lru_cache(maxsize=1)
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
    except OSError:
        return "any"


def entry(cache_dir: str, checksum: str) -> Path:
    return Path(cache_dir) / f"{checksum}-{_boot()}.arrow"


def find(cache_dir: str, checksum: str, rows: int) -> Any | None:
    """The record batches of a run's copy, or None. A copy that cannot be the run is deleted."""
    path = entry(cache_dir, checksum)
    try:
        batches = _mapped(path)
        _mark_used(path)
    except FileNotFoundError:
        return None
    except (pa.ArrowException, OSError):
        batches = None
    if batches is None or sum(batch.num_rows for batch in batches) != rows:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return None
    return batches


class Addition:
    """A copy being written, batch by batch. It never raises for the disk's sake: `failure` says that it came to nothing.

    Once kept, its `batches` stay good even if the entry is evicted at once. Nothing is kept unless it has more than
    `least` bytes in memory.
    """

    def __init__(self, cache_dir: str, schema: Any, least: int = 0) -> None:
        self.failure: OSError | None = None
        self.batches: list[Any] = []
        self._cache_dir = cache_dir
        self._schema = schema
        self._least = least
        self._temporary = temporary(cache_dir)
        self._stack = ExitStack()
        self._held: list[Any] = []
        self._bytes = 0
        self._writer: Any = None

    def write(self, batch: Any) -> None:
        self._held.append(batch)
        self._bytes += batch.nbytes
        if self._bytes > COMPRESSED:
            self._attempt(lambda: self._flush(None))

    def keep(self, checksum: str) -> None:
        """The copy is complete: make it findable."""
        if self._bytes > self._least:
            self._attempt(lambda: self._flush("lz4"))
            self._attempt(lambda: self._publish(checksum))

    def drop(self) -> None:
        """Remove what was not kept; nothing if it was."""
        with suppress(OSError):
            self._stack.close()
        with suppress(OSError):
            self._temporary.unlink(missing_ok=True)

    def _flush(self, compression: str | None) -> None:
        """Write what is held; the compression of the first time stays."""
        if self._writer is None:
            os.makedirs(self._cache_dir, mode=0o700, exist_ok=True)
            file = self._stack.enter_context(pa.OSFile(str(self._temporary), "wb"))
            options = pa.ipc.IpcWriteOptions(compression=compression)
            self._writer = self._stack.enter_context(pa.ipc.new_file(file, self._schema, options=options))
        for batch in self._held:
            self._writer.write_batch(batch)
        self._held.clear()

    def _publish(self, checksum: str) -> None:
        self._stack.close()
        self.batches = _mapped(self._temporary)
        os.replace(self._temporary, entry(self._cache_dir, checksum))
        _evict(Path(self._cache_dir))

    def _attempt(self, action: Callable[[], None]) -> None:
        if self.failure is None:
            try:
                action()
            except OSError as error:
                self.failure = error


def temporary(cache_dir: str) -> Path:
    return Path(cache_dir) / f".{uuid.uuid4().hex}.tmp"


def _mapped(path: Path) -> list[Any]:
    reader = pa.ipc.open_file(pa.memory_map(str(path)))
    return [reader.get_batch(at) for at in range(reader.num_record_batches)]


def _mark_used(path: Path) -> None:
    if time.time() - path.stat().st_mtime > _TOUCH_SECONDS:
        os.utime(path)


def _evict(cache_dir: Path) -> None:
    """Files in use may go too: whoever has mapped one keeps it."""
    found = []
    for item in os.scandir(cache_dir):
        with suppress(FileNotFoundError):
            status = item.stat()
            found.append((status.st_mtime, status.st_size, item.path))
    total, now = 0, time.time()
    for used, size, path in sorted(found, reverse=True):
        total += size
        if total > CACHE_BYTES or now - used > CACHE_SECONDS:
            with suppress(FileNotFoundError):
                os.unlink(path)
