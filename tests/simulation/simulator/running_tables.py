"""Tables of a simulated continuous run, in memory: what readers see, and what a restore took out of their sight."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from simulator.scheduler import require
from simulator.upserting import take_in
from tidegate.ports import CommitAttempt, SinkCommit, SinkInput, Withdrawn
from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.facts.errors import SinkError, StateIntegrityError, StorageError
from tidegate.protocol.facts.records import HandleKind, StateHandle
from tidegate.protocol.steps.sink_marks import is_whole

Trouble = Callable[[str], None]  # called at every effect with its name; may raise


@dataclass(eq=False)
class Table:
    """A sink: of changes, a log by checkpoint; of current rows, what the latest commit says. `told` are the checkpoints
    that it has ever committed, `whole` those which gave it all rows."""

    input: SinkInput
    trouble: Trouble
    staged: dict[str, list[Any]] = field(default_factory=dict)
    visible: dict[int, list[list[Any]]] = field(default_factory=dict)
    away: dict[int, list[list[Any]]] = field(default_factory=dict)
    told: set[int] = field(default_factory=set)
    whole: set[int] = field(default_factory=set)
    commits = SinkCommit.AFTER_THE_COMMIT

    def writer(self) -> None:
        return None

    def stage(self, checkpoint_id: int, name: str, rows: list[Any]) -> StateHandle:
        path = f"chk-{checkpoint_id}/{name}"
        self.trouble("stages")
        self.staged[path] = rows
        return StateHandle(path, HandleKind.STAGED, len(rows), len(rows), "", checkpoint_id)

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        self._fails("commits")
        rows = self._rows(staged)
        known = self.visible.setdefault(checkpoint_id, rows)
        assert known == rows, f"checkpoint {checkpoint_id} is committed with other rows the second time"
        self.told.add(checkpoint_id)
        self.whole |= {checkpoint_id} if is_whole(staged) else set()
        self.trouble("has committed")

    def rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        self._fails("rewinds")
        if self.input is SinkInput.CURRENT:
            self.visible = {checkpoint_id: self._rows(staged)} if staged else {}
        else:
            known = self.visible | self.away
            self.visible = {id_: rows for id_, rows in known.items() if id_ in branch}
            self.away = {id_: rows for id_, rows in known.items() if id_ not in branch}
        self.trouble("has rewound")

    def upserted(self) -> dict[Any, Any]:
        """Of upserts, what its rows come to."""
        come_to: dict[Any, Any] = {}
        for id_ in sorted(self.visible):
            rows = [row for file in self.visible[id_] for row in file]
            if id_ in self.whole:
                come_to.clear()
                rows = [row for row in rows if row[1] != 0]
            take_in(come_to, rows, f"checkpoint {id_}")
        return come_to

    def shown_outside(self, branch: Branch) -> list[Withdrawn]:
        return [Withdrawn(id_, 1, 1) for id_ in self.visible if id_ not in branch]

    def withdrawn(self) -> list[int]:
        return sorted(self.away)

    def delete_withdrawn(self, checkpoint_ids: Collection[int], attempt: CommitAttempt) -> None:
        for id_ in checkpoint_ids:
            self._fails("deletes withdrawn rows")
            self.away.pop(id_, None)

    def verify(self, staged: Sequence[StateHandle], in_full: Collection[str]) -> None:
        for handle in staged:
            if handle.path not in self.staged:
                raise StateIntegrityError(f"{handle.path} is gone")

    def staged_checkpoints(self) -> list[int]:
        return sorted({int(path.partition("/")[0].removeprefix("chk-")) for path in self.staged})

    def staged_paths(self, checkpoint_id: int) -> list[str]:
        return [path for path in self.staged if path.startswith(f"chk-{checkpoint_id}/")]

    def discard(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.staged.pop(path, None)

    def describe(self) -> dict[str, Any]:
        return {"type": "Table", "input": self.input.value}

    def _rows(self, staged: Sequence[StateHandle]) -> list[list[Any]]:
        gone = [handle.path for handle in staged if handle.path not in self.staged]
        require(not gone, f"something has deleted rows that were promised: {gone}")
        return [self.staged[handle.path] for handle in staged]

    def _fails(self, where: str) -> None:
        try:
            self.trouble(where)
        except StorageError as error:
            raise SinkError(str(error)) from error
