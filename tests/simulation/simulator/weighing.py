"""What a completed checkpoint's row says of its size, against the files that its subtasks refer to."""

from collections.abc import Mapping

from simulator.scheduler import require
from tidegate.protocol.facts.records import CheckpointRecord, HandleKind, SubtaskId, SubtaskRecord


def check_sizes(record: CheckpointRecord, subtasks: Mapping[SubtaskId, SubtaskRecord]) -> None:
    """Each file counts once, also if subtasks share it."""
    files: dict[tuple[str, str], int] = {}
    written: dict[tuple[str, str], int] = {}
    for subtask, known in subtasks.items():
        for handle in known.snapshot.handles:
            owner = subtask.operator_id if handle.kind is HandleKind.STAGED else "storage"
            files[owner, handle.path] = handle.bytes
            if handle.created_by == record.checkpoint_id:
                written[owner, handle.path] = handle.bytes
    found = record.state_size, record.checkpointed_size
    expected = sum(files.values()), sum(written.values())
    require(found == expected, f"checkpoint {record.checkpoint_id} has sizes {found}, its files {expected}")
