"""A private directory for files that this process and its JVM need on local disk while they live.

Spark would put cached blocks, sockets and native libraries into the shared temporary directory, where other users can
read the blocks. Here only this user has access. Everything is removed at once when the process exits, or at the next
start if it was killed. A lock inside shows that the process lives. The system releases the lock, however the process
ends.
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
#: Seconds after which a directory without a lock belongs to a process that was killed before it created the lock.
_UNFINISHED = 60.0

#: By process, because a fork copies this dictionary and must not share the directory.
_directories: dict[int, Path] = {}


def scratch() -> Path:
    """Return the directory of this process. The first call creates it, and removes those of killed processes."""
    directory = _directories.get(os.getpid())
    if directory is None:
        remove_abandoned()
        directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
        unlocked = directory / f"{_LOCK}.unlocked"
        fcntl.flock(os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), fcntl.LOCK_EX)
        unlocked.rename(directory / _LOCK)  # under its name it is locked until this process ends
        _directories[os.getpid()] = directory
        atexit.register(_remove_own)
    return directory


def remove_abandoned() -> None:
    """Remove the directories of this user's killed processes. Other users' files and the targets of links are not
    touched."""
    with os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            with suppress(OSError):  # another process was faster
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
