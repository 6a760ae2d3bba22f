"""Files that stay in a sink's directory only for a time: replaced versions of a table, and files of processes that were
killed while they marked the directory. Commits remove them, and `tidegate clean` finds them where no commit follows.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from tidegate.ports import CommitAttempt
from tidegate.sinks import ownership, publish, versions
from tidegate.sinks.fencing import committing


def find(root: str, bases: Sequence[str], now: int, readable_for: timedelta) -> list[str]:
    """Return the files, relative to the root. `bases` are the directories below it that have versions, `now` is in
    nanoseconds."""
    found = ownership.left(root, now)
    for base in bases:
        for id_ in versions.find_outdated(os.path.join(root, base), _shown(root, base), now, readable_for).gone:
            version = os.path.join(base, versions.version_of(id_))
            with suppress(FileNotFoundError):
                found += sorted(os.path.join(version, name) for name in os.listdir(os.path.join(root, version)))
    return found


def remove(root: str, bases: Sequence[str], readable_for: timedelta, attempt: CommitAttempt) -> None:
    """Remove the files that `find` returns, by the file system's own clock. Raise `SinkError`,
    `SupersededAttemptError`."""
    with committing(root, max((_shown(root, base) or 0 for base in bases), default=0), attempt) as private:
        now = versions.present(private)
        for path in ownership.left(root, now):
            private.take_away(os.path.join(root, path))
        for base in bases:
            place, shown = os.path.join(root, base), _shown(root, base)
            versions.remove(place, private, versions.find_outdated(place, shown, now, readable_for))


def _shown(root: str, base: str) -> int | None:
    return publish.current_checkpoint(os.path.join(root, base))
