"""One directory for each commit attempt, from which its files become visible. It fences older attempts.

An attempt creates `_committing/<number>/` and has it confirmed that it is the newest. It then takes away the contents
of the directories of older attempts. Every step that readers can notice is one rename: of something in the attempt's
directory to the place where readers see it, or of something old into that directory. The rename either completes before
the directory is emptied, or it fails, because its source or its target is gone. So an older attempt that was stopped
anywhere and resumes changes nothing.

Entries are taken away one by one, and the directory is removed, not renamed. On NFS another machine may still cache a
renamed directory, but an entry of it that is gone is gone on every machine.
"""

import errno
import itertools
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tidegate.ports import CommitAttempt
from tidegate.protocol.facts.errors import SinkError, SupersededAttemptError

COMMITTING = "_committing"
_MOST_ROUNDS = 100  # an older attempt that still runs may go on adding files while they are taken away


class PrivateDirectory:
    """The directory of one attempt. Only that attempt adds files to it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._numbers = itertools.count()

    def join(self, name: str) -> str:
        """Return the path at which the attempt prepares something that becomes visible under another name."""
        return os.path.join(self.path, name)

    def take_away(self, path: str) -> None:
        """Move a file or directory here in one step, to be deleted when the attempt ends. A missing one is fine."""
        with suppress(FileNotFoundError):
            os.rename(path, self.join(f"away-{next(self._numbers)}"))


@contextmanager
def committing(root: str, checkpoint_id: int, attempt: CommitAttempt) -> Iterator[PrivateDirectory]:
    """Create the attempt's directory and clear those of older attempts. It is removed at the end.

    Raise `SupersededAttemptError` if a newer attempt has begun, which may have taken away anything that is missing, and
    `SinkError` for any other failure.
    """
    private = PrivateDirectory(os.path.join(root, COMMITTING, str(attempt.number)))
    made = False
    try:
        os.makedirs(os.path.dirname(private.path), exist_ok=True)
        os.mkdir(private.path)
        made = True
        attempt.confirm()
        _fence_older(private, attempt.number)
        yield private
        shutil.rmtree(private.path, ignore_errors=True)  # what an error leaves behind, the next attempt takes away
    except SupersededAttemptError:
        with suppress(OSError):
            os.rmdir(private.path)
        raise
    except (OSError, SinkError) as error:
        if made:
            attempt.confirm()
        if isinstance(error, SinkError):
            raise
        raise SinkError(_explanation(root, checkpoint_id, private, error)) from error


def last_attempt(root: str) -> int:
    """Return the newest attempt that has left a directory; 0 if there is none."""
    try:
        names = os.listdir(os.path.join(root, COMMITTING))
    except FileNotFoundError:
        return 0
    return max((int(name) for name in names if name.isdecimal()), default=0)


def _fence_older(private: PrivateDirectory, number: int) -> None:
    parent = os.path.dirname(private.path)
    for name in os.listdir(parent):
        if name.isdecimal() and int(name) < number:
            _empty(os.path.join(parent, name), private)


def _empty(directory: str, private: PrivateDirectory) -> None:
    """Take away the files that an older attempt has prepared, until its directory is gone."""
    for _ in range(_MOST_ROUNDS):
        try:
            for name in os.listdir(directory):
                private.take_away(os.path.join(directory, name))
            return os.rmdir(directory)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
    raise SinkError(
        f"An older commit attempt is still writing below {directory}, so nothing was committed. The checkpoint is "
        "complete and its rows are safe. End that process, then repeat the notify step."
    )


def _explanation(root: str, checkpoint_id: int, private: PrivateDirectory, error: OSError) -> str:
    if isinstance(error, FileExistsError) and error.filename == private.path:
        return (
            f"{private.path} already exists, although attempt {os.path.basename(private.path)} has just begun: another "
            f"pipeline commits to {root}, or this one continues with an older or an empty database. Checkpoint "
            f"{checkpoint_id} is complete, and the table that readers see was not changed. If no other pipeline writes "
            "there, repeat the notify step: the next attempt removes that directory."
        )
    return (
        f"Checkpoint {checkpoint_id} could not be committed to {root}: {error}. The checkpoint is complete and its "
        "rows are safe; readers see all of it or none. Remove the cause (disk space, permissions, mount) and repeat "
        "the notify step."
    )
