"""Overlapping checkpoints of a continuous run: which one is validated next, which one ends another, and which staged
files count (protocol.md sections 3, 6 and 16).

Checkpoints complete in the order of their ids. A sink of changes stages the rows since the latest completed checkpoint.
While older ones are in progress, it is unknown which one that will be. So the sink stages a version for each
possibility, and a checkpoint depends on the outcome of no other. `FOLLOWS` names the version of a file.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from tidegate.protocol.continuous.regions import LiveRegion, RegionRecord, decide_presence
from tidegate.protocol.facts.errors import EarlierSavepointError
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.records import (
    CheckpointKind,
    CheckpointRecord,
    CheckpointRequest,
    StateHandle,
    SubtaskId,
    SubtaskRecord,
)

#: The detail of a staged file of one version: the ids that the latest completed checkpoint may have, from the first to
#: below the second. None: up to the checkpoint's own.
FOLLOWS = "follows"

Subtasks = Mapping[SubtaskId, SubtaskRecord]


def concurrency(region: RegionRecord, max_concurrent: int, now: datetime) -> int:
    """Return the number of checkpoints that may be in progress. Only a continuous region can go on behind a barrier
    while the checkpoint waits for its verdict. A scheduled run starts from the state of the last one. Performs no
    I/O."""
    return max_concurrent if isinstance(decide_presence(region, now), LiveRegion) else 1


def is_forced(request: CheckpointRequest, region: RegionRecord, unaligned: bool, now: datetime) -> bool:
    """Whether a request starts regardless of the number of checkpoints in progress: a savepoint of a continuous run,
    unless barriers may overtake data. Performs no I/O."""
    is_savepoint = request.kind is not CheckpointKind.CHECKPOINT
    return is_savepoint and not unaligned and isinstance(decide_presence(region, now), LiveRegion)


def find_earlier_savepoint(checkpoint_id: int, in_progress: Sequence[CheckpointRecord]) -> CheckpointRecord | None:
    """Find a savepoint that this checkpoint waits for before it is validated. A savepoint cannot be subsumed, and it
    could not complete after a newer checkpoint. Performs no I/O."""
    earlier = (each for each in in_progress if each.checkpoint_id < checkpoint_id and _is_savepoint(each))
    return next(earlier, None)


def require_no_earlier_savepoint(record: CheckpointRecord, in_progress: Sequence[CheckpointRecord]) -> None:
    """Raise `EarlierSavepointError` if the checkpoint waits for a savepoint. Performs no I/O."""
    earlier = find_earlier_savepoint(record.checkpoint_id, in_progress)
    if earlier is not None:
        raise EarlierSavepointError(
            f"Checkpoint {record.checkpoint_id} of pipeline {record.pipeline_id} waits for savepoint "
            f"{earlier.checkpoint_id}, which is in progress ({earlier.phase}): checkpoints complete in their order, "
            "and a savepoint is never subsumed. Nothing was changed. Repeat the validate step once the savepoint has "
            "ended."
        )


def choose_to_complete(going: Sequence[CheckpointRecord]) -> CheckpointRecord | None:
    """Choose the checkpoint of a region to validate, finalize and notify next: one that is past its verdict, or else
    the newest that may be validated, because it has the rows of those before it. Performs no I/O."""
    ready = [each for each in going if each.status is not Status.IN_PROGRESS or each.phase is Phase.VALIDATED]
    if ready:
        completed = [each for each in ready if each.status is not Status.IN_PROGRESS]
        return min(completed, key=_id) if completed else max(ready, key=_id)
    waiting = [each for each in going if each.phase is Phase.ACKNOWLEDGED]
    return max((each for each in waiting if find_earlier_savepoint(_id(each), going) is None), key=_id, default=None)


def choose_overtaken(checkpoint_id: int, in_progress: Sequence[CheckpointRecord]) -> list[CheckpointRecord]:
    """Choose the checkpoints that one subsumes by completing: all older ones that are not savepoints. Performs no
    I/O."""
    return [each for each in in_progress if each.checkpoint_id < checkpoint_id and not _is_savepoint(each)]


def find_overtaking(checkpoint_id: int, in_progress: Sequence[CheckpointRecord]) -> CheckpointRecord | None:
    """Find the newest checkpoint with a verdict on the rows of this older one. If the older one completed now, other
    rows would become visible than those with the verdict. Performs no I/O."""
    newer = [each for each in in_progress if each.checkpoint_id > checkpoint_id and each.phase is Phase.VALIDATED]
    return max(newer, key=_id, default=None)


def follows_at_once(checkpoint_id: int, retained: Sequence[CheckpointRecord]) -> bool:
    """Whether the checkpoint with the number before this completed one has completed too, so that no older one can be
    in progress. Performs no I/O."""
    return any(each.checkpoint_id == checkpoint_id - 1 for each in retained)


def subsumed_message(pipeline_id: str, checkpoint_id: int) -> str:
    """Return the reason why a checkpoint is subsumed before it has completed. Performs no I/O."""
    return (
        f"A newer checkpoint of pipeline {pipeline_id} has the rows and the state of checkpoint {checkpoint_id} too, "
        "and was faster. Nothing is lost."
    )


def has_versions(subtasks: Subtasks) -> bool:
    """Whether the files that count depend on the latest completed checkpoint. Performs no I/O."""
    return any(FOLLOWS in handle.details for known in subtasks.values() for handle in known.snapshot.handles)


def find_unwanted(subtasks: Subtasks, latest: CheckpointRecord | None) -> list[tuple[SubtaskId, StateHandle]]:
    """Find the staged files of versions that would follow another checkpoint than this latest completed one. Performs
    no I/O."""
    completed = 0 if latest is None else latest.checkpoint_id
    return [
        (subtask, handle)
        for subtask, known in subtasks.items()
        for handle in known.snapshot.handles
        if FOLLOWS in handle.details and not _follows(handle, completed)
    ]


def _follows(handle: StateHandle, completed: int) -> bool:
    first, below = handle.details[FOLLOWS]
    return bool(first <= completed and (below is None or completed < below))


def wanted(subtasks: Subtasks, latest: CheckpointRecord | None) -> Subtasks:
    """Return the subtasks with the files that a checkpoint would make visible after this latest completed one: all but
    `find_unwanted`. Performs no I/O."""
    unwanted = {(subtask, handle.path) for subtask, handle in find_unwanted(subtasks, latest)}
    return {subtask: _without(known, unwanted) for subtask, known in subtasks.items()} if unwanted else subtasks


def _without(record: SubtaskRecord, unwanted: Collection[tuple[SubtaskId, str]]) -> SubtaskRecord:
    handles = tuple(handle for handle in record.snapshot.handles if (record.subtask, handle.path) not in unwanted)
    return replace(record, snapshot=replace(record.snapshot, handles=handles))


def _is_savepoint(record: CheckpointRecord) -> bool:
    return record.kind is not CheckpointKind.CHECKPOINT


def _id(record: CheckpointRecord) -> int:
    return record.checkpoint_id
