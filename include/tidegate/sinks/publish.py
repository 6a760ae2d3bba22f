"""How staged files become visible all at once, and stay so whatever crashes: directories, links and renames.

Layout below a sink's root; readers skip names that begin with an underscore:

    _staging/chk-<id>/…      what attempts wrote; only acknowledged files count
    _committing/chk-<id>/    append: the acknowledged files, on their way
    checkpoint=<id>/         append: visible
    _versions/chk-<id>/      latest: hard links to the acknowledged files of every subtask
    current                  latest: a symbolic link to one version
    _lock                    held while committing

Every step can be repeated: each looks at where a file is before it moves it, and the last rename decides. What to
commit, and when, is the coordinator's decision (protocol.md section 16).
"""

import errno
import fcntl
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import NoReturn

from tidegate.protocol.errors import SinkError
from tidegate.protocol.records import StateHandle

CURRENT = "current"
LOCK_TIMEOUT = 60.0  # seconds; a commit takes milliseconds, so whoever holds it longer is stopped or hangs
_STAGING, _COMMITTING, _VERSIONS, _LOCK, _NEXT = "_staging", "_committing", "_versions", "_lock", "_next"
_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK)


def staging_of(checkpoint_id: int) -> str:
    return f"{_STAGING}/chk-{checkpoint_id}"


def staged_path(handle: StateHandle) -> str:
    """The handle's path, which must be of a staged file. Raises `SinkError`."""
    return _confined(handle.path)


def append(root: str, checkpoint_id: int, staged: Sequence[StateHandle]) -> None:
    """Make `checkpoint=<id>/` of the staged files; nothing if there are none."""
    if not staged:
        return
    with _committing(root, checkpoint_id):
        target = os.path.join(root, f"checkpoint={checkpoint_id}")
        if not os.path.isdir(target):
            collected = os.path.join(root, _COMMITTING, f"chk-{checkpoint_id}")
            _collect(root, collected, staged)
            _check_complete(collected, staged, checkpoint_id)
            sync(collected)
            os.rename(collected, target)
        _check_same(target, staged, checkpoint_id)
        sync(root)
        _remove_if_empty(root, f"{_COMMITTING}/chk-{checkpoint_id}", staging_of(checkpoint_id))


def replace(root: str, checkpoint_id: int, staged: Sequence[StateHandle]) -> None:
    """Make `current` the staged files, unless it is of this or a later checkpoint already."""
    if not staged:
        return
    with _committing(root, checkpoint_id):
        current = current_checkpoint(root)
        if current is not None and current > checkpoint_id:
            _check_older(root, current, checkpoint_id, staged)
            return
        version = os.path.join(root, _VERSIONS, f"chk-{checkpoint_id}")
        if not os.path.isdir(version):
            _link_version(root, version, staged, checkpoint_id)
        _check_same(version, staged, checkpoint_id)
        if current != checkpoint_id:
            _point_to(root, f"{_VERSIONS}/chk-{checkpoint_id}")
        sync(root)
        _remove_versions(root, checkpoint_id, before=current)


def current_checkpoint(root: str) -> int | None:
    """The checkpoint that `current` shows. Raises `SinkError` if something else has that name."""
    link = os.path.join(root, CURRENT)
    try:
        target = os.readlink(link)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SinkError(
            f"{link} is not a link that Tidegate made, so it was left alone and nothing was committed. Move it away, or "
            "give the sink a directory of its own; the checkpoint is complete and will be committed then."
        ) from error
    return _version_id(os.path.basename(target))


def staged_paths(root: str, checkpoint_id: int) -> list[str]:
    """Every file in the checkpoint's staging, acknowledged or not, relative to the root."""
    directory = staging_of(checkpoint_id)
    try:
        return sorted(f"{directory}/{name}" for name in os.listdir(os.path.join(root, directory)))
    except FileNotFoundError:
        return []


def discard(root: str, paths: Sequence[str]) -> None:
    """Delete staged files, missing ones being fine. Raises `SinkError`; paths outside staging are refused."""
    confined = [_confined(path) for path in paths]
    try:
        for path in confined:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(root, path))
    except OSError as error:
        raise SinkError(
            f"A staged file below {root} that nothing needs any more could not be deleted: {error}. What readers see is "
            "not affected; it will be tried again."
        ) from error
    _remove_if_empty(root, *{os.path.dirname(path) for path in confined})


