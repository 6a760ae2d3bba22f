"""One checkpoint as JSON, and many in a row."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from tidegate.protocol.facts.lifecycle import COMMITTED, Status
from tidegate.protocol.facts.names import Fork
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord, SubtaskId, SubtaskRecord, Verdict
from tidegate.protocol.recovery.restore_plan import ReturningState
from tidegate.protocol.steps.verdicts import APPROVED, FAILING
from tidegate.reading.answer import handles_of, milliseconds
from tidegate.reading.checkpoint_answers import CheckpointPage, OperatorAt, SubtaskList, SubtaskSpread
from tidegate.reading.history_answers import Figures, HistoryRow
from tidegate.reading.standing import Standing, standing_of

#: Of a checkpoint whose figures nobody has asked for.
_NOT_ASKED = Figures(-1, -1, -1, -1)


def checkpoint_document(
    record: CheckpointRecord, figures: Figures = _NOT_ASKED, standing: Standing | None = None
) -> dict[str, Any]:
    """As in a history: `tasks` is empty there, in Flink, too. One that is in progress needs its `standing`."""
    latest = record.acknowledged_at or record.failed_at
    return {
        "id": record.checkpoint_id,
        "checkpoint_type": _type(record, figures),
        "is_savepoint": record.kind is not CheckpointKind.CHECKPOINT,
        "savepointFormat": _format(record),
        "savepoint_location": record.location if record.exported_at else None,
        "savepoint_size": record.exported_size,
        "name": record.name,
        "note": record.note,
        "drain": record.drain,
        "status": _public(record.status).value,
        "phase": record.phase.value,
        "standing": (standing or standing_of(record)).text,
        "subsumed": record.status in (Status.SUBSUMED, Status.DISCARDED),
        "discarded": record.status is Status.DISCARDED,
        "abandoned": record.abandoned_by is not None,
        "request_id": record.request_id,
        "periodic": record.periodic,
        "forked_from": fork_document(Fork.parse(record.request_id)),
        "trigger_timestamp": milliseconds(record.triggered_at),
        "deadline_timestamp": milliseconds(record.deadline),
        "latest_ack_timestamp": milliseconds(record.acknowledged_at),
        "validated_timestamp": milliseconds(record.validated_at),
        "completed_timestamp": milliseconds(record.completed_at),
        "notified_timestamp": milliseconds(record.notified_at),
        "end_to_end_duration": _duration(record, latest),
        "num_subtasks": record.num_subtasks,
        "num_acknowledged_subtasks": record.num_acknowledged,
        "num_finished_subtasks": record.num_finished,
        # Summed up when it completes.
        "checkpointed_size": record.checkpointed_size if record.status in COMMITTED else -1,
        "state_size": record.state_size if record.status in COMMITTED else -1,
        **_in_flight(figures),
        "rows_in": figures.rows_in,
        "rows_out": figures.rows_out,
        "external_path": record.metadata_path,
        "failure_timestamp": milliseconds(record.failed_at),
        "failure_reason": record.failure_reason.name if record.failure_reason else None,
        "failure_message": record.failure_message,
        "hold": _hold(record),
        "tasks": {},
    }


def _hold(record: CheckpointRecord) -> dict[str, Any] | None:
    """Of a checkpoint that waits or has waited for a person: why, until when, and what was decided."""
    if record.held_at is None:
        return None
    return {
        "held_timestamp": milliseconds(record.held_at),
        "until_timestamp": milliseconds(record.held_until),
        "message": record.held_message,
        "decision": record.decision.value if record.decision else None,
        "decision_timestamp": milliseconds(record.decided_at),
        "decided_by": record.decided_by,
        "comment": record.decision_comment,
    }


def history_document(row: HistoryRow) -> dict[str, Any]:
    """A line of the history."""
    return checkpoint_document(row.record, row.figures, row.standing) | {
        "verdict": row.verdict,
        "held": row.standing.held,
        "dag_run": row.dag_run,
    }


def fork_document(fork: Fork | None) -> dict[str, Any] | None:
    """What a pipeline began with; of its first checkpoint."""
    if fork is None:
        return None
    return {"pipeline": fork.pipeline_id, "checkpoint": fork.checkpoint_id, "savepoint": fork.savepoint}


def details_document(page: CheckpointPage, subtasks: Mapping[SubtaskId, SubtaskRecord] | None = None) -> dict[str, Any]:
    """With `subtasks`, each task has its own, which take another request in Flink."""
    tasks = {operator.operator_id: task_document(page.record, operator) for operator in page.operators}
    for known in () if subtasks is None else (subtasks[key] for key in sorted(subtasks)):
        task = tasks[known.subtask.operator_id]
        task.setdefault("subtasks", []).append(subtask_document(page.record, known))
    return checkpoint_document(page.record, page.figures, page.standing) | {
        "tasks": tasks,
        "held": page.standing.held,
        "advice": page.standing.advice,
        "folded": page.folded,
        "dag_run": page.dag_run,
        "phases": page.phases,
        "verdicts": [verdict_document(verdict) for verdict in page.verdicts],
        "failure": page.failure,
        "relations": page.relations,
    }


def task_document(record: CheckpointRecord, operator: OperatorAt) -> dict[str, Any]:
    """Flink's task; an operator of ours."""
    complete = operator.num_acknowledged == operator.parallelism
    return {
        "id": operator.operator_id,
        "role": operator.role,
        "parallelism": operator.parallelism,
        "max_parallelism": operator.max_parallelism,
        "status": (Status.COMPLETED if complete else _public(record.status)).value,
        "latest_ack_timestamp": milliseconds(operator.latest_ack_at),
        "end_to_end_duration": _duration(record, operator.latest_ack_at),
        "checkpointed_size": operator.checkpointed_size,
        "state_size": operator.state_size,
        **_in_flight(operator.figures),
        "rows_in": operator.figures.rows_in,
        "rows_out": operator.figures.rows_out,
        "num_subtasks": operator.parallelism,
        "num_acknowledged_subtasks": operator.num_acknowledged,
        "num_finished_subtasks": operator.num_finished,
        "attempt": operator.max_attempt,
        "files": operator.files,
        "unaligned_checkpoint": operator.unaligned,
        "summary": _summary(operator.spreads),
    }


