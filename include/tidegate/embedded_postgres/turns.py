"""Which process may start, stop or change a local server now: one at a time, and none for ever.

A process that is killed gives its turn back; one that is stopped (SIGSTOP, a debugger) keeps it. A process that waits
for it in vain raises an error that names it.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidegate.protocol.facts.errors import StoreUnavailableError

#: Seconds: longer than a first start with recovery and another one before it take.
PATIENCE = 180.0
_POLL = 0.02


@contextmanager
def turn(lock: Path, what: str, patience: float | None = None) -> Iterator[None]:
    """Hold the file's lock, after a wait of `patience` seconds at most (default: `PATIENCE`). The file holds the
    process id of its last holder. `what` it protects is named in the error.

    Raises `StoreUnavailableError` if another process keeps it for too long, `OSError` if there can be no such file.
    """
    patience = PATIENCE if patience is None else patience
    file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(file, lock, what, patience)
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(file)


def _take(file: int, lock: Path, what: str, patience: float) -> None:
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                holder = os.pread(file, 32, 0).decode().strip()
                raise StoreUnavailableError(_kept(lock, what, patience, holder)) from None
        time.sleep(_POLL)


def _kept(lock: Path, what: str, patience: float, holder: str) -> str:
    if not holder.isdecimal():
        who, then = "an unknown process", f"Find it with `fuser {lock}` and end it"
    elif _is_stopped(int(holder)):
        who = f"process {holder}, which is stopped"
        then = f"Resume it with `kill -CONT {holder}`, or end it with `kill -KILL {holder}`"
    else:
        who, then = f"process {holder}", f"See what it waits for, or end it with `kill {holder}`"
    return (
        f"{what} has been held for more than {patience:.0f} seconds by {who}. Its data is safe, and nothing was "
        f"changed. {then}; then repeat."
    )


def _is_stopped(pid: int) -> bool:
    try:
        # "PID (NAME) STATE ..."
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1] in ("T", "t")
    except OSError:
        return False  # gone meanwhile, or a system without /proc
