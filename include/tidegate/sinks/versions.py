"""Versions of a table of current rows. Each stays readable for a time after another has replaced it.

A reader resolves the link `current` once, and then opens the files of one version. The modification time of a version's
directory is the time when it was replaced. It is set right before the link leaves the version. This time and the
present are both read from the file system's own clock, so machines that commit one after the other need not agree on
the time.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from tidegate.protocol.facts.paths import checkpoint_id_of, checkpoint_name
from tidegate.sinks.fencing import PrivateDirectory

VERSIONS = "_versions"


def version_of(checkpoint_id: int) -> str:
    """Return the directory of a checkpoint's version, relative to the sink's root."""
    return f"{VERSIONS}/{checkpoint_name(checkpoint_id)}"


def note_replaced(root: str, checkpoint_id: int | None) -> None:
    """Set a version's time of replacement to the present, if there is such a version. Call it before the link leaves
    the version, so that a crash leaves none without a time, and again afterwards, because a process may have paused in
    between."""
    if checkpoint_id is None:
        return
    with suppress(FileNotFoundError):  # removed by hand
        os.utime(os.path.join(root, version_of(checkpoint_id)))


@dataclass(frozen=True, slots=True)
class Outdated:
    """Versions to remove (`gone`), and versions replaced in the future (`undated`). The latter mean that the clock was
    set back, so their time is counted from now on."""

    gone: Collection[int]
    undated: Collection[int]


def last_replaced(replaced_at: Mapping[int, int]) -> int | None:
    """Return the version that was shown before the present one, as far as the times of replacement tell."""
    return max(replaced_at, key=lambda id_: (replaced_at[id_], id_), default=None)


def choose_outdated(replaced_at: Mapping[int, int], last: int | None, now: int, readable_for: timedelta) -> Outdated:
    """Choose among replaced versions, given when each was replaced, in nanoseconds. The last one always stays."""
    bound = now - readable_for // timedelta(microseconds=1) * 1000
    return Outdated(
        [id_ for id_, at in replaced_at.items() if at <= bound and id_ != last],
        [id_ for id_, at in replaced_at.items() if at > now],
    )


@dataclass(frozen=True, slots=True)
class Shown:
    """The checkpoint that the link shows after a commit (`now`) and showed when the commit began (`before`). A repeated
    commit finds the link as it has left it, so both are the same."""

    checkpoint_id: int
    now: int
    before: int | None

    @property
    def is_certain(self) -> bool:
        """Whether the version that was replaced last is known from more than the times."""
        return self.before not in (None, self.checkpoint_id)


def present(private: PrivateDirectory) -> int:
    """Return the present by the file system's own clock, in nanoseconds."""
    os.utime(private.path)
    return os.stat(private.path).st_mtime_ns


def find_outdated(root: str, shown: int | None, now: int, readable_for: timedelta) -> Outdated:
    """Find outdated versions before the one now shown, while no commit is running. Changes nothing."""
    names: list[str] = []
    with suppress(FileNotFoundError):
        names = os.listdir(os.path.join(root, VERSIONS))
    replaced_at = _replaced_at(root, names, shown, shown)
    return choose_outdated(replaced_at, last_replaced(replaced_at), now, readable_for)


def remove(root: str, private: PrivateDirectory, outdated: Outdated) -> None:
    for id_ in outdated.gone:
        private.take_away(os.path.join(root, version_of(id_)))
    for id_ in outdated.undated:
        note_replaced(root, id_)


def remove_outdated(root: str, private: PrivateDirectory, shown: Shown, readable_for: timedelta) -> None:
    """Remove versions that were replaced longer ago than `readable_for`, never one of a newer checkpoint or attempt."""
    now = present(private)
    names = os.listdir(os.path.join(root, VERSIONS))
    replaced_at = _replaced_at(root, names, shown.checkpoint_id, shown.now)
    last = shown.before if shown.before in replaced_at else last_replaced(replaced_at)
    outdated = choose_outdated(replaced_at, last, now, readable_for)
    gone = outdated.gone if shown.is_certain else ()  # else the next commit removes them
    remove(root, private, Outdated(gone, outdated.undated))
    if shown.now == shown.checkpoint_id:
        note_replaced(root, last)


def _replaced_at(root: str, names: Iterable[str], bound: int | None, shown: int | None) -> dict[int, int]:
    """Return when versions below the bound were replaced, in nanoseconds, by their checkpoint."""
    found = {}
    for name in names:
        id_ = checkpoint_id_of(name)
        if id_ is not None and id_ != shown and (bound is None or id_ < bound):
            with suppress(FileNotFoundError):
                found[id_] = os.stat(os.path.join(root, VERSIONS, name)).st_mtime_ns
    return found
