"""The finalize step: which files are verified before it, the document that makes a checkpoint readable on its own, the
sizes in its row, and whether its commit landed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import Any
from zlib import crc32

from tidegate.protocol.handles import handle_for_readers
from tidegate.protocol.lifecycle import COMMITTED
from tidegate.protocol.records import (
    CheckpointRecord,
    HandleKind,
    Snapshot,
    StateHandle,
    SubtaskId,
    SubtaskRecord,
    Verdict,
)

METADATA_FORMAT = "tidegate-checkpoint"
METADATA_VERSION = 1


#: Files of older checkpoints that a checkpoint refers to are read again in full, in turns: on average `SAMPLE_BYTES` a
#: checkpoint, or one part in `SAMPLE_PART` of their bytes where that is more.
SAMPLE_BYTES = 8 << 20
SAMPLE_PART = 64

#: What a restore needs from checkpoint storage. Staged files lie elsewhere, and exchanged rows are used up.
_ON_STORAGE = (HandleKind.RUN, HandleKind.POSITION, HandleKind.CHANNEL)


def referred_files(snapshots: Iterable[Snapshot]) -> list[StateHandle]:
    """The files on checkpoint storage that a restore from these snapshots needs, each once.

    Performs no I/O.
    """
    handles = (handle for snapshot in snapshots for handle in snapshot.handles if handle.kind in _ON_STORAGE)
    return list({handle.path: handle for handle in handles}.values())


def choose_sample(checkpoint_id: int, files: Sequence[StateHandle]) -> set[str]:
    """Which files to read in full: those of older checkpoints in turns, or all of them if they have few bytes.

    What this checkpoint wrote was read by its writer. Performs no I/O.
    """
    carried = [handle for handle in files if handle.created_by != checkpoint_id]
    total = sum(handle.bytes for handle in carried)
    turns = max(1, ceil(total / max(SAMPLE_BYTES, total / SAMPLE_PART)))
    return {handle.path for handle in carried if crc32(handle.path.encode()) % turns == checkpoint_id % turns}


def metadata_document(
    record: CheckpointRecord,
    subtasks: Mapping[SubtaskId, SubtaskRecord],
    verdicts: Sequence[Verdict],
    vertices: Mapping[str, Mapping[str, Any]],
    options: Mapping[str, Any],
    at: datetime,
) -> dict[str, Any]:
    """Everything a restore needs, as JSON: per operator its parallelism and per subtask position and handles.

    `vertices` describes sources and sinks (class, options, no secrets), `options` is the pipeline's `CheckpointConfig`
    as it was then. Performs no I/O.
    """
    return {
        "format": METADATA_FORMAT,
        "version": METADATA_VERSION,
        "pipeline": record.pipeline_id,
        "checkpoint_id": record.checkpoint_id,
        "triggered_at": record.triggered_at.isoformat(),
        "finalized_at": at.isoformat(),
        "options": dict(options),
        "operators": [
            {
                "operator_id": plan.operator_id,
                "parallelism": plan.parallelism,
                "max_parallelism": plan.max_parallelism,
                "definition": dict(vertices.get(plan.operator_id, {})),
                "subtasks": [
                    _snapshot(subtasks[SubtaskId(plan.operator_id, index)].snapshot)
                    for index in range(plan.parallelism)
                ],
            }
            for plan in record.operators
        ],
        "verdicts": [
            {"target": str(verdict.target), "suite": verdict.suite, "success": verdict.success} for verdict in verdicts
        ],
    }


def _snapshot(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "finished": snapshot.finished,
        "position": None if snapshot.position is None else dict(snapshot.position),
        "handles": [handle_for_readers(handle) for handle in snapshot.handles],
    }


def sizes(checkpoint_id: int, snapshots: Sequence[Snapshot]) -> tuple[int, int]:
    """State size (all bytes referenced) and checkpointed size (bytes this checkpoint wrote), protocol.md section 19."""
    return (
        sum(snapshot.state_size() for snapshot in snapshots),
        sum(snapshot.checkpointed_size(checkpoint_id) for snapshot in snapshots),
    )


@dataclass(frozen=True, slots=True)
class Landed:
    """The checkpoint is complete, whichever process completed it."""

    record: CheckpointRecord


@dataclass(frozen=True, slots=True)
class NotLanded:
    """It is not, and `now` says what it is."""

    now: str


def decide_landing(record: CheckpointRecord | None) -> Landed | NotLanded:
    """`record` as it is once no commit is under way any more; None if there is no such checkpoint. Performs no I/O."""
    if record is None:
        return NotLanded("it is not there")
    return Landed(record) if record.status in COMMITTED else NotLanded(record.status)
