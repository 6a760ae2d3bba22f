"""Makes staged files visible all at once, by directories, links and renames. A crash at any moment loses nothing.

Layout below a sink's root. Readers skip names that begin with an underscore.

    _staging/chk-<id>/…      files of all attempts; only acknowledged ones count
    _committing/<attempt>/   the directory of one commit attempt, see `fencing`
    checkpoint=<id>/         append: visible
    _merged/                 append: the same rows in few files, if they are kept, see `merged`
    _withdrawn/              append: partitions that a restore has hidden, see `rewind`
    _versions/chk-<id>/      latest: the acknowledged files of every subtask, see `versions`
    current                  latest: a symbolic link to one version

Staged files get a second name (a hard link) and are never moved, so an interrupted commit loses nothing. Every step
can be repeated: it first reads what the directory holds, and the last rename decides. The coordinator decides what to
commit and when (protocol.md section 16).
"""

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import NoReturn, Protocol

from tidegate.ports import CommitAttempt
from tidegate.protocol.facts.errors import SinkError
from tidegate.protocol.facts.paths import checkpoint_id_of
from tidegate.protocol.facts.records import StateHandle
from tidegate.sinks.fencing import PrivateDirectory, committing
from tidegate.sinks.staging import confined
from tidegate.sinks.versions import VERSIONS, Shown, note_replaced, remove_outdated, version_of

CURRENT = "current"
PARTITION = "checkpoint="
_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK)
_COPIED_AT_ONCE = 64 << 20  # bytes between two renewals of the attempt's lease


class View(Protocol):
    """A second form of an appended table, made of its visible partitions: see `merged`."""

    def commit(
        self, private: PrivateDirectory, checkpoint_id: int, ids: Sequence[int], attempt: CommitAttempt
    ) -> None: ...
    def rewind(
        self, private: PrivateDirectory, checkpoint_id: int, ids: Sequence[int], attempt: CommitAttempt
    ) -> None: ...


def append(
    root: str,
    checkpoint_id: int,
    staged: Sequence[StateHandle],
    attempt: CommitAttempt,
    view: View | None = None,
) -> None:
    """Make `checkpoint=<id>/` of the staged files, if there are any, and show them in the view. The staged files may
    then be discarded: the rows are visible under another name, and later checkpoints do not carry them over."""
    if not staged:
        return
    with committing(root, checkpoint_id, attempt) as private:
        target = os.path.join(root, f"{PARTITION}{checkpoint_id}")
        if not os.path.isdir(target):
            os.rename(_gather(root, private, staged, checkpoint_id, attempt.keep), target)
        _check_same(target, staged, checkpoint_id)
        sync(root)
        if view is not None:
            view.commit(private, checkpoint_id, partitions(root), attempt)


def replace(
    root: str, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt, readable_for: timedelta
) -> None:
    """Make `current` show the staged files, unless it already shows these or a later checkpoint. The replaced version
    stays readable for the time given."""
    if not staged:
        return
    with committing(root, checkpoint_id, attempt) as private:
        current = current_checkpoint(root)
        if current is not None and current > checkpoint_id:
            _check_older(root, current, checkpoint_id, staged)
            return
        if current is not None and current < checkpoint_id and _is_carried_over(root, current, staged):
            if not readable_for:  # then the commit that showed it has left none to remove
                return
            shown = Shown(checkpoint_id, current, current)  # durable, or this checkpoint would not be next
        else:
            show_version(root, private, checkpoint_id, staged, attempt)
            sync(root)
            shown = Shown(checkpoint_id, checkpoint_id, current)
        remove_outdated(root, private, shown, readable_for)


def show_version(
    root: str, private: PrivateDirectory, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt
) -> None:
    """Make `current` show the staged files, even if it shows a later checkpoint."""
    version = os.path.join(root, version_of(checkpoint_id))
    if not os.path.isdir(version):
        os.makedirs(os.path.dirname(version), exist_ok=True)
        os.rename(_gather(root, private, staged, checkpoint_id, attempt.keep), version)
        sync(os.path.dirname(version))
    _check_same(version, staged, checkpoint_id)
    if (current := current_checkpoint(root)) != checkpoint_id:
        note_replaced(root, current)
        point_to(root, private, version_of(checkpoint_id))


def current_checkpoint(root: str) -> int | None:
    """Return the checkpoint that `current` shows. Raise `SinkError` if something else has that name."""
    link = os.path.join(root, CURRENT)
    try:
        target = os.readlink(link)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SinkError(
            f"{link} is not a link that Tidegate made, so it was left alone and nothing was committed. Move it away, "
            "or give the sink a directory of its own; the checkpoint is complete and will be committed then."
        ) from error
    return checkpoint_id_of(os.path.basename(target))


