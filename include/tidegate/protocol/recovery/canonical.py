"""A canonical savepoint: a directory that is complete in itself. This module plans, writes and reads its documents.

    _metadata                          JSON: the checkpoint, as in its own `_metadata`, with paths below the directory
    _savepoint                         JSON: the marker, written last, with the checksum of `_metadata`
    state/<operator>/<subtask>.parquet           the subtask's state as one run
    positions/<operator>/<file>                  a file of a source split's position
    staged/<operator>/<subtask>-<number>.parquet the rows of a sink of current rows

Without the marker the directory is no savepoint. Each file's checksum is in `_metadata`, and that of `_metadata` in the
marker. Repeated writes use the same names. See `imports` for the restore of a pipeline from it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import Any

from tidegate.protocol.facts.errors import MetadataError
from tidegate.protocol.facts.keygroups import KeyGroupRange, key_groups_of
from tidegate.protocol.facts.names import STORAGE, staged_by
from tidegate.protocol.facts.paths import checkpoint_name
from tidegate.protocol.facts.records import HandleKind, OperatorPlan, Snapshot, StateHandle, SubtaskId
from tidegate.protocol.recovery.metadata import Metadata, metadata_document, metadata_of
from tidegate.protocol.recovery.stored_documents import explained, read_document

SAVEPOINT_FORMAT, SAVEPOINT_VERSION = "tidegate-savepoint", 1
COMPLETE_FORMAT, COMPLETE_VERSION = "tidegate-savepoint-complete", 1
METADATA, MARKER = "_metadata", "_savepoint"
#: The directories below that of a savepoint. Nothing else in it is Tidegate's.
PARTS = STATE, POSITIONS, STAGED = "state", "positions", "staged"
#: In the details of a staged file: its path below the sink's root.
STAGED_AS = "staged_as"

Snapshots = Mapping[SubtaskId, Snapshot]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """All runs of a subtask, oldest first, to be merged into one at `path`, which lacks its ending `.parquet`. `former`
    is the max parallelism of the runs, if it differs."""

    subtask: SubtaskId
    key_groups: KeyGroupRange
    max_parallelism: int
    runs: tuple[StateHandle, ...]
    path: str
    former: int | None = None


@dataclass(frozen=True, slots=True)
class FileCopy:
    """A file to be copied to `path`. Its `owner` is the checkpoint storage or a sink."""

    owner: str
    handle: StateHandle
    path: str


@dataclass(frozen=True, slots=True)
class Complete:
    """The marker of a complete savepoint. `sha256` is the checksum of its `_metadata`, in hex. `bytes` is the size of
    all its files without the two documents. The checkpoint completed at `completed_at`."""

    pipeline_id: str
    checkpoint_id: int
    sha256: str
    completed_at: datetime
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Savepoint:
    """The content of a directory. Paths of handles are relative to it."""

    metadata: Metadata
    marker: Complete

    @property
    def checkpoint_id(self) -> int:
        return self.metadata.record.checkpoint_id

    @property
    def snapshots(self) -> dict[SubtaskId, Snapshot]:
        return {subtask: known.snapshot for subtask, known in self.metadata.subtasks.items()}

    @property
    def files(self) -> list[StateHandle]:
        return files_of(self.snapshots)


def files_of(snapshots: Snapshots) -> list[StateHandle]:
    """Return every file once: splits may share the files of their positions."""
    handles = (handle for snapshot in snapshots.values() for handle in snapshot.handles)
    return list({handle.path: handle for handle in handles}.values())


# -- written


def plan_export(
    operators: Sequence[OperatorPlan], snapshots: Snapshots, restaged: Collection[str]
) -> tuple[list[Rewrite], list[FileCopy]]:
    """Plan the files to write for a checkpoint. `restaged` are the sinks of current rows. Performs no I/O."""
    rewrites, copies = [], dict[str, FileCopy]()
    for subtask, plan in _subtasks(operators):
        handles = snapshots.get(subtask, Snapshot()).handles
        rewrite = rewrite_of(subtask, plan, handles)
        rewrites += [rewrite] if rewrite.runs else []
        for owner, handle, path in _copied(subtask, handles, restaged):
            copies[path] = FileCopy(owner, handle, path)
    return rewrites, list(copies.values())


def rewrite_of(subtask: SubtaskId, plan: OperatorPlan, handles: Sequence[StateHandle]) -> Rewrite:
    """Return the plan for writing the state of a subtask. Performs no I/O."""
    runs = tuple(handle for handle in handles if handle.kind is HandleKind.RUN)
    groups = key_groups_of(subtask.subtask_index, plan.parallelism, plan.max_parallelism)
    return Rewrite(subtask, groups, plan.max_parallelism, runs, _state_path(subtask))


def exported(
    operators: Sequence[OperatorPlan],
    snapshots: Snapshots,
    restaged: Collection[str],
    rewritten: Mapping[SubtaskId, StateHandle],
) -> dict[SubtaskId, Snapshot]:
    """Return the snapshots of the directory, once everything of the plan is written. Performs no I/O."""
    result = {}
    for subtask, _ in _subtasks(operators):
        snapshot = snapshots.get(subtask, Snapshot())
        state = [rewritten[subtask]] if subtask in rewritten else []
        copied = [
            replace(handle, path=path, details=_details(handle))
            for _, handle, path in _copied(subtask, snapshot.handles, restaged)
        ]
        result[subtask] = replace(snapshot, handles=(*state, *copied))
    return result


def _subtasks(operators: Sequence[OperatorPlan]) -> list[tuple[SubtaskId, OperatorPlan]]:
    return [(SubtaskId(plan.operator_id, index), plan) for plan in operators for index in range(plan.parallelism)]


def _state_path(subtask: SubtaskId) -> str:
    return f"{STATE}/{subtask.operator_id}/{subtask.subtask_index}"


def _copied(
    subtask: SubtaskId, handles: Iterable[StateHandle], restaged: Collection[str]
) -> list[tuple[str, StateHandle, str]]:
    """Return the owner, the file, and its path below the directory. Savepoints are aligned: no rows are in flight."""
    copied, staged = [], 0
    for handle in handles:
        if handle.kind is HandleKind.POSITION:
            name = f"{handle.created_by}-{handle.path.rpartition('/')[2]}"
            copied.append((STORAGE, handle, f"{POSITIONS}/{subtask.operator_id}/{name}"))
        elif handle.kind is HandleKind.STAGED and subtask.operator_id in restaged:
            path = f"{STAGED}/{subtask.operator_id}/{subtask.subtask_index}-{staged}.parquet"
            copied.append((staged_by(subtask.operator_id), handle, path))
            staged += 1
    return copied


def _details(handle: StateHandle) -> Mapping[str, Any]:
    staged = handle.kind is HandleKind.STAGED
    return {**handle.details, STAGED_AS: handle.path} if staged else handle.details


def savepoint_document(
    metadata: Metadata, vertices: Mapping[str, Mapping[str, Any]], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the `_metadata` of the directory as JSON. `metadata` has the snapshots of `exported`. See
    `metadata_document`."""
    document = metadata_document(metadata, vertices, options)
    return document | {"format": SAVEPOINT_FORMAT, "version": SAVEPOINT_VERSION}