def sync(directory: str) -> None:
    """Make a directory's entries durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _committing(root: str, checkpoint_id: int) -> Iterator[None]:
    """One committer at a time below a root; the lock goes with its process, however that ends."""
    try:
        descriptor = os.open(os.path.join(root, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            _lock(descriptor, root)
            yield
        finally:
            os.close(descriptor)
    except OSError as error:
        raise SinkError(
            f"Checkpoint {checkpoint_id} could not be committed to {root}: {error}. The checkpoint is complete and its "
            "rows are safe; readers see all of it or none. Remove the cause (disk space, permissions, mount) and repeat "
            "the notify step."
        ) from error


def _lock(descriptor: int, root: str) -> None:
    deadline = time.monotonic() + LOCK_TIMEOUT
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise TimeoutError(
                    f"another process has been committing for {LOCK_TIMEOUT:g} s ({root}/{_LOCK})"
                ) from None
            time.sleep(0.02)


def _collect(root: str, collected: str, staged: Sequence[StateHandle]) -> None:
    os.makedirs(collected, exist_ok=True)
    for handle in staged:
        path = _confined(handle.path)
        # Missing: an earlier try moved it, or it is lost, which the caller finds out.
        with suppress(FileNotFoundError):
            os.rename(os.path.join(root, path), os.path.join(collected, os.path.basename(path)))


def _link_version(root: str, version: str, staged: Sequence[StateHandle], checkpoint_id: int) -> None:
    building = f"{version}.{uuid.uuid4().hex}.tmp"
    os.makedirs(building)
    for handle in staged:
        path = _confined(handle.path)
        with suppress(FileNotFoundError):
            _link(os.path.join(root, path), os.path.join(building, os.path.basename(path)))
    _check_complete(building, staged, checkpoint_id)
    sync(building)
    os.rename(building, version)
    sync(os.path.dirname(version))


def _link(source: str, target: str) -> None:
    """A second name for an immutable file, so that neither deleting costs the other; a copy where that is impossible."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        shutil.copyfile(source, target)
        sync(target)


def _point_to(root: str, version: str) -> None:
    following = os.path.join(root, _NEXT)
    with suppress(FileNotFoundError):
        os.unlink(following)
    os.symlink(version, following)
    os.replace(following, os.path.join(root, CURRENT))


def _remove_versions(root: str, checkpoint_id: int, before: int | None) -> None:
    """Keep the version before this one: readers that opened it finish. Broken-off ones go too."""
    directory = os.path.join(root, _VERSIONS)
    versions = {name: _version_id(name) for name in os.listdir(directory)}
    if before in (None, checkpoint_id):
        before = max((found for found in versions.values() if found not in (None, checkpoint_id)), default=None)
    for name, found in versions.items():
        if found is None or found not in (checkpoint_id, before):
            shutil.rmtree(os.path.join(directory, name))


def _version_id(name: str) -> int | None:
    match = re.fullmatch(r"chk-(\d+)", name)
    return int(match[1]) if match else None


def _confined(path: str) -> str:
    if not re.fullmatch(rf"{_STAGING}/chk-\d+/[^/\0]+", path) or PurePosixPath(path).name in (".", ".."):
        raise SinkError(
            f"{path!r} is not a path in a sink's staging ({_STAGING}/chk-<id>/<file>), so it was not touched. The "
            "checkpoint's record is damaged, or was written by another version."
        )
    return path


def _check_complete(directory: str, staged: Sequence[StateHandle], checkpoint_id: int) -> None:
    """Whether the directory, not yet visible, has every acknowledged file in its full length."""
    for handle in staged:
        name = os.path.basename(handle.path)
        try:
            size = os.path.getsize(os.path.join(directory, name))
        except FileNotFoundError:
            _lost(directory, handle, checkpoint_id, "is missing")
        if size != handle.bytes:
            _lost(directory, handle, checkpoint_id, f"has {size} bytes instead of {handle.bytes}")


def _lost(directory: str, handle: StateHandle, checkpoint_id: int, what: str) -> NoReturn:
    root = os.path.dirname(os.path.dirname(directory))
    raise SinkError(
        f"Checkpoint {checkpoint_id} cannot be committed to {root}: the staged file {handle.path} ({handle.rows} rows, "
        f"SHA-256 {handle.checksum}) {what}. Nothing of the checkpoint is visible and no other file was changed. Restore "
        "that file from a copy and repeat the notify step, or go back to the checkpoint before."
    )


def _check_same(directory: str, staged: Sequence[StateHandle], checkpoint_id: int) -> None:
    """Whether what has this checkpoint's name is this checkpoint."""
    if set(os.listdir(directory)) != {os.path.basename(handle.path) for handle in staged}:
        _foreign(directory, checkpoint_id, f"{directory} holds other files than checkpoint {checkpoint_id} wrote")


def _check_older(root: str, current: int, checkpoint_id: int, staged: Sequence[StateHandle]) -> None:
    """A late repeat of an older commit changes nothing; but then its files are older than what readers see."""
    shown = os.lstat(os.path.join(root, CURRENT)).st_mtime_ns
    for handle in staged:
        path = os.path.join(root, _confined(handle.path))
        with suppress(FileNotFoundError):
            if os.lstat(path).st_mtime_ns > shown:
                _foreign(root, checkpoint_id, f"{root} shows checkpoint {current}, which is older than {handle.path}")


def _foreign(directory: str, checkpoint_id: int, what: str) -> NoReturn:
    raise SinkError(
        f"{what}: another pipeline writes there, or this one was started anew with an empty database. Checkpoint "
        f"{checkpoint_id} is complete and stays staged; what readers see was not changed. Give the sink a directory of "
        f"its own, or move {directory} away, then repeat the notify step."
    )


def _remove_if_empty(root: str, *directories: str) -> None:
    for directory in directories:
        with suppress(OSError):
            os.rmdir(os.path.join(root, directory))