def partitions(directory: str) -> list[int]:
    """Return the checkpoints that have a partition in the directory, oldest first."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    ids = (name.removeprefix(PARTITION) for name in names if name.startswith(PARTITION))
    return sorted(int(id_) for id_ in ids if id_.isdecimal())


def versions(root: str) -> list[int]:
    """Return the checkpoints that have a version, oldest first."""
    try:
        names = os.listdir(os.path.join(root, VERSIONS))
    except FileNotFoundError:
        return []
    return sorted(id_ for name in names if (id_ := checkpoint_id_of(name)) is not None)


def sync(directory: str) -> None:
    """Make a directory's entries durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _gather(
    root: str, private: PrivateDirectory, staged: Sequence[StateHandle], checkpoint_id: int, keep: Callable[[], None]
) -> str:
    """Gather the staged files in a directory, complete and durable, not yet visible."""
    gathered = private.join("gathered")
    os.mkdir(gathered)
    for handle in staged:
        keep()
        path, name = confined(handle.path), os.path.basename(handle.path)
        with suppress(FileNotFoundError):  # lost, which is detected below
            link(os.path.join(root, path), os.path.join(gathered, name), keep)
    _check_complete(root, gathered, staged, checkpoint_id)
    sync(gathered)
    return gathered


def link(source: str, target: str, keep: Callable[[], None]) -> None:
    """Give an immutable file a second name, so that deleting one keeps the other. Copy it where that is impossible."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        _copy(source, target, keep)


def _copy(source: str, target: str, keep: Callable[[], None]) -> None:
    with open(source, "rb") as original, open(target, "xb") as copy:
        while part := original.read(_COPIED_AT_ONCE):
            copy.write(part)
            keep()
        copy.flush()
        os.fsync(copy.fileno())


def point_to(root: str, private: PrivateDirectory, version: str) -> None:
    """Make `current` show a version."""
    prepared = private.join(CURRENT)
    os.symlink(version, prepared)
    os.replace(prepared, os.path.join(root, CURRENT))


def _check_complete(root: str, directory: str, staged: Sequence[StateHandle], checkpoint_id: int) -> None:
    """Check that the directory, not yet visible, has every acknowledged file in its full length."""
    for handle in staged:
        name = os.path.basename(handle.path)
        try:
            size = os.path.getsize(os.path.join(directory, name))
        except FileNotFoundError:
            _lost(root, handle, checkpoint_id, "is missing")
        if size != handle.bytes:
            _lost(root, handle, checkpoint_id, f"has {size} bytes instead of {handle.bytes}")


def _lost(root: str, handle: StateHandle, checkpoint_id: int, what: str) -> NoReturn:
    raise SinkError(
        f"Checkpoint {checkpoint_id} cannot be committed to {root}: the staged file {handle.path} ({handle.rows} rows, "
        f"SHA-256 {handle.checksum}) {what}. Nothing of the checkpoint is visible and no other file was changed. "
        "Restore that file from a copy and repeat the notify step, or go back to the previous checkpoint."
    )


def _check_same(directory: str, staged: Sequence[StateHandle], checkpoint_id: int) -> None:
    """Check that the directory with this checkpoint's name holds this checkpoint."""
    if not _holds(directory, staged):
        _foreign(directory, checkpoint_id, f"{directory} does not hold the files that checkpoint {checkpoint_id} wrote")


def _is_carried_over(root: str, current: int, staged: Sequence[StateHandle]) -> bool:
    """Whether nothing was staged since the version now shown, and it holds these files."""
    is_old = all(handle.created_by <= current for handle in staged)
    return is_old and _holds(os.path.join(root, version_of(current)), staged)


def _holds(directory: str, staged: Sequence[StateHandle]) -> bool:
    """Whether the directory has exactly these files. A missing one has none."""
    with suppress(FileNotFoundError):
        return set(os.listdir(directory)) == {os.path.basename(handle.path) for handle in staged}
    return False


def _check_older(root: str, current: int, checkpoint_id: int, staged: Sequence[StateHandle]) -> None:
    """Check that a late repeat of an older commit has files older than the ones readers see. It changes nothing."""
    shown = os.lstat(os.path.join(root, CURRENT)).st_mtime_ns
    for handle in staged:
        path = os.path.join(root, confined(handle.path))
        with suppress(FileNotFoundError):
            if os.lstat(path).st_mtime_ns > shown:
                _foreign(root, checkpoint_id, f"{root} shows checkpoint {current}, which is older than {handle.path}")


def _foreign(directory: str, checkpoint_id: int, what: str) -> NoReturn:
    raise SinkError(
        f"{what}: another pipeline writes to {directory}, or this database is older than the table. Checkpoint "
        f"{checkpoint_id} is complete and stays staged; the table that readers see was not changed. Leave the files "
        "there: readers see them. Put back the database that knows of them, or make an empty one and go on from the "
        "checkpoint storage with `tidegate recover`. If another pipeline has its table there, move only the files of "
        "that pipeline, then repeat the notify step."
    )
