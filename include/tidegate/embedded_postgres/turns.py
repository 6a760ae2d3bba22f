"""Take turns at starting, stopping and changing a local server, one process at a time, and none for ever.

A process that is killed gives its turn back. One that is stopped (SIGSTOP, a debugger) keeps it. A process that
waits too long raises an error that names the other one.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidegate.protocol.facts.errors import StoreUnavailableError

#: Seconds. More than a first start with recovery takes, and another one before it.
PATIENCE = 180.0
_POLL = 0.02


@contextmanager
def turn(lock: Path, what: str, patience: float | None = None) -> Iterator[None]:
    """Hold the lock of the file, after waiting `patience` seconds at most (default: `PATIENCE`). The file has the
    process id of its last holder. The error names `what` the lock protects.

    Raises `StoreUnavailableError` if another process keeps the lock for too long, `OSError` if the file cannot be
    made.
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
        holder_name, remedy = "an unknown process", f"Find it with `fuser {lock}` and end it"
    elif _is_stopped(int(holder)):
        holder_name = f"process {holder}, which is stopped"
        remedy = f"Resume it with `kill -CONT {holder}`, or end it with `kill -KILL {holder}`"
    else:
        holder_name, remedy = f"process {holder}", f"Check why it waits, or end it with `kill {holder}`"
    return (
        f"{what} has been held for more than {patience:.0f} seconds by {holder_name}. Its data is safe, and nothing "
        f"was changed. {remedy}, then repeat."
    )


def _is_stopped(pid: int) -> bool:
    try:
        # "PID (NAME) STATE ..."
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1] in ("T", "t")
    except OSError:
        return False  # gone meanwhile, or a system without /proc
