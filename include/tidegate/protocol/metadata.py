"""What `_metadata` and the marker `_committed` say of a checkpoint: written as JSON and read back here, and nowhere
else.

`_metadata` is written before the commit, the marker after it. Together they are enough to record the checkpoint again
when the database is lost (`recovered`), and anybody can read them (docs/state.md).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, TypeVar

from tidegate.protocol.branches import Restore
from tidegate.protocol.errors import MetadataError
from tidegate.protocol.handles import handle_for_readers, handle_from_readers
from tidegate.protocol.identity import Endpoint, Role
from tidegate.protocol.lifecycle import Phase, Status
from tidegate.protocol.names import Target
from tidegate.protocol.paths import marker_path, metadata_path
from tidegate.protocol.records import (
    OF_HOLD,
    CheckpointKind,
    CheckpointRecord,
    Decision,
    OperatorPlan,
    Snapshot,
    SubtaskId,
    SubtaskMetrics,
    SubtaskRecord,
    Verdict,
)

METADATA_FORMAT, METADATA_VERSION = "tidegate-checkpoint", 2
MARKER_FORMAT, MARKER_VERSION = "tidegate-committed", 1

_TIMES = ("triggered_at", "deadline", "acknowledged_at", "validated_at")
_OF_REQUEST = ("request_id", "periodic", "kind", "drain", "name", "note")
_OF_VERDICT = ("suite", "success", "evaluated", "failed", "error", "docs_path")

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class Edited:
    """Somebody has written this state: it is not what a checkpoint of the pipeline has found. `origin` says what it was
    made from, and `changes` what was changed, a phrase each. `base` is the checkpoint that was edited, None if it was
    made from nothing."""

    by: str
    at: datetime
    origin: str
    base: int | None
    changes: tuple[str, ...] = ()

    def __str__(self) -> str:
        how = "; ".join(self.changes) or "nothing but how it is kept"
        return f"Written by {self.by} on {self.at:%Y-%m-%d %H:%M:%S} UTC from {self.origin}. Changed: {how}."


@dataclass(frozen=True, slots=True)
class Metadata:
    """A checkpoint as it was when it was about to complete: nothing in it depends on who wrote it down, and when.

    `endpoints` and `restores` are the pipeline's; `region_attempt` is the newest that was given out. In `version` 1
    these were missing, and so was everything about requests, attempts and figures. `edited` if it is not what a
    checkpoint has found.
    """

    record: CheckpointRecord
    subtasks: Mapping[SubtaskId, SubtaskRecord]
    verdicts: Sequence[Verdict] = ()
    endpoints: Sequence[Endpoint] = ()
    restores: Sequence[Restore] = ()
    region_attempt: int = 0
    version: int = METADATA_VERSION
    edited: Edited | None = None


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


# -- written


def metadata_document(
    metadata: Metadata, vertices: Mapping[str, Mapping[str, Any]], options: Mapping[str, Any]
) -> dict[str, Any]:
    """`_metadata` as JSON. `vertices` describes sources and sinks (class, options, no secrets), `options` is the
    pipeline's `CheckpointConfig` as it was then; both are for readers. Performs no I/O."""
    record = metadata.record
    return {
        "format": METADATA_FORMAT,
        "version": METADATA_VERSION,
        "pipeline": record.pipeline_id,
        "checkpoint_id": record.checkpoint_id,
        **{name: getattr(record, name) for name in _OF_REQUEST},
        **{name: _written(getattr(record, name)) for name in _TIMES},
        "options": dict(options),
        "operators": [_operator(metadata, plan, vertices.get(plan.operator_id, {})) for plan in record.operators],
        "verdicts": [
            {"target": str(verdict.target)}
            | {name: getattr(verdict, name) for name in _OF_VERDICT}
            | {"results": [dict(result) for result in verdict.results]}
            for verdict in metadata.verdicts
        ],
        **({} if record.held_at is None else {"hold": _hold(record)}),
        "endpoints": [asdict(endpoint) for endpoint in sorted(metadata.endpoints, key=lambda each: each.key)],
        "restores": _restores(metadata.restores),
        "region_attempt": metadata.region_attempt,
        **({} if metadata.edited is None else {"edited": edited_document(metadata.edited)}),
    }


def _hold(record: CheckpointRecord) -> dict[str, Any]:
    """That it completed against a failed verdict, and who had decided so."""
    known = {name: getattr(record, name) for name in OF_HOLD}
    return {name: _written(value) if isinstance(value, datetime) else value for name, value in known.items()}


