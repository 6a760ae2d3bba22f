"""The finalize step: the document that makes a checkpoint readable on its own, and the sizes its row shows."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from tidegate.protocol.records import CheckpointRecord, Snapshot, StateHandle, SubtaskId, SubtaskRecord, Verdict

METADATA_FORMAT = "tidegate-checkpoint"
METADATA_VERSION = 1


def metadata_path(pipeline_id: str, checkpoint_id: int) -> str:
    return f"{directory(pipeline_id, checkpoint_id)}/_metadata"


def directory(pipeline_id: str, checkpoint_id: int) -> str:
    """Where a checkpoint writes, relative to the checkpoint storage."""
    return f"{pipeline_id}/chk-{checkpoint_id}"


def metadata_document(
    record: CheckpointRecord,
    subtasks: Mapping[SubtaskId, SubtaskRecord],
    verdicts: Sequence[Verdict],
    vertices: Mapping[str, Mapping[str, Any]],
    options: Mapping[str, Any],
    at: datetime,
) -> dict[str, Any]:
    """Everything a restore needs, as JSON: per operator its parallelism and per subtask position and handles.

    `vertices` describes sources and sinks (class, options, no secrets), `options` are the pipeline's `CheckpointConfig` as
    it held. Performs no I/O.
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
            {"target": verdict.target, "suite": verdict.suite, "success": verdict.success} for verdict in verdicts
        ],
    }


def _snapshot(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "finished": snapshot.finished,
        "position": None if snapshot.position is None else dict(snapshot.position),
        "handles": [_handle(handle) for handle in snapshot.handles],
    }


def _handle(handle: StateHandle) -> dict[str, Any]:
    groups = handle.key_groups
    return {
        "path": handle.path,
        "kind": handle.kind.value,
        "rows": handle.rows,
        "bytes": handle.bytes,
        "sha256": handle.checksum,
        "created_by": handle.created_by,
        "key_groups": None if groups is None else [groups.first, groups.last],
        "details": dict(handle.details),
    }


def sizes(checkpoint_id: int, snapshots: Sequence[Snapshot]) -> tuple[int, int]:
    """State size (all bytes referenced) and checkpointed size (bytes this checkpoint wrote), protocol.md section 19."""
    return (
        sum(snapshot.state_size() for snapshot in snapshots),
        sum(snapshot.checkpointed_size(checkpoint_id) for snapshot in snapshots),
    )
