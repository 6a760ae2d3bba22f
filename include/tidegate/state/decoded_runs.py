"""Small runs that this process has read or written, decoded in memory, because the next checkpoint or micro-batch reads
the same runs again. They lie in local storage and have no copy; see `mapped_copies` for all others.

Spark keeps its Python workers, but nothing depends on that: a new worker reads the files. Adding a run drops the least
recently used ones beyond the bound. The end of the process drops the rest.
"""

from collections import OrderedDict
from threading import Lock

import pyarrow as pa


class DecodedRuns:
    """An LRU cache of decoded runs by storage, path and checksum, each up to `each` bytes and together up to `most`.
    Safe for several threads."""

    def __init__(self, each: int, most: int) -> None:
        self._each = each
        self._most = most
        self._lock = Lock()
        self._bytes = 0
        self._runs: OrderedDict[tuple[str, str, str], list[pa.RecordBatch]] = OrderedDict()

    def find(self, key: tuple[str, str, str]) -> list[pa.RecordBatch] | None:
        """Return the `pyarrow.RecordBatch`es of a cached run."""
        with self._lock:
            if key in self._runs:
                self._runs.move_to_end(key)
            return self._runs.get(key)

    def keep(self, key: tuple[str, str, str], batches: list[pa.RecordBatch]) -> None:
        """Cache a run, unless it is too large, and drop the least recently used ones."""
        if (size := _size(batches)) > self._each:
            return
        with self._lock:
            if key not in self._runs:
                self._runs[key] = batches
                self._bytes += size
            while self._bytes > self._most:
                self._bytes -= _size(self._runs.popitem(last=False)[1])

    def clear(self) -> None:
        with self._lock:
            self._runs.clear()
            self._bytes = 0


def _size(batches: list[pa.RecordBatch]) -> int:
    return sum(batch.nbytes for batch in batches)
