"""Convert rows to records and back, without any access to the database."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import RowMapping

from tidegate.postgres.tables import METRICS
from tidegate.protocol.continuous.regions import RegionRecord
from tidegate.protocol.facts.branches import Restore
from tidegate.protocol.facts.keygroups import KeyGroupRange
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.pipelines import PipelineRecord, PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import (
    CheckpointKind,
    CheckpointRecord,
    CheckpointRequest,
    CompactedRun,
    Decision,
    HandleKind,
    OperatorPlan,
    Snapshot,
    StateHandle,
    SubtaskId,
    SubtaskMetrics,
    SubtaskRecord,
    Verdict,
)
from tidegate.protocol.recovery.skipping import LostRows, SourceSkip
from tidegate.protocol.steps.committing import CommitterRecord
from tidegate.protocol.text.storable import storable_json, storable_text


def checkpoint_values(record: CheckpointRecord) -> dict[str, Any]:
    """Return the columns of a checkpoint's row."""
    return {
        **{name: getattr(record, name) for name in record.__slots__},
        "status": record.status.value,
        "phase": record.phase.value,
        "operators": [asdict(operator) for operator in record.operators],
        "committed_sinks": list(record.committed_sinks),
        "failure_reason": record.failure_reason.name if record.failure_reason else None,
        "kind": record.kind.value,
        "note": readable(record.note),
        "decision": record.decision.value if record.decision else None,
    }


def checkpoint_record(row: RowMapping) -> CheckpointRecord:
    values = {name: row[name] for name in CheckpointRecord.__slots__}
    for name in _CHECKPOINT_TIMES:
        values[name] = _utc(values[name])
    values["status"] = Status(row["status"])
    values["phase"] = Phase(row["phase"])
    values["kind"] = CheckpointKind(row["kind"])
    values["committed_sinks"] = tuple(row["committed_sinks"])
    values["operators"] = tuple(OperatorPlan(**operator) for operator in row["operators"])
    values["decision"] = Decision(row["decision"]) if row["decision"] else None
    values["failure_reason"] = FailureReason[row["failure_reason"]] if row["failure_reason"] else None
    return CheckpointRecord(**values)


_CHECKPOINT_TIMES = (
    "triggered_at",
    "deadline",
    "acknowledged_at",
    "validated_at",
    "completed_at",
    "failed_at",
    "notified_at",
    "exported_at",
    "held_at",
    "held_until",
    "decided_at",
)


def pipeline_record(row: Mapping[str, Any] | RowMapping) -> PipelineRecord:
    return PipelineRecord(
        row["pipeline_id"],
        PipelineStatus(row["status"]),
        _utc(row["since"]),
        row["message"],
        row["forgiven_until"],
        _utc(row["stale_since"]),
    )


def region_values(region: RegionRecord) -> dict[str, Any]:
    """Return the columns of a pipeline's row about its region."""
    return {f"region_{name}": getattr(region, name) for name in region.__slots__}


def region_record(row: Mapping[str, Any] | RowMapping) -> RegionRecord:
    return RegionRecord(
        row["region_attempt"],
        _utc(row["region_started_at"]),
        _utc(row["region_seen_at"]),
        _utc(row["region_ended_at"]),
        row["region_swept"],
    )


def committer_values(committer: CommitterRecord) -> dict[str, Any]:
    """Return the columns of a pipeline's row about its commit attempts."""
    return {
        "commit_attempt": committer.attempt,
        "committer_seen_at": committer.seen_at,
        "commit_problem": committer.problem,
    }


def committer_record(row: Mapping[str, Any] | RowMapping) -> CommitterRecord:
    return CommitterRecord(row["commit_attempt"], _utc(row["committer_seen_at"]), row["commit_problem"])


def request_values(request: CheckpointRequest) -> dict[str, Any]:
    """Return the columns of a request's row."""
    return {
        **asdict(request),
        "kind": request.kind.value,
        "dropped": request.dropped.name if request.dropped else None,
        "dropped_message": readable(request.dropped_message),
        "note": readable(request.note),
    }


def request_record(row: Mapping[str, Any] | RowMapping) -> CheckpointRequest:
    values = {name: row[name] for name in CheckpointRequest.__slots__}
    values |= {
        "kind": CheckpointKind(row["kind"]),
        "dropped": FailureReason[row["dropped"]] if row["dropped"] else None,
    }
    values |= {"asked_at": _utc(row["asked_at"]), "seen_at": _utc(row["seen_at"])}
    return CheckpointRequest(**values)


def restore_values(restore: Restore) -> dict[str, Any]:
    """Return the columns of a restore's row."""
    return asdict(restore)


def restore_record(row: Mapping[str, Any] | RowMapping) -> Restore:
    values = {name: row[name] for name in Restore.__slots__}
    return Restore(**values | {name: _utc(row[name]) for name in ("restored_at", "rewound_at")})


