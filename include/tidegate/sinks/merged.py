"""The rows of an appended table in few files, in addition to its directory for each checkpoint.

    _merged/current                    a symbolic link to one version
    _merged/_versions/chk-<id>/        the rows of all partitions that are visible with that checkpoint, each row once
        <id>.<file>                    a file of one partition, under a second name
        <first>-<last>-<digest>.parquet    rows of several partitions, merged

A reader lists a directory and opens its files later, so a listed path must keep its content. Several partitions
therefore cannot become one in place, in any order. Here a version never changes, and the link changes in one step, as
in tables of current rows. The partitions stay as they are, so a rewind needs nothing from this directory. It writes a
new version of the partitions that are visible afterwards, and reuses a merged file only if its rows are exactly theirs.
"""

import os
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Protocol

from tidegate.ports import CommitAttempt
from tidegate.sinks import publish
from tidegate.sinks.fencing import PrivateDirectory
from tidegate.sinks.versions import Shown, note_replaced, remove_outdated, version_of

MERGED = "_merged"
#: Files of this many bytes are large enough for any reader and are not merged any more.
_LARGE = 64 << 20
#: The most that one commit merges. Later commits merge the rest.
_MOST_BYTES, _MOST_PARTS = 256 << 20, 5000
_SEVERAL = re.compile(r"(\d+)-(\d+)-([0-9a-f]{16})\.parquet")
_ONE = re.compile(r"(\d+)\.(.+)")