def edited_document(edited: Edited) -> dict[str, Any]:
    """As JSON. Performs no I/O."""
    return asdict(edited) | {"at": edited.at.isoformat(), "changes": list(edited.changes)}


def _operator(metadata: Metadata, plan: OperatorPlan, definition: Mapping[str, Any]) -> dict[str, Any]:
    known = [metadata.subtasks[SubtaskId(plan.operator_id, index)] for index in range(plan.parallelism)]
    return asdict(plan) | {"definition": dict(definition), "subtasks": [_subtask(subtask) for subtask in known]}


def _subtask(known: SubtaskRecord) -> dict[str, Any]:
    snapshot = known.snapshot
    return {
        "attempt": known.attempt,
        "acknowledged_at": _written(known.acknowledged_at),
        "finished": snapshot.finished,
        "position": None if snapshot.position is None else dict(snapshot.position),
        "handles": [handle_for_readers(handle) for handle in snapshot.handles],
        "metrics": asdict(known.metrics),
    }


def marker_document(marker: Marker) -> dict[str, Any]:
    """The marker as JSON. Performs no I/O."""
    return {
        "format": MARKER_FORMAT,
        "version": MARKER_VERSION,
        "pipeline": marker.pipeline_id,
        "checkpoint_id": marker.checkpoint_id,
        "sha256": marker.sha256,
        "completed_at": _written(marker.completed_at),
        "restores": _restores(marker.restores),
        "commit_attempt": marker.commit_attempt,
    }


def _restores(restores: Sequence[Restore]) -> list[dict[str, Any]]:
    times = ("restored_at", "rewound_at")
    return [asdict(restore) | {name: _written(getattr(restore, name)) for name in times} for restore in restores]


