"""Return of unused memory from a Python worker to the system.

Requesting a page again takes some microseconds. A task that restages a small table would request 5,000 each time, which
is a third of its processor time. Without any return, a worker would stay as large as its largest task.
"""

import os
from pathlib import Path

import pyarrow as pa

#: The bytes by which a worker may grow before it returns unused memory.
KEPT = 16 << 20

_STATM = Path("/proc/self/statm")

#: The process's own memory after the last return.
_left = 0


def give_back() -> None:
    """Return unused memory if the process has grown by more than `KEPT` since the last time."""
    global _left
    if (now := private()) is None or now > _left + KEPT:
        pa.default_memory_pool().release_unused()
        _left = private() or 0


def private() -> int | None:
    """Return the bytes of this process's memory that do not belong to files; None where the system does not report
    them."""
    try:
        resident, shared = (int(pages) for pages in _STATM.read_text().split()[1:3])
    except OSError:
        return None
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")
