"""Memory and processor time of a process with all its descendants, from /proc (Linux).

Memory is the proportional set size: a page shared by several processes counts once, and mapped files count as far as
they are in memory.
"""

import os
import threading
import time
from pathlib import Path

_INTERVAL = 0.5


def tree(*roots: int) -> list[int]:
    """The processes `roots` and everything they started that still runs."""
    children: dict[int, list[int]] = {}
    for process in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        if fields := _status(process):
            children.setdefault(int(fields[1]), []).append(process)
    found, queue = [], list(roots)
    while queue:
        found.append(process := queue.pop())
        queue += children.get(process, [])
    return found


def processor_seconds(*roots: int) -> float:
    """Time on processors so far, that of ended children included."""
    ticks = (sum(map(int, fields[11:15])) for process in tree(*roots) if (fields := _status(process)))
    return sum(ticks) / os.sysconf("SC_CLK_TCK")


def own_ticks(*roots: int) -> dict[tuple[int, int], int]:
    """Ticks of each process that runs now, without its children, by its id and the moment at which it was started."""
    found = ((process, fields) for process in tree(*roots) if (fields := _status(process)))
    return {(process, int(fields[19])): int(fields[11]) + int(fields[12]) for process, fields in found}


def memory(*roots: int) -> int:
    """Bytes of proportional set size at this moment."""
    return sum(map(memory_of, tree(*roots)))


def memory_of(process: int) -> int:
    """The same of one process without its descendants; 0 if it has ended."""
    return 1024 * _number(process, "smaps_rollup", "Pss:")


def is_java(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/comm").read_text().strip() == "java"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _status(process: int) -> list[str]:
    """The fields of a process after its name, from its state on; none if it has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _number(process: int, file: str, name: str) -> int:
    try:
        for line in Path(f"/proc/{process}/{file}").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1])
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        pass  # it has ended, or is another user's
    return 0


class MemorySampler:
    """Samples the memory of some process trees while a block runs: (monotonic time, bytes)."""

    def __init__(self, *roots: int) -> None:
        self.samples: list[tuple[float, int]] = []
        self._roots = roots
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> "MemorySampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def peak(self, begin: float, end: float) -> int:
        """The largest sample between two moments, 0 if there is none."""
        return max((size for at, size in self.samples if begin <= at <= end), default=0)

    def _sample(self) -> None:
        while not self._done.wait(_INTERVAL):
            self.samples.append((time.monotonic(), memory(*self._roots)))
