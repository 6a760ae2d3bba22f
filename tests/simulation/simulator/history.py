"""Which checkpoint follows which, and what a plain execution had come to after each: what the observer remembers by
itself, so that it can go back with a pipeline that is restored. It asks none of the rules under test.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from simulator.sources import Row
from tidegate.protocol.facts.lifecycle import COMMITTED, Status
from tidegate.protocol.facts.records import CheckpointRecord, SubtaskId

if TYPE_CHECKING:
    from memory_state import PipelineState

Branch = frozenset[int]


@dataclass(frozen=True)
class Moment:
    """After a checkpoint had completed; 0 is before the first. `branch` is the checkpoint and all that it follows.
    `read` is what was read by then, by split: pieces
    and their versions."""

    checkpoint_id: int
    branch: Branch
    states: Mapping[str, Mapping[int, int]]
    outputs: Mapping[str, list[Row]]
    read: Mapping[SubtaskId, Mapping[int, int]]


@dataclass(frozen=True)
class Return:
    """A restore as it was seen. `newest` is the newest id there was, `left` where it could be undone to, `left_behind`
    what does not count any more."""

    number: int
    checkpoint_id: int
    newest: int
    left: int | None
    undoes: int | None
    at: datetime
    left_behind: frozenset[int]
    imported: int | None = None  # the checkpoint that was recorded with it


class History:
    """One simulated run's checkpoints and restores."""

    def __init__(self, start: Moment) -> None:
        self.now = start
        self.moments = {start.checkpoint_id: start}
        self.returns: list[Return] = []
        self.left_by: dict[int, Return] = {}  # checkpoints that are left behind now
        self.ever_left: set[int] = set()
        self.lost: dict[int, CheckpointRecord] = {}  # with a database

    def complete(
        self,
        checkpoint_id: int,
        states: Mapping[str, Mapping[int, int]],
        outputs: Mapping[str, list[Row]],
        read: Mapping[SubtaskId, Mapping[int, int]],
    ) -> None:
        """A checkpoint follows the present one."""
        branch = self.now.branch | {checkpoint_id}
        self.now = self.moments[checkpoint_id] = Moment(checkpoint_id, branch, states, outputs, read)

    def go_back(self, to: Return) -> None:
        self.returns.append(to)
        self.now = self.moments[to.checkpoint_id]
        if to.imported is not None:
            self.complete(to.imported, self.now.states, self.now.outputs, self.now.read)
        off = self.moments.keys() - self.now.branch - {0}
        self.left_by = {id_: self.left_by.get(id_, to) for id_ in off}
        self.ever_left |= off

    def is_imported(self, checkpoint_id: int) -> bool:
        return any(one.imported == checkpoint_id for one in self.returns)

    def started(self) -> tuple[Mapping[str, Mapping[int, int]], Mapping[str, list[Row]]]:
        """States and outputs of before the first checkpoint."""
        return self.moments[0].states, self.moments[0].outputs

    def forget(self, savepoint: int, lost: Mapping[int, CheckpointRecord]) -> None:
        """The database is lost. Only what the savepoint follows can be known again."""
        branch = self.moments[savepoint].branch
        self.now = self.moments[0]
        self.moments = {id_: moment for id_, moment in self.moments.items() if id_ in branch | {0}}
        self.returns = [one for one in self.returns if one.newest < savepoint]
        self.left_by = {}
        self.lost = {id_: record for id_, record in lost.items() if id_ in branch}

    def undoable(self, restores: int) -> Return | None:
        """Which one an undo was to undo when there had been so many."""
        known = self.returns[:restores]
        undone = {one.undoes for one in known}
        away = [one for one in known if one.left not in (None, one.checkpoint_id)]
        return next((one for one in reversed(away) if one.undoes is None and one.number not in undone), None)

    # -- as it was when the store held a state

    def latest_id(self, state: "PipelineState") -> int:
        """The newest checkpoint that had completed since the last restore, else the one that was restored."""
        last = self.returns[len(state.restores) - 1] if state.restores else None
        since = [
            id_
            for id_, record in state.checkpoints.items()
            if record.status in COMMITTED and (last is None or id_ > last.newest)
        ]
        return max(since, default=0 if last is None else last.checkpoint_id)

    def branch_in(self, state: "PipelineState") -> Branch:
        """What the pipeline had behind it."""
        return self.moments[self.latest_id(state)].branch

    def records_in(self, state: "PipelineState") -> list[CheckpointRecord]:
        """The same as far as that database knows it."""
        return [state.checkpoints[id_] for id_ in self.branch_in(state) if id_ in state.checkpoints]

    def answers_for(self, state: "PipelineState", request_id: str) -> list[int]:
        """The request's checkpoints that the pipeline had behind it: one at most."""
        return [record.checkpoint_id for record in self.records_in(state) if record.request_id == request_id]

    def latest_in(self, state: "PipelineState") -> CheckpointRecord | None:
        """The newest of those whose state was kept."""
        kept = [record for record in self.records_in(state) if record.status is Status.COMPLETED]
        return max(kept, key=lambda record: record.checkpoint_id, default=None)

    def last_success(self, state: "PipelineState") -> datetime | None:
        """When the newest one completed."""
        id_ = self.latest_id(state)
        return state.checkpoints[id_].completed_at if id_ else None


def is_rewinding(state: "PipelineState") -> bool:
    """Whether sinks may still show what was there before a restore."""
    return bool(state.restores) and state.restores[-1].rewound_at is None