def _written(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


# -- read back


def read_metadata(pipeline_id: str, checkpoint_id: int, content: bytes) -> Metadata:
    """What a file says that lies where the `_metadata` of this checkpoint should. Raises `MetadataError`. Performs no
    I/O."""
    path = metadata_path(pipeline_id, checkpoint_id)
    document = _document(path, content, pipeline_id, checkpoint_id, METADATA_FORMAT, METADATA_VERSION)
    return explained(path, lambda: _first_version(document) if document["version"] == 1 else metadata_of(document))


def read_marker(pipeline_id: str, checkpoint_id: int, content: bytes) -> Marker:
    """The same for a marker."""
    path = marker_path(pipeline_id, checkpoint_id)
    document = _document(path, content, pipeline_id, checkpoint_id, MARKER_FORMAT, MARKER_VERSION)
    return explained(
        path,
        lambda: Marker(
            pipeline_id,
            checkpoint_id,
            document["sha256"],
            datetime.fromisoformat(document["completed_at"]),
            tuple(_restore(restore) for restore in document["restores"]),
            int(document["commit_attempt"]),
        ),
    )


def _document(
    path: str, content: bytes, pipeline_id: str, checkpoint_id: int, format_: str, newest: int
) -> dict[str, Any]:
    document = read_document(path, content, format_, newest)
    found = document.get("pipeline"), document.get("checkpoint_id")
    if found != (pipeline_id, checkpoint_id):
        raise MetadataError(f"{path} is of checkpoint {found[1]} of pipeline {found[0]}: it was copied to here.")
    return document


def read_document(path: str, content: bytes, format_: str, newest: int) -> dict[str, Any]:
    """The JSON object in a file of this format, of a version up to `newest`. Raises `MetadataError`. Performs no
    I/O."""
    try:
        document: Any = json.loads(content)
    except ValueError as error:
        raise MetadataError(f"{path} is not JSON, so it was cut off or overwritten: {error}.") from error
    if not isinstance(document, dict) or document.get("format") != format_:
        raise MetadataError(f"{path} is not of the format {format_!r}, so it is not Tidegate's.")
    version = document.get("version")
    if not isinstance(version, int) or version < 1:
        raise MetadataError(f"{path} is damaged: its version is {version!r}.")
    if version > newest:
        raise MetadataError(
            f"{path} has version {version} of its format, and this release reads versions up to {newest}: a newer "
            "release of Tidegate wrote it. Use that one."
        )
    return document


def explained(path: str, read: Callable[[], Read]) -> Read:
    """What is read of a document. Raises `MetadataError` if a part of it is missing or of another kind."""
    try:
        return read()
    except KeyError as error:
        raise MetadataError(f"{path} is damaged: {error} is missing.") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise MetadataError(f"{path} is damaged: {error}.") from error


def metadata_of(document: Mapping[str, Any]) -> Metadata:
    """What `metadata_document` wrote. Raises what a damaged document leads to: see `explained`. Performs no I/O."""
    subtasks = {
        SubtaskId(operator["operator_id"], index): SubtaskRecord(
            SubtaskId(operator["operator_id"], index),
            int(known["attempt"]),
            datetime.fromisoformat(known["acknowledged_at"]),
            _snapshot(known),
            SubtaskMetrics(**known["metrics"]),
        )
        for operator in document["operators"]
        for index, known in enumerate(operator["subtasks"])
    }
    times = {name: datetime.fromisoformat(document[name]) for name in _TIMES}
    request = {name: document[name] for name in _OF_REQUEST} | {"kind": CheckpointKind(document["kind"])}
    return Metadata(
        _record(document, subtasks, **request, **times, **_held(document.get("hold"))),
        subtasks,
        [
            Verdict(
                target=Target.parse(verdict["target"]),
                results=tuple(verdict["results"]),
                **{name: verdict[name] for name in _OF_VERDICT},
            )
            for verdict in document["verdicts"]
        ],
        [Endpoint(**endpoint | {"role": Role(endpoint["role"])}) for endpoint in document["endpoints"]],
        [_restore(restore) for restore in document["restores"]],
        int(document["region_attempt"]),
        edited=_edited(document["edited"]) if "edited" in document else None,
    )


def _held(hold: Mapping[str, Any] | None) -> dict[str, Any]:
    if hold is None:
        return {}
    times = {name: datetime.fromisoformat(hold[name]) for name in OF_HOLD if name.endswith(("_at", "_until"))}
    return {**{name: hold[name] for name in OF_HOLD}, **times, "decision": Decision(hold["decision"])}


def _edited(edited: Mapping[str, Any]) -> Edited:
    return Edited(**{**edited, "at": datetime.fromisoformat(edited["at"]), "changes": tuple(edited["changes"])})


def _first_version(document: Mapping[str, Any]) -> Metadata:
    """It knew state and positions. Of the rest, what would otherwise be missing is made up."""
    at = datetime.fromisoformat(document["finalized_at"])
    triggered_at = datetime.fromisoformat(document["triggered_at"])
    subtasks = {
        SubtaskId(operator["operator_id"], index): SubtaskRecord(
            SubtaskId(operator["operator_id"], index), 1, at, _snapshot(known)
        )
        for operator in document["operators"]
        for index, known in enumerate(operator["subtasks"])
    }
    record = _record(
        document,
        subtasks,
        request_id=f"recovered:{document['checkpoint_id']}",
        periodic=False,
        triggered_at=triggered_at,
        deadline=max(at, triggered_at),
        acknowledged_at=at,
        validated_at=at,
    )
    verdicts = [
        Verdict(Target.parse(each["target"]), each["suite"], bool(each["success"]), 0, 0)
        for each in document["verdicts"]
    ]
    return Metadata(record, subtasks, verdicts, version=1)


def _record(document: Mapping[str, Any], subtasks: Mapping[SubtaskId, SubtaskRecord], **known: Any) -> CheckpointRecord:
    plans = tuple(
        OperatorPlan(operator["operator_id"], operator["parallelism"], operator["max_parallelism"])
        for operator in document["operators"]
    )
    if len(subtasks) != sum(plan.parallelism for plan in plans) or not subtasks:
        raise ValueError("an operator does not have as many subtasks as its parallelism says")
    return CheckpointRecord(
        pipeline_id=document["pipeline"],
        checkpoint_id=document["checkpoint_id"],
        status=Status.IN_PROGRESS,
        phase=Phase.VALIDATED,
        num_subtasks=len(subtasks),
        num_acknowledged=len(subtasks),
        num_finished=sum(known.snapshot.finished for known in subtasks.values()),
        operators=plans,
        **known,
    )


def _snapshot(known: Mapping[str, Any]) -> Snapshot:
    handles = tuple(handle_from_readers(handle) for handle in known["handles"])
    return Snapshot(handles, known["position"], bool(known["finished"]))


def _restore(restore: Mapping[str, Any]) -> Restore:
    times = {
        name: None if restore[name] is None else datetime.fromisoformat(restore[name])
        for name in ("restored_at", "rewound_at")
    }
    return Restore(**{**restore, **times})
