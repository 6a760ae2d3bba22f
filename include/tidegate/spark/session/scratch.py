"""A private directory for what this process and its JVM need on local disk while they live.

Spark would use the temporary directory that everybody shares: cached blocks that anybody can read, sockets and native
libraries. Here only this user enters, and all of it goes at once: when the process exits, or with the next start if it was
killed. A lock inside says that the process lives; the system releases it, however the process ends.
"""

import atexit
import fcntl
import os
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

_PREFIX = "tidegate-scratch-"
_LOCK = "lock"
#: Seconds after which a directory without a lock is one whose maker was killed before it had made the lock.
_UNFINISHED = 60.0

#: By process, as a fork takes the memory along and not the directory.
_directories: dict[int, Path] = {}


def scratch() -> Path:
    """The directory of this process, made by the first call, which also removes those of processes that were killed."""
    directory = _directories.get(os.getpid())
    if directory is None:
        remove_abandoned()
        directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
        unlocked = directory / f"{_LOCK}.unlocked"
        fcntl.flock(os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), fcntl.LOCK_EX)
        unlocked.rename(directory / _LOCK)  # under its name it is locked, until this process ends
        _directories[os.getpid()] = directory
        atexit.register(_remove_own)
    return directory


def remove_abandoned() -> None:
    """Remove what killed processes of this user have left. What anybody else made, or a link leads to, is not touched."""
    with os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            with suppress(OSError):  # somebody else was faster
                if entry.name.startswith(_PREFIX) and _is_ours(entry.stat(follow_symlinks=False)):
                    _remove_if_abandoned(Path(entry.path))


def _is_ours(found: os.stat_result) -> bool:
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def _remove_if_abandoned(directory: Path) -> None:
    if not (directory / _LOCK).exists():
        if time.time() - directory.stat().st_mtime > _UNFINISHED:
            shutil.rmtree(directory, ignore_errors=True)
        return
    lock = os.open(directory / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(directory, ignore_errors=True)
    except BlockingIOError:
        pass  # it is in use
    finally:
        os.close(lock)


def _remove_own() -> None:
    if (directory := _directories.pop(os.getpid(), None)) is not None:
        shutil.rmtree(directory, ignore_errors=True)
