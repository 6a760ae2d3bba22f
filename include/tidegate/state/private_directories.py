"""Directories that no other user can write to: the checks of one, and the place of the user's own.

Before anything in a directory is trusted or started, this module checks who owns the directory, who may write to it,
and who may replace anything on the way to it.
"""

import errno
import os
import stat
import tempfile
from functools import lru_cache
from pathlib import Path

from tidegate.protocol.facts.errors import ConfigurationError

_MOST_LINKS = 40  # as many as the kernel follows


def private_directory(path: Path) -> Path:
    """Return the directory, created with mode 0700 if it does not exist.

    Raise `ConfigurationError` if another user can write to it or replace it, and `OSError` if it cannot be created.
    """
    _make(path)
    require_private(path)
    return path


def require_private(path: Path) -> None:
    """Raise `ConfigurationError` if another user can write to the directory or replace it, and `FileNotFoundError` if
    it does not exist. If others can only read it, set its mode to 0700."""
    status = _walked(path)
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    if status.st_uid != os.geteuid():
        raise _refused(path, f"it belongs to the user with the number {status.st_uid}")
    if status.st_mode & 0o022:
        raise _refused(path, f"others can write to it (mode {stat.S_IMODE(status.st_mode):o})")
    if status.st_mode & 0o055:
        os.chmod(path, 0o700)


def user_directory() -> Path:
    """Return a private directory of this user on this machine: below the cache home if possible, else a temporary one.

    Executors may have no home, or one that they cannot write to.
    """
    home = os.environ.get("XDG_CACHE_HOME", "")
    home = home if os.path.isabs(home) else os.path.expanduser("~/.cache")
    return _user_directory(home, tempfile.gettempdir())


@lru_cache(maxsize=8)
def _user_directory(home: str, temporary: str) -> Path:
    try:
        if os.path.isabs(home):
            return private_directory(Path(home) / "tidegate")
    except (OSError, ConfigurationError):
        pass
    return _own_temporary(Path(temporary), f"tidegate-cache-{os.geteuid()}-")


def _own_temporary(directory: Path, prefix: str) -> Path:
    """Return the first directory that this user really owns. Its name proves nothing, because any user can take it."""
    for candidate in sorted(directory.glob(f"{prefix}*")):
        try:
            require_private(candidate)
        except (OSError, ConfigurationError):
            continue
        return candidate
    return Path(tempfile.mkdtemp(prefix=prefix, dir=directory))


def _make(path: Path) -> None:
    missing, existing = [], path
    while not os.path.lexists(existing):
        missing.append(existing)
        existing = existing.parent
    if missing:
        _require_safe(existing, _walked(existing), path)
    for directory in reversed(missing):
        try:
            directory.mkdir(mode=0o700)
        except FileExistsError:
            continue  # another process was faster; its directory is checked afterwards


def _walked(path: Path) -> os.stat_result:
    """Return the status of the target of `path`. Each step is checked by itself, and links are followed one by one."""
    at, links = Path("/"), 0
    steps = list(Path(os.path.abspath(path)).parts[1:])
    status = os.lstat(at)
    while steps:
        _require_safe(at, status, path)
        step = at / steps.pop(0)
        status = os.lstat(step)
        if not stat.S_ISLNK(status.st_mode):
            at = Path(os.path.normpath(step))
            continue
        _require_trusted(step, status, path)
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        target = Path(os.readlink(step))
        steps = [*(target.parts[1:] if target.is_absolute() else target.parts), *steps]
        at = Path("/") if target.is_absolute() else at
        status = os.lstat(at)
    return status


def _require_safe(directory: Path, status: os.stat_result, path: Path) -> None:
    """Require that only this user and root can replace the entries of a directory on the way."""
    _require_trusted(directory, status, path)
    mode = status.st_mode
    if mode & stat.S_ISVTX or not stat.S_ISDIR(mode):
        return
    group_is_own = status.st_gid in (0, os.geteuid())  # root's, or the one whose only member is this user
    if mode & 0o002 or (mode & 0o020 and not group_is_own):
        raise _refused(path, f"others can write to {directory} (mode {stat.S_IMODE(mode):o}) and so replace it")


def _require_trusted(step: Path, status: os.stat_result, path: Path) -> None:
    if status.st_uid not in (0, os.geteuid()):
        raise _refused(path, f"{step} belongs to the user with the number {status.st_uid}, who can replace it")


def _refused(path: Path, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"The cache directory {path} is not private: {why}. So nothing in it is trusted, executed or deleted. State "
        "and checkpoints are not affected. Set TIDEGATE_CACHE to a directory of your own, or unset it."
    )
