"""The history of a pipeline that was restored to an earlier checkpoint (protocol.md section 14).

Ids only grow. A restore goes on from an older checkpoint. The checkpoints after it, up to the newest id at that time,
are abandoned, and later ones follow the restored one. So the records of restores determine the history of every
checkpoint. An abandoned checkpoint can be restored in its turn, and then its own branch is the present again.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tidegate.protocol.facts.errors import (
    CheckpointAbandonedError,
    CheckpointNotFoundError,
    CheckpointNotRetainedError,
    NothingToUndoError,
)
from tidegate.protocol.facts.lifecycle import COMMITTED, Status
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord


@dataclass(frozen=True, slots=True)
class Restore:
    """The record of a restore of a pipeline to a checkpoint. `number` counts a pipeline's restores from 1.

    `last_checkpoint_id` is the newest id that was given out before. `previous_checkpoint_id` was the latest completed
    checkpoint then, None if nothing was retained. To undo the restore means to restore that one. `undoes` is the
    restore that this one undoes. At `rewound_at` all sinks showed the restored checkpoint. With
    `allows_non_restored_state`, the first checkpoint after it drops state that the definition has no operator for.
    `imported` is the checkpoint that was recorded with it from a savepoint's directory. It has the state of
    `checkpoint_id` and adds no rows, and the pipeline goes on from it.
    """

    number: int
    checkpoint_id: int
    last_checkpoint_id: int
    previous_checkpoint_id: int | None
    restored_at: datetime
    undoes: int | None = None
    rewound_at: datetime | None = None
    allows_non_restored_state: bool = False
    imported: int | None = None

    @property
    def goes_on_from(self) -> int:
        """The checkpoint whose state and staged files the pipeline has afterwards."""
        return self.checkpoint_id if self.imported is None else self.imported


@dataclass(frozen=True, slots=True)
class Branch:
    """A checkpoint and its history. Use `checkpoint_id in branch` to test an id.

    Attributes:
        spans: Ranges of ids, newest first, with both ends included. None is an open end.
    """

    spans: tuple[tuple[int, int | None], ...]

    def __contains__(self, checkpoint_id: int) -> bool:
        return any(first <= checkpoint_id and (last is None or checkpoint_id <= last) for first, last in self.spans)


def branch_of(checkpoint_id: int | None, restores: Sequence[Restore]) -> Branch:
    """Return the checkpoint's branch, or with None the present, which the next checkpoint follows. `restores` is oldest
    first. Performs no I/O."""
    spans: list[tuple[int, int | None]] = []
    last = checkpoint_id
    for restore in reversed(restores):
        if last is None or restore.last_checkpoint_id < last:  # else the checkpoint is older than the restore
            spans.append((restore.last_checkpoint_id + 1, last))
            last = restore.checkpoint_id
    return Branch((*spans, (1, last)))


def choose_off_branch(completed: Iterable[CheckpointRecord], present: Branch) -> list[int]:
    """Choose the completed checkpoints that the pipeline does not have behind it. Performs no I/O."""
    return [record.checkpoint_id for record in completed if record.checkpoint_id not in present]


def choose_overdue_abandoned(
    abandoned: Sequence[CheckpointRecord], restores: Sequence[Restore], keep: timedelta, now: datetime
) -> list[int]:
    """Choose the abandoned checkpoints that were kept for long enough to undo the restore. Savepoints are the user's
    and stay. Performs no I/O."""
    ends = undo_ends(abandoned, restores, keep)
    return [
        record.checkpoint_id
        for record in abandoned
        if record.kind is CheckpointKind.CHECKPOINT and ends[record.checkpoint_id] < now
    ]


def undo_ends(
    abandoned: Iterable[CheckpointRecord], restores: Sequence[Restore], keep: timedelta
) -> dict[int, datetime]:
    """Return the time until which each abandoned checkpoint is kept, so that the restore that left it behind can be
    undone. Performs no I/O."""
    ends = {restore.number: restore.restored_at + keep for restore in restores}
    return {record.checkpoint_id: ends[record.abandoned_by] for record in abandoned if record.abandoned_by is not None}


def choose_withdrawn_for_good(
    withdrawn: Iterable[int], completed: Iterable[CheckpointRecord], restores: Sequence[Restore]
) -> list[int]:
    """Choose the withdrawn checkpoints whose rows no restore can bring back: they belong neither to the present nor to
    the history of a checkpoint that can be restored. Performs no I/O."""
    branches = [branch_of(None, restores), *(branch_of(record.checkpoint_id, restores) for record in completed)]
    return [id_ for id_ in withdrawn if not any(id_ in branch for branch in branches)]


def drops_unmatched(latest: CheckpointRecord | None, restores: Sequence[Restore]) -> bool:
    """Whether the pipeline goes on from a restore with which the user has accepted that state without an operator in
    the definition is dropped. Performs no I/O."""
    return is_restored(latest, restores) and restores[-1].allows_non_restored_state


def is_restored(latest: CheckpointRecord | None, restores: Sequence[Restore]) -> bool:
    """Whether the pipeline goes on from the checkpoint of its newest restore. Performs no I/O."""
    return latest is not None and bool(restores) and restores[-1].goes_on_from == latest.checkpoint_id


def find_unfinished(restores: Sequence[Restore]) -> Restore | None:
    """Return the newest restore if not all of its sinks have been rewound. Older ones do not matter any more. Performs
    no I/O."""
    return restores[-1] if restores and restores[-1].rewound_at is None else None


def require_restorable(
    pipeline_id: str, checkpoint_id: int, record: CheckpointRecord | None, completed: Sequence[CheckpointRecord]
) -> CheckpointRecord:
    """Return the record if it is of a completed checkpoint whose state is still kept. `completed` are all such records.

    Raises `CheckpointNotFoundError`, `CheckpointNotRetainedError`. Performs no I/O.
    """
    if record is not None and record.status is Status.COMPLETED:
        return record
    others = ", ".join(str(other.checkpoint_id) for other in completed)
    offer = f"It can be restored to: {others}." if others else "It has none that can be restored."
    if record is None:
        raise CheckpointNotFoundError(
            f"Pipeline {pipeline_id} has no checkpoint {checkpoint_id} in this database. Nothing was changed. {offer}"
        )
    why = (
        "newer ones have replaced it, and its state is deleted (CheckpointConfig.retained says how many are kept; a "
        "savepoint is never replaced)"
        if record.status in COMMITTED
        else f"it is {record.status}, and only a completed one holds all of the state"
    )
    raise CheckpointNotRetainedError(
        f"Pipeline {pipeline_id} cannot be restored to checkpoint {checkpoint_id}: {why}. Nothing was changed. {offer}"
    )


def require_present(record: CheckpointRecord) -> None:
    """Raise `CheckpointAbandonedError` for a checkpoint that a restore has left behind. Performs no I/O."""
    if record.abandoned_by is not None:
        raise CheckpointAbandonedError(
            f"Checkpoint {record.checkpoint_id} of pipeline {record.pipeline_id} had completed, but the pipeline was "
            "restored to an earlier one since, so its rows are not shown. Nothing was changed. Run the pipeline again "
            "(in Airflow: clear the whole DAG run) to take a new checkpoint, or bring this one back with `tidegate "
            f"restore {record.pipeline_id} --checkpoint {record.checkpoint_id}`."
        )


def choose_undone(pipeline_id: str, restores: Sequence[Restore]) -> Restore:
    """Choose the newest restore that changed the present, is no undo, and was not undone. Raises `NothingToUndoError`.
    Performs no I/O."""
    undone: Collection[Any] = {restore.undoes for restore in restores}
    for restore in reversed(restores):
        led_away = restore.previous_checkpoint_id not in (None, restore.checkpoint_id)
        if led_away and restore.undoes is None and restore.number not in undone:
            return restore
    raise NothingToUndoError(
        f"Pipeline {pipeline_id} has no restore that could be undone: it was never restored, or each restore was "
        "undone already. A fork is no restore: there is nothing before it to go back to. Nothing was changed. To go on "
        f"from another checkpoint, run `tidegate restore {pipeline_id} --checkpoint ID`."
    )
