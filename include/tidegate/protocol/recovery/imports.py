"""Imports: a restore from a savepoint's directory. This module decides on the places of its files, on its owner, and on
the lease of the copying process.

The files get the names that their new checkpoint would have given them. So from then on it is a checkpoint like any
other. If it is never recorded, its directory is swept like that of a failed checkpoint.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from tidegate.protocol.facts.branches import Restore, choose_withdrawn_for_good
from tidegate.protocol.facts.clocks import is_ahead
from tidegate.protocol.facts.errors import CopyInterruptedError, RestoreRefusedError
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.names import STORAGE, saved_at, staged_by
from tidegate.protocol.facts.paths import checkpoint_name, directory, operator_directory, write_prefix
from tidegate.protocol.facts.records import (
    CheckpointKind,
    CheckpointRecord,
    Deletion,
    HandleKind,
    Snapshot,
    StateHandle,
    SubtaskId,
)
from tidegate.protocol.recovery.canonical import MARKER, METADATA, STAGED_AS, FileCopy, Savepoint

#: A process that copies gives signs of life. After this time without one, its copies are deleted.
IMPORT_LEASE = timedelta(minutes=10)
KEEP_EVERY = timedelta(seconds=20)


class ClaimMode(StrEnum):
    """The owner of a savepoint's directory after a restore from it (protocol.md section 14)."""

    NO_CLAIM = "no-claim"  # its owner: the pipeline has a copy, and the directory is not touched
    CLAIM = "claim"  # the pipeline, which has a copy: the directory is emptied


@dataclass(frozen=True, slots=True)
class Imported:
    """The snapshots of the checkpoint that is recorded, and the files that must be copied for it."""

    snapshots: Mapping[SubtaskId, Snapshot]
    copies: Sequence[FileCopy]


def imported(savepoint: Savepoint, pipeline_id: str, checkpoint_id: int, restaged: Collection[str]) -> Imported:
    """Plan the import of a savepoint as `checkpoint_id`. `restaged` are the definition's sinks of current rows. Staged
    files of other sinks are not needed. Performs no I/O."""
    snapshots, copies = {}, dict[tuple[str, str], FileCopy]()
    for subtask, snapshot in savepoint.snapshots.items():
        handles = []
        for handle in snapshot.handles:
            staged = handle.kind is HandleKind.STAGED
            if staged and subtask.operator_id not in restaged:
                continue
            owner = staged_by(subtask.operator_id) if staged else STORAGE
            path = _path(pipeline_id, checkpoint_id, subtask, handle)
            copies[owner, path] = FileCopy(owner, handle, path)
            kept = {name: value for name, value in handle.details.items() if name != STAGED_AS}
            handles.append(replace(handle, path=path, created_by=checkpoint_id, details=kept))
        snapshots[subtask] = replace(snapshot, handles=tuple(handles))
    return Imported(snapshots, list(copies.values()))


def _path(pipeline_id: str, checkpoint_id: int, subtask: SubtaskId, handle: StateHandle) -> str:
    below = directory(pipeline_id, checkpoint_id)
    name = handle.path.rpartition("/")[2]
    if handle.kind is HandleKind.RUN:
        return f"{write_prefix(below, subtask, 1)}-{name}"
    if handle.kind is HandleKind.POSITION:
        return f"{operator_directory(below, subtask.operator_id)}/{name}"
    parts = str(handle.details[STAGED_AS]).split("/")
    before, after = checkpoint_name(handle.created_by), checkpoint_name(checkpoint_id)
    return "/".join(after if part == before else part for part in parts)


def recorded(
    taken: CheckpointRecord, pipeline_id: str, checkpoint_id: int, request_id: str, timeout: timedelta, now: datetime
) -> CheckpointRecord:
    """Return the record of a checkpoint that has the state of `taken` and adds no rows: validated, and about to
    complete. Performs no I/O."""
    return CheckpointRecord(
        pipeline_id=pipeline_id,
        checkpoint_id=checkpoint_id,
        request_id=request_id,
        periodic=False,
        kind=CheckpointKind.CHECKPOINT,
        status=Status.IN_PROGRESS,
        phase=Phase.VALIDATED,
        triggered_at=now,
        deadline=now + timeout,
        acknowledged_at=now,
        validated_at=now,
        num_subtasks=taken.num_subtasks,
        num_acknowledged=taken.num_subtasks,
        num_finished=taken.num_finished,
        operators=taken.operators,
    )


