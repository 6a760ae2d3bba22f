"""The marker `_committed` of a completed checkpoint. It is written as JSON and read back here, and nowhere else."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from tidegate.protocol.facts.branches import Restore
from tidegate.protocol.facts.paths import marker_path
from tidegate.protocol.facts.records import CheckpointRecord
from tidegate.protocol.recovery.stored_documents import (
    explained,
    read_document_of,
    read_restore,
    written_restores,
    written_time,
)

MARKER_FORMAT, MARKER_VERSION = "tidegate-committed", 1


@dataclass(frozen=True, slots=True)
class Marker:
    """The marker of a completed checkpoint. `sha256` is the checksum of its `_metadata`, in hex. `restores` and
    `commit_attempt` are the pipeline's restores and its newest attempt at committing sinks when the marker was last
    written. A restore to this checkpoint writes it again."""

    pipeline_id: str
    checkpoint_id: int
    sha256: str
    completed_at: datetime
    restores: Sequence[Restore]
    commit_attempt: int


def marker_of(record: CheckpointRecord, content: bytes, restores: Sequence[Restore], commit_attempt: int) -> Marker:
    """Make the marker of a completed checkpoint. `content` is its `_metadata`. Performs no I/O."""
    assert record.completed_at is not None
    checksum = sha256(content).hexdigest()
    return Marker(
        record.pipeline_id, record.checkpoint_id, checksum, record.completed_at, tuple(restores), commit_attempt
    )


def marker_document(marker: Marker) -> dict[str, Any]:
    """Return the marker as JSON. Performs no I/O."""
    return {
        "format": MARKER_FORMAT,
        "version": MARKER_VERSION,
        "pipeline": marker.pipeline_id,
        "checkpoint_id": marker.checkpoint_id,
        "sha256": marker.sha256,
        "completed_at": written_time(marker.completed_at),
        "restores": written_restores(marker.restores),
        "commit_attempt": marker.commit_attempt,
    }


def read_marker(pipeline_id: str, checkpoint_id: int, content: bytes) -> Marker:
    """Read the marker of this checkpoint from the content of its file. Raises `MetadataError`. Performs no I/O."""
    path = marker_path(pipeline_id, checkpoint_id)
    document = read_document_of(path, content, pipeline_id, checkpoint_id, MARKER_FORMAT, MARKER_VERSION)
    return explained(
        path,
        lambda: Marker(
            pipeline_id,
            checkpoint_id,
            document["sha256"],
            datetime.fromisoformat(document["completed_at"]),
            tuple(read_restore(restore) for restore in document["restores"]),
            int(document["commit_attempt"]),
        ),
    )
