"""The notify step: the completed checkpoints whose sinks must still commit (protocol.md section 16).

Complete(n) commits everything pending up to n, in order. It is repeated until it succeeds, after a crash and by the
next run. A sink is never notified of a checkpoint that did not complete.
"""

from collections.abc import Mapping, Sequence

from tidegate.protocol.facts.records import CheckpointRecord, HandleKind, StateHandle, SubtaskId, SubtaskRecord


def choose_unnotified(retained: Sequence[CheckpointRecord], up_to: int | None = None) -> list[CheckpointRecord]:
    """Choose completed checkpoints whose sinks have not all committed, oldest first, up to the id `up_to` if given.
    Retention keeps a checkpoint until they have, so none is missed. Performs no I/O."""
    return [
        record for record in retained if record.notified_at is None and (up_to is None or record.checkpoint_id <= up_to)
    ]


def committables(subtasks: Mapping[SubtaskId, SubtaskRecord], operator_id: str) -> tuple[StateHandle, ...]:
    """Return the files that a sink staged, in the order of its subtasks. Performs no I/O."""
    return tuple(
        handle
        for subtask in sorted(subtask for subtask in subtasks if subtask.operator_id == operator_id)
        for handle in subtasks[subtask].snapshot.handles
        if handle.kind is HandleKind.STAGED
    )