def choose_stale(imports: Mapping[int, datetime], now: datetime) -> list[int]:
    """Choose the imports in progress whose process is dead or hangs, by their last sign of life. Performs no I/O."""
    return [checkpoint_id for checkpoint_id, seen_at in imports.items() if now - seen_at > IMPORT_LEASE]


def choose_ahead(imports: Mapping[int, datetime], now: datetime) -> list[int]:
    """Choose the imports in progress whose last sign of life must be corrected to now (`clocks`). Performs no I/O."""
    return [checkpoint_id for checkpoint_id, seen_at in imports.items() if is_ahead(seen_at, IMPORT_LEASE, now)]


def files_in_order(location: str, paths: Sequence[str]) -> list[Deletion]:
    """Return the deletions of a savepoint's directory, first the marker, so that half of it is no savepoint. Performs
    no I/O."""
    return [Deletion(saved_at(location), path) for path in (MARKER, METADATA, *sorted(paths))]


def require_own(
    pipeline_id: str,
    where: str,
    savepoint: Savepoint,
    known: CheckpointRecord | None,
    last_checkpoint_id: int,
    restores: Sequence[Restore],
) -> None:
    """Check that the savepoint belongs to the pipeline's history. `known` is the checkpoint that this database has
    under the savepoint's number. `last_checkpoint_id` is 0 if it has none of the pipeline. Raises
    `RestoreRefusedError`. Performs no I/O."""
    taken = savepoint.metadata.record
    if taken.pipeline_id != pipeline_id:
        raise not_restored(
            pipeline_id,
            where,
            f"it is a savepoint of pipeline {taken.pipeline_id}. Restore that pipeline from it, or begin this one with "
            f"`tidegate fork {taken.pipeline_id} {pipeline_id} --from URL`",
        )
    if not last_checkpoint_id:
        return
    edited = savepoint.metadata.edited
    if edited is not None and edited.base is None:
        raise not_restored(
            pipeline_id,
            where,
            "it was made from nothing, for a pipeline that never ran, and this one has run. To change its state, edit "
            "one of its checkpoints (tidegate.savepoint.edit)",
        )
    before = savepoint.metadata.restores
    same_past = [_identity(each) for each in before] == [_identity(each) for each in restores[: len(before)]]
    same = known is None or (known.request_id, known.triggered_at) == (taken.request_id, taken.triggered_at)
    if taken.checkpoint_id > last_checkpoint_id or not same or not same_past:
        raise not_restored(
            pipeline_id,
            where,
            f"its checkpoint {taken.checkpoint_id} is of another history than the one in this database, from another "
            "project or another database. Restore it into an empty database (TIDEGATE_DATABASE_URL, `tidegate db "
            "upgrade`)",
        )


def require_rows_kept(
    pipeline_id: str,
    where: str,
    checkpoint_id: int,
    appended: Sequence[str],
    kept: Sequence[CheckpointRecord],
    restores: Sequence[Restore],
) -> None:
    """Check that the rows of appended tables still exist. A savepoint's directory does not have them, and they are
    deleted once no retained checkpoint follows their branch. A restore from a copy of the directory would then bring
    the branch back without them.

    `checkpoint_id` is the savepoint's. `appended` names the sinks that append rows and can be rewound. `kept` are the
    checkpoints that can be restored. Raises `RestoreRefusedError`. Performs no I/O.
    """
    if appended and choose_withdrawn_for_good([checkpoint_id], kept, restores):
        raise not_restored(
            pipeline_id,
            where,
            f"a restore has left its checkpoint {checkpoint_id} behind, and the rows that it had appended to "
            f"{', '.join(appended)} are deleted for good. Begin a pipeline with tables of its own with `tidegate fork "
            f"{pipeline_id} NEW --from {where}`",
        )


def _identity(restore: Restore) -> tuple[int, int, int, datetime]:
    return restore.number, restore.checkpoint_id, restore.last_checkpoint_id, restore.restored_at


def not_restored(pipeline_id: str, where: str, why: str) -> RestoreRefusedError:
    return RestoreRefusedError(
        f"Pipeline {pipeline_id} was not restored from {where}: {why.rstrip('.')}. Nothing was changed."
    )


def copy_interrupted(pipeline_id: str, purpose: str) -> CopyInterruptedError:
    """Return the error of a process that gave no sign of life for so long that its copies are being deleted. `purpose`
    names its goal, such as "restored from s3://…"."""
    return CopyInterruptedError(
        f"Pipeline {pipeline_id} was not {purpose}: copying stood still for too long, and the copies are deleted. "
        "Nothing was changed. Repeat the command."
    )
