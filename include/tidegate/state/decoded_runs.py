"""Small runs that this process has read or written, decoded in its memory: the next checkpoint or micro-batch reads the
same ones again. They lie in local storage and have no copy; see `mapped_copies` for all others.

Spark keeps its Python workers, but nothing depends on that: a worker that is new reads the files. Whoever adds a run
drops those that were used longest ago, beyond the bound, and the process takes the rest with it.
"""

from collections import OrderedDict
from threading import Lock

import pyarrow as pa


class DecodedRuns:
    """By storage, path and checksum, runs of up to `each` bytes in memory, those used last, and `most` bytes of them
    together. May be used by several threads."""

    def __init__(self, each: int, most: int) -> None:
        self._each = each
        self._most = most
        self._lock = Lock()
        self._bytes = 0
        self._runs: OrderedDict[tuple[str, str, str], list[pa.RecordBatch]] = OrderedDict()

    def find(self, key: tuple[str, str, str]) -> list[pa.RecordBatch] | None:
        """The `pyarrow.RecordBatch`es of a run, if it is among them."""
        with self._lock:
            if key in self._runs:
                self._runs.move_to_end(key)
            return self._runs.get(key)

    def keep(self, key: tuple[str, str, str], batches: list[pa.RecordBatch]) -> None:
        """Remember a run, unless it is too large, and forget those that were used longest ago."""
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
