"""A table as a set of files, as `IcebergSink` has it: what readers see is one pointer, and files stay where they were
staged. Which snapshots a checkpoint, a restore and a cleaning leave is decided by `tidegate.iceberg` itself, on
metadata in memory.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.iceberg import changes
from tidegate.iceberg.changes import TableOptions
from tidegate.iceberg.keeping import FIRST
from tidegate.iceberg.names import TAG, WITHDRAWN, tagged
from tidegate.iceberg.names import TableName as Name
from tidegate.ports import StateHandle, Withdrawn
from tidegate.postgres_sink.refusals import Occasion
from tidegate.protocol.facts.branches import Branch

MAIN = "main"
OCCASION = Occasion("the table", "It is as it was.", "repeat")


@dataclass(frozen=True, slots=True)
class Ref:
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """`files`: the paths of all rows. `summary` says which checkpoint it is of."""

    snapshot_id: int
    files: tuple[str, ...]
    summary: Mapping[str, str]

    @property
    def sequence_number(self) -> int:
        return self.snapshot_id


@dataclass(frozen=True)
class Metadata:
    """What the pointer leads to. It never changes."""

    snapshots: tuple[TableSnapshot, ...] = ()
    refs: Mapping[str, Ref] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    newest: int = 0

    def snapshot_by_id(self, snapshot_id: int) -> TableSnapshot | None:
        return next((each for each in self.snapshots if each.snapshot_id == snapshot_id), None)

    def files_of(self, ref: str) -> tuple[str, ...]:
        found = self.snapshot_by_id(self.refs[ref].snapshot_id) if ref in self.refs else None
        return () if found is None else found.files

    @property
    def reach(self) -> frozenset[str]:
        """The files of all snapshots."""
        return frozenset(path for each in self.snapshots for path in each.files)


class MemoryDraft:
    """`tidegate.iceberg.draft.Draft`, as far as changes ask."""

    def __init__(self, metadata: Metadata, summary: Mapping[str, str]) -> None:
        self.before = self.metadata = metadata
        self._summary = summary

    @property
    def changed(self) -> bool:
        return self.metadata != self.before

    @property
    def head(self) -> TableSnapshot | None:
        ref = self.metadata.refs.get(MAIN)
        return None if ref is None else self.metadata.snapshot_by_id(ref.snapshot_id)

    def apply(self, *updates: Any) -> None:
        for update in updates:
            self.metadata = replace(self.metadata, properties={**self.metadata.properties, **update.updates})

    def refer(self, name: str, snapshot_id: int) -> None:
        self.metadata = replace(self.metadata, refs={**self.metadata.refs, name: Ref(snapshot_id)})

    def release(self, name: str) -> None:
        left = {ref: each for ref, each in self.metadata.refs.items() if ref != name}
        self.metadata = replace(self.metadata, refs=left)

    def show(self, snapshot_id: int | None) -> None:
        if snapshot_id is not None:
            self.refer(MAIN, snapshot_id)
        else:
            self.release(MAIN)

    def expire(self, snapshot_ids: Collection[int]) -> None:
        left = tuple(each for each in self.metadata.snapshots if each.snapshot_id not in snapshot_ids)
        refs = {name: ref for name, ref in self.metadata.refs.items() if ref.snapshot_id not in snapshot_ids}
        self.metadata = replace(self.metadata, snapshots=left, refs=refs)

    def append(self, files: Sequence[str]) -> None:
        self.replace([*(() if self.head is None else self.head.files), *files])

    def replace(self, files: Sequence[str]) -> None:
        number = self.metadata.newest + 1
        made = TableSnapshot(number, tuple(files), self._summary)
        self.metadata = replace(self.metadata, snapshots=(*self.metadata.snapshots, made), newest=number)
        self.show(number)


class _Forward(changes.Forward):
    def _begun(self, base: Any) -> Any:
        return MemoryDraft(base or Metadata(), changes.summary(self.options, self.checkpoint_id))

    def _files(self, draft: Any) -> Any:
        return [handle.path for handle in self.staged]


class _Back(changes.Back):
    def _begun(self, base: Any) -> Any:
        return MemoryDraft(base, changes.summary(self.options, self.checkpoint_id))

    def _files(self, draft: Any) -> Any:
        return [handle.path for handle in self.staged]


class _Without(changes.Without):
    def _begun(self, base: Any) -> Any:
        return MemoryDraft(base, {})


def options(replaced: bool) -> TableOptions:
    return TableOptions(Name("db", "table"), "/", "p", replaced, (), {}, True)


def forward(id_: int, staged: Sequence[StateHandle], kept: Collection[int] | None, replaced: bool) -> changes.Change:
    return _Forward(options(replaced), id_, staged, kept, OCCASION)


def back(id_: int, branch: Branch, staged: Sequence[StateHandle], replaced: bool) -> changes.Change:
    return _Back(options(replaced), id_, branch, staged, OCCASION)


def without(ids: Collection[int], replaced: bool) -> changes.Change:
    return _Without(options(replaced), ids)


def stage(change: changes.Change, base: Metadata | None) -> Metadata | None:
    """What becomes of the table; None if it is not there."""
    draft: Any = change.draft(base)  # type: ignore[arg-type]
    return base if draft is None else draft.metadata


@dataclass(frozen=True)
class FileTable:
    """What the database has of a table: its pointer, and beside it what `forget` was told, and the files that were
    released, with the time of that."""

    pointer: Metadata | None = None
    kept: tuple[int, ...] | None = None
    released: tuple[tuple[Any, tuple[str, ...]], ...] = ()

    def swapped(self, pointer: Metadata | None) -> "FileTable":
        gone = tuple(sorted(self.reach - (frozenset() if pointer is None else pointer.reach)))
        released = (*self.released, (None, gone)) if gone else self.released
        return replace(self, pointer=pointer, released=released)

    @property
    def reach(self) -> frozenset[str]:
        return frozenset() if self.pointer is None else self.pointer.reach

    @property
    def lingering(self) -> frozenset[str]:
        return frozenset(path for _, paths in self.released for path in paths)

    @property
    def taken_over(self) -> frozenset[str]:
        return self.reach | self.lingering

    @property
    def files(self) -> tuple[str, ...]:
        """What readers see."""
        return () if self.pointer is None else self.pointer.files_of(MAIN)

    def tagged(self, prefix: str = TAG) -> dict[int, tuple[str, ...]]:
        """By checkpoint, its files."""
        if self.pointer is None:
            return {}
        return {id_: self.pointer.files_of(tag) for id_, tag in tagged(self.pointer.refs, prefix).items()}

    def kept_files(self, checkpoint_id: int) -> tuple[str, ...] | None:
        """What a restore to the checkpoint would show; None if it cannot."""
        return self.tagged().get(checkpoint_id, self.tagged(WITHDRAWN).get(checkpoint_id))

    def is_older(self, checkpoint_id: int) -> bool:
        """Whether the table had no rows at that checkpoint."""
        return self.pointer is None or checkpoint_id < int(self.pointer.properties.get(FIRST, 0))

    def outside(self, branch: Branch) -> list[Withdrawn]:
        return [Withdrawn(id_, 1, 1) for id_ in sorted(self.tagged()) if id_ not in branch]

    def due(self, before: Any) -> list[str]:
        """Released so long ago, and not taken up again."""
        return [
            path
            for at, paths in self.released
            if at is not None and at <= before
            for path in paths
            if path not in self.reach
        ]

    def found(self, kept: Collection[int] | None, now: Any) -> "FileTable":
        released = tuple((now if at is None else at, paths) for at, paths in self.released)
        return replace(self, kept=self.kept if kept is None else tuple(sorted(kept)), released=released)

    def without(self, deleted: Collection[str]) -> "FileTable":
        left = ((at, tuple(path for path in paths if path not in deleted)) for at, paths in self.released)
        return replace(self, released=tuple(each for each in left if each[1]))
