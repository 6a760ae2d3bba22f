"""The document `_metadata` of a checkpoint. It is written as JSON and read back here, and nowhere else.

It is written before the commit, the marker (`marker.py`) after it. Together they are enough to record the checkpoint
again when the database is lost (`lost_database`). Other programs can read them too (docs/reference/state-format.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from tidegate.protocol.facts.branches import Restore
from tidegate.protocol.facts.handles import handle_for_readers, handle_from_readers
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.paths import metadata_path
from tidegate.protocol.facts.records import (
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
from tidegate.protocol.recovery.identity import Endpoint, Role
from tidegate.protocol.recovery.stored_documents import (
    explained,
    read_document_of,
    read_restore,
    written_restores,
    written_time,
)

METADATA_FORMAT, METADATA_VERSION = "tidegate-checkpoint", 1

_TIMES = ("triggered_at", "deadline", "acknowledged_at", "validated_at")
_OF_REQUEST = ("request_id", "periodic", "kind", "drain", "name", "note")
_CARRIED = ("carried_from", "basis")
_OF_VERDICT = ("suite", "success", "evaluated", "failed", "error", "docs_path")


@dataclass(frozen=True, slots=True)
class Edited:
    """The origin of state that a user has written, instead of a checkpoint of the pipeline. `origin` names the
    original, and `changes` are the changes, a phrase for each. `base` is the edited checkpoint, None if there was no
    original."""

    by: str
    at: datetime
    origin: str
    base: int | None
    changes: tuple[str, ...] = ()

    def __str__(self) -> str:
        how = "; ".join(self.changes) or "nothing but its layout"
        return f"Written by {self.by} on {self.at:%Y-%m-%d %H:%M:%S} UTC from {self.origin}. Changed: {how}."


@dataclass(frozen=True, slots=True)
class Metadata:
    """The description of a checkpoint that is about to complete. It does not depend on its writer or the time.

    `endpoints` and `restores` are the pipeline's. `region_attempt` is the newest that was given out. `edited` is set if
    a user has written the state. `definition` is the fingerprint of the definition that a checkpoint completed with.
    """

    record: CheckpointRecord
    subtasks: Mapping[SubtaskId, SubtaskRecord]
    verdicts: Sequence[Verdict] = ()
    endpoints: Sequence[Endpoint] = ()
    restores: Sequence[Restore] = ()
    region_attempt: int = 0
    edited: Edited | None = None
    definition: str | None = None


# -- written


def metadata_document(
    metadata: Metadata, vertices: Mapping[str, Mapping[str, Any]], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return `_metadata` as JSON. `vertices` describes sources and sinks (class, options, no secrets), and `options` is
    the pipeline's `CheckpointConfig` at that time. Both are for readers. Performs no I/O."""
    record = metadata.record
    return {
        "format": METADATA_FORMAT,
        "version": METADATA_VERSION,
        "pipeline": record.pipeline_id,
        "checkpoint_id": record.checkpoint_id,
        **{name: getattr(record, name) for name in _OF_REQUEST},
        **{name: written_time(getattr(record, name)) for name in _TIMES},
        "options": dict(options),
        "operators": [_operator(metadata, plan, vertices.get(plan.operator_id, {})) for plan in record.operators],
        "verdicts": [
            {"target": str(verdict.target)}
            | {name: getattr(verdict, name) for name in _OF_VERDICT}
            | {name: value for name in _CARRIED if (value := getattr(verdict, name)) is not None}
            | {"results": [dict(result) for result in verdict.results]}
            for verdict in metadata.verdicts
        ],
        **({} if record.held_at is None else {"hold": _hold(record)}),
        "endpoints": [asdict(endpoint) for endpoint in sorted(metadata.endpoints, key=lambda each: each.key)],
        "restores": written_restores(metadata.restores),
        "region_attempt": metadata.region_attempt,
        **({} if metadata.edited is None else {"edited": edited_document(metadata.edited)}),
        **({} if metadata.definition is None else {"definition": metadata.definition}),
    }


