"""The finalize step: the files to verify before it, the sizes in the checkpoint's row, and whether its commit landed.
See `metadata` for the document that it writes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from zlib import crc32

from tidegate.protocol.facts.lifecycle import COMMITTED
from tidegate.protocol.facts.records import CheckpointRecord, HandleKind, Snapshot, StateHandle, SubtaskId

#: Files of older checkpoints that a checkpoint refers to are read again in full, in turns: on average `SAMPLE_BYTES` a
#: checkpoint, or one part in `SAMPLE_PART` of their bytes where that is more.
SAMPLE_BYTES = 8 << 20
SAMPLE_PART = 64

#: The files that a restore needs from checkpoint storage. Staged files lie elsewhere, and exchanged rows are used up.
_ON_STORAGE = (HandleKind.RUN, HandleKind.POSITION, HandleKind.CHANNEL)


def referred_files(snapshots: Iterable[Snapshot]) -> list[StateHandle]:
    """Return the files on checkpoint storage that a restore from these snapshots needs, each once.

    Performs no I/O.
    """
    handles = (handle for snapshot in snapshots for handle in snapshot.handles if handle.kind in _ON_STORAGE)
    return list({handle.path: handle for handle in handles}.values())


def choose_sample(checkpoint_id: int, files: Sequence[StateHandle]) -> set[str]:
    """Choose the files to read in full: those of older checkpoints in turns, or all of them if they have few bytes.

    The files of this checkpoint were read by their writer. Performs no I/O.
    """
    carried = [handle for handle in files if handle.created_by != checkpoint_id]
    total = sum(handle.bytes for handle in carried)
    turns = max(1, ceil(total / max(SAMPLE_BYTES, total / SAMPLE_PART)))
    return {handle.path for handle in carried if crc32(handle.path.encode()) % turns == checkpoint_id % turns}


def sizes(checkpoint_id: int, snapshots: Mapping[SubtaskId, Snapshot]) -> tuple[int, int]:
    """Return the state size (bytes of all files referred to) and the checkpointed size (bytes of those that this
    checkpoint wrote), see protocol.md section 19. A file counts once, however many subtasks share it: after a rescale
    each of them refers to the runs that overlap its key groups. Performs no I/O."""
    files = {
        (subtask.operator_id if handle.kind is HandleKind.STAGED else None, handle.path): handle
        for subtask, snapshot in snapshots.items()
        for handle in snapshot.handles
    }.values()
    return sum(file.bytes for file in files), sum(file.bytes for file in files if file.created_by == checkpoint_id)


@dataclass(frozen=True, slots=True)
class Landed:
    """The checkpoint is complete, whichever process completed it."""

    record: CheckpointRecord


@dataclass(frozen=True, slots=True)
class NotLanded:
    """The checkpoint is not complete. `now` is its present status, in words."""

    now: str


def decide_landing(record: CheckpointRecord | None) -> Landed | NotLanded:
    """Decide whether a commit of unknown outcome landed. `record` was read after no commit was in progress any more;
    None if there is no such checkpoint. Performs no I/O."""
    if record is None:
        return NotLanded("it does not exist")
    return Landed(record) if record.status in COMMITTED else NotLanded(record.status)
