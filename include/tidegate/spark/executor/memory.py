"""When a Python worker gives the memory that its tasks do not use any more back to the system.

To ask for a page anew takes some microseconds. A task that restages a small table would ask for 5,000 each time, which
is a third of its processor time. If nothing was given back, a worker would stay as large as its largest task.
"""

import os
from pathlib import Path

import pyarrow as pa

#: Bytes by which a worker may have grown and keeps what it does not use.
KEPT = 16 << 20

_STATM = Path("/proc/self/statm")

#: The process's own memory when unused memory was given back last.
_left = 0


def give_back() -> None:
    """Give unused memory back if the process has grown by more than it may since the last time."""
    global _left
    if (now := private()) is None or now > _left + KEPT:
        pa.default_memory_pool().release_unused()
        _left = private() or 0


def private() -> int | None:
    """Bytes of this process's memory that are no file's; None where the system does not say."""
    try:
        resident, shared = (int(pages) for pages in _STATM.read_text().split()[1:3])
    except OSError:
        return None
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")
