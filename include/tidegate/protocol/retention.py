"""Which completed checkpoints give way to newer ones, and which files nothing refers to (protocol.md section 9)."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from tidegate.protocol.records import CheckpointRecord, Deletion

#: A superseded driver may go on writing for a while. Directories of ended checkpoints are looked through until then.
SWEEP_FOR = timedelta(hours=1)
#: How long a process that has looked through one leaves it alone, or cleaning would cost what an hour's checkpoints do.
SWEEP_EVERY = timedelta(minutes=5)


def choose_subsumed(retained: Sequence[CheckpointRecord], num_retained: int) -> list[int]:
    """The ids that go, from the oldest, until `num_retained` are left. The newest never goes, nor one whose sinks have
    not been committed yet: its staged rows are promised. `retained` is oldest first. Performs no I/O.
    """
    excess = len(retained) - max(num_retained, 1)
    candidates = [record.checkpoint_id for record in retained[:-1] if record.notified_at is not None]
    return candidates[: max(excess, 0)]


def choose_unreferenced(found: Iterable[Deletion], live: set[Deletion]) -> list[Deletion]:
    """Files that were found in the directories of an ended checkpoint and belong to nothing live. Performs no I/O."""
    return [deletion for deletion in found if deletion not in live]


def is_settled(ended_at: datetime, now: datetime) -> bool:
    """Whether the directories of a checkpoint that ended then need no further look. Performs no I/O."""
    return now - ended_at > SWEEP_FOR


def is_due(ended_at: datetime, last_look: datetime | None, now: datetime) -> bool:
    """Whether to look through the directories of a checkpoint that ended then (again) now. Performs no I/O."""
    return last_look is None or now - last_look > SWEEP_EVERY or is_settled(ended_at, now)
