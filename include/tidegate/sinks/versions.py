"""Versions of a table of current rows: how long one stays readable after another has replaced it.

A reader resolves the link `current` once, and then opens the files of one version. When that version was replaced is
the modification time of its directory, set right before the link leaves it. This time and the present are both of the
file system's own clock, so machines that commit one after the other need not agree on the time.
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
    """Where a checkpoint's version lies, relative to the sink's root."""
    return f"{VERSIONS}/{checkpoint_name(checkpoint_id)}"


def note_replaced(root: str, checkpoint_id: int | None) -> None:
    """Note the present on a version, if there is one: before the link leaves it, so that none is without it whatever
    crashes, and again after it, because a process may have stopped in between."""
    if checkpoint_id is None:
        return
    with suppress(FileNotFoundError):  # removed by hand
        os.utime(os.path.join(root, version_of(checkpoint_id)))


@dataclass(frozen=True, slots=True)
class Outdated:
    """`gone` are to be removed. `undated` were replaced in the future, so the clock was set back: their time is counted
    from now on."""

    gone: Collection[int]
    undated: Collection[int]


def last_replaced(replaced_at: Mapping[int, int]) -> int | None:
    """The version that was shown before the present one, as far as their times tell."""
    return max(replaced_at, key=lambda id_: (replaced_at[id_], id_), default=None)


def choose_outdated(replaced_at: Mapping[int, int], last: int | None, now: int, readable_for: timedelta) -> Outdated:
    """Of replaced versions, and when each was, in nanoseconds. The last one stays however long ago that was."""
    bound = now - readable_for // timedelta(microseconds=1) * 1000
    return Outdated(
        [id_ for id_, at in replaced_at.items() if at <= bound and id_ != last],
        [id_ for id_, at in replaced_at.items() if at > now],
    )


@dataclass(frozen=True, slots=True)
class Shown:
    """`now` is what the link shows after the commit of a checkpoint, and `before` what it showed when that began. A
    commit that is repeated finds itself."""

    checkpoint_id: int
    now: int
    before: int | None

    @property
    def is_certain(self) -> bool:
        """Whether more than their times tells which version was replaced last."""
        return self.before not in (None, self.checkpoint_id)


def present(private: PrivateDirectory) -> int:
    """The file system's own clock, in nanoseconds."""
    os.utime(private.path)
    return os.stat(private.path).st_mtime_ns


def find_outdated(root: str, shown: int | None, now: int, readable_for: timedelta) -> Outdated:
    """Among the versions before the one that is shown, where no commit is at work. Changes nothing."""
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
    """Remove versions that were replaced longer ago than that. Never one of a newer checkpoint, of any attempt."""
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
    """When each version below the bound was replaced, in nanoseconds, by its checkpoint."""
    found = {}
    for name in names:
        id_ = checkpoint_id_of(name)
        if id_ is not None and id_ != shown and (bound is None or id_ < bound):
            with suppress(FileNotFoundError):
                found[id_] = os.stat(os.path.join(root, VERSIONS, name)).st_mtime_ns
    return found