def skip_record(row: Mapping[str, Any]) -> SourceSkip:
    return SourceSkip(
        row["source"],
        row["checkpoint_id"],
        SubtaskId(row["operator_id"], row["subtask_index"]),
        row["position"],
        tuple(LostRows(**rows) for rows in row["lost"]),
        row["skipped_at"].astimezone(UTC),
    )


def skip_values(skip: SourceSkip) -> dict[str, Any]:
    return {
        "source": skip.source,
        "checkpoint_id": skip.checkpoint_id,
        "operator_id": skip.subtask.operator_id,
        "subtask_index": skip.subtask.subtask_index,
        "position": dict(skip.position),
        "lost": [asdict(rows) for rows in skip.lost],
        "skipped_at": skip.skipped_at,
    }


def subtask_records(
    subtasks: Iterable[Sequence[Any]], handles: Iterable[Sequence[Any]]
) -> dict[SubtaskId, SubtaskRecord]:
    """Return one record per subtask, from rows with `SUBTASK_COLUMNS`. The handles, in order, are those of acknowledged
    subtasks, with the subtask and the ordinal before `HANDLE_COLUMNS`. Rows are unpacked by position, because there
    may be 100,000 of them."""
    held: dict[tuple[str, int], list[StateHandle]] = defaultdict(list)
    for operator_id, index, _, *handle in handles:
        held[operator_id, index].append(handle_record(*handle))
    records = {}
    for operator_id, index, attempt, acknowledged_at, position, finished, *metrics in subtasks:
        subtask = SubtaskId(operator_id, index)
        acknowledged = acknowledged_at is not None
        records[subtask] = SubtaskRecord(
            subtask=subtask,
            attempt=attempt,
            acknowledged_at=_utc(acknowledged_at),
            snapshot=Snapshot(tuple(held.get((operator_id, index), ())), position, finished)
            if acknowledged
            else Snapshot(),
            metrics=SubtaskMetrics(*metrics),
        )
    return records


IDENTITY_COLUMNS = ("operator_id", "subtask_index")
SUBTASK_COLUMNS = (*IDENTITY_COLUMNS, "attempt", "acknowledged_at", "position", "finished", *METRICS)
# A handle has columns rather than the JSON of `protocol.facts.handles`, because the database works with them: it
# derives the owner, checks sizes and key groups, and finds files by their paths. The conversions in both directions are
# here.
HANDLE_COLUMNS = (
    *("path", "kind", "rows", "bytes", "checksum", "created_by"),
    *("first_key_group", "last_key_group", "details"),
)


def handle_record(
    path: str,
    kind: str,
    rows: int,
    bytes_: int,
    checksum: str,
    created_by: int,
    first_key_group: int | None,
    last_key_group: int | None,
    details: Mapping[str, Any],
) -> StateHandle:
    """Return a handle from values in the order of `HANDLE_COLUMNS`."""
    groups = None
    if first_key_group is not None and last_key_group is not None:
        groups = KeyGroupRange(first_key_group, last_key_group)
    return StateHandle(path, HandleKind(kind), rows, bytes_, checksum, created_by, groups, details)


def handle_row(handle: StateHandle) -> tuple[Any, ...]:
    """Return a handle's values, in the order of `HANDLE_COLUMNS`."""
    groups = handle.key_groups
    return (
        handle.path,
        handle.kind.value,
        handle.rows,
        handle.bytes,
        handle.checksum,
        handle.created_by,
        None if groups is None else groups.first,
        None if groups is None else groups.last,
        dict(handle.details),
    )


def verdict_values(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    return [
        {
            "ordinal": ordinal,
            **{name: getattr(verdict, name) for name in verdict.__slots__},
            "target": str(verdict.target),
            "results": storable_json(verdict.results),
            "error": readable(verdict.error),
        }
        for ordinal, verdict in enumerate(verdicts)
    ]


def verdict_record(row: Mapping[str, Any] | RowMapping) -> Verdict:
    values: Mapping[str, Any] = {name: row[name] for name in Verdict.__slots__}
    return Verdict(**{**values, "target": Target.parse(row["target"]), "results": tuple(row["results"])})


def readable(text: str | None) -> str | None:
    """Return text for readers, without characters that the database cannot store."""
    return None if text is None else storable_text(text)


def compaction_values(compaction: CompactedRun) -> dict[str, Any]:
    return {
        "operator_id": compaction.subtask.operator_id,
        "subtask_index": compaction.subtask.subtask_index,
        **dict(zip(HANDLE_COLUMNS, handle_row(compaction.handle), strict=True)),
        "replaces": list(compaction.replaces),
    }


def compaction_record(row: RowMapping) -> CompactedRun:
    return CompactedRun(
        subtask=SubtaskId(row["operator_id"], row["subtask_index"]),
        handle=handle_record(*(row[name] for name in HANDLE_COLUMNS)),
        replaces=tuple(row["replaces"]),
    )


def _utc(at: datetime | None) -> datetime | None:
    return None if at is None else at.astimezone(UTC)