def _hold(record: CheckpointRecord) -> dict[str, Any]:
    """Return the hold of a checkpoint that completed against a failed verdict, and its manual approval."""
    fields = {name: getattr(record, name) for name in OF_HOLD}
    return {name: written_time(value) if isinstance(value, datetime) else value for name, value in fields.items()}


def edited_document(edited: Edited) -> dict[str, Any]:
    """Return the origin as JSON. Performs no I/O."""
    return asdict(edited) | {"at": edited.at.isoformat(), "changes": list(edited.changes)}


def _operator(metadata: Metadata, plan: OperatorPlan, definition: Mapping[str, Any]) -> dict[str, Any]:
    subtasks = [metadata.subtasks[SubtaskId(plan.operator_id, index)] for index in range(plan.parallelism)]
    return asdict(plan) | {"definition": dict(definition), "subtasks": [_subtask(subtask) for subtask in subtasks]}


def _subtask(record: SubtaskRecord) -> dict[str, Any]:
    snapshot = record.snapshot
    return {
        "attempt": record.attempt,
        "acknowledged_at": written_time(record.acknowledged_at),
        "finished": snapshot.finished,
        "position": None if snapshot.position is None else dict(snapshot.position),
        "handles": [handle_for_readers(handle) for handle in snapshot.handles],
        "metrics": asdict(record.metrics),
    }


# -- read back


def read_metadata(pipeline_id: str, checkpoint_id: int, content: bytes) -> Metadata:
    """Read the `_metadata` of this checkpoint from the content of its file. Raises `MetadataError`. Performs no I/O."""
    path = metadata_path(pipeline_id, checkpoint_id)
    document = read_document_of(path, content, pipeline_id, checkpoint_id, METADATA_FORMAT, METADATA_VERSION)
    return explained(path, lambda: metadata_of(document))


def metadata_of(document: Mapping[str, Any]) -> Metadata:
    """Read the JSON that `metadata_document` wrote. Raises the errors of a damaged document (see `explained`). Performs
    no I/O."""
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
                **{name: verdict.get(name) for name in _CARRIED},
                **{name: verdict[name] for name in _OF_VERDICT},
            )
            for verdict in document["verdicts"]
        ],
        [Endpoint(**endpoint | {"role": Role(endpoint["role"])}) for endpoint in document["endpoints"]],
        [read_restore(restore) for restore in document["restores"]],
        int(document["region_attempt"]),
        edited=_edited(document["edited"]) if "edited" in document else None,
        definition=document.get("definition"),
    )


def _held(hold: Mapping[str, Any] | None) -> dict[str, Any]:
    if hold is None:
        return {}
    times = {name: datetime.fromisoformat(hold[name]) for name in OF_HOLD if name.endswith(("_at", "_until"))}
    return {**{name: hold[name] for name in OF_HOLD}, **times, "decision": Decision(hold["decision"])}


def _edited(edited: Mapping[str, Any]) -> Edited:
    return Edited(**{**edited, "at": datetime.fromisoformat(edited["at"]), "changes": tuple(edited["changes"])})


def _record(document: Mapping[str, Any], subtasks: Mapping[SubtaskId, SubtaskRecord], **known: Any) -> CheckpointRecord:
    plans = tuple(
        OperatorPlan(operator["operator_id"], operator["parallelism"], operator["max_parallelism"])
        for operator in document["operators"]
    )
    if len(subtasks) != sum(plan.parallelism for plan in plans) or not subtasks:
        raise ValueError("the number of an operator's subtasks differs from its parallelism")
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


def _snapshot(subtask: Mapping[str, Any]) -> Snapshot:
    handles = tuple(handle_from_readers(handle) for handle in subtask["handles"])
    return Snapshot(handles, subtask["position"], bool(subtask["finished"]))
