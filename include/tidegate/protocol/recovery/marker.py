"""The marker `_committed`: it says that a checkpoint has completed. Written as JSON and read back here, and nowhere
else.
"""

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
    """A checkpoint has completed. `sha256` is that of its `_metadata`, in hex. `restores` are the pipeline's when the
    marker was last written, which a restore to this checkpoint does too. `commit_attempt` is the newest attempt at
    committing sinks that was given out then."""

    pipeline_id: str
    checkpoint_id: int
    sha256: str
    completed_at: datetime
    restores: Sequence[Restore]
    commit_attempt: int


def marker_of(record: CheckpointRecord, content: bytes, restores: Sequence[Restore], commit_attempt: int) -> Marker:
    """The marker of a completed checkpoint; `content` is its `_metadata`. Performs no I/O."""
    assert record.completed_at is not None
    checksum = sha256(content).hexdigest()
    return Marker(
        record.pipeline_id, record.checkpoint_id, checksum, record.completed_at, tuple(restores), commit_attempt
    )


def marker_document(marker: Marker) -> dict[str, Any]:
    """The marker as JSON. Performs no I/O."""
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
    """What a file says that lies where the marker of this checkpoint should. Raises `MetadataError`. Performs no
    I/O."""
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
