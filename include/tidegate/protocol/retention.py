"""Which completed checkpoints are subsumed, and which files nothing refers to (protocol.md section 9)."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from tidegate.protocol.names import STORAGE
from tidegate.protocol.paths import marked_by
from tidegate.protocol.records import CheckpointKind, CheckpointRecord, Deletion

#: A superseded driver may go on writing for a while. Directories of ended checkpoints are looked through until then.
SWEEP_FOR = timedelta(hours=1)
#: How long a process leaves a directory alone after a look. Otherwise every cleaning would list those of an hour.
SWEEP_EVERY = timedelta(minutes=5)


def choose_subsumed(retained: Sequence[CheckpointRecord], num_retained: int) -> list[int]:
    """The ids to subsume, from the oldest, until `num_retained` are left. The newest is never subsumed, nor one whose
    sinks have not committed yet: its staged rows are still to be made visible. Savepoints belong to the user: they are
    neither subsumed nor counted. `retained` is oldest first. Performs no I/O.
    """
    ours = [record for record in retained if record.kind is CheckpointKind.CHECKPOINT]
    excess = len(ours) - max(num_retained, 1)
    newest = retained[-1:]
    candidates = [r.checkpoint_id for r in ours if r not in newest and r.notified_at is not None]
    return candidates[: max(excess, 0)]


def choose_subsumed_on_cancellation(retained: Sequence[CheckpointRecord], keep: bool) -> list[int]:
    """The ids to subsume when the pipeline is cancelled; none if the user retains them (`keep`). Performs no I/O."""
    return [] if keep else [r.checkpoint_id for r in retained if r.kind is CheckpointKind.CHECKPOINT]


def choose_unreferenced(found: Iterable[Deletion], live: set[Deletion]) -> list[Deletion]:
    """Files found in the directories of an ended checkpoint that nothing live refers to. A marker lives as long as the
    metadata that it marks. Performs no I/O."""
    return [deletion for deletion in found if live.isdisjoint((deletion, _marked(deletion)))]


def _marked(deletion: Deletion) -> Deletion | None:
    path = marked_by(deletion.path) if deletion.owner == STORAGE else None
    return None if path is None else Deletion(STORAGE, path)


def is_settled(ended_at: datetime, now: datetime) -> bool:
    """Whether the directories of a checkpoint that ended then need no further look. Performs no I/O."""
    return now - ended_at > SWEEP_FOR


def is_due(ended_at: datetime, last_look: datetime | None, now: datetime) -> bool:
    """Whether to look through the directories of a checkpoint that ended then (again) now. Performs no I/O."""
    return last_look is None or now - last_look > SWEEP_EVERY or is_settled(ended_at, now)
