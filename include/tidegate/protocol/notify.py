"""The notify step: whose sinks are still to be committed (protocol.md section 16).

Complete(n) commits everything pending up to n, in order, and is repeated until it holds: after a crash, and by the next
run. A checkpoint that did not complete is never told to a sink.
"""

from collections.abc import Mapping, Sequence

from tidegate.protocol.records import CheckpointRecord, HandleKind, StateHandle, SubtaskId, SubtaskRecord


def choose_unnotified(retained: Sequence[CheckpointRecord], up_to: int | None = None) -> list[CheckpointRecord]:
    """Completed checkpoints not yet told, oldest first, `up_to` an id if given. Retention keeps a checkpoint until it
    was told, so none is missed. Performs no I/O."""
    return [
        record for record in retained if record.notified_at is None and (up_to is None or record.checkpoint_id <= up_to)
    ]


def committables(subtasks: Mapping[SubtaskId, SubtaskRecord], operator_id: str) -> tuple[StateHandle, ...]:
    """What a sink staged, in the order of its subtasks. Performs no I/O."""
    return tuple(
        handle
        for subtask in sorted(subtask for subtask in subtasks if subtask.operator_id == operator_id)
        for handle in subtasks[subtask].snapshot.handles
        if handle.kind is HandleKind.STAGED
    )
