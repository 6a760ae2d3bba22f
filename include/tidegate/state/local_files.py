"""Local files that appear whole and durable: written under a temporary name, synced, and renamed."""

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


@contextmanager
def written_locally(absolute: str) -> Iterator[Any]:
    directory = os.path.dirname(absolute)
    _make_directories(directory)
    temporary = temporary_name(absolute)
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, absolute)
        _sync_directory(directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def write_once(absolute: str, content: bytes) -> None:
    """Write a file unless it exists."""
    _make_directories(os.path.dirname(absolute))
    temporary = temporary_name(absolute)
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, absolute)
        except FileExistsError:
            return
        except OSError as error:
            if error.errno not in NO_HARD_LINKS:
                raise
            os.replace(temporary, absolute)
        _sync_directory(os.path.dirname(absolute))
    finally:
        with suppress(OSError):
            os.unlink(temporary)


def _make_directories(directory: str) -> None:
    """Create the directories that are missing. The entry of each must be durable too, or a synced file in it can be
    lost."""
    missing = []
    while not os.path.isdir(directory):
        missing.append(directory)
        directory = os.path.dirname(directory)
    for child in reversed(missing):
        os.makedirs(child, exist_ok=True)
        _sync_directory(os.path.dirname(child))


def _sync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def temporary_name(absolute: str) -> str:
    """Return a hidden, unique name. A file that a crash leaves behind is swept with the checkpoint's directory."""
    directory, name = os.path.split(absolute)
    return f"{directory}/.{name}.{uuid.uuid4().hex}.tmp"
