"""The keyed state of one operator at one checkpoint, for readers: the checkpoints that have it, and its files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidegate.protocol.facts.errors import CheckpointNotFoundError, CheckpointNotRetainedError, OperatorNotFoundError
from tidegate.protocol.facts.handles import handle_from_json, handle_to_json
from tidegate.protocol.facts.lifecycle import COMMITTED
from tidegate.protocol.facts.records import (
    CheckpointKind,
    CheckpointRecord,
    HandleKind,
    StateHandle,
    SubtaskId,
    SubtaskRecord,
)


@dataclass(frozen=True, slots=True)
class OperatorState:
    """The runs of every subtask, oldest first. There are as many subtasks as the operator had at the checkpoint. Rows
    that had expired when the checkpoint was triggered are left out by readers."""

    pipeline_id: str
    operator_id: str
    checkpoint_id: int
    max_parallelism: int
    subtasks: tuple[tuple[StateHandle, ...], ...]
    triggered_at: datetime

    @property
    def runs(self) -> list[StateHandle]:
        """The runs of all subtasks."""
        return [run for runs in self.subtasks for run in runs]

    def where(self) -> str:
        return f"operator {self.operator_id} of pipeline {self.pipeline_id}, checkpoint {self.checkpoint_id}"

    def to_json(self) -> dict[str, Any]:
        return {
            "pipeline_id": self.pipeline_id,
            "operator_id": self.operator_id,
            "checkpoint_id": self.checkpoint_id,
            "max_parallelism": self.max_parallelism,
            "subtasks": [[handle_to_json(run) for run in runs] for runs in self.subtasks],
            "triggered_at": self.triggered_at.isoformat(),
        }

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> "OperatorState":
        subtasks = tuple(tuple(handle_from_json(run) for run in runs) for runs in state["subtasks"])
        at = datetime.fromisoformat(state["triggered_at"])
        return cls(**{**state, "subtasks": subtasks, "triggered_at": at})


def state_of(
    record: CheckpointRecord, subtasks: Mapping[SubtaskId, SubtaskRecord], operator_id: str
) -> OperatorState | None:
    """Return an operator's keyed state at a checkpoint; None if it has no such operator or no keyed state of it.

    Performs no I/O.
    """
    for plan in record.operators:
        if plan.operator_id == operator_id:
            ids = [SubtaskId(operator_id, index) for index in range(plan.parallelism)]
            runs = tuple(_runs(subtasks[id_]) if id_ in subtasks else () for id_ in ids)
            if any(runs):
                return OperatorState(
                    record.pipeline_id,
                    operator_id,
                    record.checkpoint_id,
                    plan.max_parallelism,
                    runs,
                    record.triggered_at,
                )
    return None


def require_state(
    record: CheckpointRecord, subtasks: Mapping[SubtaskId, SubtaskRecord], operator_id: str
) -> OperatorState:
    """Return `state_of`. Raises `OperatorNotFoundError` if it is None. Performs no I/O."""
    found = state_of(record, subtasks, operator_id)
    if found is not None:
        return found
    where = f"checkpoint {record.checkpoint_id} of pipeline {record.pipeline_id}"
    operators = [plan.operator_id for plan in record.operators]
    keyed = [id_ for id_ in operators if state_of(record, subtasks, id_) is not None]
    what = (
        f"Operator {operator_id!r} has no keyed state at {where}"
        if operator_id in operators
        else f"There is no operator {operator_id!r} at {where}"
    )
    raise OperatorNotFoundError(f"{what}. Those with keyed state: {', '.join(keyed) or 'none'}.")


def choose_kept(
    pipeline_id: str, kept: Sequence[CheckpointRecord], wanted: int | None, found: CheckpointRecord | None = None
) -> CheckpointRecord:
    """Choose the checkpoint to read: the one that is `wanted`, or else the latest that no restore has left behind.

    `kept` are the pipeline's checkpoints with status COMPLETED, oldest first. `found` is the wanted one's row, whatever
    its status. Raises `CheckpointNotFoundError`, `CheckpointNotRetainedError`. Performs no I/O.
    """
    if wanted is None:
        if latest := choose_history(kept):
            return latest[-1]
        raise CheckpointNotRetainedError(
            f"Pipeline {pipeline_id!r} has no completed checkpoint whose state is kept, so there is no state to read."
        )
    for record in kept:
        if record.checkpoint_id == wanted:
            return record
    ids = ", ".join(str(record.checkpoint_id) for record in kept) or "none"
    if found is None:
        raise CheckpointNotFoundError(
            f"Pipeline {pipeline_id!r} has no checkpoint {wanted}. Those whose state is kept: {ids}."
        )
    if found.status not in COMMITTED:
        why = f"does not count, because it is {found.status}"
    elif found.kind is CheckpointKind.CHECKPOINT:
        why = "is not kept any more: newer ones have replaced it, see CheckpointConfig(retained=…)"
    else:
        why = "is not kept any more: the savepoint was disposed of"
    raise CheckpointNotRetainedError(
        f"The state of checkpoint {wanted} of pipeline {pipeline_id!r} {why}. Those whose state is kept: {ids}."
    )


def choose_history(kept: Sequence[CheckpointRecord]) -> list[CheckpointRecord]:
    """Choose from `kept` the checkpoints that no restore has left behind. Performs no I/O."""
    return [record for record in kept if record.abandoned_by is None]


def _runs(record: SubtaskRecord) -> tuple[StateHandle, ...]:
    return tuple(handle for handle in record.snapshot.handles if handle.kind is HandleKind.RUN)