def complete(metadata: Metadata, content: bytes) -> Complete:
    """Make the marker. `content` is `_metadata`. Performs no I/O."""
    record = metadata.record
    assert record.completed_at is not None
    files = files_of({subtask: known.snapshot for subtask, known in metadata.subtasks.items()})
    checksum, size = sha256(content).hexdigest(), sum(handle.bytes for handle in files)
    return Complete(record.pipeline_id, record.checkpoint_id, checksum, record.completed_at, len(files), size)


def complete_document(marker: Complete) -> dict[str, Any]:
    """Return the marker as JSON. Performs no I/O."""
    return {
        "format": COMPLETE_FORMAT,
        "version": COMPLETE_VERSION,
        "pipeline": marker.pipeline_id,
        "checkpoint_id": marker.checkpoint_id,
        "sha256": marker.sha256,
        "completed_at": marker.completed_at.isoformat(),
        "files": marker.files,
        "bytes": marker.bytes,
    }


# -- read back


def read_complete(content: bytes) -> Complete:
    """Read the marker. Raises `MetadataError`. Performs no I/O."""
    document = read_document(MARKER, content, COMPLETE_FORMAT, COMPLETE_VERSION)
    return explained(
        MARKER,
        lambda: Complete(
            str(document["pipeline"]),
            int(document["checkpoint_id"]),
            str(document["sha256"]),
            datetime.fromisoformat(document["completed_at"]),
            int(document["files"]),
            int(document["bytes"]),
        ),
    )


def read_savepoint(marker: Complete, content: bytes) -> Savepoint:
    """Read the savepoint from the `content` of its `_metadata`. Raises `MetadataError` if the marker has another
    checksum, or if a file is named that no savepoint has. Performs no I/O."""
    document = read_document(METADATA, content, SAVEPOINT_FORMAT, SAVEPOINT_VERSION)
    checksum = sha256(content).hexdigest()
    if checksum != marker.sha256:
        raise MetadataError(
            f"{METADATA} differs from the written one: its SHA-256 is {checksum}, and the marker {MARKER} has "
            f"{marker.sha256}."
        )
    savepoint = Savepoint(explained(METADATA, lambda: metadata_of(document)), marker)
    record = savepoint.metadata.record
    if (record.pipeline_id, record.checkpoint_id) != (marker.pipeline_id, marker.checkpoint_id):
        raise MetadataError(f"{METADATA} and {MARKER} are of different savepoints.")
    for subtask, snapshot in savepoint.snapshots.items():
        for handle in snapshot.handles:
            if not _is_legal(record.checkpoint_id, subtask, handle):
                raise MetadataError(f"{METADATA} is damaged: {handle.path!r} is no file of {subtask} of a savepoint.")
    return savepoint


_KINDS = {HandleKind.RUN: STATE, HandleKind.POSITION: POSITIONS, HandleKind.STAGED: STAGED}


def _is_legal(checkpoint_id: int, subtask: SubtaskId, handle: StateHandle) -> bool:
    where = f"{_KINDS.get(handle.kind)}/{subtask.operator_id}"
    directory, _, name = handle.path.rpartition("/")
    legal = _is_plain(handle.path) and name and 1 <= handle.created_by <= checkpoint_id
    if handle.kind is not HandleKind.STAGED:
        return bool(legal) and directory == where
    staged_as = str(handle.details.get(STAGED_AS, ""))
    below = handle.path.startswith(f"{where}/")
    return bool(legal) and below and _is_plain(staged_as) and checkpoint_name(handle.created_by) in staged_as.split("/")


def _is_plain(path: str) -> bool:
    return not any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in path.split("/"))