class FileMerger(Protocol):
    """Reads and writes the files."""

    def schema(self, path: str) -> bytes:
        """Return bytes that are equal for files that can be merged."""
        ...

    def merge(self, sources: Sequence[str], target: str, keep: Callable[[], None]) -> None:
        """Write the rows of all sources into one new file, durably."""
        ...


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of the partitions `first` to `last`: the paths of their files, and the names of these in a version."""

    first: int
    last: int
    files: tuple[str, ...]
    names: tuple[str, ...]


def merged_name(ids: Sequence[int]) -> str:
    """Return the file name for the merged rows of exactly these checkpoints. A different set of checkpoints with the
    same first and last, as another branch can have, gets another name."""
    digest = sha256(array("q", ids).tobytes()).hexdigest()[:16]
    return f"{ids[0]}-{ids[-1]}-{digest}.parquet"


def find_usable(ids: Sequence[int], names: Collection[str]) -> list[tuple[int, int, str]]:
    """Find the merged files in a version whose rows all belong to these checkpoints: first, last and name, oldest
    first. `ids` are the visible partitions, in order."""
    found = []
    for name in names:
        if match := _SEVERAL.fullmatch(name):
            first, last = int(match[1]), int(match[2])
            within = ids[bisect_left(ids, first) : bisect_right(ids, last)]
            if within and merged_name(within) == name:
                found.append((first, last, name))
    return sorted(found)


def parts_of(ids: Sequence[int], names: Collection[str]) -> list[list[str]]:
    """Return a version's files, part by part, oldest first, if it has exactly the rows of these checkpoints; else none.
    `ids` are in order."""
    usable, singles = find_usable(ids, names), dict[int, list[str]]()
    for name in sorted(names):
        if match := _ONE.fullmatch(name):
            singles.setdefault(int(match[1]), []).append(name)
    merged = [id_ for first, last, _ in usable for id_ in ids[bisect_left(ids, first) : bisect_right(ids, last)]]
    if len(usable) + sum(map(len, singles.values())) != len(names) or sorted([*merged, *singles]) != list(ids):
        return []
    parts = [(first, [name]) for first, _, name in usable] + list(singles.items())
    return [files for _, files in sorted(parts)]


def choose_merges(sizes: Sequence[int], schemas: Callable[[int], bytes]) -> list[range]:
    """Choose the neighbouring parts that become one file each. `sizes` are the bytes of all parts, oldest first, and
    `schemas` returns the schema of one. Every merge has at least two parts."""
    # numpy comes with it, and this module is imported when Airflow parses a DAG.
    from tidegate.state.compaction import choose_runs

    small = next((at + 1 for at in range(len(sizes) - 1, -1, -1) if sizes[at] >= _LARGE), 0)
    chosen = choose_runs(sizes[small:])
    if chosen is None:
        return []
    merges, start, total, taken = list[range](), small + chosen.start, 0, 0
    for at in range(start, small + chosen.stop):
        if taken + sizes[at] > _MOST_BYTES or at - small - chosen.start >= _MOST_PARTS:
            break
        if total >= _LARGE or (at > start and schemas(at) != schemas(start)):
            merges.append(range(start, at))
            start, total = at, 0
        total, taken = total + sizes[at], taken + sizes[at]
    else:
        at = small + chosen.stop
    return [merge for merge in (*merges, range(start, at)) if len(merge) > 1]


@dataclass(frozen=True)
class MergedView:
    """A sink's link to its merged rows, and the versions behind it."""

    root: str
    readable_for: timedelta
    files: FileMerger

    @property
    def base(self) -> str:
        """Return the directory that holds the link, as that of a table of current rows does."""
        return os.path.join(self.root, MERGED)

    def commit(self, private: PrivateDirectory, checkpoint_id: int, ids: Sequence[int], attempt: CommitAttempt) -> None:
        """Show the partitions of a commit, unless a later checkpoint is already shown."""
        before = publish.current_checkpoint(self.base)
        if before is None or before <= checkpoint_id:
            self._show(private, checkpoint_id, before, ids, attempt)
            remove_outdated(self.base, private, Shown(checkpoint_id, checkpoint_id, before), self.readable_for)

    def rewind(self, private: PrivateDirectory, checkpoint_id: int, ids: Sequence[int], attempt: CommitAttempt) -> None:
        """Show the partitions that a rewind leaves, even if a later checkpoint is shown now."""
        before = publish.current_checkpoint(self.base)
        if ids:
            self._show(private, checkpoint_id, before, ids, attempt)
        elif before is not None:
            note_replaced(self.base, before)
            private.take_away(os.path.join(self.base, publish.CURRENT))
            publish.sync(self.base)

    def _show(
        self,
        private: PrivateDirectory,
        checkpoint_id: int,
        before: int | None,
        ids: Sequence[int],
        attempt: CommitAttempt,
    ) -> None:
        version = os.path.join(self.base, version_of(checkpoint_id))
        if not os.path.isdir(version):
            os.makedirs(os.path.dirname(version), exist_ok=True)
            os.rename(self._gather(private, before, ids, attempt), version)
            publish.sync(os.path.dirname(version))
        if before != checkpoint_id:
            note_replaced(self.base, before)
            publish.point_to(self.base, private, version_of(checkpoint_id))
        publish.sync(self.base)

    def _gather(self, private: PrivateDirectory, before: int | None, ids: Sequence[int], attempt: CommitAttempt) -> str:
        """Prepare a version, complete and durable, not yet visible."""
        gathered = private.join("merged")
        os.mkdir(gathered)
        parts = list(self._parts(before, ids))
        sizes = [sum(os.path.getsize(file) for file in part.files) for part in parts]
        merges = choose_merges(sizes, lambda at: self.files.schema(parts[at].files[0]))
        for merge in merges:
            within = parts[merge.start : merge.stop]
            name = merged_name(ids[bisect_left(ids, within[0].first) : bisect_right(ids, within[-1].last)])
            self.files.merge([file for part in within for file in part.files], f"{gathered}/{name}", attempt.keep)
        merged = {at for merge in merges for at in merge}
        for at, part in enumerate(parts):
            attempt.keep()
            for file, name in zip(part.files, part.names, strict=True) if at not in merged else ():
                publish.link(file, f"{gathered}/{name}", attempt.keep)
        publish.sync(gathered)
        return gathered

    def _parts(self, before: int | None, ids: Sequence[int]) -> Iterator[Part]:
        """Yield the partitions, oldest first, merged as far as the version `before` has merged them."""
        directory = os.path.join(self.base, version_of(before)) if before is not None else ""
        names = os.listdir(directory) if directory and os.path.isdir(directory) else []
        known = dict[int, list[str]]()
        for name in sorted(names):
            if match := _ONE.fullmatch(name):
                known.setdefault(int(match[1]), []).append(name)
        usable, at = find_usable(ids, names), 0
        for first, last, name in [*usable, (ids[-1] + 1, 0, "")]:
            while at < len(ids) and ids[at] < first:
                yield self._single(ids[at], directory, known.get(ids[at]))
                at += 1
            if name:
                yield Part(first, last, (os.path.join(directory, name),), (name,))
                at = bisect_right(ids, last)

    def _single(self, id_: int, directory: str, known: Sequence[str] | None) -> Part:
        if known:  # the version has all files of a partition, or none
            return Part(id_, id_, tuple(os.path.join(directory, name) for name in known), tuple(known))
        partition = os.path.join(self.root, f"checkpoint={id_}")
        names = sorted(os.listdir(partition))
        files = tuple(os.path.join(partition, name) for name in names)
        return Part(id_, id_, files, tuple(f"{id_}.{name}" for name in names))


@dataclass(frozen=True)
class EndedView:
    """The merged files of a sink that used to merge and no longer does. The next commit removes them, so that no reader
    finds outdated ones."""

    root: str

    def commit(self, private: PrivateDirectory, checkpoint_id: int, ids: Sequence[int], attempt: CommitAttempt) -> None:
        private.take_away(os.path.join(self.root, MERGED))

    rewind = commit
