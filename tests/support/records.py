"""Builders of protocol records for tests: everything defaulted, nothing hidden."""

from datetime import UTC, datetime, timedelta
from typing import Any

from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.records import (
    Acknowledgement,
    CheckpointRecord,
    HandleKind,
    OperatorPlan,
    Snapshot,
    StateHandle,
    SubtaskId,
    SubtaskRecord,
)
from tidegate.protocol.observing.actions import Actor, ActorKind

T0 = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)

#: A person who asks for something.
SOMEBODY = Actor(ActorKind.CLI_USER, "amy", "laptop")


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def record(checkpoint_id: int = 1, **changes: Any) -> CheckpointRecord:
    fields: dict[str, Any] = {
        "pipeline_id": "p",
        "checkpoint_id": checkpoint_id,
        "request_id": f"r{checkpoint_id}",
        "periodic": True,
        "status": Status.IN_PROGRESS,
        "phase": Phase.TRIGGERED,
        "triggered_at": T0,
        "deadline": at(600),
        "num_subtasks": 2,
        "operators": (OperatorPlan("op", 2, 128),),
    }
    return CheckpointRecord(**(fields | changes))


def completed(checkpoint_id: int = 1, **changes: Any) -> CheckpointRecord:
    fields: dict[str, Any] = {
        "status": Status.COMPLETED,
        "phase": Phase.VALIDATED,
        "num_acknowledged": 2,
        "acknowledged_at": at(1),
        "validated_at": at(2),
        "completed_at": at(3),
        "notified_at": at(4),
        "metadata_path": f"p/chk-{checkpoint_id}/_metadata",
    }
    return record(checkpoint_id, **(fields | changes))


def run_handle(path: str, created_by: int, **changes: Any) -> StateHandle:
    fields: dict[str, Any] = {
        "path": path,
        "kind": HandleKind.RUN,
        "rows": 10,
        "bytes": 100,
        "checksum": "0" * 64,
        "created_by": created_by,
    }
    return StateHandle(**(fields | changes))


def subtask(index: int = 0, attempt: int = 1, acknowledged: bool = False, **changes: Any) -> SubtaskRecord:
    return SubtaskRecord(SubtaskId("op", index), attempt, at(1) if acknowledged else None, **changes)


def acknowledgement(index: int = 0, attempt: int = 1, *handles: StateHandle, operator: str = "op") -> Acknowledgement:
    return Acknowledgement(SubtaskId(operator, index), attempt, Snapshot(handles))
