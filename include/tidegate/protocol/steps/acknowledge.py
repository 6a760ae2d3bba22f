"""The acknowledge step: which reported snapshots count (protocol.md section 5.1)."""

from collections.abc import Mapping, Sequence

from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.names import STORAGE, staged_by
from tidegate.protocol.facts.records import (
    Acknowledgement,
    AcknowledgeResult,
    CheckpointRecord,
    Deletion,
    HandleKind,
    SubtaskId,
    SubtaskRecord,
)


def decide_acknowledgements(
    record: CheckpointRecord | None,
    expected: Mapping[SubtaskId, SubtaskRecord],
    acknowledgements: Sequence[Acknowledgement],
) -> list[AcknowledgeResult]:
    """Decide on each acknowledgement, in order. A report of an attempt that is not the subtask's current one is
    `UNKNOWN`: its driver was superseded, and its files may differ from its successor's. Performs no I/O.
    """
    results: list[AcknowledgeResult] = []
    counted = {subtask for subtask, known in expected.items() if known.acknowledged_at is not None}
    for acknowledgement in acknowledgements:
        known = expected.get(acknowledgement.subtask)
        if record is None or known is None:
            results.append(AcknowledgeResult.UNKNOWN)
        elif record.status is not Status.IN_PROGRESS:
            results.append(AcknowledgeResult.DISCARDED)
        elif acknowledgement.attempt != known.attempt:
            results.append(AcknowledgeResult.UNKNOWN)
        elif acknowledgement.subtask in counted:
            results.append(AcknowledgeResult.DUPLICATE)
        else:
            counted.add(acknowledgement.subtask)
            results.append(AcknowledgeResult.SUCCESS)
    return results


def garbage_of(
    checkpoint_id: int, acknowledgements: Sequence[Acknowledgement], results: Sequence[AcknowledgeResult]
) -> list[Deletion]:
    """Return the new files of acknowledgements that do not count. Files carried over from older checkpoints stay. So do
    the files of a duplicate, which belong to the first report."""
    unwanted = {AcknowledgeResult.UNKNOWN, AcknowledgeResult.DISCARDED}
    return [
        Deletion(owner_of(acknowledgement.subtask.operator_id, handle.kind), handle.path)
        for acknowledgement, result in zip(acknowledgements, results, strict=True)
        if result in unwanted
        for handle in acknowledgement.snapshot.handles
        if handle.created_by == checkpoint_id
    ]


def owner_of(operator_id: str, kind: HandleKind) -> str:
    """Return the owner of a file, which can delete it: the checkpoint storage, or the sink that staged it."""
    return staged_by(operator_id) if kind is HandleKind.STAGED else STORAGE
