"""Answers from a checkpoint's row and its subtasks. Performs no I/O."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidegate.protocol.facts.lifecycle import COMMITTED, Status
from tidegate.protocol.facts.names import Fork, run_of_request
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord, SubtaskRecord
from tidegate.reading import checkpoint_answers as answers
from tidegate.reading.answer import milliseconds
from tidegate.reading.standing import Standing, standing_of


@dataclass(frozen=True, slots=True)
class Figures:
    """The totals of a checkpoint's subtasks: sums, and the longest alignment."""

    processed_data: int = 0
    persisted_data: int = 0
    rows_in: int = 0
    rows_out: int = 0
    alignment_duration: int = -1


#: The figures of a checkpoint for which none were requested.
_NOT_REQUESTED = Figures(-1, -1, -1, -1)


def checkpoint_of(record: CheckpointRecord) -> answers.Checkpoint:
    """Return the checkpoint without the figures of its subtasks. One that is in progress counts as in time."""
    return answers.Checkpoint(**checkpoint_fields(record))


def checkpoint_fields(
    record: CheckpointRecord, figures: Figures = _NOT_REQUESTED, standing: Standing | None = None
) -> dict[str, Any]:
    """Return the fields of `Checkpoint` without tasks: Flink's history has none either."""
    is_savepoint, committed = record.kind is not CheckpointKind.CHECKPOINT, record.status in COMMITTED
    # Flink marks a checkpoint that has data in flight.
    unaligned = not is_savepoint and figures.persisted_data > 0
    return {
        "id": record.checkpoint_id,
        "checkpoint_type": "UNALIGNED_CHECKPOINT" if unaligned else record.kind.value,
        "is_savepoint": is_savepoint,
        # A canonical savepoint can be restored natively too.
        "savepoint_format": ("CANONICAL" if record.exported_at else "NATIVE") if is_savepoint else None,
        "savepoint_location": record.location if record.exported_at else None,
        "savepoint_size": record.exported_size,
        "status": public_status(record.status),
        "standing": standing or standing_of(record),
        "subsumed": record.status in (Status.SUBSUMED, Status.DISCARDED),
        "discarded": record.status is Status.DISCARDED,
        "abandoned": record.abandoned_by is not None,
        "forked_from": forked_from(Fork.parse(record.request_id)),
        "end_to_end_duration": duration_of(record, record.acknowledged_at or record.failed_at),
        "num_acknowledged_subtasks": record.num_acknowledged,
        "num_finished_subtasks": record.num_finished,
        # Totals are computed on completion.
        "checkpointed_size": record.checkpointed_size if committed else -1,
        "state_size": record.state_size if committed else -1,
        **in_flight(figures),
        "alignment_duration": figures.alignment_duration,
        "external_path": record.metadata_path,
        "failure_reason": record.failure_reason.name if record.failure_reason else None,
        "hold": hold_of(record),
        "tasks": {},
        **{name: getattr(record, name) for name in _AS_RECORDED},
    }


#: Fields that an answer takes from the row unchanged.
_AS_RECORDED = (
    *("name", "note", "drain", "phase", "request_id", "periodic", "num_subtasks", "failure_message", "location"),
    *("triggered_at", "deadline", "acknowledged_at", "validated_at", "completed_at", "notified_at", "failed_at"),
    "exported_at",
)


def in_flight(figures: Figures) -> dict[str, int]:
    """Return the bytes in flight and the rows. `alignment_buffered` is always 0, as in newer versions of Flink."""
    return {
        "processed_data": figures.processed_data,
        "persisted_data": figures.persisted_data,
        "alignment_buffered": 0,
        "rows_in": figures.rows_in,
        "rows_out": figures.rows_out,
    }


def public_status(status: Status) -> answers.Status:
    """Return one of Flink's three statuses: a checkpoint that was subsumed or discarded later still counts as
    completed.
    """
    if status in COMMITTED:
        return "COMPLETED"
    return "FAILED" if status is Status.FAILED else "IN_PROGRESS"


def duration_of(record: CheckpointRecord, until: datetime | None) -> int:
    """Return the milliseconds from the trigger to `until`; -1 if there is no end yet."""
    return -1 if until is None else max(0, milliseconds(until) - milliseconds(record.triggered_at))


def hold_of(record: Any) -> answers.Hold | None:
    """Return the hold of a checkpoint's record, or of a row with its columns; None if it never waited for approval."""
    if record.held_at is None:
        return None
    return answers.Hold(
        held_at=record.held_at,
        until_at=record.held_until,
        message=record.held_message,
        decision=record.decision,
        decision_at=record.decided_at,
        decided_by=record.decided_by,
        comment=record.decision_comment,
    )


def forked_from(fork: Fork | None) -> answers.ForkedFrom | None:
    if fork is None:
        return None
    return answers.ForkedFrom(pipeline=fork.pipeline_id, checkpoint=fork.checkpoint_id, savepoint=fork.savepoint)


def dag_run_of(record: CheckpointRecord) -> answers.DagRun | None:
    run = run_of_request(record.request_id)
    return None if run is None else answers.DagRun(dag_id=run[0], run_id=run[1])


def subtask_of(record: CheckpointRecord, reported: SubtaskRecord) -> answers.Subtask:
    """Return a subtask as an answer. One validation covers all fields: a page may have thousands of subtasks."""
    metrics, snapshot = reported.metrics, reported.snapshot
    return answers.Subtask.model_validate(
        {
            "index": reported.subtask.subtask_index,
            "status": "pending_or_failed" if reported.acknowledged_at is None else "completed",
            "attempt": reported.attempt,
            "acknowledged_at": reported.acknowledged_at,
            "end_to_end_duration": duration_of(record, reported.acknowledged_at),
            "finished": snapshot.finished,
            "start_delay": metrics.start_delay,
            "alignment": {
                "duration": metrics.alignment_duration,
                "processed": metrics.processed_bytes,
                "persisted": metrics.persisted_bytes,
            },
            "unaligned_checkpoint": metrics.persisted_bytes > 0,
            "checkpoint": {"sync": metrics.sync_duration, "async_": metrics.async_duration},
            "rows_in": metrics.rows_in,
            "rows_out": metrics.rows_out,
            "checkpointed_size": snapshot.checkpointed_size(record.checkpoint_id),
            "state_size": snapshot.state_size(),
            "position": snapshot.position,
            "handles": snapshot.handles,
        }
    )
