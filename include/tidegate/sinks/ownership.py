"""The file `_owner`, which marks a directory as that of one sink. Readers skip it.

The mark appears in one step and as a whole, so of two pipelines that begin at once, one finds the other's mark. It is
replaced only when a user confirms it, or when the owner itself continues under another name.
"""

import errno
import os
import re
import time
import uuid
from collections.abc import Callable
from contextlib import suppress

from tidegate.protocol.facts.errors import SinkError
from tidegate.protocol.recovery.ownership import MARK, Owner
from tidegate.sinks.publish import sync

_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
#: How long a reader waits for another process that makes a mark in two steps, because hard links are missing.
_PATIENCE, _PAUSE = 20, 0.05
#: The name of an unfinished mark, and the age in nanoseconds at which its process is taken for gone.
_UNFINISHED, _GONE_AFTER = re.compile(rf"{MARK}\.[0-9a-f]{{32}}\.tmp"), 3600 * 10**9


def read(root: str) -> Owner | None:
    """Return the owner of the directory; None if it has no mark. Raise `SinkError`."""
    path = os.path.join(root, MARK)
    for _ in range(_PATIENCE):
        try:
            with open(path, "rb") as file:
                content = file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise SinkError(
                f"The owner of the directory {root} cannot be read: {error}. Nothing there was changed. Give this user "
                f"the right to read {path}, then repeat."
            ) from error
        if content:
            break
        time.sleep(_PAUSE)
    try:
        return Owner.parse(content)
    except ValueError as error:
        raise SinkError(
            f"{path} is damaged and does not name the owner of the directory. Nothing there was changed. If only this "
            "pipeline writes there, delete that file and repeat: it is written anew."
        ) from error


def mark(root: str, owner: Owner) -> Owner:
    """Make `owner` the owner of a directory that has none, and return its owner. Raise `SinkError`."""
    found = read(root)
    if found is not None:
        return found
    with suppress(FileExistsError):
        _written(root, owner, _link)
    return read(root) or owner


def replace(root: str, owner: Owner) -> None:
    """Make `owner` the owner of the directory, whatever mark it has. Raise `SinkError`."""
    _written(root, owner, os.replace)


def left(root: str, now: int) -> list[str]:
    """Return the files of processes that were killed while they marked the directory. `now` is in nanoseconds."""
    found = []
    with suppress(FileNotFoundError):
        for name in sorted(filter(_UNFINISHED.fullmatch, os.listdir(root))):
            with suppress(FileNotFoundError):
                if os.stat(os.path.join(root, name)).st_mtime_ns <= now - _GONE_AFTER:
                    found.append(name)
    return found


def is_used(root: str) -> bool:
    """Whether the directory has files that readers see, or that a pipeline has left."""
    try:
        names = [name for name in os.listdir(root) if not name.startswith((".", MARK))]
        hidden = (os.path.join(root, name) for name in names if name.startswith("_"))
        leftover = any(os.listdir(path) for path in hidden if os.path.isdir(path))
        return leftover or any(not name.startswith("_") for name in names)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise SinkError(f"The directory {root} cannot be listed: {error}. Nothing there was changed.") from error


def _written(root: str, owner: Owner, show: Callable[[str, str], None]) -> None:
    temporary = os.path.join(root, f"{MARK}.{uuid.uuid4().hex}.tmp")
    try:
        os.makedirs(root, exist_ok=True)
        with open(temporary, "xb") as file:
            file.write(owner.to_json())
            file.flush()
            os.fsync(file.fileno())
        try:
            show(temporary, os.path.join(root, MARK))
            sync(root)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
    except FileExistsError:
        raise
    except OSError as error:
        raise SinkError(
            f"The directory {root} cannot be marked as that of pipeline {owner.pipeline}: {error}. Nothing was staged, "
            "and the table that readers see is unchanged. Give this user the right to write there, or free some space, "
            "then repeat."
        ) from error


def _link(temporary: str, path: str) -> None:
    """Give the mark its name, only if there is none yet. Raise `FileExistsError`."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        with open(temporary, "rb") as written, open(path, "xb") as file:
            file.write(written.read())
            file.flush()
            os.fsync(file.fileno())