def _summary(spreads: Mapping[str, SubtaskSpread]) -> dict[str, Any]:
    shown = {name: spread.model_dump() for name, spread in spreads.items()}
    return {
        "checkpointed_size": shown["checkpointed_size"],
        "state_size": shown["state_size"],
        "end_to_end_duration": shown["end_to_end_duration"],
        "checkpoint_duration": {"sync": shown["sync_duration"], "async": shown["async_duration"]},
        "alignment": {
            "processed": shown["processed_data"],
            "persisted": shown["persisted_data"],
            "duration": shown["alignment_duration"],
        },
        "start_delay": shown["start_delay"],
        "rows_in": shown["rows_in"],
        "rows_out": shown["rows_out"],
    }


def subtasks_document(page: CheckpointPage, found: SubtaskList) -> dict[str, Any]:
    """A task with a page of its subtasks."""
    (operator,) = (each for each in page.operators if each.operator_id == found.operator_id)
    return task_document(page.record, operator) | {
        "subtasks": [subtask_document(page.record, known) for known in found.subtasks],
        "next_index": found.next_index,
    }


def subtask_document(record: CheckpointRecord, known: SubtaskRecord) -> dict[str, Any]:
    metrics = known.metrics
    return {
        "index": known.subtask.subtask_index,
        "status": "pending_or_failed" if known.acknowledged_at is None else "completed",
        "attempt": known.attempt,
        "ack_timestamp": milliseconds(known.acknowledged_at),
        "end_to_end_duration": _duration(record, known.acknowledged_at),
        "finished": known.snapshot.finished,
        "start_delay": metrics.start_delay,
        "alignment": {
            "duration": metrics.alignment_duration,
            "processed": metrics.processed_bytes,
            "persisted": metrics.persisted_bytes,
        },
        "unaligned_checkpoint": metrics.persisted_bytes > 0,
        "checkpoint": {"sync": metrics.sync_duration, "async": metrics.async_duration},
        "rows_in": metrics.rows_in,
        "rows_out": metrics.rows_out,
        "checkpointed_size": known.snapshot.checkpointed_size(record.checkpoint_id),
        "state_size": known.snapshot.state_size(),
        "position": None if known.snapshot.position is None else dict(known.snapshot.position),
        "handles": [handle.model_dump(mode="json") for handle in handles_of(known.snapshot.handles)],
    }


#: Of a result: digests, which say nothing to a person.
_NOT_SHOWN = (FAILING, APPROVED)


def verdict_document(verdict: Verdict) -> dict[str, Any]:
    return {
        "target": str(verdict.target),
        "suite": verdict.suite,
        "success": verdict.success,
        "evaluated": verdict.evaluated,
        "failed": verdict.failed,
        "error": verdict.error,
        "docs_path": verdict.docs_path,
        "carried_from": verdict.carried_from,
        "results": [
            {name: value for name, value in each.items() if name not in _NOT_SHOWN} for each in verdict.results
        ],
    }


def returning_state_document(state: ReturningState) -> dict[str, Any]:
    """What an operator gets back with a restore, or a new pipeline's with a fork."""
    return asdict(state) | {"changes": list(state.changes)}


def history_documents(rows: Iterable[HistoryRow]) -> list[dict[str, Any]]:
    return [history_document(row) for row in rows]


def _in_flight(figures: Figures) -> dict[str, int]:
    """Bytes in flight. Nothing is ever buffered apart: Flink's newer versions say 0, too."""
    return {
        "processed_data": figures.processed_data,
        "persisted_data": figures.persisted_data,
        "alignment_buffered": 0,
    }


def _type(record: CheckpointRecord, figures: Figures) -> str:
    """Flink tells a checkpoint that has data in flight from others."""
    unaligned = record.kind is CheckpointKind.CHECKPOINT and figures.persisted_data > 0
    return "UNALIGNED_CHECKPOINT" if unaligned else record.kind.value


def _format(record: CheckpointRecord) -> str | None:
    """A canonical one can be restored natively, too."""
    if record.kind is CheckpointKind.CHECKPOINT:
        return None
    return "NATIVE" if record.exported_at is None else "CANONICAL"


def _public(status: Status) -> Status:
    """One of Flink's three: a checkpoint that was subsumed or discarded later still counts as completed."""
    return Status.COMPLETED if status in COMMITTED else status


def _duration(record: CheckpointRecord, until: datetime | None) -> int:
    """From the trigger until then; -1 if there is no end yet."""
    return -1 if until is None else max(0, milliseconds(until) - milliseconds(record.triggered_at))
