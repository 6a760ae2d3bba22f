"""Checkpoints of a continuous run that overlap: which is judged next, which ends another, and which of its staged files
count (protocol.md sections 3, 6 and 16).

Checkpoints complete in the order of their ids. A sink of changes stages what came since the latest completed
checkpoint. While older ones are in progress nobody knows yet which that will be, so it stages a version for each that
it may be: whatever becomes of the others, a checkpoint can do without them. `FOLLOWS` says which version a file is of.
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

#: The detail of a staged file that is of one version: the ids that the latest completed checkpoint may have, from the
#: first to below the second. None: up to the checkpoint's own.
FOLLOWS = "follows"

Subtasks = Mapping[SubtaskId, SubtaskRecord]


def concurrency(region: RegionRecord, max_concurrent: int, now: datetime) -> int:
    """How many checkpoints may be in progress. Only a continuous region can go on behind a barrier while the checkpoint
    waits for its verdict: a scheduled run starts from the state of the last one. Performs no I/O."""
    return max_concurrent if isinstance(decide_presence(region, now), LiveRegion) else 1


def is_forced(request: CheckpointRequest, region: RegionRecord, unaligned: bool, now: datetime) -> bool:
    """Whether a request starts however many checkpoints are in progress: a savepoint of a continuous run, unless
    barriers may overtake data. Performs no I/O."""
    is_savepoint = request.kind is not CheckpointKind.CHECKPOINT
    return is_savepoint and not unaligned and isinstance(decide_presence(region, now), LiveRegion)


def find_earlier_savepoint(checkpoint_id: int, in_progress: Sequence[CheckpointRecord]) -> CheckpointRecord | None:
    """A savepoint that this checkpoint waits for before it is judged: it cannot be subsumed, and nothing completes
    after a newer one. Performs no I/O."""
    earlier = (each for each in in_progress if each.checkpoint_id < checkpoint_id and _is_savepoint(each))
    return next(earlier, None)


def require_no_earlier_savepoint(record: CheckpointRecord, in_progress: Sequence[CheckpointRecord]) -> None:
    """Raises `EarlierSavepointError`. Performs no I/O."""
    earlier = find_earlier_savepoint(record.checkpoint_id, in_progress)
    if earlier is not None:
        raise EarlierSavepointError(
            f"Checkpoint {record.checkpoint_id} of pipeline {record.pipeline_id} waits for savepoint "
            f"{earlier.checkpoint_id}, which is in progress ({earlier.phase}): checkpoints complete in their order, "
            "and a savepoint is never subsumed. Nothing was changed. Repeat the validate step once the savepoint has "
            "ended."
        )


def choose_to_complete(going: Sequence[CheckpointRecord]) -> CheckpointRecord | None:
    """Of the checkpoints that a region takes part in, the one to validate, finalize and notify next: one that is past
    its verdict, or else the newest that may be judged, because it has the rows of those before it. Performs no I/O."""
    ready = [each for each in going if each.status is not Status.IN_PROGRESS or each.phase is Phase.VALIDATED]
    if ready:
        completed = [each for each in ready if each.status is not Status.IN_PROGRESS]
        return min(completed, key=_id) if completed else max(ready, key=_id)
    waiting = [each for each in going if each.phase is Phase.ACKNOWLEDGED]
    return max((each for each in waiting if find_earlier_savepoint(_id(each), going) is None), key=_id, default=None)


def choose_overtaken(checkpoint_id: int, in_progress: Sequence[CheckpointRecord]) -> list[CheckpointRecord]:
    """The checkpoints that one subsumes by completing: all older ones that are not savepoints. Performs no I/O."""
    return [each for each in in_progress if each.checkpoint_id < checkpoint_id and not _is_savepoint(each)]


def find_overtaking(checkpoint_id: int, in_progress: Sequence[CheckpointRecord]) -> CheckpointRecord | None:
    """The newest checkpoint with a verdict on the rows of this older one. If the older one completed now, the verdict
    would be on other rows than become visible. Performs no I/O."""
    newer = [each for each in in_progress if each.checkpoint_id > checkpoint_id and each.phase is Phase.VALIDATED]
    return max(newer, key=_id, default=None)


def follows_at_once(checkpoint_id: int, retained: Sequence[CheckpointRecord]) -> bool:
    """Whether the number before a completed checkpoint's is of one that has completed too, so that none in between, and
    none before that, can be in progress. Performs no I/O."""
    return any(each.checkpoint_id == checkpoint_id - 1 for each in retained)


def subsumed_message(pipeline_id: str, checkpoint_id: int) -> str:
    """Why a checkpoint ends before it has completed. Performs no I/O."""
    return (
        f"A newer checkpoint of pipeline {pipeline_id} has the rows and the state of checkpoint {checkpoint_id} too, "
        "and was faster. Nothing is lost."
    )


def has_versions(subtasks: Subtasks) -> bool:
    """Whether what counts depends on which checkpoint is the latest completed one. Performs no I/O."""
    return any(FOLLOWS in handle.details for known in subtasks.values() for handle in known.snapshot.handles)


def find_unwanted(subtasks: Subtasks, latest: CheckpointRecord | None) -> list[tuple[SubtaskId, StateHandle]]:
    """The staged files of versions that would follow another checkpoint than this latest completed one. Performs no
    I/O."""
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
    """What a checkpoint would make visible after this latest completed one: all but `find_unwanted`. Performs no
    I/O."""
    unwanted = {(subtask, handle.path) for subtask, handle in find_unwanted(subtasks, latest)}
    return {subtask: _without(known, unwanted) for subtask, known in subtasks.items()} if unwanted else subtasks


def _without(known: SubtaskRecord, unwanted: Collection[tuple[SubtaskId, str]]) -> SubtaskRecord:
    handles = tuple(handle for handle in known.snapshot.handles if (known.subtask, handle.path) not in unwanted)
    return replace(known, snapshot=replace(known.snapshot, handles=handles))


def _is_savepoint(record: CheckpointRecord) -> bool:
    return record.kind is not CheckpointKind.CHECKPOINT


def _id(record: CheckpointRecord) -> int:
    return record.checkpoint_id
